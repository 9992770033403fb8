package actors

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
)

// endSlowly begins the end of a process, which takes the grace of an hour. The process is not in use by that.
func (s *talk) endSlowly(id messages.ProcessID) {
	s.t.Helper()
	end := s.call(messages.Terminate{Process: id, Grace: new(time.Hour)})
	synctest.Wait()
	end.cancel()
	synctest.Wait()
	time.Sleep(shared.DefaultTeardown) // it holds no start back any more
}

// atOnceRefused checks that a start is refused without waiting.
func (s *talk) atOnceRefused(what string) {
	s.t.Helper()
	began := time.Now()
	_, err := ask[any](s.host, s.supervisor, yields(time.Minute, "prompt", "wait"))
	wantError(s.t, what, err, messages.ErrLimitReached)
	if waited := time.Since(began); waited != 0 {
		s.t.Errorf("%s was refused after %v", what, waited)
	}
}

func TestALaterStartDoesNotTakeTheSlotThatAnEarlierOneWaitsFor(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 2, 1 })
		busy := s.exec(does("prompt", "wait")).Process
		s.call(messages.Poll{Process: busy, NoTimeout: true})
		ending := s.exec(does("prompt,stubborn", "wait")).Process
		s.endSlowly(ending)
		first := s.exec(yields(messages.MinYield, "prompt", "wait"))
		waits(t, first, "for the slot of another process")
		s.call(messages.Poll{Process: busy, NoTimeout: true}) // now the process that is ending is not protected any more
		s.atOnceRefused("a later start")
		s.kill(ending)
		runs(t, s, first.Process)
		s.typedNothing([]messages.ProcessID{busy})
	})
}

func TestAStartWhoseTimeIsOverTakesWhatANewOneWouldGet(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 2, 1 })
		busy := s.exec(does("prompt", "wait")).Process
		poll := s.call(messages.Poll{Process: busy, NoTimeout: true})
		ending := s.exec(does("prompt,stubborn", "wait")).Process
		s.endSlowly(ending)
		start := s.exec(yields(messages.MinYield, "prompt", "wait"))
		waits(t, start, "for the slot of another process")
		poll.cancel()
		time.Sleep(pruneGrace)
		runs(t, s, start.Process)
		s.typedNothing([]messages.ProcessID{ending})
		if end := s.ended(busy); end.By != messages.TerminatedByPrune {
			t.Errorf("%v", &end.EndRecord)
		}
	})
}

func TestStartsGetSlotsInTheirOrderWhicheverComesFree(t *testing.T) {
	inBubble(t, bubbleOptions{max: 3}, func(t *testing.T, b *bubble) {
		s := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 3, 1 })
		pruned := does("prompt,stubborn", "wait")
		pruned.Grace = new(time.Hour)
		s.exec(pruned)
		ending := s.exec(does("prompt,stubborn", "wait")).Process
		s.exec(does("prompt", "wait"))
		s.call(messages.Terminate{Process: ending, Grace: new(time.Hour)}) // and be in use by that
		synctest.Wait()
		time.Sleep(shared.DefaultTeardown)
		var starts []messages.ProcessID
		for n := range 2 { // the first is a guest until the runtime refuses it
			time.Sleep(time.Duration(n) * shared.DefaultTeardown)
			start := s.exec(yields(2*messages.MinYield, "prompt", "wait"))
			waits(t, start, "for the slot of another process")
			starts = append(starts, start.Process)
		}
		s.kill(ending)
		runs(t, s, starts[0])
		if info := must[messages.ProcessInfo](b.host, s.supervisor, protocol.DescribeProcess{Process: starts[1]}); info.State != messages.StateStarting {
			t.Errorf("the second is %s", info.State)
		}
		time.Sleep(pruneGrace)
		runs(t, s, starts[1])
		if got := b.stats(); got.Processes != 3 || got.Started != 5 {
			t.Errorf("%+v", got)
		}
	})
}

func TestNoStartWaitsForTheSlotOfACommandThatMayBeTriedAgain(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 1, 1 })
		retried := s.call(yields(time.Minute, "prompt,parent", "denied", "exit:3", "retry"))
		synctest.Wait()
		time.Sleep(shared.DefaultTeardown) // its exit is being judged, and its children hold no start back any more
		if info := s.list()[0]; info.State != messages.StateRunning {
			t.Fatalf("%+v", info)
		}
		s.atOnceRefused("a start beside it")
		wantCode(t, retried.result(), 3)
	})
}

