package warden

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/executions"
	"github.com/execbus/execbus/sandbox/internal/tree"
)

// Such a leader counts as started, and has no listener. The memory killer of the kernel, for one, does that.
func TestALeaderThatIsKilledBeforeItHasAListenerIsNotWatched(t *testing.T) {
	if err := executions.Refused(); err != nil {
		t.Skipf("skipped: no listener here: %v", err)
	}
	filter, err := executions.NewFilter()
	if err != nil {
		t.Fatal(err)
	}
	filter.Steps = append([]birth.Step{birth.Call("kill", unix.SYS_KILL, birth.Number(0), birth.Number(int(unix.SIGKILL)))}, filter.Steps...)
	ended := make(chan bool)
	leader, err := tree.NewForest().Start(tree.Spec{Program: "/bin/true", Argv: []string{"true"}, Dir: "/", Executions: filter,
		Exited: func(tree.Status) {}, Ended: func(tree.Report) { close(ended) }})
	if err != nil {
		t.Fatal(err)
	}
	w := &warden{watches: map[uint64]*executions.Watch{}}
	w.see(&child{tree: leader, wanted: &executions.Wanted{Report: true}})
	if len(w.watches) > 0 {
		t.Error("it is watched")
	}
	leader.Watch()
	<-ended
}
