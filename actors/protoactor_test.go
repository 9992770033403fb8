package actors

import (
	"io"
	"log/slog"
	"os"
	"os/exec"
	"reflect"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
)

// The tests of this file assert what the adapter works around. They use the bare library. One that fails after an
// upgrade says that a workaround may have become unnecessary, or wrong.

func newLibrary(logger *slog.Logger, more ...actor.ConfigOption) *actor.ActorSystem {
	options := append(more,
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return logger }),
		// A goroutine of the throttle outlives a dead letter by the interval.
		actor.WithDeadLetterThrottleInterval(time.Nanosecond))
	return actor.NewActorSystem(options...)
}

func quietLibrary() *actor.ActorSystem { return newLibrary(slog.New(slog.DiscardHandler)) }

func libraryActor(receive actor.ReceiveFunc, options ...actor.PropsOption) *actor.Props {
	return actor.PropsFromFunc(receive, options...)
}

func TestLibraryFutureWakesOnlyItsFirstWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := quietLibrary()
		future := actor.NewFuture(lib, -1)
		woken := make(chan any, 2)
		for range 2 {
			go func() {
				result, _ := future.Result()
				woken <- result
			}()
		}
		synctest.Wait()
		lib.Root.Send(future.PID(), "reply")
		synctest.Wait()
		if got := len(woken); got != 1 {
			t.Errorf("%d of 2 waiters woke, used to be 1", got)
		}
		// Nothing in the library's API wakes the other one.
		(*sync.Cond)(reflect.ValueOf(future).Elem().FieldByName("cond").UnsafePointer()).Broadcast()
	})
}

func TestLibraryFutureChangesItsResultAfterCompletion(t *testing.T) {
	lib := quietLibrary()
	future := actor.NewFuture(lib, time.Hour)
	for _, reply := range []string{"first", "second"} {
		lib.Root.Send(future.PID(), reply)
		if got, err := future.Result(); got != reply || err != nil {
			t.Errorf("after the reply %q the result is %v, %v; used to be overwritten without a lock", reply, got, err)
		}
	}
}

func TestLibraryStopFutureGivesUpAfterTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := quietLibrary()
		gate := make(chan struct{})
		pid := lib.Root.Spawn(libraryActor(func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Stopping); ok {
				<-gate
			}
		}))
		start := time.Now()
		err := lib.Root.StopFuture(pid).Wait()
		if took := time.Since(start); err != actor.ErrTimeout || took != 10*time.Second {
			t.Errorf("StopFuture: %v after %v", err, took)
		}
		close(gate)
		time.Sleep(time.Second) // in the bubble's time: for the throttle of the dead letter to the future
	})
}

func TestLibraryEventStreamPanicsIntoThePublisher(t *testing.T) {
	lib := quietLibrary()
	lib.EventStream.Subscribe(func(event any) {
		if event == "bomb" {
			panic("handler")
		}
	})
	defer func() {
		if recover() == nil {
			t.Error("the publisher did not panic")
		}
	}()
	lib.EventStream.Publish("bomb")
}

func TestLibrarySubscribeWithPredicateRaces(t *testing.T) {
	if os.Getenv("EXECBUS_TEST_RACE") != "" {
		stream := eventstream.NewEventStream()
		published := make(chan struct{})
		go func() {
			defer close(published)
			// For longer than the subscribing takes: nothing orders what it writes last and what is read here then.
			for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
				stream.Publish("event")
			}
		}()
		for range 10 {
			stream.SubscribeWithPredicate(func(any) {}, func(any) bool { return true })
		}
		<-published
		return
	}
	info, _ := debug.ReadBuildInfo()
	if info == nil || !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("only the race detector can see it")
	}
	output, err := rerunTest(t, "EXECBUS_TEST_RACE=1")
	if err == nil || !strings.Contains(output, "DATA RACE") {
		t.Errorf("no race: %v\n%s", err, output)
	}
}

// rerunTest runs the calling test in a process of its own and returns what it printed.
func rerunTest(t *testing.T, environment string) (string, error) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), environment, "GORACE=atexit_sleep_ms=0")
	output, err := cmd.CombinedOutput()
	return string(output), err
}

func TestLibraryBoundedMailboxBlocksTheSender(t *testing.T) {
	lib := quietLibrary()
	gate, handled := make(chan struct{}), make(chan any, 20)
	pid := lib.Root.Spawn(libraryActor(func(ctx actor.Context) {
		if n, ok := ctx.Message().(int); ok {
			<-gate
			handled <- n
		}
	}, actor.WithMailbox(actor.Bounded(8))))
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for n := range 20 {
			lib.Root.Send(pid, n)
		}
	}()
	select {
	case <-sent:
		t.Error("the sender was not blocked")
	case <-time.After(20 * time.Millisecond): // it spins meanwhile; an actor sending to itself would do so for ever
	}
	close(gate)
	for range 20 {
		mustReceive(t, handled)
	}
	<-sent
}

