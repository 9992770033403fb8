package execbus_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
)

// family starts a command with a child in its group, a daemon, and a process that was kept when its leader exited; all
// ignore SIGTERM. It returns the kernel's pids.
func family(t *testing.T, session *execbus.Session) []int {
	t.Helper()
	const child = `sh -c 'trap "" TERM HUP; echo $$; exec sleep 1000' & `
	events := watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindOutputDelta}})
	command := bash(`trap "" TERM HUP; echo $$; ` + child + `(setsid ` + child + `); wait`)
	command.Grace = new(50 * time.Millisecond)
	id := launch(t, session, command)
	var output string
	for count := 0; count < 3; count++ {
		delta := await(t, events, func(e messages.OutputDelta) bool { return e.Process == id })
		for _, b := range delta.Bytes {
			if b == '\n' {
				count++
			}
		}
		count--
		output += string(delta.Bytes)
	}
	kept := bash(child)
	kept.OnLeaderExit, kept.Grace = messages.LeaderExitKeepsTree, new(50*time.Millisecond)
	result := exec(t, session, kept)
	if !result.Running || result.Background == nil || !result.Background.Kept || result.Status != messages.StatusExited(0) {
		t.Fatalf("the kept child is told of as %+v", result)
	}
	for len(result.Output) == 0 {
		more, err := session.Read(patient(t), messages.ReadOutput{Process: result.Process, Tail: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, chunk := range more.Chunks {
			result.Output = append(result.Output, chunk.Bytes...)
		}
	}
	return pids(t, []byte(output+string(result.Output)), 4)
}

func wantDead(t *testing.T, all []int) {
	t.Helper()
	for _, pid := range all {
		if alive(pid) {
			t.Errorf("%d is still alive", pid)
		}
	}
}

func TestCloseEndsEverythingOfOneSession(t *testing.T) {
	t.Parallel()
	rt := newRuntime(t, execbus.Options{})
	session, other := openSession(t, rt, execbus.SessionOptions{}), openSession(t, rt, execbus.SessionOptions{})
	theirs := family(t, other)
	ours := family(t, session)
	events := watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindExecEnded}})
	if err := session.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	wantDead(t, ours)
	for range 2 {
		if end := await[messages.ExecEnded](t, events, nil); end.By != messages.TerminatedBySessionClose && end.Cause != messages.CauseExited {
			t.Errorf("a process ended with %v", end.EndRecord.String())
		}
	}
	for _, pid := range theirs {
		if !alive(pid) {
			t.Errorf("%d of the other session is dead", pid)
		}
	}
	if got := exec(t, other, bash("echo works")).OutputText(); got != "works\n" {
		t.Errorf("the other session says %q", got)
	}
	eventually(t, "the other session lists its two", func() bool { return len(listed(t, other)) == 2 })
}

