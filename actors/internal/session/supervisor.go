package session

import (
	"cmp"
	"math/rand/v2"
	"strings"

	"github.com/execbus/execbus/actors/internal/process"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
)

// supervisor is the actor that owns the processes of one session. It routes requests, knows every open call, keeps the
// limits, and remembers the processes that have ended.
type supervisor struct {
	*shared.Session
	ctx      *system.Context
	config   shared.SessionConfig
	runtime  *system.PID
	settings *shared.Settings
	paused   int // PauseYields not yet resumed

	entries      map[messages.ProcessID]*entry
	endings      map[*entry]struct{} // processes that may hold a start back; see teardown
	calls        calls
	slots        slots
	ids          ids
	records      records
	terminations []*termination // that still wait
	asking       consultation
	patches      []patch // in the order of their calls
	closing      bool    // nothing new is started, and the session ends with its last process
}

// Config is what a session is started with.
type Config struct {
	Session  *shared.Session
	Config   shared.SessionConfig
	Rulebook *system.PID       // which makes new rules
	Rules    protocol.NewRules // those that hold now
}

// Start starts the actor of a session as a child of the runtime's actor.
func Start(runtime *system.Context, c Config) *system.PID {
	return runtime.Spawn("session", newSupervisor(c, runtime.Self()).receive)
}

func newSupervisor(c Config, runtime *system.PID) *supervisor {
	settings := c.Config.Settings()
	settings.Rules = c.Rules.Rules
	return &supervisor{Session: c.Session, runtime: runtime, config: c.Config, settings: settings.Built(), entries: map[messages.ProcessID]*entry{}, endings: map[*entry]struct{}{},
		asking: consultation{keeper: c.Rulebook, rules: c.Rules, busy: make(chan struct{}, 1)}, ids: ids{random: !c.Config.DeterministicIDs}}
}

func (v *supervisor) receive(ctx *system.Context) {
	v.ctx = ctx
	v.handle(ctx.Message())
}

func (v *supervisor) handle(message any) {
	if request, is := message.(interface{ Check() error }); is {
		if err := request.Check(); err != nil {
			v.ctx.Respond(err)
			return
		}
	}
	switch m := message.(type) {
	case system.Started:
		v.startApproval()
		v.settings.Enclose(v.ctx.Detach, v.Spawner, v.Protected)
	case system.Stopping:
		v.leave(nil)
	case system.Crashing:
		v.leave(m.Message)
	case system.Crashed:
		v.crashed(m)
	case system.Terminated:
		v.patchOver(m.PID)
	case system.WorkFailed: // of a lookup, whose result says so
	case messages.ExecCommand:
		v.exec(shared.Command{ExecCommand: m})
	case protocol.StartCommand:
		v.exec(shared.Command{ExecCommand: m.ExecCommand, StartOnly: true})
	case messages.RunCommand:
		v.exec(shared.CommandOf(&m))
	case messages.ApplyPatch:
		v.applyPatch(m)
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
	case messages.AwaitExit:
		v.awaitExit(m)
	case messages.Terminate:
		v.terminate(m)
	case protocol.TerminateAll:
		v.terminateAll(m.By)
	case protocol.EndOwner:
		v.endOwner(m.Owner)
	case protocol.CloseSession:
		v.closing = true
		v.endPatches(true, "", &messages.Error{Code: messages.ErrClosed, Op: "apply patch", Detail: "the session was closed, and nothing was changed"})
		v.terminateAll(m.By)
	case protocol.CancelWait:
		v.cancel(m)
	case protocol.ListProcesses:
		v.ctx.Respond(v.list(m))
	case protocol.DescribeProcess:
		v.ctx.Respond(v.describe(m.Process))
	case messages.UpdateEnvironment:
		v.update(m)
	case protocol.ResolveDir:
		v.ctx.Respond(v.settings.Within(m.Dir))
	case protocol.PauseYields:
		v.pause(1)
	case protocol.ResumeYields:
		v.pause(-1)
	case messages.Decide, protocol.ListQuestions, protocol.ListGrants, messages.RevokeGrant:
		v.toApproval(m)
	case protocol.NewRules:
		v.newRules(m)
	case protocol.TrimRecords:
		v.trimRecords(m.Left)
	case expireRecords:
		v.expireRecords()
	case protocol.Request:
		v.tooLate(m)
	case protocol.Answered:
		v.answered(m.Call)
	case protocol.Progress:
		v.progress(m)
	case protocol.WantSlot:
		v.progress(m.Progress)
		v.wantSlot(m.Process)
	case protocol.SlotTaken:
		v.slotTaken(m)
	case protocol.SlotAwaited:
		v.slotAwaited(m)
	case slotOverdue:
		v.slotOverdue(m.id)
	case protocol.Yielded:
		v.yielded(m.Process)
	case protocol.Consult:
		v.consult(m)
	case protocol.Withdraw:
		v.withdraw(m)
	case protocol.Verdict:
		v.verdict(m)
	case planOverdue:
		v.asking.timer = nil
		v.serveQueue()
	case protocol.OwnerAborted:
		v.cancelCallsOf(m.Owner)
	case protocol.ChildEvent:
		v.childEvent(m)
	case protocol.NoChild:
		v.unborn(m)
	case protocol.Ended:
		v.ended(m)
	case protocol.Handover:
		v.handover(m)
	case teardownOver:
		v.teardownOver(m.id)
	case takeoverOverdue:
		v.takeoverOverdue(m.id)
	default:
		v.ctx.Unexpected()
	}
}

