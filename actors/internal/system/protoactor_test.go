package system

import (
	"log/slog"
	"os"
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

// The tests of this file and protoactor_life_test.go assert the faults that this package works around. They use the
// bare library. One that fails after an upgrade says that a workaround may have become unnecessary, or wrong.

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

func TestLibraryStopFutureEndsAfterTenSeconds(t *testing.T) {
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
			// Longer than the subscribing takes: nothing orders its last write and the read here.
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
	case <-time.After(20 * time.Millisecond): // it spins meanwhile; an actor sending to itself would do so forever
	}
	close(gate)
	for range 20 {
		mustReceive(t, handled)
	}
	<-sent
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