func TestShutdownEndsEverything(t *testing.T) {
	t.Parallel()
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	session := openSession(t, rt, execbus.SessionOptions{})
	events := watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindExecEnded}})
	all := append(family(t, session), family(t, openSession(t, rt, execbus.SessionOptions{}))...)
	starts := watch(t, session, execbus.Watch{Calls: []messages.CallID{"waiting"}, Kinds: []messages.EventKind{messages.KindExecStarted}})
	waiting := make(chan error, 1)
	command := bash("sleep 1000")
	command.Yield, command.Call = new(30*time.Second), "waiting"
	go func() {
		result, err := session.Exec(context.Background(), command)
		if err == nil && (result.Status != messages.StatusSignaled(15) || !strings.Contains(tools.Text(result), "because the host was shutting down")) {
			err = errors.New(tools.Text(result))
		}
		waiting <- err
	}()
	await[messages.ExecStarted](t, starts, nil)

	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() {
			if err := rt.Shutdown(patient(t)); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
		})
	}
	calls.Wait()
	wantDead(t, all)
	if err := <-waiting; err != nil {
		t.Errorf("the waiting call was answered with %v", err)
	}
	ended := 0
	for event, err := range events.All(patient(t)) {
		if err != nil {
			wantError(t, err, messages.ErrClosed)
			break
		}
		ended++
		if end := event.(messages.ExecEnded); end.Cause == messages.CauseTerminated && end.By != messages.TerminatedByShutdown {
			t.Errorf("a process ended with %v", end.EndRecord.String())
		}
	}
	if ended != 3 {
		t.Errorf("%d ends were told, want 3", ended)
	}

	if err := rt.Shutdown(patient(t)); err != nil {
		t.Errorf("a second Shutdown: %v", err)
	}
	if err := session.Close(patient(t)); err != nil {
		t.Errorf("Close after Shutdown: %v", err)
	}
	_, err = rt.OpenSession(execbus.SessionOptions{})
	wantError(t, err, messages.ErrClosed, "the runtime is shut down")
	_, err = rt.Stats(patient(t))
	wantError(t, err, messages.ErrClosed, "the runtime is shut down")
	_, err = session.Events(execbus.Watch{})
	wantError(t, err, messages.ErrClosed)
	_, err = session.Exec(patient(t), bash("true"))
	wantError(t, err, messages.ErrClosed, "the session is closed")
}

func TestShutdownOfAnUnusedRuntime(t *testing.T) {
	t.Parallel()
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := rt.Shutdown(patient(t)); err != nil {
			t.Error(err)
		}
	}
}

func TestShutdownSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	rt := newRuntime(t, execbus.Options{})
	session := openSession(t, rt, execbus.SessionOptions{})
	events := watch(t, session, execbus.Watch{})
	gate := filepath.Join(t.TempDir(), "gate")
	command := bash(`trap "" TERM; echo ready; until [ -e "` + gate + `" ]; do sleep 0.01; done`)
	command.Grace = new(time.Hour)
	launch(t, session, command)
	awaitOutput(t, events, "ready\n")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	wantError(t, rt.Shutdown(ctx), messages.ErrCancelled, "shutdown: 1 processes in 1 sessions have not ended", "try again with more time")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rt.Shutdown(patient(t)); err != nil {
		t.Errorf("with more time: %v", err)
	}
}

func TestUseAfterClose(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	id := launch(t, session, bash("sleep 1000"))
	for range 2 {
		if err := session.Close(patient(t)); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	ctx := patient(t)
	for name, call := range map[string]func() error{
		"Exec":  func() error { _, err := session.Exec(ctx, bash("true")); return err },
		"Start": func() error { _, err := session.Start(ctx, bash("true")); return err },
		"Run":   func() error { _, err := session.Run(ctx, messages.RunCommand{Argv: []string{"true"}}); return err },
		"Write": func() error {
			_, err := session.Write(ctx, messages.WriteStdin{Process: id, Bytes: []byte("x")})
			return err
		},
		"Poll":       func() error { _, err := session.Poll(ctx, messages.Poll{Process: id}); return err },
		"Read":       func() error { _, err := session.Read(ctx, messages.ReadOutput{Process: id, Tail: 1}); return err },
		"CloseStdin": func() error { return session.CloseStdin(ctx, messages.CloseStdin{Process: id}) },
		"Resize": func() error {
			return session.Resize(ctx, messages.Resize{Process: id, Size: messages.Size{}.OrDefault()})
		},
		"Signal":            func() error { return session.Signal(ctx, messages.Signal{Process: id, Signal: 15}) },
		"Terminate":         func() error { _, err := session.Terminate(ctx, messages.Terminate{Process: id}); return err },
		"TerminateAll":      func() error { return session.TerminateAll(ctx) },
		"List":              func() error { _, err := session.List(ctx); return err },
		"Records":           func() error { _, err := session.Records(ctx); return err },
		"UpdateEnvironment": func() error { return session.UpdateEnvironment(ctx, messages.UpdateEnvironment{}) },
		"PauseYields":       func() error { return session.PauseYields(ctx) },
		"ResumeYields":      func() error { return session.ResumeYields(ctx) },
		"Spawn": func() error {
			_, err := session.Executor().Spawn(ctx, execbus.SpawnRequest{Argv: []string{"true"}, Dir: "/"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, call(), messages.ErrClosed, "use session: the session is closed; open another one")
		})
	}
}

func TestTheRuntimesLimitHoldsOverItsSessions(t *testing.T) {
	t.Parallel()
	rt := newRuntime(t, execbus.Options{MaxProcesses: 2})
	first, second := openSession(t, rt, execbus.SessionOptions{}), openSession(t, rt, execbus.SessionOptions{})
	one := launch(t, first, bash("sleep 1000"))
	launch(t, second, bash("sleep 1000"))
	for _, session := range []*execbus.Session{first, second} {
		_, err := session.Exec(patient(t), bash("true"))
		wantError(t, err, messages.ErrLimitReached, "wait for one to end")
		wantHint(t, err, "Options.MaxProcesses")
	}
	if _, err := first.Terminate(patient(t), messages.Terminate{Process: one}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the slot can be had", func() bool {
		_, err := second.Exec(patient(t), bash("true"))
		if err != nil {
			wantError(t, err, messages.ErrLimitReached)
		}
		return err == nil
	})
}

