package actors

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/probe"
)

// running starts a command whose first call keeps waiting, and returns its id.
func (b *bubble) running(s *talk, words ...string) (waiting, messages.ProcessID) {
	b.t.Helper()
	c := s.call(messages.ExecCommand{Argv: words, Yield: new(messages.MaxYield)})
	synctest.Wait()
	all := s.list()
	return c, all[len(all)-1].Process
}

func TestWhatIsWrittenBetweenTwoAttemptsIsForTheSecond(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		_, id := b.running(s, "prompt,parent", "sleep:1000", "denied", "retry", "cat")
		time.Sleep(1001 * time.Millisecond) // the first is denied, and its tree lives for 2 s more
		requests := []waiting{s.call(repeatable(id, "a")), s.call(repeatable(id, "b")), s.call(messages.CloseStdin{Process: id})}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		for i, request := range requests {
			if _, err := answerIs(t, request); err != nil {
				t.Errorf("request %d: %v", i, err)
			}
		}
		if ends := s.endsOf(id); len(ends) != 1 || ends[0].Cause != messages.CauseExited || string(ends[0].Transcript) != "ab" {
			t.Errorf("it ended: %+v", ends)
		}
	})
}

func TestAPauseDoesNotBeginTheClockOfAWriteThatWaitsForItsTurn(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		id := s.exec(does("prompt", "cat")).Process
		s.call(messages.WriteStdin{Process: id, Bytes: []byte("a"), Yield: new(20 * time.Second)})
		second := s.call(messages.WriteStdin{Process: id, Bytes: []byte("bb"), Yield: new(time.Second)})
		must[protocol.Done](b.host, s.supervisor, protocol.PauseYields{})
		must[protocol.Done](b.host, s.supervisor, protocol.ResumeYields{})
		time.Sleep(30 * time.Second)
		synctest.Wait()
		reply, err := answerIs(t, second)
		if result, ok := reply.(*messages.Result); !ok || result.Taken != 2 || string(result.Output) != "bb" {
			t.Errorf("%+v %v", reply, err)
		}
	})
}

func TestASlotThatTheRuntimeRefusesDoesNotGoToAProcessThatWillGetABetterOne(t *testing.T) {
	inBubble(t, bubbleOptions{max: 2}, func(t *testing.T, b *bubble) {
		b.open(nil).exec(does("prompt", "wait"))
		s := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 2, 0 })
		s.exec(does("prompt,stubborn", "wait"))
		refused := s.call(does("prompt", "wait")) // has the session's last slot, and gets none of the runtime's
		time.Sleep(50 * time.Millisecond)
		successor := s.call(does("prompt", "wait")) // is to get that of the stubborn one, which both count
		time.Sleep(10 * time.Second)
		synctest.Wait()
		_, err := answerIs(t, refused)
		wantError(t, "the refused start", err, messages.ErrLimitReached)
		if _, err := answerIs(t, successor); err != nil {
			t.Errorf("the successor: %v", err)
		}
	})
}

func TestARequestToAChildThatAnotherFollowsIsAnswered(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		_, id := b.running(s, "resize=tarry", "sleep:100", "denied", "retry", "wait")
		resized := s.call(messages.Resize{Process: id, Size: messages.Size{Rows: 24, Cols: 80}})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if _, err := answerIs(t, resized); err == nil {
			t.Error("resized")
		}
	})
}

func TestAGuestWhoseCallIsCancelledDoesNotRemainOne(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 2, 0 })
		s.exec(does("prompt", "wait"))
		s.exec(does("prompt", "wait"))
		call, _ := b.running(s, "prompt", "wait")
		if len(s.list()) != 3 {
			t.Fatal("it is no guest")
		}
		call.cancel()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(s.list()); n != 2 {
			t.Errorf("%d processes live, of 2", n)
		}
	})
}

func TestACommandThatYieldedBeforeItsSlotIsNoGuest(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 3, 0 })
		stubborn := does("prompt,stubborn", "wait")
		stubborn.Grace = new(time.Hour)
		ends := s.exec(stubborn).Process
		s.exec(does("prompt", "wait"))
		s.exec(does("prompt", "wait"))
		s.call(messages.Terminate{Process: ends}) // holds the next start back, longer than it yields
		s.call(messages.ExecCommand{Argv: []string{"prompt", "wait"}, Yield: new(messages.MinYield)})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(s.list()); n != 3 {
			t.Errorf("%d processes live, of 3", n)
		}
		must[*messages.EndRecord](b.host, s.supervisor, messages.Terminate{Process: ends, Grace: new(time.Duration)})
	})
}

func TestNothingIsStartedWhileASpawnerHangs(t *testing.T) {
	inBubble(t, bubbleOptions{max: 1}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		s.call(does("spawn=hang"))
		synctest.Wait()
		s.call(messages.Terminate{Process: s.list()[0].Process})
		time.Sleep(soon.Spawn - 50*time.Millisecond)
		next := s.call(does("prompt", "wait"))
		time.Sleep(time.Second)
		synctest.Wait()
		if _, err := answerIs(t, next); err == nil {
			t.Error("another was started while the spawner hung")
		}
	})
}

