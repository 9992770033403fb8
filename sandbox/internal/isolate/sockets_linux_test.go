package isolate

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/execbus/execbus/sandbox/internal/confine"
)

// A directory of sockets is covered whole, unless the plan lists one of them; a link stands for the socket that it leads to.
func TestWellKnownSocketsAreFound(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(base, name) }
	if err := os.MkdirAll(in("run/sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"run/a", "run/sub/b", "agent"} {
		listener, err := net.Listen("unix", in(name))
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
	}
	if err := os.WriteFile(in("run/file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("agent", in("link")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", in("run"))
	t.Setenv("SSH_AUTH_SOCK", in("link"))
	t.Setenv("DOCKER_HOST", "unix://"+in("run/sub/b"))
	for _, c := range []struct {
		listed string
		want   []covered
	}{
		{"", []covered{{in("run"), blankDirectory}, {in("agent"), blankFile}}},
		{"agent", []covered{{in("run"), blankDirectory}}},
		{"run/a", []covered{{in("run/sub/b"), blankFile}, {in("agent"), blankFile}}},
		{"run/sub/b", []covered{{in("run/a"), blankFile}, {in("agent"), blankFile}}},
	} {
		found := knownSockets([]confine.Rule{{Path: in(c.listed)}})
		for _, want := range c.want {
			if !slices.Contains(found, want) {
				t.Errorf("with %q listed, %v is not covered: %v", c.listed, want, found)
			}
		}
		ours := slices.DeleteFunc(found, func(f covered) bool { return !filepath.IsLocal(relative(base, f.path)) })
		if len(ours) != len(c.want) {
			t.Errorf("with %q listed, %v are covered, not %v", c.listed, ours, c.want)
		}
	}
}

func relative(base, name string) string {
	rest, _ := filepath.Rel(base, name)
	return rest
}

func TestTheSearchForSocketsIsBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range maxSockets {
		if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i/26))+string(rune('a'+i%26))), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "~last"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if found := sockets(dir, nil); len(found) != 0 {
		t.Errorf("a socket behind %d files was found: %v", maxSockets, found)
	}
}
