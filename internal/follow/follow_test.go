package follow

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestPaths(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.MkdirAll(dir+"/a/b", 0o755), os.WriteFile(dir+"/a/file", nil, 0o644), os.Symlink("a", dir+"/link"),
		os.Symlink(dir+"/link/b", dir+"/a/far"), os.Symlink("../a/none", dir+"/a/dangling"), os.Symlink("loop", dir+"/loop"),
		os.Symlink("..", dir+"/a/b/up"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path, want string
		links      string
		below      string
		err        error
	}{
		{path: "a/b", want: "a/b"},
		{path: "a/./b/../file", want: "a/file"},
		{path: "link", want: "a", links: "link"},
		{path: "link/b/", want: "a/b", links: "link"},
		{path: "link/..", want: "", links: "link"},
		{path: "a/far", want: "a/b", links: "a/far link"},
		{path: "link/far/up/file", want: "a/file", links: "link a/far link a/b/up"},
		{path: "a/dangling", want: "a/none", links: "a/dangling", below: "none"},
		{path: "a/x/y", want: "a/x/y", below: "x/y"},
		{path: "link/x/./y", want: "a/x/y", links: "link", below: "x/y"},
		{path: "a/x/../b", err: fs.ErrNotExist},
		{path: "a/file/x", err: syscall.ENOTDIR},
		{path: "loop", err: syscall.ELOOP},
	} {
		end, err := Path(dir + "/" + test.path)
		if test.err != nil {
			if !errors.Is(err, test.err) {
				t.Errorf("%s: %+v, %v", test.path, end, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.path, err)
			continue
		}
		end.Close()
		var links []string
		for _, l := range end.Links {
			links = append(links, strings.TrimPrefix(l.Path, dir+"/"))
		}
		want := strings.TrimSuffix(dir+"/"+test.want, "/")
		if end.Path != want || strings.Join(end.Below, "/") != test.below || strings.Join(links, " ") != test.links {
			t.Errorf("%s: %+v, %v", test.path, end, links)
		}
		existing, err := os.Lstat(strings.TrimSuffix(want, "/"+test.below))
		if test.below == "" {
			existing, err = os.Lstat(want)
		}
		if stat, ok := existing.Sys().(*syscall.Stat_t); err != nil || !ok || stat.Ino != end.Inode || end.Directory() != existing.IsDir() {
			t.Errorf("%s: %+v, %v", test.path, end, err)
		}
		if (end.Loose() != nil) != (test.links != "") {
			t.Errorf("%s: loose %v", test.path, end.Loose())
		}
	}
	if _, err := Path("a"); err == nil {
		t.Error("a relative path leads somewhere")
	}
}

func TestARootDirectoryAndWhatNobodyHasReplaced(t *testing.T) {
	end, err := Path("//.")
	if err != nil || end.Path != "/" || !end.Directory() {
		t.Fatalf("%+v, %v", end, err)
	}
	end.Close()
	for _, path := range []string{"/bin", "/lib", "/tmp", "/var/run", "/var/lock"} { // links of the system on some machines
		end, err := Path(path)
		if err != nil {
			continue
		}
		end.Close()
		root, err := os.Stat(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		stat, ok := root.Sys().(*syscall.Stat_t)
		if ok && stat.Uid == 0 && stat.Mode&0o022 == 0 && end.Loose() != nil {
			t.Errorf("%s: %+v", path, end.Loose())
		}
	}
}

func TestWhoseLinksAreFixed(t *testing.T) {
	for _, test := range []struct {
		dir         string
		owner, mode uint32
		user        int
		want        bool
	}{
		{"/", 0, 0o40755, 1000, true},
		{"/", 0, 0o40755, 0, true},
		{"/var", 0, 0o40755, 0, true},
		{"/root/project", 0, 0o40755, 0, false}, // a command of root's may have written there
		{"/opt/project", 0, 0o40755, 1000, true},
		{"/tmp", 0, 0o41777, 1000, false},
		{"/tmp", 0, 0o41777, 0, false},
		{"/", 0, 0o40775, 1000, false},
		{"/", 0, 0o40757, 0, false},
		{"/home/u", 1000, 0o40700, 1000, false},
		{"/home/v", 1001, 0o40700, 1000, false},
		{"/var", 65534, 0o40755, 0, false},
	} {
		if fixed(test.dir, test.owner, test.mode, test.user) != test.want {
			t.Errorf("%+v", test)
		}
	}
}

func TestNoDescriptorStaysOpen(t *testing.T) {
	count := func() int { entries, _ := os.ReadDir("/dev/fd"); return len(entries) }
	dir := t.TempDir()
	if err := errors.Join(os.Symlink(dir+"/none", dir+"/dangling"), os.Symlink("loop", dir+"/loop"), os.Symlink("/", dir+"/root")); err != nil {
		t.Fatal(err)
	}
	count() // opens what the runtime keeps
	before := count()
	for _, path := range slices.Repeat([]string{"/dangling", "/loop", "/root/tmp", "/none/..", "/.", "/root/etc/passwd/x"}, 20) {
		if end, err := Path(dir + path); err == nil {
			end.Close()
		}
	}
	if after := count(); after > before+5 {
		t.Errorf("%d were open, now %d", before, after)
	}
}
