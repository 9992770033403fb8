package actors

import "github.com/execbus/execbus/messages"

// OpenSession asks the runtime actor for a session. It is answered with the *PID of its supervisor.
type OpenSession struct{ Config SessionConfig }

// CloseRuntime asks the runtime actor to close all sessions and then itself. It is answered with messages.Done.
type CloseRuntime struct{}

// runtime is the actor that owns the sessions.
type runtime struct {
	around   Surroundings
	sessions map[string]*PID // by the actor's name
	closing  []*PID          // who waits for the end; not nil: nothing new is opened
}

// StartRuntime starts the runtime actor.
func (s *System) StartRuntime(around Surroundings) (*PID, error) {
	r := &runtime{around: around, sessions: map[string]*PID{}}
	return s.Spawn("runtime", r.receive)
}

func (r *runtime) receive(ctx *Context) {
	switch m := ctx.Message().(type) {
	case OpenSession:
		r.open(ctx, m)
	case CloseRuntime:
		r.closing = append(r.closing, ctx.Sender())
		for _, session := range r.sessions {
			ctx.Send(session, CloseSession{By: messages.ByShutdown})
		}
		r.stopIfEmpty(ctx)
	case Terminated:
		delete(r.sessions, m.PID.Id)
		r.stopIfEmpty(ctx)
	}
}

func (r *runtime) open(ctx *Context, m OpenSession) {
	if r.closing != nil {
		ctx.Respond(&messages.Error{Code: messages.CodeClosed, Op: "open session", Detail: "the runtime is shutting down"})
		return
	}
	v := newSupervisor(m.Config, r.around)
	pid := ctx.Spawn("session", v.receive)
	r.sessions[pid.Id] = pid
	ctx.Respond(pid)
}

func (r *runtime) stopIfEmpty(ctx *Context) {
	if r.closing == nil || len(r.sessions) > 0 {
		return
	}
	answerAll(ctx, r.closing, messages.Done{})
	ctx.Stop(ctx.Self())
}

// answerAll sends one reply to several callers; a message that asked for no reply has a nil sender.
func answerAll(ctx *Context, askers []*PID, reply any) {
	for _, asker := range askers {
		if asker != nil {
			ctx.Send(asker, reply)
		}
	}
}