// exec gives a command an id and an actor.
func (v *supervisor) exec(o shared.Command) {
	if v.closing {
		v.ctx.Respond(&messages.Error{Code: messages.ErrClosed, Op: "exec", Detail: "the session is closing"})
		return
	}
	if o.OnLeaderExit == "" {
		o.OnLeaderExit = v.config.OnLeaderExit
	}
	if err := v.settings.Check(&o); err != nil {
		v.ctx.Respond(err)
		return
	}
	if len(v.entries) >= v.config.MaxProcesses+maxQueued {
		v.ctx.Respond(v.limitReached())
		return
	}
	id := v.reserve()
	e := newEntry(id, &o, process.Start(v.ctx, process.Config{Session: v.Session, Runtime: v.runtime, Process: id, Command: o, Settings: v.settings, Paused: v.paused}))
	e.span = v.Telemetry.Began()
	v.entries[id] = e
	v.use(e)
	v.asking.queue = append(v.asking.queue, e)
	v.ctx.Send(e.actor, protocol.Begin{Caller: v.open(e)})
}

// maxQueued bounds the commands of a session that wait for a slot or for an earlier step.
const maxQueued = 256

// lookup returns the entry of an id, or answers the current message itself.
func (v *supervisor) lookup(id messages.ProcessID, message any) *entry {
	if e := v.entries[id]; e != nil {
		if e.takeover == nil {
			return e
		}
		v.ctx.Respond(crashError(id, e.takeover.record.Detail))
		return nil
	}
	if v.records.find(id) != nil {
		v.answerRecord(id, protocol.Request{Caller: v.newCall(), Message: message})
		return nil
	}
	v.ctx.Respond(unknownProcess(id))
	return nil
}

func unknownProcess(id messages.ProcessID) *messages.Error {
	return &messages.Error{Code: messages.ErrUnknownProcess, Op: "use process", Subject: id.String(),
		Detail: "there is no process with this id; list the processes of the session", Hint: "call Session.List"}
}

// route passes on a request that does not count as use of the process.
func (v *supervisor) route(id messages.ProcessID, message any) {
	if e := v.lookup(id, message); e != nil {
		v.ctx.Send(e.actor, protocol.Request{Caller: v.open(e), Message: message})
	}
}

// call passes on a request that uses the process: a process in use is not among the first to end when slots are scarce.
func (v *supervisor) call(id messages.ProcessID, message any) {
	if e := v.lookup(id, message); e != nil {
		v.use(e)
		v.ctx.Send(e.actor, protocol.Request{Caller: v.open(e), Message: message})
	}
}

