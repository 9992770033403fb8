package actors

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/tests/probe"
)

func TestEachPollHasItsOwnClock(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		id := s.exec(does("prompt", "say:5", "wait")).Process
		synctest.Wait()
		long := s.call(messages.Poll{Process: id, NoTimeout: true})
		began := time.Now()
		short := s.call(messages.Poll{Process: id})
		if got := short.result(); len(got.Output) != 5 || time.Since(began) != messages.MinPoll {
			t.Errorf("%q after %v", got.Output, time.Since(began))
		}
		if long.answered(0) {
			t.Error("the poll before it was answered, too")
		}
	})
}

func TestARunTakesItsTime(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		for timeout, end := range map[*time.Duration]time.Duration{nil: 24 * time.Hour, new(time.Duration): 24 * time.Hour, new(time.Hour): time.Hour} {
			call := s.call(messages.RunCommand{Argv: []string{"prompt", "sleep:86400000", "say:3"}, Timeout: timeout})
			passes(24 * time.Hour)
			reply, err := call.reply()
			if got, is := reply.(*messages.RunResult); err != nil || !is || got.TimedOut != (end == time.Hour) || got.Duration != end {
				t.Errorf("%+v, %v", reply, err)
			}
		}
	})
}

// passes lets time pass, and everything happen that comes with it.
func passes(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestAPauseHoldsAClockAndDoesNotRestartIt(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		call := s.call(messages.ExecCommand{Argv: []string{"prompt", "wait"}, Yield: new(10 * time.Second)})
		passes(6 * time.Second)
		for range 2 { // pauses nest
			must[protocol.Done](b.host, s.supervisor, protocol.PauseYields{})
		}
		late := s.call(messages.ExecCommand{Argv: []string{"prompt", "wait"}, Yield: new(messages.MinYield)})
		passes(time.Hour)
		must[protocol.Done](b.host, s.supervisor, protocol.ResumeYields{})
		passes(time.Hour)
		if call.answered(0) || late.answered(0) {
			t.Error("a clock was not held")
		}
		if got := s.exec(messages.ExecCommand{Argv: []string{"prompt", "say:4"}, Yield: new(messages.MinYield)}); got.Running || len(got.Output) != 4 {
			t.Errorf("an exit during the pause: %+v", got)
		}
		must[protocol.Done](b.host, s.supervisor, protocol.ResumeYields{})
		passes(messages.MinYield)
		if !late.answered(0) {
			t.Error("it is held without a pause")
		}
		passes(4*time.Second - messages.MinYield - time.Millisecond)
		if call.answered(0) {
			t.Error("the pause has shortened the wait")
		}
		passes(2 * time.Millisecond)
		if !call.answered(0) {
			t.Fatal("the clock started again")
		}
		if got := call.result(); got.WallTime < 9*time.Second || got.WallTime > 11*time.Second {
			t.Errorf("it waited %v", got.WallTime)
		}
		must[protocol.Done](b.host, s.supervisor, protocol.ResumeYields{}) // one too many does nothing
		if again := s.call(messages.ExecCommand{Argv: []string{"prompt", "wait"}, Yield: new(messages.MinYield)}); !again.result().Running {
			t.Error("it does not run")
		}
	})
}

func TestAnExitDuringAPauseIsAnsweredEvenIfTheYieldIsOver(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		must[protocol.Done](b.host, s.supervisor, protocol.PauseYields{})
		call := s.call(messages.ExecCommand{Argv: []string{"prompt", "sleep:60000", "say:4"}, Yield: new(messages.MinYield)})
		passes(59 * time.Second)
		if call.answered(0) {
			t.Error("the clock was not held")
		}
		got := call.result()
		wantCode(t, got, 0)
		if len(got.Output) != 4 || got.Running {
			t.Errorf("%+v", got)
		}
	})
}

