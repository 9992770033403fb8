package execbus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// echoes answers every line and lives until its input ends.
const echoes = `echo ready; while read line; do echo "got $line"; done; echo over`

// checkCancelled cancels a call that waits, and checks that it fails with ErrCancelled.
func checkCancelled(t *testing.T, cancel func(), errs <-chan error) {
	t.Helper()
	cancel()
	err := <-errs
	wantError(t, err, messages.ErrCancelled)
}

func TestACancelledCallTakesNothing(t *testing.T) {
	both(t, func(t *testing.T, session *execbus.Session) {
		events := watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindOutputDelta}})
		errs := make(chan error, 1)
		command := bash(echoes)
		command.Yield = new(30 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := session.Exec(ctx, command)
			errs <- err
		}()
		awaitOutput(t, events, "ready\n")
		checkCancelled(t, cancel, errs)
		ids := listed(t, session)
		if len(ids) != 1 {
			t.Fatalf("the processes are %v, want the cancelled one", ids)
		}
		id := ids[0]

		ctx, cancel = context.WithCancel(t.Context())
		go func() {
			_, err := session.Write(ctx, messages.WriteStdin{Process: id, Bytes: []byte("one\n"), Yield: new(30 * time.Second)})
			errs <- err
		}()
		awaitOutput(t, events, "got one\n")
		checkCancelled(t, cancel, errs)

		ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := session.Poll(ctx, messages.Poll{Process: id, NoTimeout: true})
		wantError(t, err, messages.ErrCancelled)

		if err := session.CloseStdin(patient(t), messages.CloseStdin{Process: id}); err != nil {
			t.Fatal(err)
		}
		result := finish(t, session, id)
		if got, want := result.OutputText(), "ready\ngot one\nover\n"; got != want || result.Status != messages.StatusExited(0) {
			t.Errorf("the process lived on with %q, %v; want %q, code(0)", got, result.Status, want)
		}
	})
}

func TestTheErrorOfACancelledExecNamesTheProcess(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{DeterministicIDs: true})
	_, err := session.Exec(bored(t), bash("read line"))
	wantError(t, err, messages.ErrCancelled, "1000")
}

func TestAnEndedContextStartsNothing(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	living := launch(t, session, bash(echoes))
	events := watch(t, session, execbus.Watch{})
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the host is bored"))

	_, err := session.Exec(gone, bash("echo started"))
	wantError(t, err, messages.ErrCancelled, "the host is bored")
	_, err = session.Start(gone, bash("echo started"))
	wantError(t, err, messages.ErrCancelled, "the host is bored")
	for _, untilTaken := range []bool{false, true} {
		_, err = session.Write(gone, messages.WriteStdin{Process: living, Bytes: []byte("x\n"), UntilTaken: untilTaken})
		wantError(t, err, messages.ErrCancelled, "the host is bored")
	}
	_, err = session.Run(gone, messages.RunCommand{Argv: []string{"true"}})
	wantError(t, err, messages.ErrCancelled, "the host is bored")
	if ids := listed(t, session); len(ids) != 1 {
		t.Errorf("the processes are %v, want %v only", ids, living)
	}

	// What ends something is done.
	if _, err := session.Terminate(gone, messages.Terminate{Process: living, Grace: new(time.Duration)}); err != nil {
		wantError(t, err, messages.ErrCancelled)
	}
	for event, err := range events.All(patient(t)) {
		if err != nil {
			t.Fatal(err)
		}
		switch e := event.(type) {
		case messages.ExecStarted:
			t.Errorf("%v was started", e.Argv)
		case messages.TerminalInteraction:
			t.Errorf("%d bytes were written", e.Length)
		case messages.ExecEnded:
			if e.Process != living || e.Cause != messages.CauseTerminated {
				t.Errorf("%v ended: %v", e.Process, e.EndRecord.String())
			}
			return
		}
	}
}

// held is a context that has ended and lets nobody see why before the gate is open: the caller stands between the end of
// its context and the taking back of its call.
type held struct {
	context.Context
	ended, gate chan struct{}
}

func (h held) Done() <-chan struct{} { return h.ended }

func (h held) Err() error {
	select {
	case <-h.ended:
		<-h.gate
		return context.Canceled
	default:
		return nil
	}
}

func TestADecidedResultIsReturned(t *testing.T) {
	both(t, func(t *testing.T, session *execbus.Session) {
		events := watch(t, session, execbus.Watch{})
		ctx := held{context.Background(), make(chan struct{}), make(chan struct{})}
		type answer struct {
			result *messages.Result
			err    error
		}
		answers := make(chan answer, 1)
		go func() {
			result, err := session.Exec(ctx, bash("read line; echo $line; exit 3"))
			answers <- answer{result, err}
		}()
		id := await[messages.ExecStarted](t, events, nil).Process
		close(ctx.ended)
		if _, err := session.Write(patient(t), messages.WriteStdin{Process: id, Bytes: []byte("decided\n"), UntilTaken: true}); err != nil {
			t.Fatal(err)
		}
		await[messages.ExecEnded](t, events, nil)
		close(ctx.gate)
		a := <-answers
		if a.err != nil {
			t.Fatalf("the result that was there is lost: %v", a.err)
		}
		if a.result.OutputText() != "decided\n" || a.result.Status != messages.StatusExited(3) {
			t.Errorf("the result is %q, %v", a.result.OutputText(), a.result.Status)
		}
	})
}

func TestPausedYields(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	for range 2 { // they nest
		if err := session.PauseYields(patient(t)); err != nil {
			t.Fatal(err)
		}
	}
	results := make(chan *messages.Result, 1)
	command := bash("read line")
	command.Yield = new(messages.MinYield)
	go func() { results <- exec(t, session, command) }()
	wait := func(d time.Duration) *messages.Result {
		select {
		case result := <-results:
			return result
		case <-time.After(d):
			return nil
		}
	}
	if result := wait(2 * messages.MinYield); result != nil {
		t.Fatalf("a paused call was answered: %v", result)
	}
	if err := session.ResumeYields(patient(t)); err != nil {
		t.Fatal(err)
	}
	if result := wait(2 * messages.MinYield); result != nil {
		t.Fatalf("a call that is paused once more was answered: %v", result)
	}
	if err := session.ResumeYields(patient(t)); err != nil {
		t.Fatal(err)
	}
	if result := wait(patience); result == nil || !result.Running {
		t.Fatalf("the resumed call was answered with %v, want a running process", result)
	}
}
