package actors

import (
	"bytes"
	"context"
	"maps"
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

func TestEffectiveWaits(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, test := range []struct {
		name      string
		effective func(*time.Duration) time.Duration
		requested *time.Duration
		want      time.Duration
	}{
		{name: "exec: default", effective: messages.ExecYield, want: 10 * s},
		{name: "exec: in range", effective: messages.ExecYield, requested: new(s), want: s},
		{name: "exec: too short", effective: messages.ExecYield, requested: new(ms), want: 250 * ms},
		{name: "exec: too long", effective: messages.ExecYield, requested: new(31 * s), want: 30 * s},
		{name: "exec: nothing", effective: messages.ExecYield, requested: new(0 * s), want: 250 * ms},
		{name: "write: default", effective: messages.WriteYield, want: 250 * ms},
		{name: "write: in range", effective: messages.WriteYield, requested: new(s), want: s},
		{name: "write: too short", effective: messages.WriteYield, requested: new(ms), want: 250 * ms},
		{name: "write: too long", effective: messages.WriteYield, requested: new(300 * s), want: 30 * s},
		{name: "poll: default", effective: pollUpTo(300 * s), want: 5 * s},
		{name: "poll: too short", effective: pollUpTo(300 * s), requested: new(250 * ms), want: 5 * s},
		{name: "poll: in range", effective: pollUpTo(300 * s), requested: new(60 * s), want: 60 * s},
		{name: "poll: too long", effective: pollUpTo(300 * s), requested: new(301 * s), want: 300 * s},
		{name: "poll: the session's own maximum", effective: pollUpTo(20 * s), requested: new(60 * s), want: 20 * s},
		{name: "poll: a maximum below the minimum", effective: pollUpTo(s), requested: new(60 * s), want: 5 * s},
	} {
		if got := test.effective(test.requested); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func pollUpTo(longest time.Duration) func(*time.Duration) time.Duration {
	return func(requested *time.Duration) time.Duration { return messages.PollYield(requested, longest) }
}

func TestACancelledCallTakesNothing(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	command := shell("echo kept; cat")
	command.OpenStdin = true
	first := s.call(command)
	id := probe.Expect[messages.ExecStarted](s.events, patience, nil).Process
	s.said(id, "kept")
	second := s.call(messages.Poll{Process: id, NoTimeout: true})
	third := s.call(messages.Poll{Process: id, NoTimeout: true})
	s.system.Send(s.supervisor, protocol.CancelWait{Waiter: "nobody"})
	first.cancel()
	third.cancel()
	for _, w := range []waiting{first, third} {
		_, err := w.reply()
		wantError(t, "a cancelled call", err, messages.ErrCancelled)
	}
	s.typed(id, "in\n") // ends the poll that waits
	if got := second.result(); !strings.HasPrefix(string(got.Output), "kept\n") || !got.Running {
		t.Errorf("the call that was not cancelled: %+v", got)
	}
	second.cancel() // of an answered call
	if live := s.list(); len(live) != 1 {
		t.Errorf("list: %+v", live)
	}
}

func TestAWriteEndsAPendingPollWithWhatItHas(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	command := quick("echo said; cat")
	command.OpenStdin = true
	id := s.exec(command).Process
	s.said(id, "said")
	endless := s.call(messages.Poll{Process: id, NoTimeout: true})
	long := s.call(messages.Poll{Process: id, Yield: new(messages.DefaultMaxPoll)})
	written := s.call(messages.WriteStdin{Process: id, Bytes: []byte("echoed\n")})
	if got := endless.result(); string(got.Output) != "said\n" || !got.Running {
		t.Errorf("the first poll: %+v", got)
	}
	if got := long.result(); len(got.Output) != 0 || !got.Running {
		t.Errorf("the second poll: %+v", got)
	}
	if got := s.until(written.result(), "echoed\n"); string(got.Output) != "echoed\n" || got.Taken != 7 || got.InputErr != nil {
		t.Errorf("the write: %+v", got)
	}
}

func TestControlNeverQueuesBehindALongPoll(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	id := s.exec(onTerminal(quick("trap 'echo usr1' USR1; trap 'stty size' WINCH; echo set; while :; do sleep 0.01; done"))).Process
	s.said(id, "set")
	poll := s.call(messages.Poll{Process: id, Yield: new(messages.DefaultMaxPoll)})
	must[any](h, s.supervisor, messages.Signal{Process: id, Signal: 10})
	s.said(id, "usr1")
	must[any](h, s.supervisor, messages.Resize{Process: id, Size: messages.Size{Rows: 7, Cols: 70}})
	s.said(id, "7 70")
	must[any](h, s.supervisor, messages.ReadOutput{Process: id, Tail: 10})
	if poll.answered(0) {
		t.Error("the poll has ended")
	}
	s.call(messages.Terminate{Process: id, Grace: new(time.Duration)})
	if got := poll.result(); got.Running || got.Status.Kind != messages.ExitSignal {
		t.Errorf("%+v", got)
	}
}

func TestUnreadOutputIsBoundedAndItsOmissionsAreCounted(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	const lines = 500_000 // of 7 bytes
	id := s.exec(quick("echo begin; yes abcdef | head -n 500000; echo tail-marker; " + idle)).Process
	s.said(id, "tail-marker")
	const all = 6 + lines*7 + 12
	poll := s.call(messages.Poll{Process: id, Yield: new(messages.DefaultMaxPoll)})
	s.call(messages.Signal{Process: id, Signal: 9})
	got := poll.result()
	if len(got.Output) != ptyio.DefaultBufferSize || int64(len(got.Output))+got.Omitted != all || got.Head != ptyio.DefaultBufferSize/2 {
		t.Errorf("%d bytes, head %d, %d omitted, want %d in all", len(got.Output), got.Head, got.Omitted, all)
	}
	if !bytes.HasPrefix(got.Output, []byte("begin\nabc")) || !bytes.HasSuffix(got.Output, []byte("abcdef\ntail-marker\n")) {
		t.Errorf("it begins with %q and ends with %q", got.Output[:10], got.Output[len(got.Output)-20:])
	}
	text := got.OutputText()
	if marker := messages.OmissionMarker(got.Omitted); strings.Count(text, strings.TrimSpace(marker)) != 1 {
		t.Errorf("the text has no marker: %.300q", text)
	}
	end := s.ended(id)
	if end.Total != all || !bytes.HasPrefix(end.Transcript, []byte("begin\n")) || !bytes.HasSuffix(end.Transcript, []byte("tail-marker\n")) ||
		!bytes.Contains(end.Transcript, []byte(" bytes omitted ...")) || len(end.Transcript) > ptyio.DefaultBufferSize+100 {
		t.Errorf("total %d, transcript %.20q", end.Total, end.Transcript)
	}
}

// gatedSpawn makes a spawner wait for its gate, and reports when it does.
func gatedSpawn() (o hostOptions, entered chan struct{}, open chan struct{}) {
	entered, open = make(chan struct{}, 100), make(chan struct{})
	o.seam.before = func(ctx context.Context, _ ptyio.Launch) error {
		entered <- struct{}{}
		select {
		case <-open:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return o, entered, open
}

func TestRequestsInAWrongStateAreAnsweredAtOnce(t *testing.T) {
	o, entered, open := gatedSpawn()
	h := newHost(t, o)
	s := h.open(nil)
	initial := s.call(messages.ExecCommand{Argv: []string{"cat"}, TTY: true, Yield: new(messages.MinYield)})
	<-entered
	starting := s.list()[0]
	if starting.State != messages.StateStarting {
		t.Errorf("it is %v", starting.State)
	}
	for _, message := range []any{messages.WriteStdin{Process: starting.Process, Bytes: []byte("x")},
		messages.WriteStdin{Process: starting.Process, UntilTaken: true}, messages.CloseStdin{Process: starting.Process},
		messages.Resize{Process: starting.Process}, messages.Signal{Process: starting.Process, Signal: 2}} {
		_, err := ask[any](h, s.supervisor, message)
		wantError(t, "while it starts", err, messages.ErrWrongState)
	}
	must[*messages.OutputPage](h, s.supervisor, messages.ReadOutput{Process: starting.Process, AfterSeq: new(uint64)})
	if got := initial.result(); !got.Running || got.Status != messages.StatusNone() {
		t.Errorf("the initial call, while it starts: %+v", got)
	}
	close(open)
	probe.Expect[messages.ExecStarted](s.events, patience, nil)
	if got := s.write(starting.Process, "x\n"); !got.Running {
		t.Errorf("%+v", got)
	}
	for _, wrong := range []any{messages.Signal{Process: starting.Process, Signal: 65}, messages.Poll{Process: starting.Process,
		NoTimeout: true, Yield: new(time.Duration(1))}, messages.WriteStdin{Process: starting.Process, Bytes: []byte("x"), NoTimeout: true},
		messages.ReadOutput{Process: starting.Process}, messages.ExecCommand{}, messages.ExecCommand{Script: "x", Argv: []string{"y"}},
		messages.ExecCommand{Argv: []string{"y"}, Yield: new(time.Duration(-1))}, messages.ExecCommand{Argv: []string{"y"}, Shell: "sh"}} {
		_, err := ask[any](h, s.supervisor, wrong)
		wantError(t, "a wrong request", err, messages.ErrInvalidRequest)
	}
}

func TestAProcessThatStartsCanBeTerminated(t *testing.T) {
	o, entered, _ := gatedSpawn()
	h := newHost(t, o)
	s := h.open(nil)
	initial := s.call(shell("echo never"))
	<-entered
	id := s.list()[0].Process
	record, err := s.terminate(id)
	if err != nil || record.Cause != messages.CauseTerminated || record.Status != messages.StatusNone() {
		t.Errorf("%v, %v", record, err)
	}
	_, err = initial.reply()
	wantError(t, "the initial call", err, messages.ErrProcessEnded)
	if end := s.ended(id); end.EndRecord.String() != record.String() || len(probe.Of[messages.ExecStarted](s.events, nil)) != 0 {
		t.Errorf("%v, %v", &end.EndRecord, s.events.Seen())
	}
}

// awaiting is a wait for the exits of all.
func awaiting(ids ...messages.ProcessID) messages.Wait {
	wait := messages.Wait{NoTimeout: true}
	for _, id := range ids {
		wait.For = append(wait.For, messages.WaitFor{Process: id})
	}
	return wait
}

// anyOf is a wait for the first exit.
func anyOf(ids ...messages.ProcessID) messages.Wait {
	wait := awaiting(ids...)
	wait.Any = true
	return wait
}

// within bounds a wait.
func within(d time.Duration, wait messages.Wait) messages.Wait {
	wait.NoTimeout, wait.Yield = false, &d
	return wait
}

// A wait for a process that does not exist yet is for the one that its call starts, which is then in use, or for any of its owner.
func TestAWaitExpectsWhatIsStartedLater(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 1, 0 })
		start := func(call messages.CallID, owner string) messages.ProcessID {
			command := does("prompt", "cat")
			command.Call, command.Owner, command.OpenStdin = call, owner, true
			return s.exec(command).Process
		}
		byCall := s.call(messages.Wait{For: []messages.WaitFor{{Call: "later"}}, NoTimeout: true})
		byOwner := s.call(messages.Wait{For: []messages.WaitFor{{Owner: "somebody"}}, NoTimeout: true})
		cancelled := s.call(messages.Wait{For: []messages.WaitFor{{Call: "never"}, {Owner: "nobody"}}, NoTimeout: true})
		id := start("later", "somebody")
		_, err := ask[any](b.host, s.supervisor, does("prompt", "cat"))
		wantError(t, "while it is waited for", err, messages.ErrLimitReached)
		s.call(messages.CloseStdin{Process: id})
		synctest.Wait()
		for _, call := range []waiting{byCall, byOwner} {
			reply, err := answerIs(t, call)
			if wakeups, is := reply.(messages.Wakeups); err != nil || !is || len(wakeups) != 1 || wakeups[0].Process != id || wakeups[0].Call != "later" {
				t.Errorf("%+v, %v", reply, err)
			}
		}
		start("other", "other")
		if cancelled.answered(0) {
			t.Error("answered, and nothing of it has started")
		}
		must[protocol.Done](b.host, s.supervisor, protocol.EndOwner{Owner: "nobody"})
		synctest.Wait()
		_, err = answerIs(t, cancelled)
		wantError(t, "an owner that was ended", err, messages.ErrCancelled)
		if waits := b.actors("/wait$"); len(waits) > 0 {
			t.Errorf("%d actors wait", len(waits))
		}
	})
}

// A caller that has its answer finds the processes of its wait free.
func TestAWaitUsesNoProcessAfterItsAnswer(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 1, 0 })
		for range 100 {
			id := s.exec(does("prompt", "wait")).Process // it ends the one before it
			if reply, err := s.call(within(0, awaiting(id))).reply(); err != nil || len(reply.(messages.Wakeups)) > 0 {
				t.Fatalf("%+v, %v", reply, err)
			}
		}
	})
}