func TestAQuestionHoldsTheClockOfItsOwnCallOnly(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := &asker{talk: b.open(nil)}
		s.listen()
		asked := s.call(messages.ExecCommand{Argv: []string{"prompt", "asked", "wait"}, Yield: new(messages.MinYield)})
		q := s.question()
		began := time.Now()
		if got := s.exec(messages.ExecCommand{Argv: []string{"prompt", "wait"}, Yield: new(messages.MinYield)}); !got.Running || time.Since(began) != messages.MinYield {
			t.Errorf("beside the question, after %v: %+v", time.Since(began), got)
		}
		passes(time.Hour)
		must[protocol.Done](b.host, s.supervisor, protocol.PauseYields{}) // the host's own pauses are counted apart
		must[protocol.Done](b.host, s.supervisor, protocol.ResumeYields{})
		passes(time.Hour)
		if asked.answered(0) {
			t.Error("the clock of the call that is asked about runs")
		}
		s.decide(q.ID, approved())
		if got := asked.result(); !got.Running || got.WallTime != messages.MinYield {
			t.Errorf("the time in which a person was asked counts: %+v", got)
		}
	})
}

func TestATimeoutDoesNotRunWhileSomebodyIsAsked(t *testing.T) {
	for name, argv := range map[string][]string{"before": {"prompt", "asked", "say:6"}, "after": {"prompt", "again", "denied", "say:6"}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
				s := &asker{talk: b.open(nil)}
				s.listen()
				call := s.call(messages.RunCommand{Argv: argv, Timeout: new(2 * time.Second)})
				q := s.question()
				passes(time.Hour)
				if call.answered(0) {
					t.Fatal("it timed out")
				}
				s.decide(q.ID, approved())
				reply, err := call.reply()
				if err != nil {
					t.Fatal(err)
				}
				if result := reply.(*messages.RunResult); result.TimedOut || len(result.Stdout) != 6 {
					t.Errorf("%+v", result)
				}
			})
		})
	}
}

// A run is judged, answered and ended even if no subscriber takes its output.
func TestARunDoesNotWaitForeverForAReader(t *testing.T) {
	for name, test := range map[string]struct {
		argv     []string
		timesOut bool
	}{
		"in a sandbox":     {[]string{"prompt,stuck", "say:3", "again", "exit:7"}, false},
		"as planned":       {[]string{"prompt,stuck", "say:3", "retry", "denied"}, true},
		"as somebody says": {[]string{"prompt,stuck", "say:3", "again", "denied"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
				s := &asker{talk: b.open(nil)}
				s.listen()
				call := s.call(messages.RunCommand{Argv: test.argv, Timeout: new(time.Second)})
				if name == "as somebody says" {
					s.answer(messages.DecisionApproved)
				}
				passes(10 * time.Second)
				reply, err := answerIs(t, call)
				result, is := reply.(*messages.RunResult)
				if err != nil || !is || result.TimedOut != test.timesOut || (result.Denial != nil) != test.timesOut || string(result.Stdout) != "xxx" {
					t.Fatalf("answered %+v, %v", reply, err)
				}
				must[protocol.Done](b.host, s.supervisor, protocol.TerminateAll{})
				synctest.Wait() // until the end has reached the subscriber
				if end := wantLastWords(t, b, s.talk)[firstProcess]; end.Total != 3 {
					t.Errorf("%+v", end)
				}
				if n := len(b.machine.all()); n != 1 {
					t.Errorf("%d attempts", n)
				}
			})
		})
	}
}

