package actors

import (
	"math/rand/v2"
	"path/filepath"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// SessionConfig is what a supervisor is started with. It is not changed.
type SessionConfig struct {
	Session     messages.SessionID
	Dir         string // absolute
	Environment messages.EnvironmentPolicy
	Base        []string // the host's environment
}

// CloseSession asks a supervisor to end every process and then itself. It is answered with messages.Done.
type CloseSession struct{ By messages.TerminatedBy }

// supervisor is the actor that owns the processes of one session.
type supervisor struct {
	*surroundings
	config  SessionConfig
	ctx     *Context
	entries map[messages.ProcessID]*entry
	closing []*PID // who waits for the end; not nil: nothing new is started
}

// entry is what a supervisor knows of a process.
type entry struct {
	actor *PID
	call  messages.CallID
	child ptyio.Child // nil before it is born
}

func newSupervisor(config SessionConfig, around Surroundings) *supervisor {
	return &supervisor{surroundings: around.of(config.Session), config: config, entries: map[messages.ProcessID]*entry{}}
}

func (v *supervisor) receive(ctx *Context) {
	v.ctx = ctx
	switch m := ctx.Message().(type) {
	case Started, Stopping, Terminated:
	case messages.ExecCommand:
		v.exec(m)
	case messages.WriteInput:
		v.route(m.Process, m)
	case messages.CloseStdin:
		v.route(m.Process, m)
	case messages.Resize:
		v.route(m.Process, m)
	case messages.Signal:
		v.route(m.Process, m)
	case messages.Terminate:
		v.route(m.Process, m)
	case CloseSession:
		v.close(m)
	case born:
		if e := v.entries[m.id]; e != nil {
			e.child = m.child
		}
	case ended:
		v.ended(m.id)
	case Crashed:
		v.crashed(m)
	}
}

func (v *supervisor) exec(m messages.ExecCommand) {
	if v.closing != nil {
		v.ctx.Respond(&messages.Error{Code: messages.CodeClosed, Op: "exec", Detail: "the session is closing"})
		return
	}
	launch, err := v.launch(m)
	if err != nil {
		v.ctx.Respond(err)
		return
	}
	id := v.reserve()
	p := &process{surroundings: v.surroundings, supervisor: v.ctx.Self()}
	e := &entry{actor: v.ctx.Spawn("process", p.receive), call: m.Call}
	v.entries[id] = e
	v.ctx.Forward(e.actor, begin{id, m, launch})
}

// launch is the plan "run, unsandboxed". Policy takes this place.
func (v *supervisor) launch(m messages.ExecCommand) (ptyio.Launch, error) {
	dir := m.Dir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(v.config.Dir, dir)
	}
	policy := v.config.Environment
	if m.Environment != nil {
		policy = *m.Environment
	}
	env, err := ptyio.BuildEnvironment(v.config.Base, policy, ptyio.Overrides())
	if err != nil {
		return ptyio.Launch{}, err
	}
	return ptyio.Launch{Argv: m.Argv, Env: env, Dir: dir, TTY: m.TTY, Size: m.Size, OpenStdin: m.OpenStdin,
		OnLeaderExit: m.OnLeaderExit, Grace: m.Grace}, nil
}

// Process ids are drawn from this range.
const (
	firstID = 1_000
	endID   = 100_000
)

func (v *supervisor) reserve() messages.ProcessID {
	for {
		id := messages.ProcessID(firstID + rand.IntN(endID-firstID))
		if v.entries[id] == nil {
			return id
		}
	}
}

func (v *supervisor) route(id messages.ProcessID, message any) {
	e := v.entries[id]
	if e == nil {
		v.ctx.Respond(&messages.Error{Code: messages.CodeUnknownProcess, Op: "use process", Subject: id.String(),
			Detail: "there is no such process", Hint: "list the processes of this session"})
		return
	}
	v.ctx.Forward(e.actor, message)
}

func (v *supervisor) ended(id messages.ProcessID) {
	if e := v.entries[id]; e != nil {
		delete(v.entries, id)
		v.ctx.Send(e.actor, retire{})
	}
	v.closeIfEmpty()
}

// crashed ends the tree of a process whose actor is no more, and says its last word for it.
func (v *supervisor) crashed(m Crashed) {
	for id, e := range v.entries {
		if e.actor.Equal(m.PID) {
			delete(v.entries, id)
			if e.child != nil {
				e.child.Abandon()
			}
			v.bus.Publish(messages.ExecEnded{
				Origin:    messages.Origin{Session: v.session, Process: id, Call: e.call},
				EndRecord: messages.EndRecord{Cause: messages.CauseRuntimeFailure, Status: messages.NoStatus, Detail: "its actor crashed"},
			})
		}
	}
	v.closeIfEmpty()
}

func (v *supervisor) close(m CloseSession) {
	v.closing = append(v.closing, v.ctx.Sender())
	for id, e := range v.entries {
		v.ctx.Send(e.actor, messages.Terminate{Process: id, By: m.By})
	}
	v.closeIfEmpty()
}

func (v *supervisor) closeIfEmpty() {
	if v.closing == nil || len(v.entries) > 0 {
		return
	}
	answerAll(v.ctx, v.closing, messages.Done{})
	v.ctx.Stop(v.ctx.Self())
}
