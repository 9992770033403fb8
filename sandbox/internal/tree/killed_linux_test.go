package tree

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/executions"
	"github.com/execbus/execbus/sandbox/internal/seccomp"
)

// A leader that is killed in the call that makes its listener leaves that here, and cannot say where.
func TestALeaderThatIsKilledLeavesNoListener(t *testing.T) {
	if err := executions.Refused(); err != nil {
		t.Skipf("skipped: no listener here: %v", err)
	}
	suicide := birth.Call("kill", unix.SYS_KILL, birth.Number(0), birth.Number(int(unix.SIGKILL))) // its group, which is it
	for _, when := range []string{"before", "during", "after"} {
		filter, err := executions.NewFilter()
		if err != nil {
			t.Fatal(err)
		}
		switch when {
		case "before":
			filter.Steps = append([]birth.Step{suicide}, filter.Steps...)
		case "during": // the call returns, and what it returned is not kept
			filter.Kept = birth.NewMemory(^uint64(0), 0)
			listen := birth.Listen(seccomp.Executions(filter.Secret)).Keep(filter.Kept, 1)
			filter.Steps = []birth.Step{birth.NoNewPrivs(), listen, suicide}
		case "after":
			filter.Steps = append(filter.Steps, suicide)
		}
		f, said := NewForest(), make(chan report, 10)
		leader, err := f.Start(Spec{Program: "/bin/true", Argv: []string{"true"}, Dir: "/", Executions: filter,
			Exited: func(status Status) { said <- report{"exited", status} },
			Ended:  func(Report) { said <- report{what: "ended"} }})
		if err != nil {
			t.Fatal(err)
		}
		if known := leader.Listener() >= 0; known != (when == "after") {
			t.Errorf("%s: the listener is %d", when, leader.Listener())
		} else if known {
			_ = unix.Close(leader.Listener())
		}
		go leader.Watch()
		expect(t, said, report{"exited", Status{Signaled, int(unix.SIGKILL)}})
		expect(t, said, report{what: "ended"})
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if target, _ := os.Readlink("/proc/self/fd/" + entry.Name()); target == "anon_inode:seccomp notify" {
				t.Errorf("%s: descriptor %s is left", when, entry.Name())
			}
		}
	}
}
