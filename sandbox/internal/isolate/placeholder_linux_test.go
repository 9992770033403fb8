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
	root := place(t, t.TempDir(), confine.Write)
	git = filepath.Join(root.Path, ".git")
	return &confine.Plan{Places: []confine.Place{root, {Path: git, Access: confine.Read, File: -1}}}, git
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

func TestALeftPlaceholderIsTakenOver(t *testing.T) {
	plan, git := missing(t)
	for _, lock := range hold(t, plan).locks { // the kernel does this for a process that dies
		_ = lock.Close()
	}
	if !there(git) {
		t.Fatal("there is none")
	}
	plan.Places[1] = confine.Place{Path: git, Access: confine.Read, File: -1} // the next command finds it like this
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
	if plan.Places[1].Inode == 0 || !plan.Places[1].Directory {
		t.Errorf("the plan says %+v", plan.Places[1])
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
	plan := confine.Plan{Places: []confine.Place{place(t, "/usr", confine.Write), {Path: "/usr/.git", Access: confine.Read, File: -1}}}
	held := hold(t, &plan)
	defer held.Release()
	renewed, err := held.Look(plan)
	if err != nil || len(renewed.Places) != 2 || renewed.Places[1].Inode != 0 {
		t.Errorf("%+v, %v", renewed.Places, err)
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
