package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

func TestASessionOnAFleetIsASession(t *testing.T) {
	w := newWorld(t, Settings{})
	for i := range 3 {
		w.node(Node{ID: fmt.Sprint("n", i)})
	}
	nc, ctx := w.connect(), w.context()
	s := w.open(nc, Placement{})
	result, err := s.Exec(ctx, shell("echo hi; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	if string(result.Output) != "hi\n" || result.Status != messages.StatusExited(3) {
		t.Errorf("%+v", result)
	}
	output, gaps := followed(t, ctx, nc, s, result.Process, 0)
	if string(output) != "hi\n" || gaps != nil {
		t.Errorf("%q, %v", output, gaps)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, event := range eventsOf(t, ctx, nc, s.ID()) {
		if event.From().Session != s.ID() {
			t.Errorf("%v is of session %s", event.Kind(), event.From().Session)
		}
		kinds = append(kinds, string(event.Kind()))
	}
	if got := strings.Join(kinds, " "); got != "tool_decision exec_started output_closed exec_exited exec_ended" && got != "tool_decision exec_started exec_exited output_closed exec_ended" {
		t.Errorf("the events are %s", got)
	}
	if _, err := s.Exec(ctx, shell("true")); !errors.Is(err, messages.ErrClosed) {
		t.Errorf("a call to a session that has ended: %v", err)
	}
	if err := s.Close(ctx); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

// A flood is more than the stream or the log keeps: every byte is given once, or is in a gap.
func TestAFloodIsGivenOnceOrIsInAGap(t *testing.T) {
	w := newWorld(t, Settings{CacheBytes: 1 << 20})
	w.node(Node{ID: "n"})
	nc, ctx := w.connect(), w.context()
	s := w.open(nc, Placement{})
	result, err := s.Exec(ctx, shell("head -c 6000000 /dev/zero | tr '\\0' x; echo; echo end"))
	if err != nil {
		t.Fatal(err)
	}
	const total = 6_000_005
	for _, from := range []int64{0, 700_000, total - 4} {
		output, gaps := followed(t, ctx, nc, s, result.Process, from)
		sum := int64(len(output))
		for _, gap := range gaps {
			sum += gap.End - gap.First
		}
		if sum != total-from || !bytes.HasSuffix(output, []byte("end\n")) {
			t.Errorf("from %d: %d bytes and %v: %d in all, want %d", from, len(output), gaps, sum, total-from)
		}
		if from == total-4 && (gaps != nil || string(output) != "end\n") {
			t.Errorf("the end is %q after %v", output, gaps)
		}
	}
}

// Output is sent at once if none was sent a moment before; else what comes in that moment is sent together. Another event does not wait for it.
func TestOutputOfAMomentIsSentTogether(t *testing.T) {
	w := newWorld(t, Settings{})
	ctx := w.context()
	f, err := join(ctx, w.connect())
	if err != nil {
		t.Fatal(err)
	}
	session, err := w.node(Node{ID: "n"}).rt.OpenSession(execbus.SessionOptions{Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	h := &held{n: &node{fleet: f}, place: Place{Session: session.ID(), Epoch: 1}}
	if h.events, err = session.Events(execbus.Watch{Kinds: published}); err != nil {
		t.Fatal(err)
	}
	defer h.events.Close()
	cat, err := session.Start(ctx, messages.ExecCommand{Argv: []string{"cat"}, OpenStdin: true})
	if err != nil {
		t.Fatal(err)
	}
	echoes := func(letter string) messages.OutputDelta {
		t.Helper()
		if _, err := cat.Write([]byte(letter)); err != nil {
			t.Fatal(err)
		}
		for {
			event, err := h.events.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if output, is := event.(messages.OutputDelta); is {
				return output
			}
		}
	}
	if next := h.output(ctx, echoes("a")); next != nil || h.sent.IsZero() {
		t.Errorf("behind the first output is %v; it was sent %v", next, h.sent)
	}
	h.sent = time.Now().Add(time.Hour) // the moment lasts until something else comes
	first := echoes("b")
	together := make(chan messages.Event)
	go func() { together <- h.output(ctx, first) }()
	for _, text := range []string{"c", "d"} {
		if _, err := cat.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := cat.CloseStdin(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case next := <-together:
		if _, is := next.(messages.OutputDelta); is || next == nil {
			t.Errorf("behind the output is %v", next)
		}
	case <-time.After(patience):
		t.Fatal("the output is not sent")
	}
	sent := ""
	until(t, "all is stored", func() bool {
		last, err := f.output.GetLastMsgForSubject(ctx, outputSubject(session.ID(), cat.ID()))
		if err != nil {
			return false
		}
		sent = fmt.Sprintf("%d messages, the last is %q", last.Sequence, last.Data)
		return strings.HasSuffix(string(last.Data), "d")
	})
	if sent != `2 messages, the last is "bcd"` {
		t.Error(sent)
	}
}

// A start is answered when the program runs, and not after the time that an exec would wait. Its first event is stored then.
func TestAStartWaitsForNothing(t *testing.T) {
	w := newWorld(t, Settings{})
	w.node(Node{ID: "n"})
	nc, ctx := w.connect(), w.context()
	s := w.open(nc, Placement{})
	command := messages.ExecCommand{Argv: []string{"/bin/sh", "-c", "echo ready; read -r l; echo got $l; exit 3"}, OpenStdin: true, Yield: new(24 * time.Hour)}
	process, err := s.Start(WithKey(ctx, "k"), command)
	if err != nil || process == 0 {
		t.Fatal(process, err)
	}
	if first, err := s.fleet.events.GetMsg(ctx, 1); err != nil || !strings.Contains(string(first.Data), fmt.Sprintf(`"process":%d,`, process)) {
		t.Errorf("stored is %v, %v", first, err)
	}
	if again, err := s.Start(WithKey(ctx, "k"), command); again != process || err != nil {
		t.Errorf("started again: %v, %v", again, err)
	}
	if _, err := s.Write(ctx, messages.WriteStdin{Process: process, Bytes: []byte("one\n"), NoWait: true}); err != nil {
		t.Fatal(err)
	}
	if output, gaps := followed(t, ctx, nc, s, process, 0); string(output) != "ready\ngot one\n" || gaps != nil {
		t.Errorf("%q, %v", output, gaps)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if ends := endsOf(t, eventsOf(t, ctx, nc, s.ID())); len(ends) != 1 || ends[process].Status != messages.StatusExited(3) {
		t.Errorf("%+v", ends)
	}
	if _, err := w.open(nc, Placement{}).Start(ctx, messages.ExecCommand{Argv: []string{t.TempDir() + "/none"}}); !errors.Is(err, messages.ErrNoSuchProgram) {
		t.Error(err)
	}
}

// A reader that is there from the start gets output as it comes, and input reaches the process.
func TestATerminalIsFollowedWhileItRuns(t *testing.T) {
	w := newWorld(t, Settings{})
	w.node(Node{ID: "n"})
	nc, ctx := w.connect(), w.context()
	s := w.open(nc, Placement{})
	result, err := s.Exec(ctx, messages.ExecCommand{Argv: []string{"/bin/sh", "-c", "echo ready; while read -r l; do echo got $l; done"}, OpenStdin: true, Yield: new(time.Duration)})
	if err != nil || !result.Running {
		t.Fatal(result, err)
	}
	var seen string
	for event, err := range Follow(ctx, nc, s.ID(), result.Process, 0) {
		if err != nil {
			t.Fatal(err)
		}
		seen += string(event.(messages.OutputDelta).Bytes)
		switch {
		case seen == "ready\n":
			if _, err := s.Write(ctx, messages.WriteStdin{Process: result.Process, Bytes: []byte("one\n"), NoWait: true}); err != nil {
				t.Fatal(err)
			}
		case strings.HasSuffix(seen, "got one\n"):
			if err := s.CloseStdin(ctx, messages.CloseStdin{Process: result.Process}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if seen != "ready\ngot one\n" {
		t.Errorf("%q", seen)
	}
}

// A call is done once, however often and by however many callers it is repeated.
func TestACallOfAKeyIsDoneOnce(t *testing.T) {
	w := newWorld(t, Settings{})
	w.node(Node{ID: "n"})
	nc, ctx := w.connect(), w.context()
	s := w.open(nc, Placement{})
	file := t.TempDir() + "/count"
	command := shell("echo x >>" + file + "; sleep 0.2; wc -l <" + file)
	type said struct {
		text string
		err  error
	}
	answers := make(chan said)
	for range 5 { // five callers at once, on connections of their own
		other, err := Attach(ctx, w.connect(), s.ID())
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			result, err := other.Exec(WithKey(ctx, "k"), command)
			if err != nil {
				answers <- said{err: err}
				return
			}
			answers <- said{text: result.ChunkID + string(result.Output)}
		}()
	}
	first := said{}
	for i := range 5 {
		a := <-answers
		if i == 0 {
			first = a
		}
		if a != first || a.err != nil || !strings.HasSuffix(a.text, "1\n") {
			t.Errorf("answer %d is %v, and the first was %v", i, a, first)
		}
	}
	if again, err := s.Exec(WithKey(ctx, "k"), command); err != nil || again.ChunkID+string(again.Output) != first.text {
		t.Errorf("a later repetition: %v, %v", again, err)
	}
	if _, err := s.Exec(WithKey(ctx, "k"), shell("true")); !errors.Is(err, messages.ErrInvalidRequest) {
		t.Errorf("another call with the same key: %v", err)
	}
	if _, err := s.List(WithKey(ctx, strings.Repeat("k", maxKey+1))); !errors.Is(err, messages.ErrInvalidRequest) {
		t.Errorf("a key that is too long: %v", err)
	}
}

// An answer is kept for some time, and within a bound. When it is gone its key is still known, and the call is not done again.
func TestAnswersAreKeptWithinBounds(t *testing.T) {
	w := newWorld(t, Settings{})
	nc := w.connect()
	h := &held{n: &node{fleet: &fleet{nc: nc}}, calls: map[string]*call{}}
	inbox, err := nc.SubscribeSync("inbox")
	if err != nil {
		t.Fatal(err)
	}
	said := func(key string) string {
		t.Helper()
		h.repeat(&nats.Msg{Reply: "inbox"}, h.calls[key], 0)
		m, err := inbox.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		return string(m.Data)
	}
	for _, key := range []string{"first", "second", "third"} {
		h.calls[key] = &call{}
		h.keep(key, append([]byte(key), make([]byte, keptBytes*2/5)...))
	}
	if got := said("first"); !strings.Contains(got, string(messages.ErrOutputUnretained)) || h.bytes > keptBytes {
		t.Errorf("beyond the bound of kept answers: %.100q; %d bytes are kept", got, h.bytes)
	}
	if got := said("second"); !strings.HasPrefix(got, "second") {
		t.Errorf("a kept answer is %.100q", got)
	}
	h.forget(time.Now().Add(answerTime - time.Minute))
	if len(h.calls) != 3 {
		t.Errorf("keys are forgotten too early: %v", h.answered)
	}
	h.forget(time.Now().Add(answerTime))
	if len(h.calls) != 0 || len(h.answered) != 0 || h.bytes != 0 {
		t.Errorf("old keys are kept: %v, %d bytes", h.answered, h.bytes)
	}
}

// A call to a session that has another epoch meanwhile, or a question of which the deadline has come, says so by name.
func TestWhatHasChangedIsSaid(t *testing.T) {
	w := newWorld(t, Settings{})
	w.node(Node{ID: "n"})
	nc, ctx := w.connect(), w.context()
	s := w.open(nc, Placement{Session: execbus.SessionOptions{Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}, ApprovalDeadline: 20 * time.Millisecond}})
	old := &Session{s.fleet, s.place}
	old.place.Epoch--
	if _, err := old.List(ctx); !errors.Is(err, messages.ErrNodeLost) || !containsAll(err.Error(), string(s.ID()), "another epoch") {
		t.Errorf("a call with an old epoch: %v", err)
	}
	if result, err := s.Exec(ctx, messages.ExecCommand{Argv: []string{"/bin/sh", "-c", "touch /dev/null"}}); !errors.Is(err, messages.ErrRejected) {
		t.Errorf("nobody has answered: %v, %v", result, err)
	}
	until(t, "the question is off the list", func() bool {
		open, err := OpenQuestions(ctx, nc)
		return err == nil && len(open) == 0
	})
	asked, resolved := 0, 0
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for _, event := range eventsOf(t, ctx, nc, s.ID()) {
		switch event.(type) {
		case messages.ApprovalRequested:
			asked++
		case messages.ApprovalResolved:
			resolved++
		}
	}
	if asked != 1 || resolved != 1 {
		t.Errorf("the events have %d questions and %d answers", asked, resolved)
	}
}

func TestACallIsCancelledAcrossTheWire(t *testing.T) {
	w := newWorld(t, Settings{})
	w.node(Node{ID: "n"})
	nc, ctx := w.connect(), w.context()
	s := w.open(nc, Placement{})
	result, err := s.Exec(ctx, messages.ExecCommand{Argv: []string{"sleep", "1000"}, Yield: new(time.Duration)})
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err = s.Poll(short, messages.Poll{Process: result.Process, NoTimeout: true})
	if !errors.Is(err, messages.ErrCancelled) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a cancelled poll: %v", err)
	}
	list, err := s.List(ctx)
	if err != nil || len(list) != 1 {
		t.Errorf("the process is gone: %v, %v", list, err)
	}
	record, err := s.Terminate(ctx, messages.Terminate{Process: result.Process})
	if err != nil || record.Cause != messages.CauseTerminated {
		t.Errorf("%v, %v", record, err)
	}
}

// Errors cross the wire unchanged, also beside a result.
func TestErrorsCrossTheWire(t *testing.T) {
	w := newWorld(t, Settings{})
	w.node(Node{ID: "n"})
	nc, ctx := w.connect(), w.context()
	s := w.open(nc, Placement{})
	if _, err := s.Exec(ctx, messages.ExecCommand{Argv: []string{t.TempDir() + "/none"}}); !errors.Is(err, messages.ErrNoSuchProgram) || !errors.Is(err, messages.ErrSpawnFailed) {
		t.Errorf("a program that does not exist: %v", err)
	}
	if _, err := s.Poll(ctx, messages.Poll{Process: 99999}); !errors.Is(err, messages.ErrUnknownProcess) {
		t.Errorf("an unknown process: %v", err)
	}
	for event, err := range Follow(ctx, nc, s.ID(), 99999, 0) {
		if event != nil || !errors.Is(err, messages.ErrUnknownProcess) {
			t.Errorf("following an unknown process: %v, %v", event, err)
		}
	}
	if _, err := Attach(ctx, nc, "none"); !errors.Is(err, messages.ErrClosed) {
		t.Errorf("attached to no session: %v", err)
	}
	// An answer that is larger than a message comes whole.
	run, err := s.Run(ctx, messages.RunCommand{Argv: []string{"/bin/sh", "-c", "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2"}})
	if err != nil || len(run.Stdout) != 1_000_000 || len(run.Stderr) != 1_000_000 {
		t.Errorf("%v", err)
	}
}

func TestQuestionsReachEveryConsole(t *testing.T) {
	w := newWorld(t, Settings{})
	w.node(Node{ID: "n"})
	nc, ctx := w.connect(), w.context()
	s := w.open(nc, Placement{Session: execbus.SessionOptions{Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}}})
	results := make(chan error, 1)
	go func() {
		result, err := s.Exec(ctx, messages.ExecCommand{Argv: []string{"/bin/sh", "-c", "echo asked; touch /dev/null"}})
		if err == nil && string(result.Output) != "asked\n" {
			err = fmt.Errorf("%q", result.Output)
		}
		results <- err
	}()
	// Two consoles; the second is answered late.
	var asked [2]Asked
	for i := range asked {
		watching, stop := context.WithCancel(ctx)
		for a, err := range Questions(watching, w.connect()) {
			if err != nil {
				t.Fatal(err)
			}
			asked[i] = a
			break
		}
		stop()
	}
	if asked[0].Session != s.ID() || asked[0].Question.ID != asked[1].Question.ID || asked[0].Question.Display == "" {
		t.Fatalf("%+v", asked)
	}
	for i, a := range asked {
		console, err := Attach(ctx, w.connect(), a.Session)
		if err != nil {
			t.Fatal(err)
		}
		err = console.Decide(ctx, messages.Decide{Question: a.Question.ID, Decision: messages.Decision{Kind: messages.DecisionApproved}})
		if i == 0 && err != nil || i == 1 && !errors.Is(err, messages.ErrAlreadyResolved) {
			t.Errorf("console %d: %v", i, err)
		}
	}
	if err := <-results; err != nil {
		t.Error(err)
	}
	f, err := join(ctx, nc)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the question is off the list", func() bool {
		_, err := f.ask.Get(ctx, askKey(s.ID(), asked[0].Question.ID))
		return err != nil
	})
}
