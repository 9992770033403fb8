package execbus_test

import (
	"context"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

func TestSubscriptionsEndWithTheirSessionWhenTheyWereRead(t *testing.T) {
	t.Parallel()
	session, other := newSession(t, execbus.SessionOptions{}), newSession(t, execbus.SessionOptions{})
	ended, lives := watch(t, session, execbus.Watch{}), watch(t, other, execbus.Watch{})
	p := start(t, session, messages.ExecCommand{Argv: []string{"sleep", "1000"}})
	if err := session.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	_, err := session.Events(execbus.Watch{})
	wantError(t, err, messages.ErrClosed, "the session is closed")
	_, err = session.Start(patient(t), messages.ExecCommand{Argv: []string{"true"}})
	wantError(t, err, messages.ErrClosed)
	if end := await[messages.ExecEnded](t, ended, nil); end.Process != p.ID() || end.By != messages.TerminatedBySessionClose {
		t.Errorf("%+v", end)
	}
	_, err = ended.Next(patient(t))
	wantError(t, err, messages.ErrClosed)
	exec(t, other, messages.ExecCommand{Argv: []string{"true"}})
	await[messages.ExecEnded](t, lives, nil)
}

func TestASubscriptionCanBeEndedAndRead(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	events := watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindExecEnded}})
	first := exec(t, session, messages.ExecCommand{Argv: []string{"true"}})
	eventually(t, "its end is published", func() bool {
		_, err := session.Terminate(patient(t), messages.Terminate{Process: first.Process})
		return err != nil
	})
	events.End()
	exec(t, session, messages.ExecCommand{Argv: []string{"true"}})
	if event, ok, err := events.TryNext(); !ok || err != nil || event.From().Process != first.Process {
		t.Errorf("%v, %v, %v", event, ok, err)
	}
	_, ok, err := events.TryNext()
	if wantError(t, err, messages.ErrClosed); ok {
		t.Error("there is more")
	}
}

func TestAResizeIsToldAndListed(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	events := watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindTerminalResized, messages.KindExecEnded}})
	p := start(t, session, messages.ExecCommand{Argv: []string{"cat"}, TTY: true})
	pipes := start(t, session, messages.ExecCommand{Argv: []string{"cat"}, OpenStdin: true})
	sized := func(p *execbus.Process, want messages.Size) {
		t.Helper()
		if info, err := p.Info(patient(t)); err != nil || info.Size != want {
			t.Errorf("%+v, %v; want %v", info, err, want)
		}
	}
	sized(p, messages.Size{Rows: 24, Cols: 80})
	sized(pipes, messages.Size{})
	for _, size := range []messages.Size{{Rows: 24, Cols: 80}, {Rows: 50, Cols: 132}, {Rows: 50, Cols: 132}, {Rows: 10}} {
		if err := p.Resize(patient(t), size); err != nil {
			t.Fatal(err)
		}
		if err := pipes.Resize(patient(t), size); err == nil {
			t.Error("a pipe has a size")
		}
	}
	sized(p, messages.Size{Rows: 10, Cols: 80})
	for p, sizes := range map[*execbus.Process]int{p: 3, pipes: 0} {
		if page, err := p.Read(patient(t), messages.ReadOutput{Tail: 1}); err != nil || len(page.Sizes) != sizes {
			t.Errorf("%+v, %v; want %d sizes", page, err, sizes)
		}
	}
	if _, err := p.Terminate(patient(t)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []messages.Size{{Rows: 50, Cols: 132}, {Rows: 10, Cols: 80}} { // and what changes nothing is not told
		if event, err := events.Next(patient(t)); err != nil || event.(messages.TerminalResized).Size != want {
			t.Errorf("%+v, %v; want %v", event, err, want)
		}
	}
	if event, err := events.Next(patient(t)); err != nil || event.Kind() != messages.KindExecEnded {
		t.Errorf("%+v, %v", event, err)
	}
}

// A person takes their time, which is not the program's.
func TestTheWaitForAPersonStandsBesideTheDuration(t *testing.T) {
	t.Parallel()
	var thought time.Duration
	slow := execbus.ApproverFunc(func(ctx context.Context, _ messages.Question) (messages.Decision, error) {
		begun := time.Now()
		clock := time.NewTimer(100 * time.Millisecond)
		defer clock.Stop()
		<-clock.C
		thought = time.Since(begun)
		return messages.Decision{Kind: messages.DecisionApproved}, nil
	})
	session := newSession(t, execbus.SessionOptions{Approver: slow, Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}})
	events := watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindExecEnded}})
	begun := time.Now()
	result, err := session.Run(patient(t), messages.RunCommand{Argv: []string{"touch", "/dev/null"}})
	if err != nil {
		t.Fatal(err)
	}
	end := await[messages.ExecEnded](t, events, nil)
	total := time.Since(begun)
	for name, one := range map[string]struct{ took, waited time.Duration }{
		"the end": {end.Duration, end.Waited}, "the result": {result.Duration, result.Waited},
	} {
		if one.waited < thought || one.took <= 0 || one.took > total-thought {
			t.Errorf("%s: it took %v and waited %v, of %v in all; a person thought for %v", name, one.took, one.waited, total, thought)
		}
	}
}
