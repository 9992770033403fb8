package process

import (
	"context"
	"errors"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// startSpawning calls the spawner, which may be a host's own. Every receiver of events is in place before. Once callOff was called, the
// spawner has a bounded time to return; the runtime then starts nothing until it does.
func (p *process) startSpawning(number int) (callOff context.CancelFunc) {
	sys, self, supervisor, runtime, id := p.ctx.System(), p.ctx.Self(), p.supervisor, p.runtime, p.id // the goroutines must not touch the actor
	launch, spawner := p.decision.launch, p.Spawner
	if n := p.network(); n != nil {
		launch.Env = n.Begin(id, launch.Env, p.settings.Base)
	}
	launch.Executions = p.executions()
	born := make(chan struct{}, 1) // room for one: a child is born once
	launch.Events = relay(sys, self, supervisor, id, number, born)
	returned := func(child ptyio.Child, err error) {
		switch {
		case err == nil:
			launch.Events(ptyio.Spawned{Child: child}) // in case the spawner has not reported it
		case len(born) == 0: // otherwise the child that it reported before it failed lives
			sys.Send(supervisor, protocol.NoChild{Process: id, Attempt: number})
			sys.Send(self, spawnFailed{number, spawnError(err, launch.Argv[0])})
		}
	}
	hangs := false
	call := hostcode.Call[ptyio.Child]{Who: "the spawner", Patience: p.Patience.Spawn, Do: func(ctx context.Context) (ptyio.Child, error) {
		child, err := spawner.Spawn(ctx, launch)
		if child == nil && err == nil {
			err = errors.New("the spawner returned neither a process nor an error")
		}
		return child, err
	}, Late: func(child ptyio.Child, err error) {
		returned(child, err)
		if hangs {
			sys.Send(runtime, protocol.SpawnerHangs{Change: -1})
		}
	}}
	answer := func(child ptyio.Child, err error) {
		failure, failed := errors.AsType[*hostcode.Failure](err)
		if !failed || !failure.Hangs {
			returned(child, err)
			return
		}
		if hangs = len(born) == 0; hangs {
			sys.Send(runtime, protocol.SpawnerHangs{Change: 1})
			sys.Send(self, spawnFailed{number, errSpawnerHangs})
		}
	}
	wanted, callOff := context.WithCancel(context.Background())
	begin := p.ctx.Detach
	if _, prompt := spawner.(ptyio.Prompt); prompt {
		begin = p.ctx.Go // Shutdown waits for it
	}
	begin(func(alive context.Context) any {
		defer context.AfterFunc(alive, callOff)()
		call.Here(wanted, answer)
		return nil
	})
	return callOff
}

// network is the way by which the current attempt reaches named hosts; nil if it reaches all or none.
func (p *process) network() shared.Network {
	if p.decision == nil || p.decision.launch.Sandbox == nil {
		return nil
	}
	if more := p.decision.launch.Sandbox.Confinement().Additional; !more.Empty() && more.Network != nil && more.Network.Enabled {
		return nil
	}
	return p.settings.Network
}

// blockedHosts are the connections that it was not allowed to make.
func (p *process) blockedHosts() []messages.Connection {
	if p.settings.Network == nil {
		return nil
	}
	return p.settings.Network.Blocked(p.id)
}

// newlyBlocked are those that no result has named.
func (p *process) newlyBlocked() []messages.Connection {
	all := p.blockedHosts()
	fresh := all[min(p.blockedTold, len(all)):]
	p.blockedTold = len(all)
	return fresh
}

// spawnError is the error of a command that the spawner did not start.
func spawnError(err error, program string) error {
	if _, typed := errors.AsType[*messages.Error](err); typed {
		return err
	}
	code := messages.ErrSpawnFailed
	if _, failed := errors.AsType[*hostcode.Failure](err); failed {
		code = messages.ErrRuntimeFailure
	}
	return &messages.Error{Code: code, Op: "spawn", Subject: program, Detail: err.Error()}
}

var errSpawnerHangs = &messages.Error{Code: messages.ErrRuntimeFailure, Op: "spawn",
	Detail: "the spawner did not return when the start was cancelled; try again later"}

// relay passes a child's events to the process's actor, and those about its life to the supervisor, too, because the
// process's actor may crash. It is called by several goroutines of the spawner.
func relay(sys *system.System, process, supervisor *system.PID, id messages.ProcessID, number int, born chan struct{}) func(ptyio.Event) {
	told := make(chan struct{}) // closed when the birth has been reported: later events must not overtake it
	return func(e ptyio.Event) {
		if spawned, is := e.(ptyio.Spawned); is {
			select {
			case born <- struct{}{}:
				if !ptyio.IsPrompt(spawned.Child) {
					spawned.Child = foreign(spawned.Child)
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