func TestANewcomerWaitsForASlotAndSaysSo(t *testing.T) {
	inBubble(t, bubbleOptions{max: 2*mostAbove + 1}, func(t *testing.T, b *bubble) {
		s, other := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = mostAbove+1, 0 }), b.open(nil)
		var victims []messages.ProcessID
		for range mostAbove + 1 {
			stubborn := does("prompt,stubborn", "wait")
			stubborn.Grace = new(time.Hour)
			victims = append(victims, s.exec(stubborn).Process)
		}
		synctest.Wait()
		for range mostAbove { // their calls wait, so they do not need another process's slot yet
			s.call(messages.RunCommand{Argv: []string{"prompt", "wait"}})
		}
		synctest.Wait()
		next := s.call(messages.ExecCommand{Argv: []string{"prompt", "wait"}, Yield: new(messages.MinYield)})
		synctest.Wait()
		passes(messages.MinYield)
		got := next.result()
		if !got.Running || !strings.Contains(got.Waiting, "slot") {
			t.Errorf("%+v", got)
		}
		if polled := s.call(messages.Poll{Process: got.Process, NoTimeout: true}); polled.answered(0) {
			t.Error("the poll of one that waits for its slot is answered")
		}
		passes(2*time.Second - messages.MinYield - time.Millisecond)
		if ends := probe.Of[messages.ExecEnded](s.events, nil); len(ends) > 0 {
			t.Errorf("no grace: %+v", ends)
		}
		// The slot that becomes free is the newcomer's: another session, which waits for one too, must not get it.
		thief := other.call(does("prompt", "wait"))
		passes(2 * time.Millisecond)
		ends := probe.Of(s.events, func(e messages.ExecEnded) bool { return e.By == messages.TerminatedByPrune })
		if len(ends) != 1 || ends[0].Process != victims[0] {
			t.Errorf("ended: %+v", ends)
		}
		if started := probe.Of(s.events, func(e messages.ExecStarted) bool { return e.Process == got.Process }); len(started) != 1 {
			t.Error("the newcomer did not get the slot")
		}
		_, err := thief.reply()
		wantError(t, "the other session", err, messages.ErrLimitReached)
		s.typedNothing(victims[1:])
		for _, child := range b.machine.all() {
			child.kill()
		}
	})
}

func TestAWaitingWriteIsOneStep(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		id := s.exec(does("prompt", "cat")).Process
		began := time.Now()
		one := s.call(messages.WriteStdin{Process: id, Bytes: []byte("one\n")})
		two := s.call(messages.WriteStdin{Process: id, Bytes: []byte("two\n")})
		three := s.call(messages.WriteStdin{Process: id, Bytes: []byte("three\n")})
		behind := s.call(messages.WriteStdin{Process: id, Bytes: []byte("behind\n"), UntilTaken: true})
		two.cancel() // before its turn: its bytes are never sent
		_, err := two.reply()
		wantError(t, "the cancelled write", err, messages.ErrCancelled)
		synctest.Wait()
		if behind.answered(0) {
			t.Error("bytes overtook bytes")
		}
		if got := one.result(); string(got.Output) != "one\n" || got.Taken != 4 {
			t.Errorf("the first write: %+v", got)
		}
		must[protocol.Done](b.host, s.supervisor, messages.CloseStdin{Process: id}) // behind all of them
		if got := three.result(); string(got.Output) != "three\n" || time.Since(began) != 2*messages.MinYield {
			t.Errorf("the third write: %q after %v", got.Output, time.Since(began))
		}
		if got := behind.result(); got.Taken != 7 {
			t.Errorf("the last write: %+v", got)
		}
		if end := s.ended(id); string(end.Transcript) != "one\nthree\nbehind\n" {
			t.Errorf("%q", end.Transcript)
		}
	})
}

func TestWritesOnTwoSessionsProgressTogether(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		one, other := b.open(nil), b.open(nil)
		its, others := one.exec(does("prompt", "cat")).Process, other.exec(does("prompt", "cat")).Process
		const yield = time.Second
		began := time.Now()
		first := one.call(messages.WriteStdin{Process: its, Bytes: []byte("one\n"), Yield: new(yield)})
		second := other.call(messages.WriteStdin{Process: others, Bytes: []byte("two\n"), Yield: new(yield)})
		if a, b := first.result(), second.result(); string(a.Output) != "one\n" || string(b.Output) != "two\n" {
			t.Errorf("%q, %q", a.Output, b.Output)
		}
		if took := time.Since(began); took != yield {
			t.Errorf("both took %v", took)
		}
	})
}

