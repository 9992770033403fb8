package actors

import (
	"maps"
	"slices"
	"time"

	"github.com/execbus/execbus/actors/kernel"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// CloseSession asks a supervisor to end every process and then itself. It is answered with messages.Done.
type CloseSession struct{ By messages.TerminatedBy }

// supervisor is the actor that owns the processes of one session. It routes requests, keeps the limits, and remembers
// the ended ones.
type supervisor struct {
	*surroundings
	ctx      *kernel.Context
	runtime  *kernel.PID
	config   SessionConfig
	settings *settings
	paused   int    // by the host
	clock    uint64 // counts uses

	entries map[messages.ProcessID]*entry
	slots   int                  // taken by entries
	granted int                  // of these, by the runtime
	queue   []messages.ProcessID // wait for a slot that is being freed

	records     []*record // the oldest first
	recordBytes int64
	expiry      *kernel.Timer

	approval *kernel.PID // asks a person; nil when it has crashed
	keeper   *kernel.PID // of the rules
	rules    newRules
	asking   bool // a question is open: deadlines are held

	sweeps  []sweep // not over yet
	closing bool    // nothing new is started, and the end of the last process is ours
}

// sweep is a caller that waits for the end of all the processes that there were when it came. Later ones are no business of
// its own: where commands keep coming it would wait for ever.
type sweep struct {
	asker *kernel.PID
	left  map[messages.ProcessID]*entry
}

// entry is what a supervisor knows of a process that has not ended.
type entry struct {
	actor   *kernel.PID
	info    messages.ProcessInfo
	used    uint64
	slot    bool // it has one, or it is reserved for it
	granted bool // the runtime counts it
	pruned  bool
	child   ptyio.Child         // nil before it is born
	open    []*kernel.PID       // callers that wait for an answer
	enders  []*kernel.PID       // callers that wait for the end
	span    span                // of the process, for tracing
	unborn  bool                // there will be no child
	status  messages.ExitStatus // of the leader, as the child says
	tree    *messages.TreeReport
	crashed *messages.EndRecord // its actor is gone; this is published when its tree is, too
}

func newSupervisor(config SessionConfig, around Surroundings, runtime, keeper *kernel.PID, rules newRules) *supervisor {
	settings := config.settings()
	settings.rules = rules.rules
	return &supervisor{surroundings: around.of(config.Session), runtime: runtime, config: config, keeper: keeper, rules: rules,
		settings: settings.built(), entries: map[messages.ProcessID]*entry{}}
}

func (v *supervisor) receive(ctx *kernel.Context) {
	v.ctx = ctx
	crashed := true
	defer func() {
		if crashed { // there will be no Stopping
			v.leave()
		}
	}()
	v.handle(ctx.Message())
	crashed = false
}

func (v *supervisor) handle(message any) {
	switch m := message.(type) {
	case kernel.Started:
		v.startApproval()
	case kernel.Terminated:
	case kernel.Stopping:
		v.leave()
	case messages.ExecCommand:
		v.exec(order{ExecCommand: m})
	case messages.RunCommand:
		v.exec(orderOf(&m))
	case messages.WriteStdin:
		v.write(m)
	case messages.Poll:
		v.call(m.Process, m)
	case messages.ReadOutput:
		v.route(m.Process, m)
	case messages.CloseStdin:
		v.route(m.Process, m)
	case messages.Resize:
		v.route(m.Process, m)
	case messages.Signal:
		v.route(m.Process, m)
	case messages.Terminate:
		v.terminate(m)
	case messages.TerminateAll:
		v.terminateAll(m.By)
	case messages.ListProcesses:
		v.ctx.Respond(v.list(m))
	case messages.UpdateEnvironment:
		v.update(m)
	case messages.PauseYields:
		v.pause(1)
	case messages.ResumeYields:
		v.pause(-1)
	case messages.Decide, messages.ListQuestions, messages.ListGrants, messages.RevokeGrant:
		v.toApproval(m)
	case messages.CancelWait:
		v.cancel(m)
	case CloseSession:
		v.closing = true
		v.terminateAll(m.By)
	default:
		v.internal(m)
	}
}

// internal handles what the processes, the runtime and timers say.
func (v *supervisor) internal(message any) {
	switch m := message.(type) {
	case wantSlot:
		v.wantSlot(m.id)
	case slotTaken:
		v.slotTaken(m)
	case progress:
		v.progress(m)
	case answered:
		if e := v.entries[m.id]; e != nil {
			e.open = slices.DeleteFunc(e.open, m.asker.Equal)
		}
	case childEvent:
		v.childEvent(m)
	case asking:
		v.ask(m.open)
	case newRules:
		v.newRules(m)
	case unborn:
		if e := v.entries[m.id]; e != nil {
			e.unborn = true
			v.closeCrashed(e)
		}
	case ended:
		v.ended(m)
	case kernel.Crashed:
		v.crashed(m)
	case expireRecords:
		v.expire()
	}
}

// exec gives a command an id and an actor.
func (v *supervisor) exec(o order) {
	if v.closing {
		v.ctx.Respond(&messages.Error{Code: messages.CodeClosed, Op: "exec", Detail: "the session is closing"})
		return
	}
	if err := v.settings.check(&o); err != nil {
		v.ctx.Respond(err)
		return
	}
	if len(v.entries) >= v.config.MaxProcesses+maxQueued {
		v.ctx.Respond(v.limitReached())
		return
	}
	id := v.reserve()
	p := &process{surroundings: v.surroundings, supervisor: v.ctx.Self(), approval: v.approval, id: id, order: o,
		settings: v.settings, paused: v.pauses()}
	e := &entry{actor: v.ctx.Spawn("process", p.receive), status: messages.NoStatus, span: v.telemetry.began()}
	now := time.Now()
	e.info = messages.ProcessInfo{Process: id, Call: o.Call, Label: o.label(), TTY: o.TTY, State: messages.StatePlanning,
		Began: now, LastUsed: now}
	v.entries[id] = e
	v.use(e)
	v.forward(e, begin{})
}

// maxQueued bounds the commands of a session that wait for a slot or have not come that far.
const maxQueued = 256

// use notes that a process was used.
func (v *supervisor) use(e *entry) {
	v.clock++
	e.used, e.info.LastUsed = v.clock, time.Now()
}

// forward passes on a call whose answer may come late, and remembers who waits.
func (v *supervisor) forward(e *entry, message any) {
	if asker := v.ctx.Sender(); asker != nil {
		e.open = append(e.open, asker)
	}
	v.ctx.Forward(e.actor, message)
}

// find gives the entry of an id, or answers the message at hand itself.
func (v *supervisor) find(id messages.ProcessID, message any) *entry {
	if e := v.entries[id]; e != nil {
		if e.crashed == nil {
			return e
		}
		v.ctx.Respond(crashError(id, e.crashed.Detail))
		return nil
	}
	if r := v.record(id); r != nil {
		v.answerRecord(r, message)
		return nil
	}
	v.ctx.Respond(&messages.Error{Code: messages.CodeUnknownProcess, Op: "use process", Subject: id.String(),
		Detail: "there is no process with this id", Hint: "list the processes of the session"})
	return nil
}

// route passes on a request that is answered at once.
func (v *supervisor) route(id messages.ProcessID, message any) {
	if e := v.find(id, message); e != nil {
		v.ctx.Forward(e.actor, message)
	}
}

// call passes on a request that waits.
func (v *supervisor) call(id messages.ProcessID, message any) {
	if e := v.find(id, message); e != nil {
		v.use(e)
		v.forward(e, message)
	}
}

func (v *supervisor) write(m messages.WriteStdin) {
	if len(m.Bytes) == 0 && !m.NoWait {
		poll := messages.Poll{Process: m.Process, Yield: m.Yield, NoTimeout: m.NoTimeout, MaxOutputTokens: m.MaxOutputTokens}
		v.call(m.Process, poll)
		return
	}
	if m.NoTimeout {
		v.ctx.Respond(&messages.Error{Code: messages.CodeInvalidRequest, Op: "write", Subject: m.Process.String(),
			Detail: "`no_timeout=true` requires empty `chars`, and a call that waits", Hint: "write first and then poll"})
		return
	}
	v.call(m.Process, m)
}

func (v *supervisor) terminate(m messages.Terminate) {
	e := v.entries[m.Process]
	if e == nil {
		v.find(m.Process, m)
		return
	}
	if m.By == "" {
		m.By = messages.ByUser
	}
	if asker := v.ctx.Sender(); asker != nil {
		e.enders = append(e.enders, asker)
	}
	v.ctx.Send(e.actor, m)
}

func (v *supervisor) terminateAll(by messages.TerminatedBy) {
	if by == "" {
		by = messages.ByUser
	}
	for id, e := range v.entries {
		v.ctx.Send(e.actor, messages.Terminate{Process: id, By: by})
	}
	v.sweeps = append(v.sweeps, sweep{v.ctx.Sender(), maps.Clone(v.entries)})
	v.swept()
}

// swept answers those whose processes have all ended.
func (v *supervisor) swept() {
	v.sweeps = slices.DeleteFunc(v.sweeps, func(s sweep) bool {
		over := len(s.left) == 0
		if over {
			answerAll(v.ctx, []*kernel.PID{s.asker}, messages.Done{})
		}
		return over
	})
	if v.closing && len(v.entries) == 0 {
		v.ctx.Stop(v.ctx.Self())
	}
}

func (v *supervisor) pause(change int) {
	if v.paused+change >= 0 {
		v.paused += change
		v.hold(change > 0)
	}
	v.ctx.Respond(messages.Done{})
}

// hold tells every process of one more reason to hold deadlines, or one less.
func (v *supervisor) hold(more bool) {
	var message any = resume{}
	if more {
		message = pause{}
	}
	for _, e := range v.entries {
		v.ctx.Send(e.actor, message)
	}
}

func (v *supervisor) cancel(m messages.CancelWait) {
	for _, e := range v.entries {
		if slices.ContainsFunc(e.open, func(asker *kernel.PID) bool { return asker.Id == m.Waiter }) {
			v.ctx.Send(e.actor, cancelWait{m.Waiter})
			return
		}
	}
}
