package actors

import (
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
)

// leaves is a command that leaves a child behind, which does not end at once when it is asked to.
func leaves(dying string) messages.ExecCommand {
	return shell(`(trap '` + dying + `' TERM; echo $BASHPID > child; while :; do sleep 0.01; done) & until [ -s child ]; do sleep 0.01; done`)
}

// isAlive counts a zombie as dead: with the direct spawner another process has to reap it.
const isAlive = `read child < child; case $(cat /proc/$child/stat 2>/dev/null) in ""|*") Z "*) echo gone;; *) echo alive;; esac`

func TestATreeThatIsBeingEndedIsGoneBeforeTheNextCommand(t *testing.T) {
	for _, direct := range []bool{false, true} {
		s := newHost(t, hostOptions{direct: direct, teardown: patience}).open(nil)
		first := s.exec(leaves("sleep 0.2; exit"))
		if first.Background == nil || first.Background.Count == 0 {
			t.Fatalf("%+v", first)
		}
		if got := s.exec(shell(isAlive)); !strings.Contains(string(got.Output), "gone") {
			t.Errorf("direct %t: the next command: %q", direct, got.Output)
		}
	}
}

func TestATreeThatTakesLongHoldsOneStartBack(t *testing.T) {
	s := newHost(t, hostOptions{teardown: patience}).open(nil)
	stubborn := leaves("")
	stubborn.Grace = new(time.Hour)
	first := s.exec(stubborn)
	second := shell(isAlive)
	second.Yield = new(messages.MinYield)
	held := s.exec(second)
	for held.Running && held.Waiting == "" { // on a busy machine the start may not have come so far yet
		held = must[*messages.Result](s.host, s.supervisor, messages.Poll{Process: held.Process})
	}
	if !held.Running || !strings.Contains(held.Waiting, "an earlier command") {
		t.Fatalf("the command after it: %+v", held)
	}
	if got := s.exec(shell(isAlive)); !strings.Contains(string(got.Output), "alive") {
		t.Errorf("the command after the one that is held back: %q", got.Output)
	}
	must[*messages.EndRecord](s.host, s.supervisor, messages.Terminate{Process: first.Process, Grace: new(time.Duration)})
	if got := s.until(held, "gone"); !strings.Contains(string(got.Output), "gone") {
		t.Errorf("the one that is held back: %q", got.Output)
	}
}

func TestATreeThatTakesLongHoldsAStartBackForAWhileOnly(t *testing.T) {
	const teardown = 100 * time.Millisecond
	s := newHost(t, hostOptions{teardown: teardown}).open(nil)
	stubborn := leaves("")
	stubborn.Grace = new(time.Hour)
	began := time.Now()
	first := s.exec(stubborn)
	if got := s.exec(shell(isAlive)); !strings.Contains(string(got.Output), "alive") {
		t.Errorf("the next command: %q", got.Output)
	}
	if took := time.Since(began); took < teardown {
		t.Errorf("it took %v", took)
	}
	must[*messages.EndRecord](s.host, s.supervisor, messages.Terminate{Process: first.Process, Grace: new(time.Duration)})
}

func TestASessionMayKeepWhatCommandsLeaveBehind(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(func(c *shared.SessionConfig) { c.OnLeaderExit = messages.LeaderExitKeepsTree })
	first := s.exec(leaves("exit"))
	if first.Background == nil || !first.Background.Kept || !first.Running {
		t.Errorf("%+v", first)
	}
	if got := s.exec(shell(isAlive)); !strings.Contains(string(got.Output), "alive") {
		t.Errorf("the next command: %q", got.Output)
	}
	ends := shell("sleep 1000 & echo said")
	ends.OnLeaderExit = messages.LeaderExitEndsTree
	if got := s.exec(ends); got.Background == nil || got.Background.Kept {
		t.Errorf("one that says otherwise: %+v", got)
	}
}