func TestAWriteThatAForeignChildNeverReportsHoldsNoAttempt(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		first, id := b.running(s, "mute", "sleep:1000", "denied", "retry")
		s.call(messages.WriteStdin{Process: id, Bytes: []byte("a"), Yield: new(time.Second)})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		reply, err := answerIs(t, first)
		if result, ok := reply.(*messages.Result); !ok || result.Running {
			t.Errorf("%+v %v", reply, err)
		}
	})
}

func TestACrashWhileAnotherAttemptIsNotBornEnds(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		_, id := b.running(s, "prompt,respawn=hang", "denied", "retry")
		b.crash(b.only("/process$"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(s.endsOf(id)) != 1 {
			t.Errorf("%d ends", len(s.endsOf(id)))
		}
	})
}

func TestATreeThatBeganToEndLaterHoldsNoEarlierStartBack(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		stubborn := does("prompt,stubborn", "wait")
		stubborn.Grace = new(900 * time.Millisecond)
		var ids []messages.ProcessID
		for range 6 {
			ids = append(ids, s.exec(stubborn).Process)
		}
		s.call(messages.Terminate{Process: ids[0]})
		next := s.call(does("prompt", "wait"))
		for _, id := range ids[1:] {
			time.Sleep(800 * time.Millisecond)
			s.call(messages.Terminate{Process: id})
		}
		synctest.Wait()
		answerIs(t, next)
		time.Sleep(5 * time.Second)
	})
}

func TestAReaderIsToldThatTheOutputHasEndedWhileTheLeaderLives(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	id := s.exec(quick("exec >&- 2>&-; exec sleep 1000")).Process
	probe.Expect(s.events, patience, func(e messages.OutputClosed) bool { return e.Process == id })
	page := s.call(messages.ReadOutput{Process: id, Offset: new(int64), Wait: messages.MaxReadWait})
	if !page.answered(5 * time.Second) {
		t.Error("it waits for output that cannot come")
	}
}

func TestAJobBehindOneThatEndsItsProcessIsNotBegun(t *testing.T) {
	var crashed bool
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		b.fault(func(_ *system.PID, message any) {
			if _, is := message.(system.Crashed); is {
				crashed = true
			}
		})
		s := b.open(nil)
		id := s.exec(does("write=tarry", "sleep:100")).Process
		s.call(messages.WriteStdin{Process: id, Bytes: []byte("a"), Yield: new(time.Second)})
		resized := s.call(messages.Resize{Process: id, Size: messages.Size{Rows: 24, Cols: 80}})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if _, err := answerIs(t, resized); err == nil {
			t.Error("resized")
		}
		if crashed {
			t.Error("its actor crashed")
		}
	})
}

func TestAPollOfAProcessWhoseEndIsHeldBackIsToldOfTheEnd(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(func(c *shared.SessionConfig) {
			c.Approver = func(ctx context.Context, _ messages.Question) (messages.Decision, error) {
				<-ctx.Done()
				return messages.Decision{}, ctx.Err()
			}
		})
		gate := newStop(func(self *system.PID, message any) bool {
			return isA[protocol.Withdraw](self, message) && strings.Contains(self.Id, "approval")
		})
		b.fault(gate.before)
		_, id := b.running(s, "prompt", "say:10", "denied", "again")
		if len(s.endsOf(id)) > 0 {
			t.Fatal("nobody was asked")
		}
		s.call(messages.Terminate{Process: id})
		<-gate.there
		time.Sleep(10 * time.Second)
		poll := s.call(messages.Poll{Process: id})
		synctest.Wait()
		close(gate.goes)
		synctest.Wait()
		_, err := answerIs(t, poll)
		wantError(t, "the poll", err, messages.ErrProcessEnded)
	})
}

func TestAGuestWhoseVictimEndsGetsItsSlotOfTheRuntime(t *testing.T) {
	inBubble(t, bubbleOptions{max: 1}, func(t *testing.T, b *bubble) {
		other := b.open(nil)
		s := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 1, 0 })
		s.exec(does("prompt", "sleep:200"))
		foreign := other.call(does("prompt", "wait"))
		synctest.Wait()
		guest := s.call(does("prompt", "wait"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if _, err := answerIs(t, guest); err != nil {
			t.Errorf("the slot went elsewhere: %v", err)
		}
		_, err := answerIs(t, foreign)
		wantError(t, "the start that waited for a slot of the runtime", err, messages.ErrLimitReached)
		if got := b.stats(); got.Processes != 1 {
			t.Errorf("%+v", got)
		}
	})
}

func TestAReadThatDoesNotSayWhereToBeginIsRefusedAtOnce(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		id := s.exec(does("prompt", "wait")).Process
		r := s.call(messages.ReadOutput{Process: id, Wait: 100 * time.Second})
		time.Sleep(time.Second)
		synctest.Wait()
		_, err := answerIs(t, r)
		wantError(t, "the read", err, messages.ErrInvalidRequest)
	})
}
