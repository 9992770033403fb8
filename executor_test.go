package execbus_test

import (
	"context"
	"io"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// remote stands for a spawner on another machine: everything its children report and all their input goes through a
// queue, and their kernel's pids mean nothing here.
type remote struct {
	ptyio.Spawner
	spawned atomic.Int32
	hold    chan struct{} // if not nil a spawn ends when it is closed, whatever becomes of its context
}

func (r *remote) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	r.spawned.Add(1)
	if r.hold != nil {
		<-r.hold
		ctx = context.WithoutCancel(ctx)
	}
	link := &link{deliver: launch.Events}
	link.news = sync.NewCond(&link.mu)
	launch.Events = link.send
	go link.carry()
	child, err := r.Spawner.Spawn(ctx, launch)
	if err != nil {
		link.send(nil)
		return nil, err
	}
	return far{child}, nil
}

// link carries the events of one child in order.
type link struct {
	deliver func(ptyio.Event)
	mu      sync.Mutex
	news    *sync.Cond
	queue   []ptyio.Event
}

func (l *link) send(event ptyio.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, event)
	l.news.Signal()
}

func (l *link) carry() {
	for closed, ended := false, false; !closed || !ended; {
		l.mu.Lock()
		for len(l.queue) == 0 {
			l.news.Wait()
		}
		event := l.queue[0]
		l.queue = l.queue[1:]
		l.mu.Unlock()
		switch e := event.(type) {
		case nil:
			return
		case ptyio.Spawned:
			event = ptyio.Spawned{Child: far{e.Child}}
		case ptyio.Closed:
			closed = true
		case ptyio.TreeEnded:
			ended = true
		}
		l.deliver(event)
	}
}

// far is a child of another machine.
type far struct{ ptyio.Child }

func (far) PID() int { return 1 }

func (f far) Write(input []byte, deadline time.Time, done func(ptyio.Taken, error)) func() int {
	go f.Child.Write(input, deadline, done)
	return nil
}

// everywhere runs a test with an executor on the spawners of this machine and on a server.
func everywhere(t *testing.T, test func(t *testing.T, executor execbus.Executor)) {
	for name, runtime := range map[string]func() *execbus.Runtime{"warden": onWarden, "direct": onDirect, "remote": onRemote} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, sessionOn(t, runtime(), execbus.SessionOptions{}).Executor())
		})
	}
}

// request is a request for a bash script.
func request(script string) execbus.SpawnRequest {
	return execbus.SpawnRequest{ProcessID: "mine", Argv: []string{"bash", "-c", script}, Dir: "/",
		Env: map[string]string{"PATH": "/usr/bin:/bin", tag: "executor"}}
}

// spawn starts a process and follows its output from the beginning.
func spawn(t *testing.T, executor execbus.Executor, r execbus.SpawnRequest) (*execbus.Process, *follower) {
	t.Helper()
	p, err := executor.Spawn(patient(t), r)
	if err != nil {
		t.Fatal(err)
	}
	return p, follow(t, p, 0)
}

// follower reads what Follow gives, piece by piece.
type follower struct {
	t    *testing.T
	next func() (messages.Event, error, bool)
}

func follow(t *testing.T, p *execbus.Process, from int64) *follower {
	next, stop := iter.Pull2(p.Follow(patient(t), from))
	t.Cleanup(stop)
	return &follower{t, next}
}

// delta is the next piece of output, and false at the end.
func (f *follower) delta() (messages.OutputDelta, bool) {
	f.t.Helper()
	for {
		event, err, more := f.next()
		if err != nil {
			f.t.Fatal(err)
		}
		if !more {
			return messages.OutputDelta{}, false
		}
		switch e := event.(type) {
		case messages.OutputDelta:
			return e, true
		case messages.CaughtUp:
		default:
			f.t.Fatalf("there is a %#v", event)
		}
	}
}

// await is the output until it ends with a text.
func (f *follower) await(text string) string {
	f.t.Helper()
	var all strings.Builder
	for !strings.HasSuffix(all.String(), text) {
		delta, more := f.delta()
		if !more {
			f.t.Fatalf("the output ends with %q, not with %q", all.String(), text)
		}
		all.Write(delta.Bytes)
	}
	return all.String()
}

// rest is the output until its end.
func (f *follower) rest() map[messages.Stream]string {
	f.t.Helper()
	all := map[messages.Stream]string{}
	for delta, more := f.delta(); more; delta, more = f.delta() {
		all[delta.Stream] += string(delta.Bytes)
	}
	return all
}

