//go:build linux

package sandbox_test

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// withoutDescriptors sets the limit of a warden so that it can open nothing more, and returns what restores it.
func withoutDescriptors(t *testing.T, pid int) (restore func()) {
	t.Helper()
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd")
	if err != nil {
		t.Skip("skipped: ", err)
	}
	open := map[int]bool{}
	for _, entry := range entries {
		fd, _ := strconv.Atoi(entry.Name())
		open[fd] = true
	}
	free := 0
	for open[free] {
		free++
	}
	var before unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		t.Fatal(err)
	}
	limit := func(l unix.Rlimit) {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &l, nil); err != nil {
			t.Error(err)
		}
	}
	limit(unix.Rlimit{Cur: uint64(free), Max: before.Max})
	return func() { limit(before) }
}

func TestAWardenWithoutDescriptorsEndsItsTrees(t *testing.T) {
	for _, kind := range []string{"plain", "isolated"} {
		t.Run(kind, func(t *testing.T) {
			spawner, e := newSpawner(t, sandbox.Options{}), ptyio.Enclosure(nil)
			if kind == "isolated" {
				spawner, e = isolating(t, workspace(t.TempDir()))
			}
			// The second process has left the group and the session, and the third its parent, too.
			const script = `(trap "" TERM; while :; do sleep 0.01; done) & setsid -w bash -c 'trap "echo asked; exit 0" TERM; echo ready; while :; do sleep 0.01; done' &
				(setsid sleep $1 &) ; trap "wait; exit 7" TERM; echo leader; wait; wait`
			var children []ptyio.Child
			var records []*recorder
			tokens := []string{newToken(), newToken(), newToken()}
			for _, token := range tokens {
				l := bash(false, script, token)
				l.Sandbox = e
				child, record := run(t, spawner, l)
				record.awaitOutput(t, "ready")
				record.awaitOutput(t, "leader")
				eventually(t, "the daemon runs", func() bool { return len(sleepers(token)) == 1 })
				children, records = append(children, child), append(records, record)
			}
			warden := wardenAbove(children[0].PID())
			restore := withoutDescriptors(t, warden)
			defer restore()
			l := launch(false, "true")
			l.Events = func(ptyio.Event) {}
			_, err := spawner.Spawn(t.Context(), l)
			if err == nil || !strings.Contains(err.Error(), "too many open files") {
				t.Errorf("a start: %v", err)
			}
			if err := children[0].Signal(syscall.SIGTERM, ptyio.Tree); err != nil {
				t.Error(err)
			}
			records[0].awaitOutput(t, "asked")
			children[0].EndTree(0)
			children[1].EndTree(soon) // it has a member that ignores SIGTERM
			records[1].awaitOutput(t, "asked")
			children[2].EndTree(0)
			for i, record := range records {
				if report := record.awaitEnd(t); len(report.Survivors) > 0 || !report.Airtight {
					t.Errorf("%+v", report)
				}
				noneLeft(t, tokens[i])
			}
			if status := awaitEvent[ptyio.Exited](t, records[1]).Status; status != messages.StatusSignaled(syscall.SIGKILL) {
				t.Errorf("status %v", status)
			}
			restore()
			_, record := run(t, spawner, launch(false, "true"))
			record.awaitEnd(t)
		})
	}
}