func TestAPauseHoldsTheClockOfAWait(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		wait := within(10*time.Second, awaiting(s.exec(does("prompt", "wait")).Process))
		early := s.call(wait)
		passes(6 * time.Second)
		must[protocol.Done](b.host, s.supervisor, protocol.PauseYields{})
		late := s.call(wait)
		passes(time.Minute)
		must[protocol.Done](b.host, s.supervisor, protocol.ResumeYields{})
		passes(4 * time.Second)
		if !early.answered(0) || late.answered(0) {
			t.Errorf("answered: %t, %t", early.answered(0), late.answered(0))
		}
		passes(6 * time.Second)
		if !late.answered(0) {
			t.Error("not answered")
		}
	})
}

// What a process that was there has met before, silence too, is in the answer also where the wait does not wait.
func TestAWaitThatDoesNotWaitHasWhatIsMet(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		loud, silent, over := s.exec(does("prompt", "say:9", "wait")).Process, s.exec(does("prompt", "wait")).Process, s.exec(does("prompt", "exit:3")).Process
		passes(time.Minute)
		wait := messages.Wait{Yield: new(time.Duration), For: []messages.WaitFor{{Process: loud, Until: &messages.Until{Pattern: "x"}}, {Process: silent, Until: &messages.Until{Pattern: "x"}},
			{Process: silent, Until: &messages.Until{Quiet: time.Minute}}, {Process: silent, Until: &messages.Until{QuietAfterOutput: time.Second}},
			{Process: loud, Until: &messages.Until{QuietAfterOutput: time.Second}}, {Process: over}, {Process: silent}}}
		reply, err := s.call(wait).reply()
		got := map[int]messages.MetReason{}
		if wakeups, is := reply.(messages.Wakeups); is && err == nil {
			for _, w := range wakeups {
				got[w.Item] = w.Met.Reason
			}
		}
		if want := map[int]messages.MetReason{0: messages.MetPattern, 2: messages.MetQuiet, 4: messages.MetQuiet, 5: messages.MetExit}; !maps.Equal(got, want) {
			t.Errorf("%v, %v", got, err)
		}
	})
}
