package execbus_test

import (
	"errors"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// turn is what an owner has: a process that runs, a call that waits for it, and a command that nobody has allowed yet.
type turn struct {
	runs    *execbus.Process
	waits   chan error
	pending chan error
}

func beginTurn(t *testing.T, session *execbus.Session, owner, asked string, questions int) *turn {
	t.Helper()
	begun := &turn{waits: make(chan error, 1), pending: make(chan error, 1),
		runs: start(t, session, messages.ExecCommand{Argv: []string{"cat"}, OpenStdin: true, Owner: owner})}
	ctx, polls, _ := begins(t)
	go func() { begun.waits <- errorOf(begun.runs.Poll(ctx, messages.Poll{NoTimeout: true})) }()
	<-polls
	go func() {
		begun.pending <- errorOf(session.Exec(patient(t), messages.ExecCommand{Argv: []string{"rm", "-rf", asked}, Owner: owner}))
	}()
	eventually(t, "somebody is asked", func() bool {
		open, err := session.Questions(patient(t))
		return err == nil && len(open) == questions
	})
	if info, err := begun.runs.Info(patient(t)); err != nil || info.Owner != owner {
		t.Errorf("%+v, %v", info, err)
	}
	return begun
}

func (b *turn) lives(t *testing.T) {
	t.Helper()
	if status, exited := b.runs.Status(); exited {
		t.Errorf("it exited with %v", status)
	}
	select {
	case err := <-b.waits:
		t.Errorf("its call was answered: %v", err)
	case err := <-b.pending:
		t.Errorf("its command was answered: %v", err)
	default:
	}
}

// asks opens a session in which somebody may answer.
func asks(t *testing.T) *execbus.Session {
	session := newSession(t, execbus.SessionOptions{Dir: t.TempDir()})
	watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindApprovalRequested}})
	return session
}

func TestWhatAnOwnerHasEndsTogether(t *testing.T) {
	t.Parallel()
	session := asks(t)
	ends, other, nobodys := beginTurn(t, session, "turn 1", "a", 1), beginTurn(t, session, "turn 2", "b", 2), beginTurn(t, session, "", "c", 3)
	if err := session.EndOwner(patient(t), ""); err != nil {
		t.Fatal(err)
	}
	nobodys.lives(t)
	ended := watch(t, session, execbus.Watch{Processes: []messages.ProcessID{ends.runs.ID()}, Kinds: []messages.EventKind{messages.KindExecEnded}})
	if err := session.EndOwner(patient(t), "turn 1"); err != nil {
		t.Fatal(err)
	}
	if end := await[messages.ExecEnded](t, ended, nil); end.Cause != messages.CauseTerminated || end.By != messages.TerminatedByOwner {
		t.Errorf("it %s", end.Words())
	}
	if err := <-ends.waits; err != nil && !errors.Is(err, messages.ErrCancelled) { // its end may come first
		t.Errorf("the call that waited: %v", err)
	}
	if err := <-ends.pending; !errors.Is(err, messages.ErrProcessEnded) && !errors.Is(err, messages.ErrCancelled) {
		t.Errorf("the command that was asked about: %v", err)
	}
	open, err := session.Questions(patient(t))
	if err != nil || len(open) != 2 {
		t.Errorf("%d questions are open, %v", len(open), err)
	}
	other.lives(t)
	nobodys.lives(t)
}

func TestAbortStopsTheQuestionsAndWaitsOfAnOwner(t *testing.T) {
	t.Parallel()
	session := asks(t)
	aborted, other := beginTurn(t, session, "turn 1", "a", 1), beginTurn(t, session, "turn 2", "b", 2)
	second := make(chan error, 1)
	go func() {
		second <- errorOf(session.Run(patient(t), messages.RunCommand{Argv: []string{"rm", "-rf", "c"}, Owner: "turn 1"}))
	}()
	eventually(t, "somebody is asked about the other command", func() bool {
		open, err := session.Questions(patient(t))
		return err == nil && len(open) == 3
	})
	open, err := session.Questions(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, choice := range open[0].Choices {
		if len(choice.Sentence) < 10 {
			t.Errorf("%s says %q", choice.Kind, choice.Sentence)
		}
	}
	if err := session.Decide(patient(t), messages.Decide{Question: open[0].ID, Decision: messages.Decision{Kind: messages.DecisionAborted}}); err != nil {
		t.Fatal(err)
	}
	wantError(t, <-aborted.pending, messages.ErrAborted)
	wantError(t, <-second, messages.ErrAborted)
	wantError(t, <-aborted.waits, messages.ErrCancelled)
	if status, exited := aborted.runs.Status(); exited {
		t.Errorf("what ran exited with %v", status)
	}
	if open, err := session.Questions(patient(t)); err != nil || len(open) != 1 || open[0].Argv[2] != "b" {
		t.Errorf("%+v, %v", open, err)
	}
	other.lives(t)
}
