//go:build linux

package sandbox_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/internal/placeholder"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// gitting returns a spawner, an enclosure and its empty workspace. The test is skipped without git.
func gitting(t *testing.T) (ptyio.Spawner, ptyio.Enclosure, string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("skipped: %v", err)
	}
	dir := t.TempDir()
	spawner, e := isolating(t, workspace(dir))
	return spawner, e, dir
}

// outside runs git without a sandbox.
func outside(dir string, arguments ...string) (string, error) {
	git := exec.Command("git", arguments...)
	git.Dir, git.Env = dir, environment("HOME="+dir)
	said, err := git.CombinedOutput()
	return string(said), err
}

// holder starts a command that runs until the returned function is called.
func holder(t *testing.T, spawner ptyio.Spawner, e ptyio.Enclosure) (end func()) {
	t.Helper()
	l := bash(false, "echo ready; read")
	l.Sandbox = e
	child, r := run(t, spawner, l)
	r.awaitOutput(t, "ready")
	return func() {
		child.EndTree(0)
		r.awaitEnd(t)
	}
}

func widen(t *testing.T, e ptyio.Enclosure, dir, path string) ptyio.Enclosure {
	t.Helper()
	wide, err := e.Widen(t.Context(), messages.AdditionalPermissions{FileSystem: &messages.FileSystemPermissions{Write: []string{path}}}, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(wide.Release)
	return wide
}

func TestAPersonCanMakeARepositoryAfterTheLastCommand(t *testing.T) {
	t.Parallel() // it waits most of the time
	spawner, e, dir := gitting(t)
	end := holder(t, spawner, e)
	if said, err := outside(dir, "init", "-q"); err == nil || !strings.Contains(said, placeholder.Text) {
		t.Errorf("while a command runs git says %q, %v", said, err)
	}
	end()
	eventually(t, "the placeholder is gone although the policy is in use", func() bool { return !exists(filepath.Join(dir, ".git")) })
	if said, err := outside(dir, "init", "-q"); err != nil {
		t.Errorf("%s: %v", said, err)
	}
	if got := said(t, spawner, e, false, "touch "+dir+"/.git/hooks/new 2>/dev/null || echo safe"); got != "safe" {
		t.Error(got)
	}
}

// A second attempt comes before the placeholders of the first are gone.
func TestACommandThatIsNotIsolatedFindsNoPlaceholders(t *testing.T) {
	spawner, e, dir := gitting(t)
	for range 3 {
		end := holder(t, spawner, e)
		end()
		l := launch(false, "git", "init", "-q")
		l.Dir = dir
		_, r := run(t, spawner, l)
		r.awaitEnd(t)
		if exit := awaitEvent[ptyio.Exited](t, r); exit.Status != messages.StatusExited(0) {
			t.Errorf("%v: %v", exit.Status, r)
		}
		if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAPermittedCommandMakesARepository(t *testing.T) {
	spawner, e, dir := gitting(t)
	init := "cd " + dir + "; git init -q 2>&1 && git config user.name n && echo done"
	if got := said(t, spawner, e, false, init); !strings.Contains(got, placeholder.Text) || exists(filepath.Join(dir, ".git", "HEAD")) {
		t.Fatalf("without permission: %s", got)
	}
	wide := widen(t, e, dir, ".git") // while the placeholder is there
	end := holder(t, spawner, e)
	l := bash(false, init)
	l.Sandbox, l.Events = wide, newRecorder().receive
	if _, err := spawner.Spawn(t.Context(), l); err == nil || !strings.Contains(err.Error(), "end them first") || !strings.Contains(err.Error(), filepath.Join(dir, ".git")) {
		t.Errorf("another command could write the new repository: %v", err)
	}
	end()
	if got := said(t, spawner, wide, false, init); got != "done" {
		t.Error(got)
	}
	if got := said(t, spawner, e, false, "touch "+dir+"/.git/hooks/new 2>/dev/null || echo safe"); got != "safe" {
		t.Error(got)
	}
}

// Programs that look for a repository must not take a placeholder of .git for one: a workspace may be inside a repository.
func TestProgramsTakeNoPlaceholderForARepository(t *testing.T) {
	desk := newDesk(t, messages.AssuranceIsolated, "git", "go")
	top := filepath.Join(desk.dir, "work")
	if said, err := outside(top, "init", "-q"); err != nil {
		t.Fatalf("%s: %v", said, err)
	}
	sub := filepath.Join(top, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	desk.write("sub/go.mod", "module m\n\ngo 1.20\n")
	desk.write("sub/main.go", "package main\n\nfunc main() {}\n")
	c := workspace(sub)
	c.Policy.WritableRoots = []string{filepath.Join(desk.dir, "home"), filepath.Join(desk.dir, "tmp"), desk.cache}
	desk.sandbox = enclose(t, desk.spawner, c)
	end := holder(t, desk.spawner, desk.sandbox)
	defer end()
	const status = "?? go.mod\n?? main.go\n"
	if said := desk.does("cd sub && git status --short -uall"); said != status {
		t.Errorf("inside git says %q", said)
	}
	if said := desk.does("cd sub && go build -o ../../home/m . && echo built"); said != "built\n" { // the build records the commit
		t.Errorf("inside go says %q", said)
	}
	if said, err := outside(sub, "status", "--short", "-uall"); err != nil || said != status {
		t.Errorf("outside git says %q, %v", said, err)
	}
}

// In a directory such as /tmp repositories come and go while a start looks for them and protects them.
func TestRepositoriesThatComeAndGoFailNoStart(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir := t.TempDir()
	c := workspace(dir)
	c.Least = messages.AssuranceIsolated
	spawner, _ := isolating(t, c)
	var others sync.WaitGroup
	t.Cleanup(others.Wait) // the test's context ends before
	others.Go(func() {
		for t.Context().Err() == nil {
			_ = os.MkdirAll(filepath.Join(dir, "nested", ".git"), 0o755)
			_ = os.RemoveAll(filepath.Join(dir, "nested"))
		}
	})
	for range 60 {
		e, err := spawner.Enclose(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		l := launch(false, "true")
		l.Sandbox = e
		_, record := run(t, spawner, l)
		record.awaitEnd(t)
		e.Release()
	}
}

// Nothing stands in the way of others in a directory for temporary files. What is there is protected.
func TestTemporaryDirectoriesBelongToOthersToo(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("skipped: %v", err)
	}
	temp, dir := t.TempDir(), t.TempDir()
	c := workspace(dir)
	c.TempDir, c.Policy.ExcludeTmpdirEnvVar = temp, false
	spawner, e := isolating(t, c)
	end := holder(t, spawner, e)
	defer end()
	if said, err := outside(temp, "init", "-q"); err != nil {
		t.Fatalf("while a command runs git says %q, %v", said, err)
	}
	if got := said(t, spawner, e, false, "mkdir "+temp+"/.codex && echo made"); got != "made" {
		t.Errorf("%q", got)
	}
	again := enclose(t, spawner, c)
	if got := said(t, spawner, again, false, "touch "+temp+"/.git/new "+temp+"/.codex/new 2>/dev/null || echo safe"); got != "safe" || exists(temp+"/.git/new") || exists(temp+"/.codex/new") {
		t.Errorf("%q", got)
	}
}

// A stranger's directory, which commands of root cannot enter, may hold a repository, and links may lead there.
func TestAStrangersDirectoryStopsNoStart(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root finds what is in the directory of another user")
	}
	dir, temp := t.TempDir(), t.TempDir()
	for _, stranger := range []string{dir + "/stranger", temp + "/stranger", dir + "/other"} {
		if err := errors.Join(os.MkdirAll(stranger+"/sub/.git", 0o755), os.Chmod(stranger, 0o700), os.Chown(stranger, 65534, 65534)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("stranger/sub/.git", dir+"/.git"), os.Symlink("stranger/sub/.git", temp+"/.git")); err != nil {
		t.Fatal(err)
	}
	c := workspace(dir)
	c.TempDir, c.Policy.ExcludeTmpdirEnvVar = temp, false
	spawner, e := isolating(t, c)
	for _, top := range []string{dir, temp} {
		if got := said(t, spawner, e, false, "cd "+top+"; { ls stranger || mv stranger x || rm .git; } 2>/dev/null || echo safe"); got != "safe" {
			t.Errorf("%q", got)
		}
	}
}

// A program that seems to remove placeholders, and never finishes, stops no start. A person is told.
func TestAStrangersLockIsTold(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	everything := unix.Flock_t{Type: unix.F_RDLCK}
	if err := errors.Join(unix.Flock(int(stranger.Fd()), unix.LOCK_EX), unix.FcntlFlock(stranger.Fd(), unix.F_OFD_SETLK, &everything)); err != nil {
		t.Fatal(err)
	}
	notices := make(chan string, 8)
	spawner := newSpawner(t, sandbox.Options{Notice: func(text string) { notices <- text }})
	c := workspace(dir)
	c.Least = messages.AssuranceIsolated
	e := enclose(t, spawner, c)
	defer holder(t, spawner, e)() // so that the placeholders stay, and with them what is known
	for range 2 {
		if got := said(t, spawner, e, false, "mkdir .codex 2>/dev/null || echo safe"); got != "safe" {
			t.Errorf("%q", got)
		}
	}
	select {
	case text := <-notices:
		if !strings.Contains(text, dir) {
			t.Error(text)
		}
	default:
		t.Error("nobody was told")
	}
	if len(notices) > 0 {
		t.Errorf("it was told again: %s", <-notices)
	}
}
