package procs

import (
	"bytes"
	"os"
	"testing"
)

// Whatever the size of the buffer, a file is read to its end.
func TestFilesAreReadWhole(t *testing.T) {
	for _, path := range []string{"/proc/self/mountinfo", "/proc/self/limits", "/proc/filesystems", "/proc/crypto", "/proc/iomem", "/proc/cpuinfo"} {
		want, err := os.ReadFile(path)
		if err != nil || len(want) == 0 {
			t.Logf("skipped: %s: %v", path, err)
			continue
		}
		for _, room := range []int{16, 512, shortRead, shortRead + 1, 4096, len(want), len(want) + 1} {
			if got, err := ReadFile(path, make([]byte, room)); err != nil || len(got) < len(want)*9/10 || path != "/proc/cpuinfo" && !bytes.Equal(got, want) {
				t.Errorf("%s with a buffer of %d bytes: %d bytes of %d, %v", path, room, len(got), len(want), err)
			}
		}
	}
}
