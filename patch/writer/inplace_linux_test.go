package writer_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/patch"
)

// A file keeps its inode where an exchange would lose something, and else it is replaced. Mode, owner, group and attributes stay.
func TestAFileIsWrittenInPlaceWhereAnExchangeWouldLoseSomething(t *testing.T) {
	levels(t, policy(), func(t *testing.T, dir string, m machine) {
		for _, c := range []struct {
			name    string
			prepare func(file string) error
			inPlace bool
			change  func(c *patch.Change)
		}{
			{"an ordinary file", func(file string) error { return os.Chmod(file, 0o750) }, false, nil},
			{"an attribute", func(file string) error { return unix.Setxattr(file, "user.execbus", []byte("kept"), 0) }, false, nil},
			{"several names", func(file string) error { return os.Link(file, dir+"/second") }, true, nil},
			{"reached through a link", func(file string) error { return os.Symlink("sub/file", dir+"/link") }, true, func(c *patch.Change) { c.Named = dir + "/link" }},
			{"a sticky directory", func(string) error { return os.Chmod(dir+"/sub", 0o777|os.ModeSticky) }, true, nil},
			{"another group", func(file string) error {
				if os.Geteuid() != 0 {
					return errors.ErrUnsupported
				}
				return os.Chown(file, -1, 65534)
			}, m.enclosure != nil, nil}, // without capabilities, root cannot give a file to a group either
		} {
			t.Run(c.name, func(t *testing.T) {
				empty(t, dir)
				file := dir + "/sub/file"
				if err := os.Mkdir(dir+"/sub", 0o755); err != nil {
					t.Fatal(err)
				}
				put(t, file, "old text\n")
				if err := c.prepare(file); errors.Is(err, errors.ErrUnsupported) {
					t.Skip("this file system has no attributes, or only root can do that")
				} else if err != nil {
					t.Fatal(err)
				}
				before := stat(t, file)
				attribute := make([]byte, 16)
				had, _ := unix.Getxattr(file, "user.execbus", attribute)
				change := update(file, "old text\n", "new\n")
				if c.change != nil {
					c.change(&change)
				}
				if _, err := m.apply(t, change); err != nil {
					t.Fatal(err)
				}
				after := stat(t, file)
				if text, err := os.ReadFile(file); err != nil || string(text) != "new\n" {
					t.Errorf("%q, %v", text, err)
				}
				if inPlace := after.Ino == before.Ino; inPlace != c.inPlace {
					t.Errorf("in place: %v", inPlace)
				}
				if after.Mode != before.Mode || after.Uid != before.Uid || after.Gid != before.Gid || after.Nlink != before.Nlink {
					t.Errorf("%+v, was %+v", after, before)
				}
				if has, _ := unix.Getxattr(file, "user.execbus", make([]byte, 16)); has != had {
					t.Errorf("the attribute has %d bytes, had %d", has, had)
				}
			})
		}
	})
}

