package paths

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus/internal/placeholder"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/confine"
)

// tree makes directories (with a slash at the end), files (with a text after "="), and symbolic links (with a target after
// "->").
func tree(t *testing.T, entries ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name, text, file := strings.Cut(entry, "=")
		name, target, link := strings.Cut(name, "->")
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch {
		case link:
			err = errors.Join(err, os.Symlink(strings.ReplaceAll(target, "DIR", dir), path))
		case file:
			err = errors.Join(err, os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o644))
		default:
			err = errors.Join(err, os.MkdirAll(path, 0o755))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// workspace makes a policy that allows writing in one directory only.
func workspace(dir string) ptyio.Confinement {
	return ptyio.Confinement{Dir: dir, Policy: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true}}
}

func find(t *testing.T, c ptyio.Confinement) *Found {
	t.Helper()
	found, err := Find(c, Bounds{Depth: 4, Entries: 10_000, Time: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(found.Close)
	return found
}

// accesses returns the accesses of a plan, by the path below dir.
func accesses(f *Found, dir string) map[string]string {
	all := map[string]string{}
	for _, p := range f.Plan.Rules {
		name, _ := filepath.Rel(dir, p.Path)
		all[name] = [...]string{"nothing", "read", "write"}[p.Access]
		if p.Inode == 0 {
			all[name] += " (missing)"
		}
	}
	return all
}

func expect(t *testing.T, f *Found, dir string, want map[string]string) {
	t.Helper()
	got := accesses(f, dir)
	for name, access := range want {
		if got[name] != access {
			t.Errorf("%s: %q instead of %q; all: %v", name, got[name], access, got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v instead of %v", got, want)
	}
}

func TestRoots(t *testing.T) {
	dir := tree(t, "real/sub/", "more/", "temp/", "file=x")
	c := workspace(dir + "/real/sub/..")
	c.TempDir = dir + "/temp"
	c.Policy.WritableRoots = []string{dir + "/more", dir + "/real", dir + "/file"}
	f := find(t, c)
	want := map[string]string{"real": "write", "more": "write", "temp": "write", "file": "write"}
	for _, root := range []string{"real", "more"} {
		for _, name := range protected {
			want[root+"/"+name] = "read (missing)"
		}
	}
	expect(t, f, dir, want)
	if f.Protects() != "" || len(f.Files) != 4 {
		t.Errorf("protects %q, %d files", f.Protects(), len(f.Files))
	}
	c.Policy.ExcludeTmpdirEnvVar = true
	if got := accesses(find(t, c), dir); got["temp"] != "" {
		t.Errorf("an excluded directory for temporary files: %v", got)
	}
	c.Policy = messages.SandboxPolicy{Type: messages.SandboxReadOnly, WritableRoots: c.Policy.WritableRoots}
	if f := find(t, c); f.Plan.Writes() {
		t.Errorf("read-only: %v", accesses(f, dir))
	}
}

func TestAProtectedNameThatThePolicyNamesIsARoot(t *testing.T) {
	dir := tree(t, ".git/hooks/", "sub/.git/")
	c := workspace(dir)
	c.Policy.WritableRoots = []string{dir + "/.git"}
	expect(t, find(t, c), dir, map[string]string{".": "write", ".git": "write", ".agents": "read (missing)", ".codex": "read (missing)", "sub/.git": "read"})
}

func TestWhatMustNotBeReadAndIsMissingIsDeniedWhereItWouldBe(t *testing.T) {
	dir := tree(t, "real/", "link->real")
	c := workspace(dir + "/real")
	c.Policy.DeniedReads = []string{dir + "/link/sub/secret"}
	if got := accesses(find(t, c), dir)["real/sub/secret"]; got != "nothing (missing)" {
		t.Errorf("%q", got)
	}
}

func TestTheSystemsTemporaryDirectoryIsARootUnlessExcluded(t *testing.T) {
	c := workspace(tree(t))
	c.Policy.ExcludeSlashTmp = false
	if f := find(t, c); confine.AccessAmong(f.Plan.Rules, "/tmp") != confine.Write {
		t.Error("/tmp cannot be written")
	}
}

func TestRootsThatCannotBeFoundAreRefused(t *testing.T) {
	dir := tree(t, "file=", "loop->loop")
	for _, root := range []string{dir + "/missing", "relative", dir + "/file/below", dir + "/loop"} {
		c := workspace(dir)
		c.Policy.WritableRoots = []string{root}
		if _, err := Find(c, DefaultBounds); !errors.Is(err, messages.ErrInvalidRequest) || !strings.Contains(err.Error(), root) {
			t.Errorf("%s: %v", root, err)
		}
	}
	c := workspace(dir)
	c.TempDir = dir + "/missing" // the host's directory for temporary files need not exist
	find(t, c)
}

func TestProtectedNames(t *testing.T) {
	dir := tree(t, "a/.git/", "a/.codex/", "a/.vscode/",
		"linked/.git=gitdir: ../main/.git/worktrees/linked\n", "main/.git/worktrees/linked/commondir=../..\n", "main/file=",
		"outside/.git=gitdir: /\n")
	c := workspace(dir + "/a")
	c.Policy.ProtectedNames = []string{".vscode", ".idea"}
	f := find(t, c)
	expect(t, f, dir, map[string]string{"a": "write", "a/.git": "read", "a/.codex": "read", "a/.agents": "read (missing)",
		"a/.vscode": "read", "a/.idea": "read (missing)"})
	if !strings.HasPrefix(f.Protects(), dir+"/a/.") {
		t.Errorf("protects %q", f.Protects())
	}
	// The repository of a work tree is protected where it can be written.
	c = workspace(dir + "/linked")
	c.Policy.WritableRoots = []string{dir + "/main"}
	expect(t, find(t, c), dir, map[string]string{"linked": "write", "linked/.git": "read", "linked/.agents": "read (missing)", "linked/.codex": "read (missing)",
		"main": "write", "main/.git": "read", "main/.agents": "read (missing)", "main/.codex": "read (missing)", "main/.git/worktrees/linked": "read"})
	expect(t, find(t, workspace(dir+"/outside")), dir, map[string]string{"outside": "write", "outside/.git": "read",
		"outside/.agents": "read (missing)", "outside/.codex": "read (missing)"})
}

// Protected names that are links are protected together with what they lead to, where commands could write.
func TestProtectedNamesAreProtectedWhereTheyLead(t *testing.T) {
	const agents, codex = "work/.agents", "work/.codex"
	missing := func(more map[string]string) map[string]string {
		want := map[string]string{"work": "write", agents: "read (missing)", codex: "read (missing)"}
		maps.Copy(want, more)
		return want
	}
	for name, test := range map[string]struct {
		entries []string
		want    map[string]string
	}{
		"inside":         {[]string{"work/.git->store/git", "work/store/git/"}, missing(map[string]string{"work/.git": "read", "work/store/git": "read"})},
		"outside":        {[]string{"work/.git->../elsewhere", "elsewhere/"}, missing(map[string]string{"work/.git": "read"})},
		"links on links": {[]string{"work/.git->way/git", "work/way->real", "work/real/git->../store", "work/store/"}, missing(map[string]string{"work/.git": "read", "work/way": "read", "work/real/git": "read", "work/store": "read"})},
		"absolute":       {[]string{"work/store/", "work/.git->DIR/work/store"}, missing(map[string]string{"work/.git": "read", "work/store": "read"})},
		"to nothing":     {[]string{"work/.git->store/git", "work/store/"}, missing(map[string]string{"work/.git": "read", "work/store/git": "read (missing)"})},
		"nowhere at all": {[]string{"work/.git->store/git"}, missing(map[string]string{"work/.git": "read", "work/store": "read (missing)"})},
		"a loop":         {[]string{"work/.git->.git"}, missing(map[string]string{"work/.git": "read"})},
		"a file": {[]string{"work/.git->store/file", "work/store/file=gitdir: real\n", "work/real/"},
			missing(map[string]string{"work/.git": "read", "work/store/file": "read", "work/real": "read"})},
		"a file that names a link": {[]string{"work/.git=gitdir: way/git\n", "work/way->real", "work/real/git/commondir=../../common\n", "work/common/"},
			missing(map[string]string{"work/.git": "read", "work/way": "read", "work/real/git": "read", "work/common": "read"})},
		"a file that names its own way back": {[]string{"work/.git=gitdir: sub/real/\n", "work/sub/real/commondir=..\n"},
			missing(map[string]string{"work/.git": "read", "work/sub/real": "read", "work/sub": "read"})},
		"a file that names itself": {[]string{"work/.git=gitdir: .git\n"}, missing(map[string]string{"work/.git": "read"})},
		"nested": {[]string{"work/.git/", "work/sub/.git->../store", "work/store/"},
			missing(map[string]string{"work/.git": "read", "work/sub/.git": "read", "work/store": "read"})},
		"nested, to nothing": {[]string{"work/.git/", "work/sub/.git->../store"}, missing(map[string]string{"work/.git": "read", "work/sub/.git": "read"})},
		"another name":       {[]string{"work/.git/", "work/.codex->dir", "work/dir/"}, missing(map[string]string{"work/.git": "read", codex: "read", "work/dir": "read"})},
	} {
		dir := tree(t, test.entries...)
		t.Run(name, func(t *testing.T) {
			f := find(t, workspace(dir+"/work"))
			expect(t, f, dir, test.want)
			if len(f.Gaps) > 0 {
				t.Error(f.Gaps)
			}
		})
	}
	if f := find(t, workspace(tree(t, ".git->a/b/../../store", "a/b/", "store/"))); len(f.Gaps) != 2 || !strings.Contains(f.Gaps[0].Why, "/a/b and back") {
		t.Error(f.Gaps)
	}
	if _, err := Find(workspace(tree(t, ".git->file/x", "file=")), DefaultBounds); err != nil {
		t.Error(err)
	}
}

// In a directory for temporary files names of strangers are protected, but do not stand in anybody's way.
func TestTemporaryDirectoriesKeepTheNamesThatAreThere(t *testing.T) {
	dir := tree(t, "work/.git/", "temp/.git->real", "temp/real/", "temp/sub/.git/", "temp/.agents->missing")
	c := workspace(dir + "/work")
	c.TempDir = dir + "/temp"
	want := map[string]string{"work": "write", "work/.git": "read", "work/.agents": "read (missing)", "work/.codex": "read (missing)",
		"temp": "write", "temp/.git": "read", "temp/real": "read", "temp/.agents": "read"}
	f := find(t, c)
	expect(t, f, dir, want)
	for _, p := range f.Plan.Rules {
		if temporary := strings.HasPrefix(p.Path, dir+"/temp/"); p.IfThere != temporary {
			t.Errorf("%+v", p)
		}
	}
	c.Policy.WritableRoots = []string{dir + "/temp"} // now it belongs to the workspace
	want["temp/.codex"], want["temp/missing"], want["temp/sub/.git"] = "read (missing)", "read (missing)", "read"
	expect(t, find(t, c), dir, want)
}

func TestSettingsAreProtected(t *testing.T) {
	dir := tree(t, "home/work/.git/", "home/more/", "home/rules/")
	t.Setenv("HOME", dir+"/home")
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("EXECBUS_CONFIG", dir+"/home/own.toml")
	c := workspace(dir + "/home/work")
	c.Protected = []string{dir + "/home/rules", dir + "/home/work/one.rules", dir + "/missing/there"}
	expect(t, find(t, c), dir, map[string]string{"home/work": "write", "home/work/.git": "read", "home/work/.agents": "read (missing)", "home/work/.codex": "read (missing)",
		"home/work/one.rules": "read (missing)"})
	if _, err := os.Lstat(dir + "/home/.config"); err == nil {
		t.Error("a directory was made although no command could make it")
	}
	wide, err := find(t, c).Widen(messages.AdditionalPermissions{FileSystem: &messages.FileSystemPermissions{Write: []string{dir + "/home"}}}, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer wide.Close()
	got := accesses(wide, dir)
	for name, want := range map[string]string{"home/.config/execbus": "read", "home/.local/state/execbus": "read", "home/own.toml": "read (missing)", "home/rules": "read"} {
		if got[name] != want {
			t.Errorf("%s: %q; all: %v", name, got[name], got)
		}
	}
	info, err := os.Lstat(dir + "/home/.config/execbus")
	if err != nil || info.Mode() != fs.ModeDir|0o700 || wide.Protects() == "" {
		t.Errorf("%v, %v", info, err)
	}
	c = workspace(dir + "/home") // a link is protected together with what it leads to
	if err := errors.Join(os.Rename(dir+"/home/.config", dir+"/home/more/config"), os.Symlink("more/config", dir+"/home/.config")); err != nil {
		t.Fatal(err)
	}
	got = accesses(find(t, c), dir)
	if got["home/.config"] != "read" || got["home/more/config/execbus"] != "read" || got["home/more/config"] != "" {
		t.Error(got)
	}
	c.Policy.WritableRoots = []string{dir + "/home/more/config/execbus"} // named by the policy itself
	if got = accesses(find(t, c), dir); got["home/more/config/execbus"] != "write" {
		t.Error(got)
	}
}

func TestNestedRepositoriesAreProtected(t *testing.T) {
	dir := tree(t, "work/vendor/lib/.git/", "work/module/.git=gitdir: ../.git/modules/module", "work/.git/modules/module/x/.git/",
		"work/a/b/c/d/.git/", "work/a/b/c/d/e/.git/", "work/odd/.git->../x", "other/deep/.git/", "work/link->../other")
	f := find(t, workspace(dir+"/work"))
	expect(t, f, dir, map[string]string{"work": "write", "work/.git": "read", "work/.agents": "read (missing)", "work/.codex": "read (missing)",
		"work/vendor/lib/.git": "read", "work/module/.git": "read", "work/a/b/c/d/.git": "read", "work/odd/.git": "read"})
	gaps := ""
	for _, gap := range f.Gaps {
		gaps += gap.String() + "\n"
	}
	if !strings.Contains(gaps, "1 directories lie deeper than 4 levels") {
		t.Error(gaps)
	}
}

func TestTheSearchIsBounded(t *testing.T) {
	dir := tree(t, "a/1/", "a/2/", "a/3/", "b/c/.git/")
	for name, test := range map[string]struct {
		bounds Bounds
		want   string
	}{
		"entries": {Bounds{Depth: 4, Entries: 3, Time: time.Minute}, "stopped after 3 names"},
		"depth":   {Bounds{Depth: 1, Entries: 100, Time: time.Minute}, "deeper than 1 levels"},
		"nothing": {Bounds{Depth: 4, Entries: 100, Time: time.Minute}, ""},
	} {
		found, err := Find(workspace(dir), test.bounds)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(found.Gaps); (got > 0) != (test.want != "") || got > 0 && !strings.Contains(found.Gaps[0].Why, test.want) {
			t.Errorf("%s: %v", name, found.Gaps)
		}
		found.Close()
	}
	many := tree(t)
	for i := range 200 {
		if err := os.Mkdir(filepath.Join(many, strings.Repeat("x", i+1)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	found, err := Find(workspace(many), Bounds{Depth: 4, Entries: 10_000, Time: -1})
	if err != nil || len(found.Gaps) != 1 || !strings.Contains(found.Gaps[0].Why, "stopped after -1ns, in "+many) {
		t.Errorf("%v, %v", found, err)
	}
	found.Close()
}

func TestTheMoreSpecificPlaceCounts(t *testing.T) {
	dir := tree(t, "work/.git/hooks/", "work/secret/public/", "file=", "work/sub/.git/")
	c := workspace(dir + "/work")
	c.Policy.DeniedReads = []string{dir + "/work/secret", dir + "/missing"}
	c.Additional = &messages.AdditionalPermissions{FileSystem: &messages.FileSystemPermissions{
		Read: []string{"secret/public", "."}, Write: []string{".git", dir + "/file"}}}
	c.AdditionalDir = dir + "/work"
	f := find(t, c)
	expect(t, f, dir, map[string]string{"work": "write", "work/.git": "write", "work/.agents": "read (missing)", "work/.codex": "read (missing)",
		"work/secret": "nothing", "work/secret/public": "read", "missing": "nothing (missing)", "file": "write", "work/sub/.git": "read"})
	for i, p := range f.Plan.Rules[1:] {
		if lifted := p.Path == dir+"/work/secret/public"; lifted && !p.IfThere {
			t.Error("something would stand for a readable path that has gone")
		}
		if confine.Depth(p.Path) < confine.Depth(f.Plan.Rules[i].Path) {
			t.Errorf("%s comes behind %s", p.Path, f.Plan.Rules[i].Path)
		}
	}
	if f.Protects() != dir+"/work/sub/.git" || f.Denies() != dir+"/missing" {
		t.Errorf("protects %q, denies %q", f.Protects(), f.Denies())
	}
}

func TestWideningLeavesTheOriginalAlone(t *testing.T) {
	dir := tree(t, "work/.git/", "more/.git/", "more/sub/")
	f := find(t, workspace(dir+"/work"))
	before := len(f.Plan.Rules)
	wide, err := f.Widen(messages.AdditionalPermissions{Network: &messages.NetworkPermissions{Enabled: true},
		FileSystem: &messages.FileSystemPermissions{Write: []string{"../more", ".git", ".agents"}}}, dir+"/work")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, wide, dir, map[string]string{"work": "write", "work/.git": "write", "work/.agents": "write (missing)", "work/.codex": "read (missing)",
		"more": "write", "more/.git": "read", "more/.agents": "read (missing)", "more/.codex": "read (missing)"})
	if !wide.Plan.Network || f.Plan.Network || len(f.Plan.Rules) != before {
		t.Errorf("%v has become %v", wide.Plan, f.Plan)
	}
	wide.Close()
	if err := f.Check(); err != nil {
		t.Error(err)
	}
	for _, paths := range []messages.FileSystemPermissions{{Write: []string{"../missing"}}, {Read: []string{"missing"}}, {Write: make([]string, maxAdditional+1)}} {
		if _, err := f.Widen(messages.AdditionalPermissions{FileSystem: &paths}, dir+"/work"); !errors.Is(err, messages.ErrInvalidRequest) {
			t.Errorf("%v: %v", paths, err)
		}
	}
}

func TestWhatLeadsElsewhereIsNoticed(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"a link": func(dir string) error {
			return errors.Join(os.Rename(dir+"/work", dir+"/old"), os.Symlink("other", dir+"/work"))
		},
		"a link to it": func(dir string) error {
			return errors.Join(os.Rename(dir+"/work", dir+"/old"), os.Symlink("old", dir+"/work"))
		},
		"another": func(dir string) error {
			return errors.Join(os.Rename(dir+"/work", dir+"/old"), os.Mkdir(dir+"/work", 0o755))
		},
		"nothing": func(dir string) error { return os.Rename(dir+"/work", dir+"/old") },
		"a moved parent": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".moved"), os.Symlink(dir+".moved", dir))
		},
		"": func(string) error { return nil },
	} {
		for _, given := range []string{"work", "way"} {
			dir := tree(t, "top/work/", "top/other/") + "/top"
			if err := os.Symlink("work", dir+"/way"); err != nil {
				t.Fatal(err)
			}
			c := workspace(tree(t))
			if c.Policy.DeniedReads = []string{dir + "/" + given}; given == "work" {
				c = workspace(dir + "/work")
			}
			f := find(t, c)
			if err := f.Check(); err != nil {
				t.Error(err)
			}
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
			if err := f.Check(); (err != nil) != (name != "") {
				t.Errorf("%s, given as %s: %v", name, given, err)
			}
		}
	}
}

// Another session's placeholder comes and goes while a policy is set.
func TestAPlaceholderThatGoesIsNotTakenForALink(t *testing.T) {
	dir := tree(t, "work/", "work/nested/")
	var others sync.WaitGroup
	t.Cleanup(others.Wait) // the test's context ends before
	others.Go(func() {
		for t.Context().Err() == nil {
			for _, path := range []string{dir + "/work/.git", dir + "/work/nested/.git"} {
				if err := errors.Join(placeholder.Make(path, placeholder.Link), os.Remove(path)); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	for range 10_000 {
		if f := find(t, workspace(dir+"/work")); len(f.Gaps) > 0 {
			t.Fatalf("%v", f.Gaps)
		}
	}
}

func TestALinkThatLeadsElsewhereIsNoticed(t *testing.T) {
	dir := tree(t, "work/", "other/")
	if err := os.Symlink("work", dir+"/way"); err != nil {
		t.Fatal(err)
	}
	c := workspace(tree(t))
	c.Policy.DeniedReads = []string{dir + "/way"}
	f := find(t, c)
	if err := errors.Join(os.Remove(dir+"/way"), os.Symlink("other", dir+"/way")); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(); err == nil {
		t.Error("it was not noticed")
	}
}

// A command can make a link wherever it can write. What a link leads to must not become writable in the next session.
func TestARootBehindALinkIsRefused(t *testing.T) {
	dir := tree(t, "secret/sub/", "link->secret", "absolute->/", "chain->link", "dangling->secret/new", "work/", "work/up->..", "temp/", "loop->loop")
	for _, path := range []string{"link", "link/sub", "link/", "link/.", "chain", "chain/sub", "work/up/secret", "absolute/tmp", "dangling", "work/../link"} {
		for name, set := range map[string]func(*ptyio.Confinement){
			"the directory":      func(c *ptyio.Confinement) { c.Dir = dir + "/" + path },
			"a writable root":    func(c *ptyio.Confinement) { c.Policy.WritableRoots = []string{dir + "/" + path} },
			"TMPDIR":             func(c *ptyio.Confinement) { c.TempDir = dir + "/" + path },
			"further permission": func(c *ptyio.Confinement) { c.Additional, c.AdditionalDir = writing(path), dir },
		} {
			c := workspace(dir + "/work")
			set(&c)
			f, err := Find(c, DefaultBounds)
			if err == nil {
				t.Errorf("%s %s: %v", name, path, accesses(f, dir))
				f.Close()
				continue
			}
			if !errors.Is(err, messages.ErrInvalidRequest) || path == "link/sub" && (!strings.Contains(err.Error(), dir+"/secret/sub") || !strings.Contains(err.Error(), dir+"/link")) {
				t.Errorf("%s %s: %v", name, path, err)
			}
		}
	}
	c := workspace(dir + "/work")
	c.TempDir = dir + "/loop"
	if f, err := Find(c, DefaultBounds); err == nil {
		f.Close()
		t.Error("a loop is no error")
	}
	c.TempDir = dir + "/missing/more"
	if got := accesses(find(t, c), dir); got["missing"] != "" || got["missing/more"] != "" {
		t.Errorf("a missing TMPDIR is a root: %v", got)
	}
}

func writing(paths ...string) *messages.AdditionalPermissions {
	return &messages.AdditionalPermissions{FileSystem: &messages.FileSystemPermissions{Write: paths}}
}

func TestSocketsAreFoundOrAGap(t *testing.T) {
	dir := tree(t, "file=")
	c := workspace(dir)
	c.Policy.Sockets = []string{dir + "/missing", dir + "/file"}
	if f := find(t, c); len(f.Gaps) != 2 || len(f.Plan.Sockets) != 0 {
		t.Errorf("%v, %v", f.Gaps, f.Plan.Sockets)
	}
}

// A process that may not reach a path now may get there later.
func TestADeniedPathThatCannotBeReachedIsDeniedAllTheSame(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("skipped: root reaches every path")
	}
	dir := tree(t, "work/", "closed/secret=x")
	if err := os.Chmod(dir+"/closed", 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir+"/closed", 0o755) })
	c := workspace(dir + "/work")
	c.Policy.DeniedReads = []string{dir + "/closed/secret"}
	if found := find(t, c); found.Denies() != dir+"/closed/secret" {
		t.Errorf("denied is %q", found.Denies())
	}
}
