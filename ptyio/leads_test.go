package ptyio

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWherePathsLead follows links as the kernel does.
func TestWherePathsLead(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sub/deep", "patterns", "plain"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"file", "sub/file", "patterns/a.go", "plain/a.go"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"out": "/", "in": "sub/deep", "broken": "nowhere", "broken2": "out/nowhere/x", "patterns/b.go": "../sub/file", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"file": dir + "/file", "new": dir + "/new", "new/er": dir + "/new/er", "in/../file": dir + "/sub/file", "in/..": dir + "/sub", "out/": "/", "out/no-such-name/x": "/no-such-name/x",
		"broken": "", "broken/x": "", "broken2": "", "loop": "", "fifo": "", "file/x": "", "new/../x": "", "patterns/*.go": dir + "/sub/file", "plain/*.go": dir + "/plain", "plain/[": dir + "/plain",
		"none/*": dir + "/none/*", "*/x": "", "sub/../out/no-such-name": "/no-such-name", ".": dir} {
		got, err := Local().(Follower).Leads(context.Background(), dir+"/"+path)
		if err != nil || got != want {
			t.Errorf("%s leads to %q, %v, want %q", path, got, err, want)
		}
	}
}
