package process

import (
	"context"
	"errors"
	"fmt"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// spawning is one call of a spawner. The spawner may be a host's own and fail in any way, so the call runs in a
// goroutine that nothing waits for. Our own spawners always return.
type spawning struct {
	system  *system.System
	runtime *system.PID
	callOff context.CancelFunc
	// fate has room for one: the goroutine that has returned or the actor that stops waiting, whichever comes first, fills it.
	fate chan struct{}
}

// spawnResult is the result of a call of a spawner.
type spawnResult struct {
	child ptyio.Child
	err   error
}

// startSpawning calls the spawner. Every receiver of events is in place before.
func (p *process) startSpawning(number int) *spawning {
	s := &spawning{system: p.ctx.System(), runtime: p.runtime, fate: make(chan struct{}, 1)}
	wanted, callOff := context.WithCancel(context.Background())
	s.callOff = callOff
	self, supervisor, id := p.ctx.Self(), p.supervisor, p.id // the goroutines must not touch the actor
	launch, spawner := p.decision.launch, p.Spawner
	born := make(chan struct{}, 1) // room for one: a child is born once
	launch.Events = relay(s.system, self, supervisor, id, number, born)
	begin := p.ctx.Detach
	if _, prompt := spawner.(ptyio.Prompt); prompt {
		begin = p.ctx.Go
	}
	begin(func(alive context.Context) any {
		defer context.AfterFunc(alive, callOff)()
		result := spawnResult{err: errSpawnerLeft}
		defer func() { // even if the spawner ends its goroutine
			switch {
			case result.err == nil:
				launch.Events(ptyio.Spawned{Child: result.child}) // in case the spawner has not reported it
			case len(born) == 0: // otherwise the child that it reported before it failed lives
				s.system.Send(supervisor, protocol.NoChild{Process: id, Attempt: number})
				s.system.Send(self, spawnFailed{number, result.err})
			}
			s.returned()
		}()
		result.call(wanted, spawner, launch)
		return nil
	})
	return s
}

// call asks the spawner.
func (o *spawnResult) call(ctx context.Context, spawner ptyio.Spawner, launch ptyio.Launch) {
	defer func() {
		if reason := recover(); reason != nil {
			o.err = &messages.Error{Code: messages.ErrRuntimeFailure, Op: "spawn", Subject: launch.Argv[0],
				Detail: fmt.Sprintf("the spawner has crashed: %v", reason)}
		}
	}()
	child, err := spawner.Spawn(ctx, launch)
	if child == nil && err == nil {
		err = errors.New("the spawner returned neither a process nor an error")
	}
	if _, ours := errors.AsType[*messages.Error](err); err != nil && !ours {
		err = &messages.Error{Code: messages.ErrSpawnFailed, Op: "spawn", Subject: launch.Argv[0], Detail: err.Error()}
	}
	o.child, o.err = child, err
}

var (
	errSpawnerLeft = &messages.Error{Code: messages.ErrSpawnFailed, Op: "spawn", Detail: "the spawner failed", Hint: "ptyio.Spawner.Spawn ended its goroutine"}

	errSpawnerHangs = &messages.Error{Code: messages.ErrRuntimeFailure, Op: "spawn",
		Detail: "the spawner did not return when the start was cancelled; try again later"}
)

// relay passes a child's events to the process's actor, and those about its life to the supervisor, too, because the
// process's actor may crash. It is called by several goroutines of the spawner.
func relay(sys *system.System, process, supervisor *system.PID, id messages.ProcessID, number int, born chan struct{}) func(ptyio.Event) {
	told := make(chan struct{}) // closed when the birth has been reported: later events must not overtake it
	return func(e ptyio.Event) {
		if spawned, is := e.(ptyio.Spawned); is {
			select {
			case born <- struct{}{}:
				if !ptyio.IsPrompt(spawned.Child) {
					spawned.Child = abandonedOnce{spawned.Child, make(chan struct{}, 1)}
					e = spawned
				}
				event := protocol.ChildEvent{Process: id, Attempt: number, Event: e, PID: pidOf(spawned.Child)}
				sys.Send(supervisor, event)
				sys.Send(process, event)
				close(told)
			default:
				<-told
			}
			return
		}
		var event any = protocol.ChildEvent{Process: id, Attempt: number, Event: e} // made once for both
		switch e.(type) {
		case ptyio.Exited, ptyio.Background, ptyio.TreeEnded:
			sys.Send(supervisor, event)
		}
		sys.Send(process, event)
	}
}

// returned is called by the goroutine. If the actor no longer waits, the runtime's actor is told of the return.
func (s *spawning) returned() {
	select {
	case s.fate <- struct{}{}:
	default:
		s.system.Send(s.runtime, protocol.SpawnerHangs{Change: -1})
	}
}

// giveUp stops waiting for a spawner, and reports true, if it has not returned. The runtime then starts nothing until
// it does.
func (s *spawning) giveUp() bool {
	select {
	case s.fate <- struct{}{}:
		s.system.Send(s.runtime, protocol.SpawnerHangs{Change: 1})
		return true
	default:
		return false // its result is about to arrive
	}
}

// callOff cancels the spawner's work, and stops waiting if the spawner does not return in time.
func (p *process) callOff() {
	p.attempt.spawning.callOff()
	p.ctx.After(p.Patience.Spawn, spawnOverdue{p.attempt.number})
}