func write(t *testing.T, p *execbus.Process, text string) {
	t.Helper()
	if n, err := io.WriteString(p, text); err != nil || n != len(text) {
		t.Fatalf("%d of %d bytes were taken: %v", n, len(text), err)
	}
}

func wantStatus(t *testing.T, s *execbus.Process, want messages.ExitStatus) {
	t.Helper()
	for range 2 {
		if status, err := s.Wait(patient(t)); err != nil || status != want {
			t.Errorf("Wait: %v, %v; want %v", status, err, want)
		}
		if status, known := s.Status(); !known || status != want {
			t.Errorf("Status: %v, %v; want %v", status, known, want)
		}
	}
}

func TestExecutorTalksToAProcess(t *testing.T) {
	everywhere(t, func(t *testing.T, executor execbus.Executor) {
		s, output := spawn(t, executor, request(`while read line; do echo "got $line"; [ "$line" = end ] && echo over >&2 && exit 7; done`))
		if s.Call() != "mine" {
			t.Errorf("it is called %q", s.Call())
		}
		if status, known := s.Status(); known {
			t.Errorf("the status of a living process is %v", status)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Wait(gone)
		wantError(t, err, messages.ErrCancelled)
		wantError(t, s.Resize(patient(t), messages.Size{Rows: 5, Cols: 5}), messages.ErrNotATerminal)
		for _, line := range []string{"one", "two"} {
			write(t, s, line+"\n")
			output.await("got " + line + "\n")
		}
		write(t, s, "end\n")
		rest := output.rest()
		if rest[messages.StreamStdout] != "got end\n" || rest[messages.StreamStderr] != "over\n" {
			t.Errorf("the last output is %q", rest)
		}
		wantStatus(t, s, messages.StatusExited(7))
		if _, err := s.Terminate(patient(t)); err != nil {
			t.Errorf("Terminate after the end: %v", err)
		}
		_, err = s.Write([]byte("late"))
		wantError(t, err, messages.ErrProcessEnded)
	})
}

func TestExecutorOnATerminal(t *testing.T) {
	everywhere(t, func(t *testing.T, executor execbus.Executor) {
		r := request(`stty -echo; while read line; do stty size; done`)
		r.TTY = true
		s, output := spawn(t, executor, r)
		ask := func(size string) {
			t.Helper()
			write(t, s, "\n")
			output.await(size + "\r\n")
		}
		ask("24 80")
		if err := s.Resize(patient(t), messages.Size{Rows: 50, Cols: 132}); err != nil {
			t.Fatal(err)
		}
		ask("50 132")
		if _, err := s.Terminate(patient(t)); err != nil {
			t.Fatal(err)
		}
		if status, err := s.Wait(patient(t)); err != nil || status.Kind != messages.ExitSignal {
			t.Errorf("Wait: %v, %v", status, err)
		}
	})
}

func TestExecutorTerminates(t *testing.T) {
	everywhere(t, func(t *testing.T, executor execbus.Executor) {
		s, _ := spawn(t, executor, execbus.SpawnRequest{Argv: []string{"sleep", "1000"}, Dir: "/"})
		for range 2 {
			if _, err := s.Terminate(patient(t)); err != nil {
				t.Errorf("Terminate: %v", err)
			}
		}
		wantStatus(t, s, messages.StatusSignaled(15))
	})
}

func TestExecutorGivesExactlyTheEnvironment(t *testing.T) {
	everywhere(t, func(t *testing.T, executor execbus.Executor) {
		for _, env := range []map[string]string{nil, {"A": "1", "EMPTY": "", "B": "two words\nand a line"}} {
			r := execbus.SpawnRequest{Argv: []string{"cat", "/proc/self/environ"}, Argv0: "other", Dir: "/usr", Env: env}
			s, output := spawn(t, executor, r)
			want := ""
			if env != nil {
				want = "A=1\x00B=two words\nand a line\x00EMPTY=\x00"
			}
			if got := output.rest()[messages.StreamStdout]; got != want {
				t.Errorf("the environment is %q, want %q", got, want)
			}
			wantStatus(t, s, messages.StatusExited(0))
		}
	})
}

func TestExecutorSetsTheNameAndTheDirectory(t *testing.T) {
	everywhere(t, func(t *testing.T, executor execbus.Executor) {
		r := execbus.SpawnRequest{Argv: []string{"sh", "-c", `echo "$0 in $PWD"`}, Argv0: "another name", Dir: "/usr"}
		s, output := spawn(t, executor, r)
		if got := output.await("\n"); got != "another name in /usr\n" {
			t.Errorf("it says %q", got)
		}
		wantStatus(t, s, messages.StatusExited(0))
	})
}

func TestExecutorRefusesBeforeAnythingIsStarted(t *testing.T) {
	t.Parallel()
	spawner := &remote{Spawner: newSpawner(t, true)}
	session := openSession(t, newRuntime(t, execbus.Options{Spawner: spawner}), execbus.SessionOptions{})
	for _, c := range []struct {
		change func(*execbus.SpawnRequest)
		code   messages.ErrorCode
		fact   string
	}{
		{func(r *execbus.SpawnRequest) { r.Dir = "here" }, messages.ErrInvalidRequest, `"here" is not absolute`},
		{func(r *execbus.SpawnRequest) { r.Dir = "" }, messages.ErrInvalidRequest, "not absolute"},
		{func(r *execbus.SpawnRequest) { r.Argv = nil }, messages.ErrInvalidRequest, "argv"},
		{func(r *execbus.SpawnRequest) { r.Env = map[string]string{"A=B": "c"} }, messages.ErrInvalidRequest, `"A=B"`},
	} {
		r := request("true")
		c.change(&r)
		_, err := session.Executor().Spawn(patient(t), r)
		wantError(t, err, c.code, c.fact)
	}
	if n := spawner.spawned.Load(); n != 0 || len(listed(t, session)) != 0 {
		t.Errorf("%d processes were started", n)
	}
	r := request("true")
	s, _ := spawn(t, session.Executor(), r)
	wantStatus(t, s, messages.StatusExited(0))
}

func TestExecutorTellsWhyNothingStarts(t *testing.T) {
	everywhere(t, func(t *testing.T, executor execbus.Executor) {
		_, err := executor.Spawn(patient(t), execbus.SpawnRequest{Argv: []string{"/no/such/program"}, Dir: "/"})
		wantError(t, err, messages.ErrNoSuchProgram, "/no/such/program")
		_, err = executor.Spawn(patient(t), execbus.SpawnRequest{Argv: []string{"true"}, Dir: "/no/such/dir"})
		wantError(t, err, messages.ErrSpawnFailed, "/no/such/dir")
	})
}

func TestAnAbandonedSpawnLeavesNothing(t *testing.T) {
	t.Parallel()
	spawner := &remote{Spawner: newSpawner(t, true), hold: make(chan struct{})}
	session := openSession(t, newRuntime(t, execbus.Options{Spawner: spawner}), execbus.SessionOptions{})
	events := watch(t, session, execbus.Watch{})
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 1)
	go func() {
		_, err := session.Executor().Spawn(ctx, request("sleep 1000"))
		errs <- err
	}()
	eventually(t, "the spawner works", func() bool { return spawner.spawned.Load() == 1 })
	cancel()
	wantError(t, <-errs, messages.ErrCancelled)
	close(spawner.hold)
	if end := await[messages.ExecEnded](t, events, nil); end.Cause != messages.CauseTerminated || end.By != messages.TerminatedByUser {
		t.Errorf("it ended with %v", end.EndRecord.String())
	}
	eventually(t, "nothing is left", func() bool { return len(listed(t, session)) == 0 })
}

