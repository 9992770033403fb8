package isolate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/confine"
)

// missing makes a plan with a writable directory that has no .git.
func missing(t *testing.T) (plan *confine.Plan, git string) {
	t.Helper()
	root := rule(t, t.TempDir(), confine.Write)
	git = filepath.Join(root.Path, ".git")
	return &confine.Plan{Rules: []confine.Rule{root, {Path: git, Access: confine.Read, File: -1}}}, git
}

func hold(t *testing.T, plan *confine.Plan) *Placeholders {
	t.Helper()
	p, found, err := Hold(*plan)
	if err != nil {
		t.Fatal(err)
	}
	*plan = found
	return p
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestWhatIsMissingCannotBeCreated(t *testing.T) {
	plan, git := missing(t)
	held := hold(t, plan)
	output, _ := run(t, plan, "cd "+filepath.Dir(git)+" && touch new && echo x >.git || mkdir .git || mkdir .git/hooks || rm -f .git || mv .git x || echo safe")
	if got := output[len(output)-4:]; got != "safe" {
		t.Error(output)
	}
	held.Release()
	if there(git) || !there(filepath.Join(filepath.Dir(git), "new")) {
		t.Error("the placeholder is still there, or the work is not")
	}
}

func TestTheLastOneRemovesAPlaceholder(t *testing.T) {
	plan, git := missing(t)
	again := *plan
	first, second := hold(t, plan), hold(t, &again)
	first.Release()
	if !there(git) {
		t.Error("it is gone while somebody holds it")
	}
	second.Release()
	if there(git) {
		t.Error("it is left")
	}
}

func TestOneOfTwoThatReleaseAtOnceRemovesAPlaceholder(t *testing.T) {
	plan, git := missing(t)
	again := *plan
	first, second := hold(t, plan), hold(t, &again)
	for _, lock := range first.locks {
		if alone(lock) {
			t.Error("it does not see the other")
		}
	}
	second.Release() // while the first has not gone yet
	if there(git) {
		t.Error("it is left")
	}
	first.Release()
}

func TestALeftPlaceholderIsTakenOver(t *testing.T) {
	plan, git := missing(t)
	for _, lock := range hold(t, plan).locks { // the kernel does this for a process that dies
		_ = lock.Close()
	}
	if !there(git) {
		t.Fatal("there is none")
	}
	plan.Rules[1] = confine.Rule{Path: git, Access: confine.Read, File: -1} // the next command finds it like this
	next := hold(t, plan)
	output, _ := run(t, plan, "cd "+filepath.Dir(git)+" && rm -f .git || echo safe")
	if output[len(output)-4:] != "safe" {
		t.Error(output)
	}
	next.Release()
	if there(git) {
		t.Error("it is left")
	}
}

func TestWhatIsNoPlaceholderStays(t *testing.T) {
	plan, git := missing(t)
	if err := os.Mkdir(git, 0o755); err != nil { // between the policy and the start
		t.Fatal(err)
	}
	hold(t, plan).Release()
	output, _ := run(t, plan, "touch "+git+"/new || echo safe")
	if output[len(output)-4:] != "safe" {
		t.Error(output)
	}
	if !there(git) {
		t.Error("the host's directory was removed")
	}
	if plan.Rules[1].Inode == 0 || !plan.Rules[1].Directory {
		t.Errorf("the plan says %+v", plan.Rules[1])
	}
}

func TestPlaceholdersAreHeldByManyAtOnce(t *testing.T) {
	plan, git := missing(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				p, _, err := Hold(*plan)
				if err != nil {
					t.Error(err)
					return
				}
				if !there(git) {
					t.Error("it is not there while it is held")
				}
				p.Release()
			}
		})
	}
	all.Wait()
	if there(git) {
		t.Error("it is left")
	}
}

