package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	goruntime "runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/execbus/execbus/messages"
)

// newTestSystem gives the test a system that must end, with everything it started, before the test does.
func newTestSystem(t *testing.T) *System {
	t.Helper()
	running := goleak.IgnoreCurrent()
	s := NewSystem(slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		goleak.VerifyNone(t, running)
	})
	return s
}

func mustSpawn(t testing.TB, s *System, receive Receive) *PID {
	t.Helper()
	pid, err := s.Spawn("test", receive)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func echo(ctx *Context) { ctx.Respond(ctx.Message()) }

// gated is an actor that stays inside of Receive from the message "block" until the gate opens, or panics then.
type gated struct {
	entered, open chan struct{}
	panics        bool
}

func newGated() *gated { return &gated{entered: make(chan struct{}), open: make(chan struct{})} }

func (g *gated) receive(ctx *Context) {
	if ctx.Message() == "block" {
		close(g.entered)
		<-g.open
		if g.panics {
			panic("told to")
		}
	}
	ctx.Respond(ctx.Message())
}

func TestAskReturnsTheReply(t *testing.T) {
	s := newTestSystem(t)
	pid := mustSpawn(t, s, echo)
	if got, err := Ask[int](t.Context(), s, pid, 7); got != 7 || err != nil {
		t.Errorf("Ask = %v, %v", got, err)
	}
	if _, err := Ask[int](t.Context(), s, pid, messages.ErrLimitReached); !errors.Is(err, messages.ErrLimitReached) {
		t.Errorf("a reply that is an error: %v", err)
	}
	if _, err := Ask[int](t.Context(), s, pid, "seven"); !errors.Is(err, messages.ErrRuntimeFailure) {
		t.Errorf("a reply of another type: %v", err)
	}
}

func TestCallCanStillBeAnsweredAfterItsContextEnded(t *testing.T) {
	s := newTestSystem(t)
	type cancelWait struct{ call *PID }
	pid := mustSpawn(t, s, func(ctx *Context) {
		if m, ok := ctx.Message().(cancelWait); ok {
			ctx.Send(m.call, "cancelled, nothing taken")
			ctx.Send(m.call, "a second reply")
		}
	})
	call := s.Call(pid, "a question nobody answers")
	defer call.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := call.Wait(ended); err != context.Canceled {
		t.Errorf("Wait with an ended context: %v", err)
	}
	s.Send(pid, cancelWait{call.PID()})
	for range 2 {
		if got, err := call.Wait(t.Context()); got != "cancelled, nothing taken" || err != nil {
			t.Errorf("Wait = %v, %v", got, err)
		}
	}
}

func TestAReplyThatIsThereWinsOverAnEndedContext(t *testing.T) {
	s := newTestSystem(t)
	pid := mustSpawn(t, s, echo)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for n := range 50 {
		call := s.Call(pid, n)
		if _, err := Ask[string](t.Context(), s, pid, "the call before has been answered"); err != nil {
			t.Fatal(err)
		}
		if got, err := call.Wait(ended); got != n || err != nil {
			t.Errorf("Wait = %v, %v", got, err)
		}
		call.Close()
	}
}

func TestAskOfNobodyFailsAtOnce(t *testing.T) {
	s := newTestSystem(t)
	ended := mustSpawn(t, s, echo)
	if err := s.Stop(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	for _, to := range []*PID{nil, ended, {Address: ended.Address, Id: ended.Id}, s.lib.NewLocalPID("never was")} {
		if _, err := Ask[any](t.Context(), s, to, "?"); !errors.Is(err, messages.ErrClosed) {
			t.Errorf("ask %v: %v", to, err)
		}
	}
}

func TestRequestsInTheMailboxOfAnEndedActorAreAnswered(t *testing.T) {
	for _, panics := range []bool{false, true} {
		t.Run(fmt.Sprintf("panics=%v", panics), func(t *testing.T) {
			s := newTestSystem(t)
			g := newGated()
			g.panics = panics
			pid := mustSpawn(t, s, g.receive)
			current := s.Call(pid, "block")
			defer current.Close()
			<-g.entered
			queued := make([]*Call, 100)
			for i := range queued {
				queued[i] = s.Call(pid, i)
				defer queued[i].Close()
			}
			if !panics {
				s.lib.Root.Stop(pid)
			}
			close(g.open)
			for i, call := range queued {
				if _, err := call.Wait(t.Context()); !errors.Is(err, messages.ErrClosed) {
					t.Fatalf("request %d: %v", i, err)
				}
			}
			_, err := current.Wait(t.Context())
			if panics != errors.Is(err, messages.ErrRuntimeFailure) {
				t.Errorf("the request being handled: %v", err)
			}
			if _, err := Ask[any](t.Context(), s, pid, "later"); !errors.Is(err, messages.ErrClosed) {
				t.Errorf("a later request: %v", err)
			}
		})
	}
}

// The library loses a message whose sender found the actor alive and put it into the mailbox after the end.
func TestNoRequestIsLostInTheRaceWithTheEnd(t *testing.T) {
	s := newTestSystem(t)
	for range 300 {
		pid := mustSpawn(t, s, func(ctx *Context) {
			ctx.Respond("alive")
			if ctx.Message() == "stop" {
				ctx.Stop(ctx.Self())
			}
		})
		failed := make(chan error, 4)
		for range cap(failed) {
			go func() {
				for {
					_, err := Ask[string](t.Context(), s, pid, "?")
					if err != nil {
						failed <- err
						return
					}
				}
			}()
		}
		s.Send(pid, "stop")
		for range cap(failed) {
			if err := mustReceive(t, failed); !errors.Is(err, messages.ErrClosed) {
				t.Fatal(err)
			}
		}
	}
}

func TestAsksLeaveNothingInTheRegistry(t *testing.T) {
	s := newTestSystem(t)
	pid := mustSpawn(t, s, func(ctx *Context) {
		if ctx.Message() != "ignore" {
			ctx.Respond(ctx.Message())
		}
	})
	before := registered(s)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 {
		if _, err := Ask[int](t.Context(), s, pid, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := Ask[string](ended, s, pid, "answered late"); err != nil && err != context.Canceled {
			t.Fatal(err)
		}
		for range 98 {
			s.Call(pid, "ignore").Close()
		}
	}
	if after := registered(s); after != before {
		t.Errorf("%d processes registered before 100,000 asks, %d after", before, after)
	}
}

func TestASystemStartsFewGoroutines(t *testing.T) {
	created := func() uint64 {
		sample := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before := created()
	newTestSystem(t)
	if n := created() - before; n > 1000 { // others' tests may run beside; the library's registry alone would take 32,768
		t.Errorf("%d goroutines", n)
	}
}

func registered(s *System) (n int) {
	for _, bucket := range s.lib.ProcessRegistry.LocalPIDs.LocalPIDs {
		n += bucket.Count()
	}
	return n
}

func TestParentLearnsOfACrashBehindTheChildsOwnMessages(t *testing.T) {
	for _, in := range []any{Started{}, Stopping{}, "message", "work"} {
		t.Run(fmt.Sprintf("%v%T", in, in), func(t *testing.T) {
			s := newTestSystem(t)
			got := make(chan any, 10)
			parent := mustSpawn(t, s, func(ctx *Context) {
				switch m := ctx.Message().(type) {
				case Started:
					self := ctx.Self()
					child := ctx.Spawn("child", func(ctx *Context) {
						if ctx.Message() == "work" {
							ctx.Send(self, "last words")
							ctx.Go(func(context.Context) any { panic("in work") })
						} else if ctx.Message() == in {
							ctx.Send(self, "last words")
							panic(in)
						}
					})
					ctx.Send(child, in)
					if in == (Stopping{}) {
						ctx.Stop(child)
					}
				case string:
					got <- m
				case Crashed:
					got <- "crashed"
				case Terminated:
					got <- "terminated"
				}
			})
			for _, want := range []any{"last words", "crashed", "terminated"} {
				if m := mustReceive(t, got); m != want {
					t.Fatalf("the parent got %v, not %v", m, want)
				}
			}
			if err := s.Stop(t.Context(), parent); err != nil {
				t.Error(err)
			}
			if len(got) != 0 {
				t.Errorf("the parent also got %v", <-got)
			}
		})
	}
}

func TestStoppingIsTheLastMessage(t *testing.T) {
	s := newTestSystem(t)
	child, stopping, late := newGated(), make(chan struct{}), make(chan any, 10)
	pid := mustSpawn(t, s, func(ctx *Context) {
		switch m := ctx.Message().(type) {
		case Started:
			ctx.Send(ctx.Spawn("child", child.receive), "block")
			ctx.Become(func(ctx *Context) {
				if _, ok := ctx.Message().(Stopping); ok {
					ctx.Become(func(ctx *Context) { late <- ctx.Message() })
					close(stopping)
				}
			})
		default:
			late <- m
		}
	})
	<-child.entered
	stopped := make(chan error)
	go func() { stopped <- s.Stop(t.Context(), pid) }()
	<-stopping
	if _, err := Ask[any](t.Context(), s, pid, "?"); !errors.Is(err, messages.ErrClosed) {
		t.Errorf("ask while a child keeps the actor from ending: %v", err)
	}
	close(child.open)
	if err := mustReceive(t, stopped); err != nil {
		t.Error(err)
	}
	if len(late) != 0 {
		t.Errorf("delivered: %v", <-late)
	}
}

func TestRequestsOfActors(t *testing.T) {
	s := newTestSystem(t)
	got := make(chan any, 10)
	nobody := s.lib.NewLocalPID("nobody")
	server := mustSpawn(t, s, echo)
	mustSpawn(t, s, func(ctx *Context) {
		switch m := ctx.Message().(type) {
		case Started:
			ctx.Watch(nobody)
			ctx.Request(server, "hello")
			ctx.Request(nobody, "anyone?")
			ctx.Send(server, "no reply, please")
		case Terminated:
			got <- m.PID.Id
		case Unanswered:
			got <- fmt.Sprint(m.To.Id, m.Message, errors.Is(m.Err, messages.ErrClosed))
		default:
			got <- m
		}
	})
	seen := map[any]bool{}
	for range 3 {
		seen[mustReceive(t, got)] = true
	}
	if !seen["hello"] || !seen["nobody"] || !seen["nobodyanyone?true"] {
		t.Errorf("got %v", seen)
	}
	forwarder := mustSpawn(t, s, func(ctx *Context) {
		if n, ok := ctx.Message().(int); ok {
			ctx.Forward(server, n+1)
		}
	})
	if n, err := Ask[int](t.Context(), s, forwarder, 1); n != 2 || err != nil {
		t.Errorf("a forwarded request: %v, %v", n, err)
	}
}

func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		s := NewSystem(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
		got := make(chan any, 10)
		start := time.Now()
		pid := mustSpawn(t, s, func(ctx *Context) {
			switch m := ctx.Message().(type) {
			case Started:
				ctx.After(time.Second, time.Second)
				ctx.After(time.Hour, "after the actor's end")
				queued := ctx.After(time.Minute, "cancelled in the mailbox")
				ctx.After(time.Minute-1, func() {
					time.Sleep(time.Second) // the other timer fires meanwhile
					queued.Cancel()
					queued.Cancel()
				})
				(*Timer)(nil).Cancel()
			case func():
				m()
			case time.Duration:
				got <- time.Since(start)
			case string:
				got <- m
			}
		})
		time.Sleep(2 * time.Minute)
		if err := s.Stop(t.Context(), pid); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Hour)
		if len(got) != 1 || <-got != time.Second {
			t.Errorf("%d messages too many, or at the wrong time", len(got))
		}
		if strings.Contains(log.String(), "ended actor") {
			t.Errorf("a timer outlived its actor:\n%s", log.String())
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// owned is a result of work that owns something.
type owned struct{ discarded chan string }

func (o owned) Discard() {
	o.discarded <- "discarded"
	panic("must not harm the sender")
}

func TestWorkEndsWithItsActorAndItsLateResultIsDiscarded(t *testing.T) {
	s := newTestSystem(t)
	started, discarded, got := make(chan struct{}), make(chan string, 1), make(chan any, 1)
	pid := mustSpawn(t, s, func(ctx *Context) {
		switch m := ctx.Message().(type) {
		case Started:
			ctx.Go(func(context.Context) any { return "result" })
			ctx.Go(func(ctx context.Context) any {
				close(started)
				<-ctx.Done()
				return owned{discarded}
			})
		case string:
			got <- m
		case owned:
			t.Error("delivered to an ended actor")
		}
	})
	mustReceive(t, got)
	<-started
	if err := s.Stop(t.Context(), pid); err != nil {
		t.Error(err)
	}
	mustReceive(t, discarded)
}

func TestEndedWorkDoesNotEndWhatBeginsLater(t *testing.T) {
	s := newTestSystem(t)
	first, later := make(chan error, 1), make(chan error, 1)
	pid := mustSpawn(t, s, func(ctx *Context) {
		if ctx.Message() == "go" {
			ctx.EndWork() // there is none
			ctx.Go(func(ctx context.Context) any {
				<-ctx.Done()
				first <- ctx.Err()
				return nil
			})
			ctx.EndWork()
			ctx.Go(func(ctx context.Context) any {
				later <- ctx.Err()
				return nil
			})
			ctx.Respond(done{})
		}
	})
	if _, err := Ask[done](t.Context(), s, pid, "go"); err != nil {
		t.Fatal(err)
	}
	if err := <-first; err == nil {
		t.Error("the work was not ended")
	}
	if err := <-later; err != nil {
		t.Errorf("later work: %v", err)
	}
}

func TestShutdownNamesWhatIsLeftAndCanBeRepeated(t *testing.T) {
	s := newTestSystem(t)
	g, workStarted, workEnd := newGated(), make(chan struct{}), make(chan struct{})
	stuck := mustSpawn(t, s, g.receive)
	s.Send(stuck, "block")
	<-g.entered
	worker := mustSpawn(t, s, func(ctx *Context) {
		if _, ok := ctx.Message().(Started); ok {
			ctx.Go(func(context.Context) any {
				close(workStarted)
				<-workEnd
				return nil
			})
		}
	})
	<-workStarted
	if err := s.Stop(t.Context(), worker); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Shutdown(ended)
	if err == nil || !strings.Contains(err.Error(), stuck.Id) || !strings.Contains(err.Error(), worker.Id) {
		t.Errorf("Shutdown does not name %s and %s: %v", stuck.Id, worker.Id, err)
	}
	if _, err := s.Spawn("late", echo); !errors.Is(err, messages.ErrClosed) {
		t.Errorf("Spawn during Shutdown: %v", err)
	}
	close(g.open)
	if err := s.Stop(t.Context(), stuck); err != nil {
		t.Error(err)
	}
	err = s.Shutdown(ended)
	if err == nil || strings.Contains(err.Error(), stuck.Id) || !strings.Contains(err.Error(), worker.Id) {
		t.Errorf("Shutdown does not name the work of %s alone: %v", worker.Id, err)
	}
	close(workEnd)
	for range 3 {
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Spawn("late", echo); !errors.Is(err, messages.ErrClosed) {
		t.Errorf("Spawn after Shutdown: %v", err)
	}
	if err := s.Stop(t.Context(), stuck); err != nil {
		t.Errorf("Stop after Shutdown: %v", err)
	}
}

// panicky is a log handler that panics at every error.
type panicky struct{ slog.Handler }

func (panicky) Enabled(context.Context, slog.Level) bool { return true }
func (panicky) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		panic("logger")
	}
	return nil
}

func TestAPanicOfTheLoggerDoesNotHangAsks(t *testing.T) {
	s := NewSystem(slog.New(panicky{slog.DiscardHandler}))
	g := newGated()
	g.panics = true
	pid := mustSpawn(t, s, g.receive)
	s.Send(pid, "block")
	<-g.entered
	call := s.Call(pid, "queued")
	defer call.Close()
	close(g.open)
	if _, err := call.Wait(t.Context()); !errors.Is(err, messages.ErrClosed) {
		t.Error(err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// logBuffer may be read while actors still write.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestTheLogHasTheStackOfACrashAndNoContentOfMessages(t *testing.T) {
	var log logBuffer
	s := NewSystem(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	misbehave(t, s)
	for _, want := range []string{"level=ERROR msg=\"actor crashed\"", "adapter_test.go", "message for an ended actor"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("not in the log: %s\n%s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "secret-7381") {
		t.Errorf("the content of a message is in the log:\n%s", log.String())
	}
}

// misbehave crashes actors and sends to ended ones in every way; then it shuts the system down.
func misbehave(t *testing.T, s *System) {
	pid := mustSpawn(t, s, func(ctx *Context) {
		switch ctx.Message().(type) {
		case Started:
			ctx.Spawn("child", func(ctx *Context) {
				if _, ok := ctx.Message().(Stopping); ok {
					panic("in stopping")
				}
			})
		case string:
			panic("in a message")
		}
	})
	for range 10 {
		_, _ = Ask[any](t.Context(), s, pid, "secret-7381")
		s.Send(pid, "secret-7381")
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	s.Send(pid, "secret-7381")
}

func TestNothingIsPrinted(t *testing.T) {
	if os.Getenv("EXECBUS_TEST_PRINT") != "" {
		misbehave(t, NewSystem(slog.New(slog.DiscardHandler)))
		if t.Failed() {
			os.Exit(1)
		}
		os.Exit(0) // before the test's own PASS
	}
	if output, err := rerunTest(t, "EXECBUS_TEST_PRINT=1"); err != nil || output != "" {
		t.Errorf("%v, printed: %q", err, output)
	}
}

func BenchmarkTell(b *testing.B) {
	s := NewSystem(slog.New(slog.DiscardHandler))
	done := make(chan struct{})
	n := 0
	pid := mustSpawn(b, s, func(ctx *Context) {
		if _, ok := ctx.Message().(int); ok {
			if n++; n == b.N {
				close(done)
			}
		}
	})
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		s.Send(pid, 1)
	}
	<-done
}

func BenchmarkAsk(b *testing.B) {
	s := NewSystem(slog.New(slog.DiscardHandler))
	pid := mustSpawn(b, s, echo)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Ask[int](b.Context(), s, pid, 1); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIdleActor(b *testing.B) {
	s := NewSystem(slog.New(slog.DiscardHandler))
	pids := make([]*PID, b.N)
	before := heap()
	for i := range pids {
		pids[i] = mustSpawn(b, s, echo)
	}
	b.ReportMetric(float64(heap()-before)/float64(b.N), "heap-B/actor")
	goruntime.KeepAlive(s)
	goruntime.KeepAlive(pids)
}

func BenchmarkSystem(b *testing.B) {
	systems := make([]*System, b.N)
	before := heap()
	for i := range systems {
		systems[i] = NewSystem(slog.New(slog.DiscardHandler))
	}
	b.ReportMetric(float64(heap()-before)/float64(b.N), "heap-B/system")
	goruntime.KeepAlive(systems)
}

func heap() uint64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc
}