func TestTheProcessesOfAnExecutorAreItsSessions(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{MaxProcesses: 1})
	s, _ := spawn(t, session.Executor(), request("sleep 1000"))
	_, err := session.Executor().Spawn(patient(t), request("true"))
	wantError(t, err, messages.ErrLimitReached)
	if err := session.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, s, messages.StatusSignaled(15))
	_, err = s.Terminate(patient(t))
	wantError(t, err, messages.ErrClosed)
	_, err = s.Write([]byte("x"))
	wantError(t, err, messages.ErrClosed)
}

func TestALostStatusIsTold(t *testing.T) {
	t.Parallel()
	spawner := reports{newSpawner(t, true), func(event ptyio.Event) ptyio.Event {
		if _, ok := event.(ptyio.Exited); ok {
			return ptyio.Exited{Status: messages.StatusNone(), Lost: messages.ErrWardenLost}
		}
		return event
	}}
	session := openSession(t, newRuntime(t, execbus.Options{Spawner: spawner}), execbus.SessionOptions{})
	s, _ := spawn(t, session.Executor(), request("true"))
	status, err := s.Wait(patient(t))
	wantError(t, err, messages.ErrRuntimeFailure, s.ID().String(), "its exit status was lost; check what it has done")
	if again, known := s.Status(); status != messages.StatusNone() || again != status || !known {
		t.Errorf("the status is %v, then %v, %v", status, again, known)
	}
}