func TestTheSessionsLimitIsItsOwn(t *testing.T) {
	t.Parallel()
	rt := newRuntime(t, execbus.Options{})
	small := openSession(t, rt, execbus.SessionOptions{MaxProcesses: 1, DeterministicIDs: true})
	other := openSession(t, rt, execbus.SessionOptions{})
	only := launch(t, small, bash("sleep 1000"))
	_, err := small.Exec(patient(t), bash("true"))
	wantError(t, err, messages.ErrLimitReached)
	if typed, ok := errors.AsType[*messages.Error](err); !ok || len(typed.Busy) != 1 || typed.Busy[0] != only {
		t.Errorf("the error names %v as busy, want %v", typed.Busy, only)
	}
	if got := exec(t, other, bash("echo free")).OutputText(); got != "free\n" {
		t.Errorf("the other session says %q", got)
	}
}

// A caller that waits for a process that is terminated learns why it is gone, and so does one that asks later.
func TestAResultSaysWhyAProcessIsGone(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	for by, why := range map[messages.TerminatedBy]string{"": "on request", messages.TerminatedByUser: "on request",
		messages.TerminatedByPrune: "to make room for another command", messages.TerminatedByTimeout: "because its time was over"} {
		for _, waits := range []bool{true, false} {
			id := launch(t, session, bash("echo begun; sleep 1000"))
			results := make(chan *messages.Result, 1)
			poll := func() {
				result, err := session.Poll(patient(t), messages.Poll{Process: id, NoTimeout: true})
				if err != nil {
					t.Errorf("by %q: %v", by, err)
				}
				results <- result
			}
			if waits {
				go poll()
			}
			if _, err := session.Terminate(patient(t), messages.Terminate{Process: id, By: by}); err != nil {
				t.Fatal(err)
			}
			if !waits {
				poll()
			}
			result := <-results
			want := "\nProcess was terminated " + why + " (signal 15)\n"
			if result == nil || result.Cause != messages.CauseTerminated || result.By != cmp.Or(by, messages.TerminatedByUser) ||
				!strings.Contains(tools.Text(result), want) || strings.Contains(tools.Text(result), "exited with code") {
				t.Errorf("by %q the result is %+v", by, result)
			}
			_, err := session.Poll(patient(t), messages.Poll{Process: id})
			wantError(t, err, messages.ErrProcessEnded, "it was terminated "+why+" (signal 15)")
		}
	}
}

func TestASessionMayKeepWhatItsCommandsLeaveBehind(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{OnLeaderExit: messages.LeaderExitKeepsTree})
	result := exec(t, session, bash("sleep 1000 & echo said"))
	if result.Background == nil || !result.Background.Kept || !result.Running {
		t.Errorf("%+v", result)
	}
}