// crowded is a full session whose newest process has no slot of the runtime's yet, and a start that waits for the slot of
// one that is being ended. The other session has the slot that is missing.
func (b *bubble) crowded() (s *talk, ending messages.ProcessID, start *messages.Result, elsewhere func()) {
	b.t.Helper()
	s, other := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 2, 2 }), b.open(nil)
	away := other.exec(does("prompt", "wait")).Process
	ending = s.exec(does("prompt,stubborn", "wait")).Process
	s.endSlowly(ending)
	refused := s.call(yields(time.Minute, "prompt", "wait"))
	synctest.Wait()
	start = s.exec(yields(messages.MinYield, "prompt", "wait"))
	_, err := refused.reply()
	wantError(b.t, "the one without a slot of the runtime", err, messages.ErrLimitReached)
	synctest.Wait()
	return s, ending, start, func() { other.kill(away) }
}

func TestAStartThatWaitsGetsTheSlotThatAnotherGivesUp(t *testing.T) {
	inBubble(t, bubbleOptions{max: 2}, func(t *testing.T, b *bubble) {
		s, ending, start, free := b.crowded()
		free()
		runs(t, s, start.Process)
		s.typedNothing([]messages.ProcessID{ending})
		if got := b.stats(); got.Processes != 2 || got.Started != 3 {
			t.Errorf("%+v", got)
		}
	})
}

func TestAStartThatHasASlotGetsTheCountOfAProcessThatEnds(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second} { // before the runtime refuses it, and afterwards
		inBubble(t, bubbleOptions{max: 2}, func(t *testing.T, b *bubble) {
			s, ending, start, free := b.crowded()
			time.Sleep(after)
			s.kill(ending)
			runs(t, s, start.Process)
			if got := b.stats(); got.Processes != 2 || got.Started != 3 {
				t.Errorf("%+v", got)
			}
			free()
			next := s.exec(does("prompt", "wait")).Process // nothing is taken twice
			runs(t, s, next)
		})
	}
}

func TestAStartThatHasASlotIsRefusedWhenItsTimeIsOver(t *testing.T) {
	inBubble(t, bubbleOptions{max: 2}, func(t *testing.T, b *bubble) {
		s, ending, start, free := b.crowded()
		waited := s.call(messages.Poll{Process: start.Process, NoTimeout: true})
		time.Sleep(pruneGrace - messages.MinYield - time.Millisecond)
		if waited.answered(0) {
			t.Error("it was refused early")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		_, err := answerIs(t, waited)
		wantError(t, "the start", err, messages.ErrLimitReached)
		free()
		next := s.exec(does("prompt", "wait")).Process
		runs(t, s, next)
		s.typedNothing([]messages.ProcessID{ending})
		_, err = ask[any](b.host, s.supervisor, yields(time.Minute, "prompt", "wait"))
		if full := wantError(t, "one more", err, messages.ErrLimitReached); !slices.Equal(full.Busy, []messages.ProcessID{ending, next}) {
			t.Errorf("busy: %v", full.Busy)
		}
	})
}

func TestAGuestTakesAFreeSlotWhenItIsCounted(t *testing.T) {
	inBubble(t, bubbleOptions{max: 2}, func(t *testing.T, b *bubble) {
		s, other := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 2, 0 }), b.open(nil)
		elsewhere := other.exec(does("prompt", "wait")).Process
		living := s.exec(does("prompt", "wait")).Process
		refused := s.call(does("prompt", "wait"))
		time.Sleep(50 * time.Millisecond)
		guest := s.call(does("prompt", "wait"))
		_, err := refused.reply()
		wantError(t, "the one without a slot of the runtime", err, messages.ErrLimitReached)
		other.kill(elsewhere)
		s.typedNothing([]messages.ProcessID{guest.result().Process, living})
	})
}

func TestAStartThatWaitsSwapsItsClaimWithAGuest(t *testing.T) {
	inBubble(t, bubbleOptions{max: 4}, func(t *testing.T, b *bubble) {
		s, other := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 3, 0 }), b.open(nil)
		elsewhere := other.exec(does("prompt", "wait")).Process
		slow := does("prompt,stubborn", "wait")
		slow.Grace = new(time.Hour)
		pruned, promised, living := s.exec(slow).Process, s.exec(does("prompt", "wait")).Process, s.exec(does("prompt", "wait")).Process
		first := s.exec(yields(2*messages.MinYield, "prompt", "wait"))
		waits(t, first, "for the slot of another process")
		time.Sleep(shared.DefaultTeardown)
		other.kill(elsewhere)
		call, guest := b.running(s, "prompt", "wait")
		s.kill(promised)
		runs(t, s, first.Process)
		s.typedNothing([]messages.ProcessID{pruned})
		call.cancel() // now the guest needs its slot
		synctest.Wait()
		s.ended(pruned)
		s.typedNothing([]messages.ProcessID{first.Process, living, guest})
		if got := b.stats(); got.Processes != 3 {
			t.Errorf("%+v", got)
		}
	})
}

