package execbus_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

func awaiting(ids ...messages.ProcessID) messages.Wait {
	wait := messages.Wait{NoTimeout: true}
	for _, id := range ids {
		wait.For = append(wait.For, messages.WaitFor{Process: id})
	}
	return wait
}

// anyOf is a wait for the first reason.
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

func TestWaitForOneForTheFirstAndForAll(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	one, two, three := launch(t, session, bash("read x; exit 1")), launch(t, session, bash("read x; exit 2")), launch(t, session, bash("sleep 1000"))
	for _, wait := range []messages.Wait{awaiting(one), awaiting(one, two), anyOf(one, two)} {
		if exits, err := session.Wait(patient(t), within(time.Millisecond, wait)); err != nil || len(exits) != 0 {
			t.Errorf("%+v is answered with %v, %v before anything has exited", wait, exits, err)
		}
	}
	end := func(id messages.ProcessID) {
		if _, err := session.Write(patient(t), messages.WriteStdin{Process: id, Bytes: []byte("\n"), UntilTaken: true}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(wait messages.Wait, codes ...int) {
		t.Helper()
		exits, err := session.Wait(patient(t), wait)
		if err != nil || len(exits) != len(codes) {
			t.Fatalf("%+v is answered with %v, %v; want %v", wait, exits, err, codes)
		}
		for i, code := range codes {
			if exits[i].Status != messages.StatusExited(code) || exits[i].Met.Reason != messages.MetExit {
				t.Errorf("%+v is answered with %v, want %v", wait, exits, codes)
			}
		}
	}
	end(two)
	want(anyOf(one, two, three), 2)
	end(one)
	want(awaiting(one), 1)
	want(awaiting(two, one), 2, 1)
	want(awaiting(one, two), 2, 1)
	want(within(100*time.Millisecond, awaiting(three, one)), 1)
	if result := finish(t, session, one); result.Status != messages.StatusExited(1) {
		t.Errorf("the waits took the exit from a poll: %+v", result)
	}

	_, err := session.Wait(patient(t), awaiting(99))
	wantError(t, err, messages.ErrUnknownProcess, "99")
	_, err = session.Wait(patient(t), awaiting(three, 99))
	wantError(t, err, messages.ErrUnknownProcess, "99")
	_, err = session.Wait(patient(t), awaiting())
	wantError(t, err, messages.ErrInvalidRequest, "there is none")
}

// Ten thousand callers wait for a few processes. Half of them give up, and the others have their answers; nothing is left.
func TestTenThousandWaits(t *testing.T) {
	running := goleak.IgnoreCurrent()
	rt := newRuntime(t, execbus.Options{Spawner: newSpawner(t, true)})
	session := openSession(t, rt, execbus.SessionOptions{})
	var ids []messages.ProcessID
	for range 4 {
		ids = append(ids, launch(t, session, bash("read line; exit 3")))
	}
	const waits = 10_000
	patiently := patient(t)
	ctx, cancel := context.WithCancel(patiently)
	defer cancel()
	var began, gone, answered sync.WaitGroup
	for i := range waits {
		began.Add(1)
		wait, of, over := awaiting(ids[i%4]), patiently, &answered
		if i%10 == 0 {
			wait = awaiting(ids...)
		}
		gives := i%2 == 0
		if gives {
			of, over = ctx, &gone
		}
		over.Go(func() {
			exits, err := session.Wait(noticed{of, sync.OnceFunc(began.Done)}, wait)
			switch {
			case gives && !errors.Is(err, messages.ErrCancelled):
				t.Errorf("a caller that has given up is answered with %v, %v", exits, err)
			case !gives && (err != nil || len(exits) != len(wait.For) || exits[0].Status != messages.StatusExited(3)):
				t.Errorf("a wait is answered with %v, %v", exits, err)
			}
		})
	}
	began.Wait()
	since := time.Now()
	cancel()
	gone.Wait()
	t.Logf("%d waits were cancelled in %v", waits/2, time.Since(since))
	if ids := listed(t, session); len(ids) != 4 {
		t.Fatalf("the processes are %v", ids)
	}
	since = time.Now()
	for _, id := range ids {
		if _, err := session.Write(patient(t), messages.WriteStdin{Process: id, Bytes: []byte("\n"), UntilTaken: true}); err != nil {
			t.Fatal(err)
		}
	}
	answered.Wait()
	t.Logf("%d waits were answered in %v", waits/2, time.Since(since))
	if err := rt.Shutdown(patient(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no goroutine is left", func() bool { return goleak.Find(running) == nil })
}

// A process of an executor is in use while somebody waits for it, and only then.
func TestAnExecutorsProcessIsInUseWhileSomebodyWaits(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{MaxProcesses: 1, ProtectedProcesses: -1})
	s, _ := spawn(t, session.Executor(), request("sleep 1000"))
	if status, known := s.Status(); known {
		t.Errorf("a living process has the status %v", status)
	}
	ctx, begun, cancel := begins(t)
	errs := make(chan error, 1)
	go func() { errs <- errorOf(s.Wait(ctx)) }()
	<-begun
	_, err := session.Executor().Spawn(patient(t), request("true"))
	wantError(t, err, messages.ErrLimitReached)
	checkCancelled(t, cancel, errs)
	if _, err := session.Executor().Spawn(patient(t), request("sleep 1000")); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, s, messages.StatusSignaled(15))
	if status, known := s.Status(); !known || status != messages.StatusSignaled(15) {
		t.Errorf("one that has waited finds %v, %v", status, known)
	}
}

// How a process of an executor exited is known for as long as somebody holds it, although the session forgets it.
func TestAnExecutorsProcessIsNotForgotten(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	s, _ := spawn(t, session.Executor(), request("read line; exit 7"))
	id := listed(t, session)[0]
	write(t, s, "\n")
	eventually(t, "the session has forgotten it", func() bool {
		exec(t, session, messages.ExecCommand{Argv: []string{"true"}})
		_, err := session.Wait(patient(t), awaiting(id))
		return errors.Is(err, messages.ErrUnknownProcess)
	})
	wantStatus(t, s, messages.StatusExited(7))
	record, err := s.Terminate(patient(t))
	wantError(t, err, messages.ErrUnknownProcess, "has forgotten how")
	if record != nil {
		t.Errorf("beside an error: %v", record)
	}
	if err := session.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	_, err = s.Terminate(patient(t))
	wantError(t, err, messages.ErrClosed)
}
