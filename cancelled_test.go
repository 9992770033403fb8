package execbus_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// stubborn is a spawner whose children carry out no call before the gate is open.
type stubborn struct {
	ptyio.Spawner
	gate chan struct{}
}

func (s stubborn) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	events := launch.Events
	launch.Events = func(event ptyio.Event) {
		if spawned, ok := event.(ptyio.Spawned); ok {
			event = ptyio.Spawned{Child: stubbornChild{spawned.Child, s.gate}}
		}
		events(event)
	}
	child, err := s.Spawner.Spawn(ctx, launch)
	if err != nil {
		return nil, err
	}
	return stubbornChild{child, s.gate}, nil
}

type stubbornChild struct {
	ptyio.Child
	gate chan struct{}
}

func (c stubbornChild) Resize(size messages.Size) error {
	<-c.gate
	return c.Child.Resize(size)
}

func (c stubbornChild) Signal(sig syscall.Signal, scope ptyio.Scope) error {
	<-c.gate
	return c.Child.Signal(sig, scope)
}

func (c stubbornChild) Write(p []byte, deadline time.Time, done func(ptyio.Taken, error)) func() int {
	<-c.gate
	return c.Child.Write(p, deadline, done)
}

func (c stubbornChild) CloseStdin(done func(error)) {
	<-c.gate
	c.Child.CloseStdin(done)
}

func (c stubbornChild) EndTree(grace time.Duration) {
	<-c.gate
	c.Child.EndTree(grace)
}

func TestEveryKindOfCallIsCancelledAndForgotten(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	rt := newRuntime(t, execbus.Options{Spawner: stubborn{newSpawner(t, true), gate}})
	t.Cleanup(open)
	session := openSession(t, rt, execbus.SessionOptions{})
	command := bash("sleep 1000")
	command.TTY = true
	id, other := launch(t, session, command), launch(t, session, command)
	start := int64(0)
	for name, call := range map[string]func(context.Context) error{
		"Resize": func(ctx context.Context) error {
			return session.Resize(ctx, messages.Resize{Process: id, Size: messages.Size{Rows: 2, Cols: 3}})
		},
		"Signal": func(ctx context.Context) error { return session.Signal(ctx, messages.Signal{Process: id, Signal: 28}) },
		"Write": func(ctx context.Context) error {
			return errorOf(session.Write(ctx, messages.WriteStdin{Process: id, Bytes: []byte("x"), Yield: new(time.Minute)}))
		},
		"Write until taken": func(ctx context.Context) error {
			return errorOf(session.Write(ctx, messages.WriteStdin{Process: id, Bytes: []byte("x"), UntilTaken: true}))
		},
		"Poll": func(ctx context.Context) error {
			return errorOf(session.Poll(ctx, messages.Poll{Process: id, NoTimeout: true}))
		},
		"Read": func(ctx context.Context) error {
			return errorOf(session.Read(ctx, messages.ReadOutput{Process: id, Offset: &start, Wait: time.Minute}))
		},
		"Wait": func(ctx context.Context) error {
			return errorOf(session.Wait(ctx, awaiting(id)))
		},
		"CloseStdin": func(ctx context.Context) error { return session.CloseStdin(ctx, messages.CloseStdin{Process: id}) },
		"several": func(ctx context.Context) error {
			return errorOf(session.Wait(ctx, awaiting(id, other)))
		},
		"Exec": func(ctx context.Context) error { return errorOf(session.Exec(ctx, command)) },
	} {
		err := call(bored(t))
		facts := []string{"the host is bored"}
		if name != "several" && name != "Exec" {
			facts = append(facts, id.String())
		}
		wantError(t, err, messages.ErrCancelled, facts...)
	}
	for _, end := range []func(context.Context) error{
		func(ctx context.Context) error {
			return errorOf(session.Terminate(ctx, messages.Terminate{Process: id}))
		},
		session.TerminateAll, session.Close,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		wantError(t, end(ctx), messages.ErrCancelled)
		cancel()
	}
	open() // the ends go on
	eventually(t, "everything has ended", func() bool {
		stats, err := rt.Stats(patient(t))
		return err == nil && stats.Sessions == 0 && stats.Processes == 0
	})
}

func errorOf[T any](_ T, err error) error { return err }