func (v *supervisor) write(m messages.WriteStdin) {
	if len(m.Bytes) == 0 && !m.UntilTaken && !m.NoWait {
		v.call(m.Process, messages.Poll{Process: m.Process, Yield: m.Yield, NoTimeout: m.NoTimeout,
			MaxOutputTokens: m.MaxOutputTokens, MaxOutputBytes: m.MaxOutputBytes})
		return
	}
	v.call(m.Process, m)
}

func (v *supervisor) pause(change int) {
	if v.paused+change >= 0 {
		v.paused += change
		var message any = protocol.Resume{}
		if change > 0 {
			message = protocol.Pause{}
		}
		for _, e := range v.entries {
			v.ctx.Send(e.actor, message)
		}
	}
	v.ctx.Respond(protocol.Done{})
}

// endOwner ends the processes of an owner. Its calls need not wait for that.
func (v *supervisor) endOwner(owner string) {
	v.terminateEach(messages.TerminatedByOwner, func(e *entry) bool { return owner != "" && e.info.Owner == owner })
	v.cancelCallsOf(owner)
}

// cancelCallsOf cancels the calls that wait for processes of an owner.
func (v *supervisor) cancelCallsOf(owner string) {
	v.endPatches(false, owner, &messages.Error{Code: messages.ErrCancelled, Op: "apply patch", Detail: "what it belonged to was ended, and nothing was changed"})
	for _, e := range v.entries {
		if owner != "" && e.info.Owner == owner {
			v.ctx.Send(e.actor, protocol.CancelCalls{})
		}
	}
}

// update replaces the settings of later commands.
func (v *supervisor) update(m messages.UpdateEnvironment) {
	next := *v.settings
	if m.Dir != nil {
		next.Dir = v.settings.Within(*m.Dir)
		if strings.ContainsRune(next.Dir, 0) {
			v.ctx.Respond(shared.BadField("dir", "it contains a NUL byte; remove it", ""))
			return
		}
	}
	if m.Environment != nil {
		next.Environment = *m.Environment
	}
	if m.Approval != nil {
		next.Approval = *m.Approval
	}
	if m.Sandbox != nil {
		next.Sandbox = messages.Clone(*m.Sandbox)
	}
	if m.LeastAssurance != nil {
		next.Least = *m.LeastAssurance
	}
	if m.Limits != nil {
		next.Limits = *m.Limits
	}
	if err := cmp.Or(next.Approval.Check(), next.Sandbox.Check(), next.Least.Check(), next.Limits.Check()); err != nil {
		v.ctx.Respond(err)
		return
	}
	built := next.Built()
	if m.Environment != nil && built.EnvError != nil { // every later command would fail
		v.ctx.Respond(built.EnvError)
		return
	}
	if m.Sandbox != nil || m.LeastAssurance != nil {
		v.settings.Enclosing.Over()
		built.Enclose(v.ctx.Detach, v.Spawner, v.Protected)
	}
	v.settings = built
	v.ctx.Respond(protocol.Done{})
}

// Process ids are from this range.
const (
	firstID = 1_000
	endID   = 100_000
)

// ids counts up from a random start, or from the first, so that none is reused soon.
type ids struct {
	random bool
	next   messages.ProcessID // zero before the first
}

// reserve gives an id that neither a process nor a record has.
func (v *supervisor) reserve() messages.ProcessID {
	n := &v.ids
	if n.next == 0 {
		n.next = firstID
		if n.random {
			n.next += messages.ProcessID(rand.IntN(endID - firstID))
		}
	}
	for {
		id := n.next
		if n.next++; n.next == endID {
			n.next = firstID
		}
		if v.entries[id] == nil && v.records.find(id) == nil {
			return id
		}
	}
}

// From a supervisor to itself.
type (
	expireRecords struct{}
	// planOverdue says that a question has waited long enough for the plan of an earlier command.
	planOverdue struct{}
	// teardownOver says that a tree which is being ended has held a start back for long enough.
	teardownOver struct{ id messages.ProcessID }
	// slotOverdue says that a start has waited long enough for a slot that was about to be free.
	slotOverdue struct{ id messages.ProcessID }
	// takeoverOverdue says that the rest of a crashed process has not ended in time.
	takeoverOverdue struct{ id messages.ProcessID }
)
