//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// ice is a freezer of cgroups version 1. It delays SIGKILL for the processes in it.
type ice struct{ dir string }

func newIce(t *testing.T) ice {
	t.Helper()
	root := t.TempDir()
	if err := unix.Mount("none", root, "cgroup", 0, "freezer"); err != nil {
		t.Skip("no freezer that holds SIGKILL back: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(root, 0) })
	i := ice{filepath.Join(root, filepath.Base(newToken()))}
	if err := os.Mkdir(i.dir, 0o700); err != nil {
		t.Skip("no freezer that holds SIGKILL back: ", err)
	}
	t.Cleanup(func() {
		i.thaw(t)
		eventually(t, "the freezer is empty", func() bool { return os.Remove(i.dir) == nil })
	})
	return i
}

func (i ice) write(t *testing.T, name, value string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(i.dir, name), []byte(value), 0o600); err != nil {
		t.Error(err)
	}
}

func (i ice) freeze(t *testing.T, pid int) {
	t.Helper()
	err := os.WriteFile(filepath.Join(i.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600)
	if err != nil && !errors.Is(err, unix.ESRCH) { // on a busy machine a start that hangs may have been given up by now
		t.Error(err)
	}
	i.write(t, "freezer.state", "FROZEN")
	eventually(t, "it is frozen", func() bool {
		state, _ := os.ReadFile(filepath.Join(i.dir, "freezer.state"))
		return string(state) == "FROZEN\n"
	})
}

func (i ice) thaw(t *testing.T) {
	t.Helper()
	i.write(t, "freezer.state", "THAWED")
}

// stays reports whether a report names exactly this process.
func stays(report messages.TreeReport, pid int) bool {
	return len(report.Survivors) == 1 && report.Survivors[0].PID == pid &&
		strings.Contains(report.Survivors[0].Why, "did not die of SIGKILL")
}

func TestWhatTheKernelDoesNotKillIsNamed(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, what := range []string{"leader", "daemon"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			freezer := newIce(t)
			spawner := newSpawner(t, sandbox.Options{})
			token := newToken()
			child, record := run(t, spawner, bash(false, `(setsid sleep $1 </dev/null >/dev/null 2>&1 &); sleep $1 & read x`, token))
			eventually(t, "its children are up", func() bool { return len(orphans(token)) == 1 && len(sleepers(token)) == 2 })
			frozen := map[string]int{"leader": child.PID(), "daemon": orphans(token)[0].pid}[what]
			freezer.freeze(t, frozen)
			child.EndTree(0)
			report := awaitEvent[ptyio.TreeEnded](t, record).TreeReport
			if !stays(report, frozen) {
				t.Errorf("%d stays, and the report says %+v", frozen, report)
			}
			for _, p := range observe(token) {
				if p.pid != frozen {
					t.Errorf("%v lives as well", p)
				}
			}
			_, other := run(t, spawner, launch(false, "true"))
			if report := other.awaitEnd(t); !clean(report) {
				t.Errorf("the next command: %+v", report)
			}
			freezer.thaw(t)
			noneLeft(t, token)
		})
	}
}

func TestAStartThatTheKernelDoesNotKillIsAnswered(t *testing.T) {
	freezer := newIce(t)
	spawner, lost := lossyAndHasty(t)
	child, record := run(t, spawner, launch(false, "cat"))
	warden := wardenAbove(child.PID())
	hanging, awaited := hangingLaunch(t)
	failed := make(chan error, 1)
	before := childrenOf(t, warden)
	go func() { _, err := spawner.Spawn(context.Background(), hanging); failed <- err }()
	eventually(t, "the fork hangs", awaited)
	for _, pid := range childrenOf(t, warden) {
		if n, _ := strconv.Atoi(pid); !slices.Contains(before, pid) {
			freezer.freeze(t, n)
		}
	}
	if err := receive(t, "the failure", failed); !errors.Is(err, messages.ErrSpawnFailed) {
		t.Errorf("%v", err)
	}
	freezer.thaw(t)
	eventually(t, "the child is dead", func() bool { return len(childrenOf(t, warden)) == len(before) })
	child.EndTree(0)
	record.awaitEnd(t)
	if len(lost) > 0 {
		t.Errorf("the warden was given up: %+v", <-lost)
	}
}

func TestTheHostsDeathEndsAllButWhatTheKernelDoesNotKill(t *testing.T) {
	t.Parallel() // a freezer may be new in /proc/self/cgroup, which replaces wardens; and the test takes seconds
	freezer := newIce(t)
	state, token := t.TempDir(), newToken()
	host, _ := startHost(t, "host", "SHAPE=0", "TTY=pipes", "TOKEN="+token, "STATE="+state,
		"SCRIPT=(setsid sleep "+token+" </dev/null >/dev/null 2>&1 &); (setsid sleep "+token+" </dev/null >/dev/null 2>&1 &); sleep "+token+"; true")
	eventually(t, "its children are up", func() bool { return len(orphans(token)) == 2 && len(sleepers(token)) == 3 })
	frozen := orphans(token)[0].pid
	warden := wardenAbove(frozen)
	freezer.freeze(t, frozen)
	_ = host.Process.Kill()
	took := eventually(t, "all else ends", func() bool { return len(observe(token)) == 1 })
	t.Logf("all else ended in %v", took)
	if _, lives := look(warden); !lives {
		t.Error("its warden has not tried for long")
	}
	_ = host.Wait()
	recovered := make(chan messages.TreeReport, 1)
	newSpawner(t, hasty(sandbox.Options{StateDir: state, Recovered: func(r messages.TreeReport) { recovered <- r }}))
	if report := receive(t, "the report of what was left", recovered); !stays(report, frozen) {
		t.Errorf("%d stays, and the next spawner says %+v", frozen, report)
	}
	freezer.thaw(t)
	noneLeft(t, token)
}
