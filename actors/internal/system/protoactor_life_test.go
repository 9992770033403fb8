package system

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

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
			t.Error("the actor ended, used to stay half alive forever")
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
