//go:build linux

package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/execbus/execbus/ptyio"
)

// A root of the file system that can be written holds all devices: disks, and the terminals of others.
func TestARootThatHoldsTheDevicesDoesNotOpenThem(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		file := filepath.Join(t.TempDir(), "file")
		master, slave, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer master.Close()
		defer slave.Close()
		devices, _ := filepath.Glob("/dev/[hsvx]d[a-z]")
		devices = append(devices, slave.Name(), "/dev/kmsg", "/dev/ptmx")
		for _, root := range []string{"/", "/dev"} {
			c := workspace(root)
			e := enclose(t, spawner, c)
			got := said(t, spawner, e, tty, `file=$1; shift; echo written >"$file" && cat "$file"; echo >/dev/null && echo null
				for device; do ! [ -e "$device" ] && continue; { : <"$device"; } 2>/dev/null && echo "read $device"; { : >>"$device"; } 2>/dev/null && echo "wrote $device"; done; echo over`,
				append([]string{file}, devices...)...)
			if want := "null\nover"; !strings.HasSuffix(got, want) || strings.HasPrefix(got, "written\n") != (root == "/") {
				t.Errorf("with the root %s: %s", root, got)
			}
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != "written\n" {
			t.Errorf("%q, %v", text, err)
		}
	})
}
