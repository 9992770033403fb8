package actors

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
)

// yields is a command of an imagined child whose call answers after so long.
func yields(after time.Duration, words ...string) messages.ExecCommand {
	return messages.ExecCommand{Argv: words, Yield: &after, Grace: new(time.Hour)}
}

// waits checks an answer that came before its command had started.
func waits(t *testing.T, r *messages.Result, what string) {
	t.Helper()
	if !r.Running || !strings.Contains(r.Waiting, what) {
		t.Errorf("running %t, waiting %q, want %q", r.Running, r.Waiting, what)
	}
}

// runs checks that a process has started.
func runs(t *testing.T, s *talk, id messages.ProcessID) {
	t.Helper()
	synctest.Wait()
	if all := s.list(); !slices.ContainsFunc(all, func(p messages.ProcessInfo) bool { return p.Process == id && p.State == messages.StateRunning }) {
		t.Errorf("%d does not run: %+v", id, all)
	}
}

// kill ends a process that is being ended, without more grace.
func (s *talk) kill(id messages.ProcessID) {
	s.t.Helper()
	if _, err := ask[*messages.EndRecord](s.host, s.supervisor, messages.Terminate{Process: id, Grace: new(time.Duration)}); err != nil {
		s.t.Error(err)
	}
}

// full opens a session in which all processes are protected, and fills it. One process is being ended, and takes the
// grace that it is given.
func (b *bubble) full(most int) (s *talk, living []messages.ProcessID, ending messages.ProcessID, end waiting) {
	b.t.Helper()
	s = b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = most, most })
	for range most - 1 {
		living = append(living, s.exec(does("prompt", "wait")).Process)
	}
	ending = s.exec(does("prompt,stubborn", "wait")).Process
	end = s.call(messages.Terminate{Process: ending, Grace: new(time.Hour)})
	synctest.Wait()
	time.Sleep(shared.DefaultTeardown) // it holds no start back any more
	return s, living, ending, end
}

func TestAStartThatATreeHoldsBackGetsTheSlotOfThatTree(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 1, 1 })
		s.exec(yields(time.Second, "prompt", "leave:0", "sleep:500"))
		wantCode(t, s.exec(yields(time.Minute, "prompt", "exit:3")), 3)
	})
}

func TestAStartThatATreeHoldsBackSaysThatItWaits(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		s.exec(yields(time.Second, "prompt,stubborn", "leave:0", "sleep:500"))
		second := s.exec(yields(messages.MinYield, "prompt", "wait"))
		waits(t, second, "for the processes of an earlier command")
		time.Sleep(500 * time.Millisecond)
		runs(t, s, second.Process)
	})
}

func TestAStartWaitsForTheSlotOfAProcessThatIsBeingEnded(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s, living, ending, end := b.full(3)
		second := s.exec(yields(messages.MinYield, "prompt", "wait"))
		waits(t, second, "for the slot of another process")
		began := time.Now()
		_, err := ask[any](b.host, s.supervisor, does("prompt", "wait"))
		wantError(t, "one more than slots come free", err, messages.ErrLimitReached)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("it was refused after %v", waited)
		}
		if end.answered(0) {
			t.Error("the grace of a process that somebody ends was cut short")
		}
		s.kill(ending)
		runs(t, s, second.Process)
		s.typedNothing(living)
		if got := b.stats(); got.Processes != 3 {
			t.Errorf("%+v", got)
		}
	})
}

func TestAStartDoesNotWaitLongForASlotThatDoesNotComeFree(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s, _, ending, _ := b.full(1)
		for range 2 { // the second finds that the first waits no more
			began := time.Now()
			_, err := ask[any](b.host, s.supervisor, yields(time.Minute, "prompt", "wait"))
			full := wantError(t, "one too many", err, messages.ErrLimitReached)
			if waited := time.Since(began); waited != pruneGrace || !slices.Equal(full.Busy, []messages.ProcessID{ending}) {
				t.Errorf("it waited %v, and busy are %v, want %v", waited, full.Busy, ending)
			}
		}
		s.kill(ending)
		wantCode(t, s.exec(yields(time.Minute, "prompt", "exit:3")), 3)
	})
}

func TestAStartThatEndsWhileItWaitsLeavesTheSlotToTheNext(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s, _, ending, _ := b.full(1)
		s.kill(s.exec(yields(messages.MinYield, "prompt", "wait")).Process)
		next := s.exec(yields(messages.MinYield, "prompt", "wait"))
		waits(t, next, "for the slot of another process")
		s.kill(ending)
		runs(t, s, next.Process)
	})
}

func TestAStartThatWaitsGoesBeforeAGuest(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 2, 1 })
		living := s.exec(does("prompt", "wait")).Process
		ending := s.exec(does("prompt,stubborn", "wait")).Process
		guest := s.call(yields(messages.MaxYield, "prompt", "wait"))
		synctest.Wait()
		s.call(messages.Terminate{Process: ending, Grace: new(time.Hour)})
		synctest.Wait()
		time.Sleep(shared.DefaultTeardown)
		second := s.exec(yields(messages.MinYield, "prompt", "wait"))
		waits(t, second, "for the slot of another process")
		s.kill(ending)
		runs(t, s, second.Process)
		if guest.answered(0) {
			t.Error("the guest was answered")
		}
		s.typedNothing([]messages.ProcessID{living})
	})
}

func TestAStartThatWaitsForTheRuntimeSaysSo(t *testing.T) {
	inBubble(t, bubbleOptions{max: 1}, func(t *testing.T, b *bubble) {
		one, other := b.open(nil), b.open(nil)
		one.exec(does("prompt", "wait"))
		hold := newStop(isA[refuseSlots]) // due at the same moment as the call
		b.fault(hold.before)
		second := other.exec(yields(messages.MinYield, "prompt", "wait"))
		waits(t, second, "for a slot")
		<-hold.there
		close(hold.goes)
		synctest.Wait()
		_, err := ask[any](b.host, other.supervisor, messages.Poll{Process: second.Process})
		wantError(t, "a poll of the one that was refused", err, messages.ErrProcessEnded)
	})
}