func stat(t testing.TB, path string) (s syscall.Stat_t) {
	t.Helper()
	if err := syscall.Stat(path, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// A root may be a single file: nothing can be made beside it.
func TestARootThatIsAFileIsWrittenInPlace(t *testing.T) {
	for _, level := range []messages.Assurance{messages.AssuranceConfined, messages.AssuranceIsolated} {
		t.Run(string(level), func(t *testing.T) {
			dir, elsewhere := work(t), work(t)
			put(t, elsewhere+"/file", "old\n")
			put(t, elsewhere+"/other", "old\n")
			p := policy()
			p.WritableRoots = []string{elsewhere + "/file"}
			m := at(t, level, p, dir)
			before := stat(t, elsewhere+"/file")
			if _, err := m.apply(t, update(elsewhere+"/file", "old\n", "new\n"), add(dir+"/new", "new\n")); err != nil {
				t.Fatal(err)
			}
			same(t, elsewhere, map[string]string{"file": "new\n", "other": "old\n"})
			if stat(t, elsewhere+"/file").Ino != before.Ino {
				t.Error("it is another file")
			}
			_, err := m.apply(t, update(dir+"/new", "new\n", "newer\n"), update(elsewhere+"/other", "old\n", "new\n"))
			fails(t, err, "other: ")
			same(t, elsewhere, map[string]string{"file": "new\n", "other": "old\n"})
			same(t, dir, map[string]string{"new": "new\n"})
		})
	}
}

func TestAMoveKeepsTheMode(t *testing.T) {
	dir := work(t)
	m := at(t, messages.AssuranceNone, policy(), dir)
	put(t, dir+"/script", "old\n")
	if err := os.Chmod(dir+"/script", 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir+"/script", 1234, 1234); err != nil {
			t.Fatal(err)
		}
	}
	before := stat(t, dir+"/script")
	from := patch.Change{Path: dir + "/script", Named: dir + "/script", Old: &patch.Content{Data: []byte("old\n"), Mode: 0o755}}
	to := patch.Change{Path: dir + "/sub/moved", Named: dir + "/sub/moved", New: &patch.Content{Data: []byte("new\n"), Mode: 0o755}, From: dir + "/script"}
	if _, err := m.apply(t, to, from); err != nil {
		t.Fatal(err)
	}
	same(t, dir, map[string]string{"sub": "/", "sub/moved": "new\n"})
	if after := stat(t, dir+"/sub/moved"); after.Mode != before.Mode || after.Uid != before.Uid || after.Gid != before.Gid {
		t.Errorf("%+v, was %+v", after, before)
	}
}

func TestAFileThatCannotBeWrittenRefusesThePatch(t *testing.T) {
	dir := work(t)
	m := at(t, messages.AssuranceConfined, policy(), dir) // without capabilities, root cannot write it either
	put(t, dir+"/a", "old\n")
	put(t, dir+"/b", "old\n")
	if err := os.Chmod(dir+"/b", 0o444); err != nil {
		t.Fatal(err)
	}
	_, err := m.apply(t, update(dir+"/a", "old\n", "new\n"), patch.Change{Path: dir + "/b", Old: &patch.Content{Data: []byte("old\n"), Mode: 0o444},
		New: &patch.Content{Data: []byte("new\n"), Mode: 0o444}})
	fails(t, err, dir+"/b: permission denied")
	same(t, dir, map[string]string{"a": "old\n", "b": "old\n"})
}

// A process without the right to give files to others cannot set the bit again.
func TestABitThatWouldBeLostRefusesThePatch(t *testing.T) {
	dir := work(t)
	m := at(t, messages.AssuranceConfined, policy(), dir)
	put(t, dir+"/a", "old\n")
	if err := os.Chmod(dir+"/a", 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if stat(t, dir+"/a").Mode&syscall.S_ISUID == 0 {
		t.Skip("this file system has no set-user-id bits")
	}
	c := update(dir+"/a", "old\n", "new\n")
	c.Old.Mode, c.New.Mode = 0o755, 0o755
	_, err := m.apply(t, c)
	fails(t, err, "set-user-id")
	same(t, dir, map[string]string{"a": "old\n"})
}

func TestAMountIsWrittenInPlaceAndNotRemoved(t *testing.T) {
	dir := work(t)
	m := at(t, messages.AssuranceNone, policy(), dir)
	put(t, dir+"/file", "below\n")
	put(t, dir+"/mounted", "old\n")
	if err := unix.Mount(dir+"/mounted", dir+"/file", "", unix.MS_BIND, ""); err != nil {
		t.Skipf("this user cannot mount: %v", err)
	}
	defer unix.Unmount(dir+"/file", unix.MNT_DETACH)
	if err := unix.Mount("", dir+"/file", "", unix.MS_PRIVATE, ""); err != nil && !strings.Contains(err.Error(), "invalid") {
		t.Fatal(err)
	}
	if _, err := m.apply(t, update(dir+"/file", "old\n", "new\n")); err != nil {
		t.Fatal(err)
	}
	same(t, dir, map[string]string{"file": "new\n", "mounted": "new\n"})
	_, err := m.apply(t, add(dir+"/first", "x"), remove(dir+"/file", "new\n"))
	fails(t, err, "mounted")
	same(t, dir, map[string]string{"file": "new\n", "mounted": "new\n"})
}
