//go:build linux

package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// limited runs a script under limits to its end. It skips the test if a limit cannot be enforced here.
func limited(t *testing.T, spawner ptyio.Spawner, tty bool, limits messages.Limits, script string) (ptyio.Exited, *recorder) {
	t.Helper()
	l := bash(tty, script)
	l.Limits = limits
	if _, err := spawner.Can(l); err != nil {
		t.Skipf("skipped: %v", err)
	}
	_, record := run(t, spawner, l)
	exited := awaitEvent[ptyio.Exited](t, record)
	if report := record.awaitEnd(t); len(report.Survivors) > 0 {
		t.Errorf("survivors: %v", report.Survivors)
	}
	return exited, record
}

// noGroupsLeft checks that this process has left no control groups.
func noGroupsLeft(t *testing.T) {
	t.Helper()
	found, _ := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/*/execbus-*-%d-*", os.Getpid()))
	if len(found) > 0 {
		t.Errorf("left behind: %v", found)
	}
}

func TestWhatReachesALimitIsEnded(t *testing.T) {
	t.Parallel() // it waits most of the time
	t.Cleanup(func() { noGroupsLeft(t) })
	const mebibyte = 1 << 20
	for _, c := range []struct {
		limit  messages.Limit
		limits messages.Limits
		script string
	}{
		{messages.LimitOutput, messages.Limits{OutputBytes: 100_000}, "trap '' TERM; while :; do echo 0123456789; done"},
		{messages.LimitWallTime, messages.Limits{WallTime: 50 * time.Millisecond}, "trap '' HUP; sleep 1000 & wait"},
		{messages.LimitCPUTime, messages.Limits{CPUTime: 200 * time.Millisecond}, "while :; do :; done"},
		{messages.LimitProcesses, messages.Limits{Processes: 30}, "bomb() { bomb | bomb & }; bomb; sleep 1000"},
		{messages.LimitMemory, messages.Limits{MemoryBytes: 64 * mebibyte}, "x=0123456789abcdef; while :; do x=$x$x; done"},
	} {
		t.Run(string(c.limit), func(t *testing.T) {
			both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
				t.Parallel()
				exited, record := limited(t, spawner, tty, c.limits, c.script)
				if exited.Limit != c.limit && !perProcess(t, spawner, c.limits) {
					t.Errorf("ended by %q, with %v: %v", exited.Limit, exited.Status, record)
				}
				if c.limit == messages.LimitOutput && record.output.Len() != 100_000 {
					t.Errorf("%d bytes", record.output.Len())
				}
			})
		})
	}
}

// perProcess reports whether a limit here is only one of each process. Programs react to such a limit in their own way.
func perProcess(t *testing.T, spawner ptyio.Spawner, limits messages.Limits) bool {
	e, err := spawner.Can(ptyio.Launch{Argv: []string{"true"}, Limits: limits})
	if err == nil && len(e.Missing) > 0 && limits.MemoryBytes > 0 {
		t.Logf("the kernel ends nothing here: %v", e)
		return true
	}
	return false
}

func TestWhatStaysBelowItsLimitsIsLeftAlone(t *testing.T) {
	t.Cleanup(func() { noGroupsLeft(t) })
	limits := messages.Limits{OutputBytes: 4, CPUTime: time.Minute, WallTime: time.Minute, MemoryBytes: 1 << 30, OpenFiles: 64}
	both(t, func(t *testing.T, spawner ptyio.Spawner, _ bool) {
		exited, record := limited(t, spawner, false, limits, "ulimit -n >&2; echo hi; exit 3")
		if exited.Limit != "" && exited.Limit != messages.LimitOutput || !strings.Contains(record.output.String(), "6") {
			t.Errorf("%+v, %v", exited, record)
		}
		limits := limits
		limits.OutputBytes = 6
		exited, record = limited(t, spawner, false, limits, "echo hi; ulimit -n; exit 3")
		if exited.Limit != "" || exited.Status != messages.StatusExited(3) || record.output.String() != "hi\n64\n" {
			t.Errorf("%+v, %v", exited, record)
		}
	})
}

// A fork bomb is ended soon, and an unrelated process answers meanwhile.
func TestAForkBombUnderALimit(t *testing.T) {
	spawner := newSpawner(t, sandbox.Options{})
	if _, err := spawner.Can(ptyio.Launch{Argv: []string{"true"}, Limits: messages.Limits{Processes: 100}}); err != nil {
		t.Skipf("skipped: %v", err)
	}
	_, other := run(t, newSpawner(t, sandbox.Options{}), bash(false, "while read -r line; do echo $line; done"))
	child := awaitEvent[ptyio.Spawned](t, other).Child
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 20 {
			child.Write(fmt.Appendf(nil, "answer %d\n", i), time.Time{}, func(ptyio.Taken, error) {})
			other.awaitOutput(t, fmt.Sprintf("answer %d\n", i))
		}
	}()
	exited, _ := limited(t, spawner, false, messages.Limits{Processes: 100}, "trap '' TERM HUP; bomb() { bomb | bomb & }; bomb; sleep 1000")
	<-done
	if exited.Limit != messages.LimitProcesses {
		t.Errorf("%+v", exited)
	}
	noGroupsLeft(t)
	child.EndTree(0)
}

func TestALimitThatThereIsNot(t *testing.T) {
	spawner := newSpawner(t, sandbox.Options{})
	l := bash(false, "true")
	l.Limits.Processes = -1
	l.Events = newRecorder().receive
	if _, err := spawner.Spawn(t.Context(), l); !errors.Is(err, messages.ErrInvalidRequest) {
		t.Error(err)
	}
}

// The reached limit and the requested end are different causes: the first of them counts.
func TestTheFirstReasonCounts(t *testing.T) {
	l := bash(false, "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done")
	l.Limits.WallTime = time.Hour
	child, record := run(t, newSpawner(t, sandbox.Options{}), l)
	record.awaitOutput(t, "ready")
	if err := child.Signal(syscall.SIGTERM, ptyio.Tree); err != nil {
		t.Fatal(err)
	}
	if exited := awaitEvent[ptyio.Exited](t, record); exited.Limit != "" || exited.Status != messages.StatusExited(7) {
		t.Errorf("%+v", exited)
	}
	record.awaitEnd(t)
}
