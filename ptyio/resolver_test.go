package ptyio

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
)

// place makes a directory with a program, a file that is not a program, and a link to a directory.
func place(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"tool": 0o755, "text": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(dir, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestLocalFindsProgramsAsExecvpDoes(t *testing.T) {
	dir := place(t)
	for name, c := range map[string]struct {
		name, dir, path, want string
		err                   error
	}{
		"in PATH":                      {"tool", "/", "/nowhere:" + dir, dir + "/tool", nil},
		"a relative PATH":              {"tool", dir, "link", dir + "/link/tool", nil},
		"an empty entry":               {"tool", dir, ":/bin", dir + "/tool", nil},
		"the first":                    {"tool", "/", dir + "/link:" + dir, dir + "/link/tool", nil},
		"with a slash":                 {"./tool", dir, "/bin", dir + "/./tool", nil},
		"a path is not looked for":     {"/not/there", "/", "/bin", "/not/there", nil},
		"nowhere":                      {"tool", "/", "/nowhere", "", messages.ErrNoSuchProgram},
		"not executable":               {"text", "/", dir, "", messages.ErrSpawnFailed},
		"a directory is not a program": {"link", "/", dir, "", messages.ErrNoSuchProgram},
		"no name":                      {"", "/", dir, "", messages.ErrInvalidRequest},
	} {
		got, err := Local().Program(context.Background(), c.name, c.dir, c.path)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestLocalKnowsFilesAndDirectories(t *testing.T) {
	dir := place(t)
	for path, want := range map[string]struct{ file, dir bool }{
		dir: {false, true}, dir + "/link": {false, true}, dir + "/tool": {true, false}, dir + "/text": {true, false},
		dir + "/none": {}, dir + "/text/none": {}, "/dev/null": {},
	} {
		file, err := Local().IsFile(context.Background(), path)
		if file != want.file || err != nil {
			t.Errorf("%s is a file: %t, %v", path, file, err)
		}
		folder, err := Local().IsDir(context.Background(), path)
		if folder != want.dir || err != nil {
			t.Errorf("%s is a directory: %t, %v", path, folder, err)
		}
	}
}

func TestLocalKnowsItsUserAndEnvironment(t *testing.T) {
	t.Setenv("EXECBUS_TEST_LOCAL", "here")
	env, err := Local().Environment(context.Background())
	if !slices.Contains(env, "EXECBUS_TEST_LOCAL=here") || err != nil {
		t.Errorf("%q, %v", env, err)
	}
	dirs, err := Local().TrustedDirs(context.Background())
	if !slices.Contains(dirs, "/usr/bin") || slices.Contains(dirs, ".") || err != nil {
		t.Errorf("%q, %v", dirs, err)
	}
	dirs[0] = "/tmp"
	if again, _ := Local().TrustedDirs(context.Background()); slices.Contains(again, "/tmp") {
		t.Error("a caller has changed what is trusted")
	}
	want := ""
	if file, err := os.Open("/etc/passwd"); err == nil {
		want = shellOf(file, os.Getuid())
		_ = file.Close()
	}
	if got, err := Local().UserShell(context.Background()); got != want || err != nil {
		t.Errorf("shell %q, %v; want %q", got, err, want)
	}
}

func TestTheUserDatabaseNamesAShell(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/bin/bash\n# 7\nbroken:x:7\nme:x:7:7:Me,,:/home/me:/opt/zsh\nother:x:70:7::/:/bin/sh\nmute:x:8:8::/:\n"
	for uid, want := range map[int]string{0: "/bin/bash", 7: "/opt/zsh", 70: "/bin/sh", 8: "", 9: ""} {
		if got := shellOf(strings.NewReader(passwd), uid); got != want {
			t.Errorf("user %d: %q, not %q", uid, got, want)
		}
	}
}

func TestTheSearchPathIsTheFirst(t *testing.T) {
	if got := SearchPath([]string{"XPATH=/a", "PATH=/b:/c", "PATH=/d"}); got != "/b:/c" {
		t.Errorf("%q", got)
	}
	if got := SearchPath(nil); !strings.Contains(got, "/usr/bin") {
		t.Errorf("%q", got)
	}
}

// foreign is a child of another package.
type foreign struct{ Child }

type promptForeign struct{ foreign }

func (promptForeign) Prompt() {}

type promptLeader struct{ Leader }

func (promptLeader) Prompt() {}

func TestWhoIsPrompt(t *testing.T) {
	prompt := &child{leader: promptLeader{}}
	for name, c := range map[string]struct {
		child Child
		want  bool
	}{
		"ours with a prompt leader":   {prompt, true},
		"ours with another":           {&child{leader: struct{ Leader }{}}, false},
		"a foreign one":               {foreign{}, false},
		"a foreign one around ours":   {foreign{prompt}, false},
		"a foreign one that promises": {promptForeign{}, true},
		"nobody":                      {nil, false},
	} {
		if got := IsPrompt(c.child); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestLocalSaysWherePathsLead(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.MkdirAll(dir+"/a/b", 0o755), os.WriteFile(dir+"/a/file", nil, 0o644), os.Symlink("a", dir+"/link"),
		os.Symlink("none", dir+"/a/dangling"), os.Symlink("file", dir+"/a/alias"))
	if err != nil {
		t.Fatal(err)
	}
	locate := func(path string) (messages.Location, error) { return Local().(Locator).Locate(t.Context(), path) }
	top, err := locate(dir + "/a")
	if err != nil || top.Path != dir+"/a" || top.Below != "" || top.Inode == 0 {
		t.Fatalf("%+v, %v", top, err)
	}
	for path, want := range map[string]struct{ path, below string }{
		"link": {"a", ""}, "link/": {"a", ""}, "a/b/..": {"a", ""}, "a/file": {"a/file", "file"}, "link/file": {"a/file", "file"},
		"link/alias": {"a/file", "file"}, "a/new": {"a/new", "new"}, "link/new/more": {"a/new/more", "new/more"},
		"a/dangling": {"a/dangling", "dangling"}, "link/dangling": {"a/dangling", "dangling"},
	} {
		got, err := locate(dir + "/" + path)
		if err != nil || got.Path != dir+"/"+want.path || got.Below != want.below || got.Device != top.Device || got.Inode != top.Inode || got.Born != top.Born {
			t.Errorf("%s: %+v, %v", path, got, err)
		}
	}
	for _, path := range []string{"a/none/../file", "a/file/x"} {
		if got, err := locate(dir + "/" + path); err == nil {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if err := errors.Join(os.Rename(dir+"/a", dir+"/old"), os.Mkdir(dir+"/a", 0o755)); err != nil {
		t.Fatal(err)
	}
	if now, err := locate(dir + "/a"); err != nil || now == top {
		t.Errorf("another directory is the same: %+v, %v", now, err)
	}
}