func TestLibraryStopDropsQueuedMessages(t *testing.T) {
	lib := quietLibrary()
	deadLetters := make(chan any, 10)
	lib.EventStream.Subscribe(func(event any) { deadLetters <- event })
	entered, gate, handled, stopped := make(chan struct{}), make(chan struct{}), make(chan any, 10), make(chan struct{})
	pid := lib.Root.Spawn(libraryActor(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case string:
			close(entered)
			<-gate
		case int:
			handled <- m
		case *actor.Stopped:
			close(stopped)
		}
	}))
	lib.Root.Send(pid, "block")
	<-entered
	future := lib.Root.RequestFuture(pid, 1, 30*time.Millisecond)
	lib.Root.Stop(pid)
	close(gate)
	<-stopped
	if _, err := future.Result(); err != actor.ErrTimeout {
		t.Errorf("the queued request ended with %v, used to hang until its timeout", err)
	}
	if len(handled) != 0 || len(deadLetters) != 0 {
		t.Errorf("%d messages handled, %d dead letters; used to be dropped silently", len(handled), len(deadLetters))
	}
}

func TestLibraryDeliversUserMessagesAfterStopping(t *testing.T) {
	lib := quietLibrary()
	gate, ready, stopping, after := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	pid := lib.Root.Spawn(libraryActor(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started:
			ctx.Spawn(libraryActor(func(ctx actor.Context) {
				if _, ok := ctx.Message().(*actor.Stopping); ok {
					<-gate
				}
			}))
			close(ready)
		case *actor.Stopping:
			close(stopping)
		case string:
			close(after)
		}
	}))
	<-ready
	lib.Root.Stop(pid)
	<-stopping
	lib.Root.Send(pid, "late")
	mustReceive(t, after)
	close(gate)
}

func TestLibraryPanicInStoppingRevivesTheActor(t *testing.T) {
	lib := quietLibrary()
	started := make(chan struct{}, 2)
	pid := lib.Root.Spawn(libraryActor(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started:
			started <- struct{}{}
		case *actor.Stopping:
			panic("in stopping")
		case string:
			ctx.Respond("alive")
		}
	}))
	mustReceive(t, started)
	lib.Root.Stop(pid)
	mustReceive(t, started)
	if got, err := lib.Root.RequestFuture(pid, "?", -1).Result(); got != "alive" || err != nil {
		t.Errorf("the revived actor answered %v, %v", got, err)
	}
}

func TestLibraryPanicInStoppingWithAStopDirectiveNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := quietLibrary()
		stop := actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })
		pid := lib.Root.Spawn(libraryActor(func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Stopping); ok {
				panic("in stopping")
			}
		}, actor.WithGuardian(stop)))
		lib.Root.Stop(pid)
		synctest.Wait()
		if _, registered := lib.ProcessRegistry.GetLocal(pid.Id); !registered {
			t.Error("the actor ended, used to stay half alive for ever")
		}
	})
}

func TestLibraryRestartStopsAllChildren(t *testing.T) {
	lib := quietLibrary()
	ready, childStopped, restarted := make(chan struct{}), make(chan struct{}), make(chan struct{})
	first := true
	pid := lib.Root.Spawn(libraryActor(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started:
			if !first {
				close(restarted)
				return
			}
			first = false
			ctx.Spawn(libraryActor(func(ctx actor.Context) {
				if _, ok := ctx.Message().(*actor.Stopped); ok {
					close(childStopped)
				}
			}))
			close(ready)
		case string:
			panic("restart me")
		}
	}))
	<-ready
	lib.Root.Send(pid, "bomb")
	mustReceive(t, restarted)
	mustReceive(t, childStopped)
}

func TestLibraryShutdownStopsNoActorAndPanicsWhenCalledTwice(t *testing.T) {
	lib := quietLibrary()
	pid := lib.Root.Spawn(libraryActor(func(ctx actor.Context) {
		if ctx.Message() == "?" {
			ctx.Respond("alive")
		}
	}))
	lib.Shutdown()
	if got, err := lib.Root.RequestFuture(pid, "?", -1).Result(); got != "alive" || err != nil {
		t.Errorf("after Shutdown the actor answered %v, %v", got, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("the second Shutdown did not panic")
		}
	}()
	lib.Shutdown()
}

