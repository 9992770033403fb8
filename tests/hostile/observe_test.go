//go:build linux

package hostile_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/execbus/execbus/tests/proc"
)

// The observer uses only what the kernel lists, and nothing of ours.

// wardenName is the name of every warden.
const wardenName = "execbus-warden"

// newToken returns a mark for the processes of a case. It is a number, so that sleep takes it as its argument.
func newToken() string { return fmt.Sprintf("100000.%09d", rand.IntN(1e9)) }

type seen struct {
	proc.Process
	pid  int
	argv []string
	dir  string
}

func (p seen) String() string {
	return fmt.Sprintf("%d (parent %d, %c, in %s) %.120q", p.pid, p.Parent, p.State, p.dir, p.argv)
}

// look reads one process. The state is empty if the process is gone.
func look(pid int) seen {
	p := seen{Process: proc.Look(pid), pid: pid, argv: proc.Arguments(pid)}
	p.dir, _ = os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
	return p
}

func processes(want func(seen) bool) []seen {
	entries, _ := os.ReadDir("/proc")
	var found []seen
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if p := look(pid); p.State != 0 && want(p) {
			found = append(found, p)
		}
	}
	return found
}

// living returns the living processes that have a token in their arguments or directory.
func living(token string) []seen {
	return processes(func(p seen) bool {
		return p.Alive() && (strings.Contains(strings.Join(p.argv, " "), token) || strings.Contains(p.dir, token))
	})
}

// sleepers returns those that are exactly "sleep token".
func sleepers(token string) []seen {
	return slices.DeleteFunc(living(token), func(p seen) bool { return len(p.argv) != 2 || p.argv[1] != token })
}

// children returns the living and the dead children of a process.
func children(parent int) (alive, dead []seen) {
	for _, p := range processes(func(p seen) bool { return p.Parent == parent }) {
		if p.Alive() {
			alive = append(alive, p)
		} else {
			dead = append(dead, p)
		}
	}
	return alive, dead
}

// wardens returns the living wardens that any process, or a given one, made of this binary.
func wardens(host int) []seen {
	return processes(func(p seen) bool {
		if !p.Alive() || len(p.argv) == 0 || p.argv[0] != wardenName || host != 0 && p.Parent != host {
			return false
		}
		exe, err := os.Readlink("/proc/" + strconv.Itoa(p.pid) + "/exe")
		return err == nil && strings.TrimSuffix(exe, " (deleted)") == self
	})
}

func descriptors() []string { return proc.Descriptors(os.Getpid()) }

// patience bounds every wait. Only a defect makes a wait last that long.
const patience = time.Minute

// eventually polls for a condition that only the kernel knows.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	if _, ok := within(patience, condition); !ok {
		t.Fatalf("never happened: %s", what)
	}
}

// within polls a condition, and returns how long it took to become true.
func within(most time.Duration, condition func() bool) (took time.Duration, ok bool) {
	began := time.Now()
	for !condition() {
		if time.Since(began) > most {
			return time.Since(began), false
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(began), true
}

// before is the state of this process before a case.
type before struct {
	descriptors []string
	goroutines  goleak.Option
}

func remember() before { return before{descriptors(), goleak.IgnoreCurrent()} }

// nothingLeft checks that the state is the same again.
func (b before) nothingLeft(t testing.TB, tokens ...string) {
	t.Helper()
	for _, token := range tokens {
		if left := living(token); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
	}
	if alive, dead := children(os.Getpid()); len(alive)+len(dead) > 0 {
		t.Errorf("children of ours are left: alive %v, dead %v", alive, dead)
	}
	if _, ok := within(patience, func() bool { return len(descriptors()) <= len(b.descriptors) }); !ok {
		t.Errorf("descriptors are left: %q, before: %q", descriptors(), b.descriptors)
	}
	var leak error
	if _, ok := within(patience, func() bool { leak = goleak.Find(b.goroutines); return leak == nil }); !ok {
		t.Errorf("goroutines are left: %v", leak)
	}
	if files, err := os.ReadDir(temporary); err != nil || len(files) > 0 {
		t.Errorf("files are left in TMPDIR: %v, %v", files, err)
	}
}