func TestAStartThatWaitsForItsCountNeitherEndsOthersNorIsEnded(t *testing.T) {
	inBubble(t, bubbleOptions{max: 2}, func(t *testing.T, b *bubble) {
		s, other := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 2, 0 }), b.open(nil)
		other.exec(does("prompt", "wait"))
		ending := s.exec(does("prompt,stubborn", "wait")).Process
		end := s.call(messages.Terminate{Process: ending, Grace: new(time.Hour)})
		synctest.Wait()
		time.Sleep(shared.DefaultTeardown)
		refused := s.call(yields(time.Minute, "prompt", "wait"))
		synctest.Wait()
		start := s.exec(yields(messages.MinYield, "prompt", "wait"))
		_, err := refused.reply()
		wantError(t, "the one without a slot of the runtime", err, messages.ErrLimitReached)
		time.Sleep(time.Second) // the runtime has refused the start, too
		s.atOnceRefused("a later start")
		s.typedNothing([]messages.ProcessID{start.Process})
		end.cancel() // now the process that is ending could be chosen
		time.Sleep(pruneGrace)
		if _, err := ask[any](b.host, s.supervisor, messages.Poll{Process: start.Process}); err == nil {
			t.Error("the start was not refused")
		}
		s.typedNothing([]messages.ProcessID{ending})
	})
}

func TestAStartThatWaitsIsRefusedAtOnceWhileTheSpawnerHangs(t *testing.T) {
	inBubble(t, bubbleOptions{max: 2}, func(t *testing.T, b *bubble) {
		s, other := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 2, 2 }), b.open(nil)
		_, hanging := b.running(other, "spawn=hang", "wait")
		ending := s.exec(does("prompt,stubborn", "wait")).Process
		s.endSlowly(ending)
		other.call(messages.Terminate{Process: hanging})
		synctest.Wait()
		time.Sleep(soon.Spawn - 100*time.Millisecond)
		first := s.call(yields(time.Minute, "prompt", "wait"))
		synctest.Wait()
		second := s.call(yields(time.Minute, "prompt", "wait"))
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		for _, start := range []waiting{first, second} {
			_, err := answerIs(t, start)
			wantError(t, "a start", err, messages.ErrRuntimeFailure)
		}
	})
}

func TestAStartWithAVictimTakesASlotThatComesFreeBefore(t *testing.T) {
	inBubble(t, bubbleOptions{max: 3}, func(t *testing.T, b *bubble) {
		s, other := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 3, 0 }), b.open(nil)
		away := other.exec(does("prompt", "wait")).Process
		slow := does("prompt,stubborn", "wait")
		slow.Grace = new(time.Hour)
		victim, ending := s.exec(slow).Process, s.exec(slow).Process
		s.call(messages.Terminate{Process: ending, Grace: new(time.Hour)})
		synctest.Wait()
		held := s.exec(yields(messages.MinYield, "prompt", "wait")) // its call has gone when it wants a slot, so it will be no guest
		waits(t, held, "for the processes of an earlier command")
		time.Sleep(shared.DefaultTeardown - messages.MinYield - 100*time.Millisecond)
		_, err := ask[any](b.host, s.supervisor, yields(time.Minute, "prompt", "wait")) // it has the last slot when the other wants one
		wantError(t, "the one without a slot of the runtime", err, messages.ErrLimitReached)
		other.kill(away)
		runs(t, s, held.Process)
		s.typedNothing([]messages.ProcessID{victim, ending})
		if got := b.stats(); got.Processes != 3 || got.Started != 4 {
			t.Errorf("%+v", got)
		}
		s.kill(ending)
		s.kill(victim)
	})
}

func TestAGuestThatTheRuntimeRefusesTakesAFreeSlot(t *testing.T) {
	inBubble(t, bubbleOptions{max: 2}, func(t *testing.T, b *bubble) {
		s, other := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 2, 0 }), b.open(nil)
		other.exec(does("prompt", "wait"))
		slow := does("prompt,stubborn", "wait")
		slow.Grace = new(time.Hour)
		victim := s.exec(slow).Process
		refused := s.call(yields(time.Minute, "prompt", "wait"))
		time.Sleep(50 * time.Millisecond)
		guest := s.exec(yields(2*messages.MinYield, "prompt", "wait"))
		waits(t, guest, "for the slot of another process")
		_, err := refused.reply()
		wantError(t, "the one without a slot of the runtime", err, messages.ErrLimitReached)
		time.Sleep(shared.DefaultTeardown) // the victim holds no start back any more
		s.atOnceRefused("a later start")
		s.kill(victim)
		runs(t, s, guest.Process)
	})
}
