package writer_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/patch"
	"github.com/execbus/execbus/patch/writer"
)

func TestAPatchIsWritten(t *testing.T) {
	levels(t, policy(), func(t *testing.T, dir string, m machine) {
		put(t, dir+"/a", "old a\n")
		put(t, dir+"/gone", "gone\n")
		if err := os.Symlink("nowhere", dir+"/dangling"); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir+"/a", 0o751); err != nil {
			t.Fatal(err)
		}
		dangling := patch.Change{Path: dir + "/dangling", Old: &patch.Content{Link: "nowhere"}}
		a := update(dir+"/a", "old a\n", "new a\n")
		a.Old.Mode, a.New.Mode = 0o751, 0o751
		results, err := m.apply(t, add(dir+"/deep/er/b", "b\n"), a, remove(dir+"/gone", "gone\n"), dangling, add(dir+"/deep/c", ""))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.State != writer.IsNew {
				t.Errorf("%v", r)
			}
		}
		same(t, dir, map[string]string{"a": "new a\n", "deep": "/", "deep/er": "/", "deep/er/b": "b\n", "deep/c": ""})
		if info, err := os.Stat(dir + "/a"); err != nil || info.Mode() != 0o751 {
			t.Errorf("%v, %v", info, err)
		}
	})
}

func TestWhatIsReadIsWhatIsThere(t *testing.T) {
	levels(t, policy(), func(t *testing.T, dir string, m machine) {
		put(t, dir+"/file", "text")
		for name, to := range map[string]string{"link": "file", "dangling": "sub/none", "up": ".", "loop": "loop"} {
			if err := os.Symlink(to, dir+"/"+name); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("file", dir+"/tofile"); err != nil {
			t.Fatal(err)
		}
		looked := m.look(t, dir, dir+"/dangling/below/x", dir+"/tofile/x", dir+"/file", dir+"/link", dir+"/dangling", dir+"/up/file", dir+"/loop", dir+"/file/below", dir+"/no/such")
		for name, want := range map[string]patch.File{
			"":                  {Kind: patch.Directory},
			"/file":             {Kind: patch.Regular, Data: []byte("text"), Mode: 0o644},
			"/link":             {Kind: patch.Regular, Data: []byte("text"), Leads: "/file", Link: "file", Mode: 0o644},
			"/dangling":         {Kind: patch.Absent, Leads: "/sub/none", Link: "sub/none", Blocked: "/sub"},
			"/up/file":          {Kind: patch.Regular, Data: []byte("text"), Place: "/file", Leads: "/file", Mode: 0o644},
			"/file/below":       {Kind: patch.Absent, Blocked: "/file"},
			"/dangling/below/x": {Kind: patch.Absent, Place: "/sub/none/below/x", Blocked: "/dangling"},
			"/tofile/x":         {Kind: patch.Absent, Place: "/file/x", Blocked: "/file"},
			"/no/such":          {Kind: patch.Absent},
		} {
			got := looked.Files[dir+name]
			if want.Place == "" {
				want.Place = name
			}
			if want.Leads == "" {
				want.Leads = want.Place
			}
			if got.Kind != want.Kind || string(got.Data) != string(want.Data) || got.Place != filepath.Clean(dir+want.Place) || got.Leads != filepath.Clean(dir+want.Leads) ||
				got.Link != want.Link || got.Problem != "" || want.Kind == patch.Regular && (got.Mode != want.Mode || got.ID == patch.ID{}) ||
				got.Blocked != "" && got.Blocked != dir+want.Blocked || got.Blocked == "" && want.Blocked != "" {
				t.Errorf("%s is %+v, want %+v", name, got, want)
			}
		}
		if looked.Files[dir+"/loop"].Problem == "" {
			t.Error("a loop of links is no problem")
		}
	})
}

// What another has changed between reading and writing fails the patch, whatever it is.
func TestAChangeSinceTheReadingRefusesThePatch(t *testing.T) {
	dir := work(t)
	m := at(t, messages.AssuranceNone, policy(), dir)
	for name, change := range map[string]func() error{
		"content": func() error { return os.WriteFile(dir+"/a", []byte("same"), 0o644) },
		"time":    func() error { return os.Chtimes(dir+"/a", time.Unix(1, 0), time.Unix(1, 0)) },
		"mode":    func() error { return os.Chmod(dir+"/a", 0o600) },
		"inode": func() error {
			return errors.Join(os.WriteFile(dir+"/other", []byte("old\n"), 0o644), os.Rename(dir+"/other", dir+"/a"))
		},
		"link":   func() error { return errors.Join(os.Rename(dir+"/a", dir+"/other"), os.Symlink("other", dir+"/a")) },
		"fifo":   func() error { return errors.Join(os.Remove(dir+"/a"), syscall.Mkfifo(dir+"/a", 0o644)) },
		"gone":   func() error { return os.Remove(dir + "/a") },
		"made":   func() error { return os.WriteFile(dir+"/new", []byte("mine"), 0o644) },
		"parent": func() error { return errors.Join(os.Rename(dir+"/sub", dir+"/sub2"), os.Mkdir(dir+"/sub", 0o755)) },
		"parent is a link": func() error {
			return errors.Join(os.Rename(dir+"/sub", dir+"/sub2"), os.Symlink("sub2", dir+"/sub"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			empty(t, dir)
			if err := os.Mkdir(dir+"/sub", 0o755); err != nil {
				t.Fatal(err)
			}
			put(t, dir+"/a", "old\n")
			put(t, dir+"/first", "first\n")
			changes := []patch.Change{update(dir+"/first", "first\n", "second\n"), update(dir+"/a", "old\n", "new\n"), add(dir+"/new", "new"), add(dir+"/sub/b", "b")}
			looked := m.look(t, paths(changes)...)
			if err := change(); err != nil {
				t.Fatal(err)
			}
			want := tree(t, dir)
			results, err := m.write(t, journal(t), looked, nil, changes...)
			fails(t, err, "nothing was changed")
			if results != nil {
				t.Errorf("results %v", results)
			}
			same(t, dir, want)
		})
	}
}

// empty removes what is in a directory.
func empty(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

// A link may be removed and a file put in its place.
func TestAFileTakesThePlaceOfALink(t *testing.T) {
	levels(t, policy(), func(t *testing.T, dir string, m machine) {
		put(t, dir+"/target", "stays\n")
		if err := os.Symlink("target", dir+"/name"); err != nil {
			t.Fatal(err)
		}
		if _, err := m.apply(t, patch.Change{Path: dir + "/name", Named: dir + "/name", Old: &patch.Content{Link: "target"},
			New: &patch.Content{Data: []byte("new\n"), Created: true}}); err != nil {
			t.Fatal(err)
		}
		same(t, dir, map[string]string{"target": "stays\n", "name": "new\n"})
	})
}