func TestNothingStandsWhereNobodyCanCreateAnything(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can create files in every directory")
	}
	plan := confine.Plan{Rules: []confine.Rule{rule(t, "/usr", confine.Write), {Path: "/usr/.git", Access: confine.Read, File: -1}}}
	held := hold(t, &plan)
	defer held.Release()
	renewed, err := held.Look(plan)
	if err != nil || len(renewed.Rules) != 2 || renewed.Rules[1].Inode != 0 {
		t.Errorf("%+v, %v", renewed.Rules, err)
	}
	if output, _ := run(t, &renewed, "mkdir /usr/.git || echo safe"); !strings.HasSuffix(strings.TrimSpace(output), "safe") {
		t.Error(output)
	}
}

// The owner of a directory can make it writable again, so a placeholder is needed even if it is not writable now.
func TestADirectoryThatIsOnlyShutForNowNeedsAPlaceholder(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can create files in every directory")
	}
	plan, git := missing(t)
	if err := os.Chmod(filepath.Dir(git), 0o555); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Hold(*plan); !errors.Is(err, unix.EACCES) {
		t.Errorf("it would be left unprotected: %v", err)
	}
}

// A stranger may lock a directory in every way that the kernel knows.
func TestAStrangersLockStopsNoStart(t *testing.T) {
	plan, git := missing(t)
	stranger, err := os.Open(filepath.Dir(git))
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if err := unix.Flock(int(stranger.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	held := hold(t, plan)
	if dirs := held.Unshared(); len(dirs) > 0 || !there(git) {
		t.Error(dirs)
	}
	held.Release()
	if there(git) {
		t.Error("it is left")
	}
	if !alone(stranger) { // it looks like a removal that takes forever
		t.Error("somebody is there")
	}
	held = hold(t, plan)
	if dirs := held.Unshared(); len(dirs) != 1 || dirs[0] != filepath.Dir(git) || !there(git) {
		t.Error(dirs)
	}
	if dirs := held.Unshared(); len(dirs) > 0 {
		t.Errorf("it is said twice: %v", dirs)
	}
	held.Release()
	if there(git) {
		t.Error("it is left")
	}
	lock(stranger, uses, unix.F_RDLCK)
	hold(t, plan).Release()
	if !there(git) {
		t.Error("it is gone although somebody seems to use it")
	}
}

// A link that was there when the policy was set stays, and leads where it led.
func TestAProtectedLinkCannotBeReplaced(t *testing.T) {
	plan, git := missing(t)
	dir := filepath.Dir(git)
	if err := errors.Join(os.MkdirAll(dir+"/store/hooks", 0o755), os.Symlink("store", git)); err != nil {
		t.Fatal(err)
	}
	var stat unix.Stat_t
	if err := unix.Lstat(git, &stat); err != nil {
		t.Fatal(err)
	}
	plan.Rules[1].Device, plan.Rules[1].Inode, plan.Rules[1].Link = stat.Dev, stat.Ino, "store"
	plan.Rules = append(plan.Rules, rule(t, dir+"/store", confine.Read))
	held := hold(t, plan)
	defer held.Release()
	output, _ := run(t, plan, "cd "+dir+" && ls .git/ && ( rm -f .git || mv .git x || ln -sfn new .git || touch .git/hooks/new || touch store/new || mv store x || echo safe )")
	if output = strings.TrimSpace(output); !strings.HasPrefix(output, "hooks") || !strings.HasSuffix(output, "safe") {
		t.Error(output)
	}
	if err := errors.Join(os.Remove(git), os.Symlink("elsewhere", git)); err != nil {
		t.Fatal(err)
	}
	if _, err := held.Look(*plan); !errors.Is(err, unix.ELOOP) {
		t.Errorf("what the new link leads to would be left unprotected: %v", err)
	}
	plan.Rules[1].IfThere = true // a stranger's, in a directory for temporary files
	if now, err := held.Look(*plan); err != nil || len(now.Rules) != 3 {
		t.Errorf("%v, %v", now.Rules, err)
	}
	if err := os.Remove(git); err != nil {
		t.Fatal(err)
	}
	if now, err := held.Look(*plan); err != nil || len(now.Rules) != 2 || there(git) {
		t.Errorf("%v, %v", now.Rules, err)
	}
}
