package seatbelt

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

func directory(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWherePathsLead(t *testing.T) {
	dir := directory(t)
	for _, name := range []string{"real/sub", "real/.git", "temp", "store/wt"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	must(t, os.Symlink("real", filepath.Join(dir, "link")))
	must(t, os.WriteFile(filepath.Join(dir, "real/sub/.git"), []byte("gitdir: ../../real/wt\n"), 0o644))
	l, err := Look(ptyio.Confinement{Dir: dir + "/link", TempDir: dir + "/temp", Policy: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite,
		WritableRoots: []string{dir + "/link/sub", dir + "/missing", dir + "/real"}, ExcludeSlashTmp: true,
		ProtectedNames: []string{".idea"}, DeniedReads: []string{dir + "/link/secret"}, Sockets: []string{dir + "/link/s"}},
		Additional:    &messages.AdditionalPermissions{FileSystem: &messages.FileSystemPermissions{Write: []string{".git"}}},
		AdditionalDir: dir + "/link"})
	must(t, err)
	var paths []string
	for _, root := range l.Write {
		paths = append(paths, root.Path)
	}
	if want := []string{dir + "/real", dir + "/real/sub", dir + "/temp", dir + "/real/.git"}; !slices.Equal(paths, want) {
		t.Errorf("roots: %v", paths)
	}
	// A protected path of a root that is below another root is protected in both.
	for _, path := range []string{"/real/.git", "/real/.idea", "/real/sub/.git", "/real/sub/.codex", "/real/wt"} {
		if !slices.Contains(l.Write[0].Protected, dir+path) {
			t.Errorf("%s is not protected: %v", path, l.Write[0].Protected)
		}
	}
	if !slices.Contains(l.Write[1].Protected, dir+"/real/sub/.git") || len(l.Write[3].Protected) > 0 {
		t.Errorf("%v", l.Write)
	}
	if !slices.Equal(l.Unreadable, []string{dir + "/real/secret"}) || !slices.Equal(l.Sockets, []string{dir + "/real/s"}) {
		t.Errorf("%v, %v", l.Unreadable, l.Sockets)
	}
	must(t, l.Check())
}

func TestReadOnlyHasNoRoots(t *testing.T) {
	l, err := Look(ptyio.Confinement{Dir: directory(t), Policy: messages.SandboxPolicy{Type: messages.SandboxReadOnly, WritableRoots: []string{"/"}}})
	if err != nil || len(l.Write) > 0 || l.Network {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestALinkInPlaceOfARepositoryIsRefused(t *testing.T) {
	dir := directory(t)
	must(t, os.Symlink("/elsewhere", dir+"/.git"))
	_, err := Look(ptyio.Confinement{Dir: dir, Policy: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}})
	if !errors.Is(err, messages.ErrUnsupported) {
		t.Error(err)
	}
}

func TestARootThatWasReplacedIsRefused(t *testing.T) {
	for name, replace := range map[string]func(dir string) error{
		"by a link":      func(dir string) error { return os.Symlink("/etc", dir) },
		"by a directory": func(dir string) error { return os.Mkdir(dir, 0o755) },
		"by nothing":     func(string) error { return nil },
	} {
		dir := directory(t) + "/root"
		must(t, os.Mkdir(dir, 0o755))
		l, err := Look(ptyio.Confinement{Dir: dir, Policy: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true}})
		must(t, err)
		must(t, os.Rename(dir, dir+".old")) // its inode stays in use
		must(t, replace(dir))
		if err := l.Check(); !errors.Is(err, messages.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