func TestLibraryTerminatedOvertakesMessages(t *testing.T) {
	for range 20 { // the gate may open too early, see below
		if terminatedOvertakes(t) {
			return
		}
	}
	t.Error("the message always came first, used to be overtaken by Terminated")
}

func terminatedOvertakes(t *testing.T) bool {
	lib := quietLibrary()
	type last struct{}
	gate, ended, got := make(chan struct{}), make(chan struct{}), make(chan any, 2)
	watcher := make(chan *actor.PID, 1)
	parent := lib.Root.Spawn(libraryActor(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case string:
			child := ctx.Spawn(libraryActor(func(ctx actor.Context) {
				switch ctx.Message().(type) {
				case *actor.Started:
					ctx.Send(ctx.Parent(), last{})
					ctx.Stop(ctx.Self())
				}
			}))
			watcher <- child
			<-gate
		case last, *actor.Terminated:
			got <- m
		}
	}))
	lib.Root.Send(parent, "spawn")
	child := <-watcher
	// A watch that is served only after the end tells the test that Terminated is in the parent's mailbox. The library
	// answers some too early.
	lib.Root.Spawn(libraryActor(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started:
			ctx.Watch(child)
		case *actor.Terminated:
			close(ended)
		}
	}))
	<-ended
	close(gate)
	_, overtaken := mustReceive(t, got).(*actor.Terminated)
	return overtaken
}

func TestLibraryWatchOfAStoppingActorIsAnsweredTooEarly(t *testing.T) {
	lib := quietLibrary()
	gate, stopping, terminated := make(chan struct{}), make(chan struct{}), make(chan struct{})
	pid := lib.Root.Spawn(libraryActor(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started:
			ctx.Spawn(libraryActor(func(ctx actor.Context) {
				if _, ok := ctx.Message().(*actor.Stopping); ok {
					<-gate
				}
			}))
			ctx.Stop(ctx.Self())
		case *actor.Stopping:
			close(stopping)
		}
	}))
	<-stopping
	lib.Root.Spawn(libraryActor(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started:
			ctx.Watch(pid)
		case *actor.Terminated:
			close(terminated)
		}
	}))
	mustReceive(t, terminated)
	if _, registered := lib.ProcessRegistry.GetLocal(pid.Id); !registered {
		t.Error("the actor had already ended")
	}
	close(gate)
}

func TestLibraryDeadLettersAnswerWithoutANameAndLogTheContent(t *testing.T) {
	var log logBuffer
	lib := newLibrary(slog.New(slog.NewTextHandler(&log, nil)))
	got := make(chan any, 1)
	lib.Root.Spawn(libraryActor(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *actor.Started:
			ctx.Request(lib.NewLocalPID("nobody"), "secret-7381")
		case *actor.DeadLetterResponse:
			got <- m
		}
	}))
	letter := mustReceive(t, got).(*actor.DeadLetterResponse)
	if letter.Target != nil {
		t.Errorf("the response names %v", letter.Target)
	}
	// The library answers before it logs, so the text may come a moment later.
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(log.String(), "secret-7381"); goruntime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("the content was not logged:\n%s", log.String())
		}
	}
}

func TestLibraryPrintsUnlessItIsTold(t *testing.T) {
	stderr := captureFile(t, &os.Stderr, func() { actor.NewActorSystem() })
	if !strings.Contains(stderr, "actor system started") {
		t.Errorf("the default logger wrote %q to stderr", stderr)
	}
	stdout := captureFile(t, &os.Stdout, func() {
		lib := newLibrary(slog.New(slog.DiscardHandler), actor.WithDeveloperSupervisionLogging(true))
		started := make(chan struct{}, 2)
		pid := lib.Root.Spawn(libraryActor(func(ctx actor.Context) {
			switch ctx.Message().(type) {
			case *actor.Started:
				started <- struct{}{}
			case string:
				panic("print me")
			}
		}))
		mustReceive(t, started)
		lib.Root.Send(pid, "bomb")
		mustReceive(t, started) // restarted, so the failure has been printed
	})
	if !strings.Contains(stdout, "print me") {
		t.Errorf("DeveloperSupervisionLogging wrote %q to stdout", stdout)
	}
}

// captureFile returns what run writes to a standard file.
func captureFile(t *testing.T, file **os.File, run func()) string {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	saved := *file
	*file = writer
	run()
	*file = saved
	writer.Close()
	text, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	return string(text)
}

// mustReceive takes a value that must come.
func mustReceive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came for 10 s\n" + string(debug.Stack()))
		panic("unreachable")
	}
}