// A process is no longer in use when the calls that concern it are cancelled.
func TestACancelledCallUsesNothing(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{MaxProcesses: 1, ProtectedProcesses: -1})
	id := launch(t, session, bash(echoes))
	ctx, begun, cancel := begins(t)
	errs := make(chan error, 1)
	go func() { errs <- errorOf(session.Wait(ctx, awaiting(id))) }()
	<-begun
	_, err := session.Exec(patient(t), bash("true"))
	wantError(t, err, messages.ErrLimitReached) // somebody waits for it
	checkCancelled(t, cancel, errs)
	launch(t, session, bash("sleep 1000"))
	if exits, err := session.Wait(patient(t), awaiting(id)); err != nil || exits[0].Met.Reason != messages.MetExit {
		t.Errorf("the idle process was not ended: %v, %v", exits, err)
	}
}

// noticed is a context that reports when a caller begins to wait: its request has been sent by then.
type noticed struct {
	context.Context
	notice func() // is called each time
}

func (n noticed) Done() <-chan struct{} {
	n.notice()
	return n.Context.Done()
}

// begins is a context that ends with cancel, and a channel that is closed when a caller begins to wait.
func begins(t *testing.T) (ctx context.Context, begun chan struct{}, cancel func()) {
	begun = make(chan struct{})
	parent, cancel := context.WithCancel(patient(t))
	return noticed{parent, sync.OnceFunc(func() { close(begun) })}, begun, cancel
}

// bored is a context that ends when a caller begins to wait.
func bored(t *testing.T) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	return noticed{ctx, func() { cancel(errors.New("the host is bored")) }}
}

// A cancelled write whose bytes have been sent goes on; one that waits for its turn sends nothing.
func TestAWriteCancelledBeforeItsTurnSendsNothing(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	id := launch(t, session, bash("cat"))
	var cancels []func()
	errs := make(chan error)
	for _, text := range []string{"first\n", "second\n"} {
		ctx, begun, cancel := begins(t)
		cancels = append(cancels, cancel)
		write := messages.WriteStdin{Process: id, Bytes: []byte(text), Yield: new(messages.MaxYield)}
		go func() { errs <- errorOf(session.Write(ctx, write)) }()
		<-begun
	}
	checkCancelled(t, cancels[1], errs)
	checkCancelled(t, cancels[0], errs)
	if _, err := session.Write(patient(t), messages.WriteStdin{Process: id, Bytes: []byte("third\n")}); err != nil {
		t.Fatal(err)
	}
	if err := session.CloseStdin(patient(t), messages.CloseStdin{Process: id}); err != nil {
		t.Fatal(err)
	}
	finish(t, session, id)
	page, err := session.Read(patient(t), messages.ReadOutput{Process: id, Tail: messages.MaxRead})
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, c := range page.Chunks {
		text += string(c.Bytes)
	}
	if text != "first\nthird\n" {
		t.Errorf("the process read %q", text)
	}
}

// The error of a cancelled start names the process that it leaves behind.
func TestTheErrorOfACancelledStartNamesTheProcess(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	for i := range 40 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
		result, err := session.Exec(ctx, bash("sleep 1000"))
		cancel()
		var id messages.ProcessID
		if err == nil {
			id = result.Process
		} else {
			wantError(t, err, messages.ErrCancelled)
			id = subject(err)
		}
		if id == 0 {
			if ids := listed(t, session); len(ids) > 0 {
				t.Fatalf("%v names nothing, and there is %v", err, ids)
			}
			continue
		}
		if _, err := session.Terminate(patient(t), messages.Terminate{Process: id, Grace: new(time.Duration)}); err != nil {
			t.Fatalf("the process %v that the error names: %v", id, err)
		}
	}

	spawner := &remote{Spawner: newSpawner(t, true), hold: make(chan struct{})}
	session = openSession(t, newRuntime(t, execbus.Options{Spawner: spawner}), execbus.SessionOptions{})
	t.Cleanup(sync.OnceFunc(func() { close(spawner.hold) }))
	for i := range int32(4) {
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 1)
		go func() { errs <- errorOf(session.Exec(ctx, bash("sleep 1000"))) }()
		eventually(t, "the spawner works", func() bool { return spawner.spawned.Load() == i+1 })
		cancel()
		err := <-errs
		wantError(t, err, messages.ErrCancelled)
		if ids := listed(t, session); len(ids) != int(i)+1 || !slices.Contains(ids, subject(err)) {
			t.Errorf("%v names none of %v", err, ids)
		}
	}
}

// subject is the process that an error is about.
func subject(err error) messages.ProcessID {
	typed, ok := errors.AsType[*messages.Error](err)
	if !ok {
		return 0
	}
	id, _ := strconv.Atoi(typed.Subject)
	return messages.ProcessID(id)
}