func TestTwoProcessesOfASessionDoNotWaitForEachOther(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		ids := []messages.ProcessID{s.exec(does("prompt", "cat")).Process, s.exec(does("prompt", "cat")).Process}
		for i, id := range ids {
			other := ids[1-i]
			held := s.call(messages.WriteStdin{Process: other, Bytes: []byte("true\n"), Yield: new(messages.MaxYield)})
			if got := s.write(id, "last\n"); !strings.HasSuffix(string(got.Output), "last\n") || got.Process != id {
				t.Errorf("%+v", got)
			}
			if held.answered(0) {
				t.Error("the other call did not wait: then this test shows nothing")
			}
			held.cancel()
		}
	})
}

func TestAWriteEndsAPollThatWaitsBetweenItAndAnother(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		id := s.exec(does("prompt", "wait")).Process
		calls := []waiting{s.call(messages.WriteStdin{Process: id, Bytes: []byte("one\n"), Yield: new(messages.MinYield)}),
			s.call(messages.Poll{Process: id, NoTimeout: true}),
			s.call(messages.WriteStdin{Process: id, Bytes: []byte("two\n"), Yield: new(messages.MinYield)})}
		for _, call := range calls {
			if got := call.result(); !got.Running {
				t.Errorf("%+v", got)
			}
		}
	})
}

func TestOutputThatComesBehindTheExitIsAwaitedWhileItComes(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		drips := func(n, every int) messages.ExecCommand {
			argv := []string{"prompt", "sleep:240", "trail"}
			for range n {
				argv = append(argv, fmt.Sprint("sleep:", every), "say:4")
			}
			return messages.ExecCommand{Argv: argv, Yield: new(messages.MinYield)}
		}
		extra := mostExtras * ptyio.DrainWait
		for _, test := range []struct {
			name      string
			n, every  int // milliseconds
			got       int // bytes
			from, til time.Duration
		}{
			{"all", 20, 30, 80, 0, 850 * time.Millisecond},
			{"no end", 200, 30, 4 * 33, messages.MinYield + extra, messages.MinYield + extra},
			{"too late", 1, 400, 0, messages.MinYield + ptyio.DrainWait, messages.MinYield + ptyio.DrainWait},
		} {
			got := s.exec(drips(test.n, test.every))
			if got.Running || len(got.Output) != test.got || got.WallTime < test.from || got.WallTime > test.til {
				t.Errorf("%s: running %t, %d bytes after %v", test.name, got.Running, len(got.Output), got.WallTime)
			}
		}
	})
}

func TestTheAnswerAtTheExitTellsOfEarlierWrites(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		for kind, reported := range map[string]time.Duration{"prompt,unread": 20 * time.Millisecond, "unread": 20 * time.Millisecond, "mute": ptyio.DrainWait} {
			id := s.exec(does(kind, "sleep:1000")).Process
			written := s.call(messages.WriteStdin{Process: id, Bytes: []byte("12345"), Yield: new(messages.MinYield)}).result()
			if !written.Running || written.Pending != 5 {
				t.Errorf("%s: running %t, %d bytes pending", kind, written.Running, written.Pending)
			}
			last := s.call(messages.Poll{Process: id, NoTimeout: true}).result()
			if want := time.Second - messages.MinYield + reported; last.Running || last.WallTime != want {
				t.Errorf("%s: running %t, answered after %v, want %v", kind, last.Running, last.WallTime, want)
			}
			if told := len(last.EarlierInput) == 1 && last.EarlierInput[0].Bytes == 5 && last.EarlierInput[0].Taken == 0; told != (kind != "mute") {
				t.Errorf("%s: %+v", kind, last.EarlierInput)
			}
		}
	})
}
