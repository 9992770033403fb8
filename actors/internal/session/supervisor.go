package session

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/execbus/execbus/actors/internal/process"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
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
	calls        calls
	slots        slots
	teardowns    teardowns
	questions    questions
	hosts        hostTable
	inquiries    inquiries
	approval     approvalActor
	ids          ids
	records      records
	terminations terminations
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
	return &supervisor{Session: c.Session, runtime: runtime, config: c.Config, settings: settings.Built(), entries: map[messages.ProcessID]*entry{},
		slots:     slots{limit: c.Config.MaxProcesses, warnAt: c.Config.WarnProcesses, protected: c.Config.Protected, held: map[messages.ProcessID]*entry{}},
		teardowns: teardowns{patience: c.Session.Teardown, ending: map[*entry]struct{}{}}, questions: questions{patience: c.Session.Patience.Plan},
		approval: approvalActor{keeper: c.Rulebook, rules: c.Rules, busy: make(chan struct{}, 1)}, ids: ids{random: !c.Config.DeterministicIDs}}
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
		if err := v.connect(v.settings); err != nil { // the rules of its policy were checked before
			v.Logger.Error("commands reach no host", "reason", err.Error())
		}
		v.settings.Enclose(v.ctx.Detach, v.Spawner, v.Protected)
	case system.Stopping:
		v.leave()
	case system.Crashing:
		v.owed(m.Message)
		v.leave()
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
	case messages.TakeKeyboard:
		v.call(m.Process, m)
	case messages.ReturnKeyboard:
		v.route(m.Process, m)
	case messages.WatchTerminal:
		v.route(m.Process, m)
	case messages.PlaceCursor:
		v.route(m.Process, m)
	case messages.Wait:
		v.wait(m)
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
		if m.Records {
			v.ctx.Respond(v.list(true))
		} else {
			v.listNow()
		}
	case answer:
		v.reply(m.call, m.reply)
	case protocol.ListExecutions:
		v.route(m.Process, m)
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
		v.carryOut(v.records.trim(m.Left))
	case lookedUp:
		v.lookedUp(m)
	case recordsExpire:
		v.carryOut(v.records.expire())
	case protocol.Request:
		v.carryOut(v.tooLate(m))
	case protocol.Answered:
		if c := v.calls.answered(m.Call); c != nil && c.home != nil {
			v.release(c.home)
		}
	case protocol.Progress:
		v.carryOut(v.progress(m))
	case protocol.WantSlot:
		v.carryOut(v.progress(m.Progress))
		v.carryOut(v.wantSlot(v.entries[m.Process]))
	case startReleased:
		v.carryOut(v.wantSlot(v.entries[m.entry.info.Process]))
	case protocol.SlotTaken:
		v.carryOut(v.slots.answered(m.Process, m.Err))
	case protocol.SlotAwaited:
		v.carryOut(v.slots.awaited(m.Process))
	case slotOverdue:
		v.carryOut(v.slots.overdue(m.entry))
	case protocol.Yielded:
		if e := v.entries[m.Process]; e != nil {
			v.carryOut(v.slots.yielded(e))
		}
	case protocol.Consult:
		v.carryOut(v.consult(m))
	case protocol.Withdraw:
		v.carryOut(v.withdraw(m))
	case protocol.Verdict:
		v.carryOut(v.verdict(m))
	case planOverdue:
		v.carryOut(v.questions.overdue())
	case protocol.Inquired:
		v.inquired(m.Inquiry)
	case protocol.Uninquired:
		v.uninquired(m.Inquiry)
	case inquiryAnswered:
		v.carryOut(v.inquiryAnswered(m))
	case protocol.HostGrants:
		v.granted(m)
	case protocol.OwnerAborted:
		v.cancelCallsOf(m.Owner)
	case protocol.ChildEvent:
		v.carryOut(v.childEvent(m))
	case protocol.NoChild:
		if e := v.entries[m.Process]; e != nil {
			e.attempt.fail(m.Attempt)
			v.carryOut(e.endLeft())
		}
	case protocol.Ended:
		v.carryOut(v.ended(m))
	case protocol.Handover:
		v.handover(m)
	case teardownOver:
		v.carryOut(v.teardowns.release(m.entry))
	case takeoverOverdue:
		m.entry.attempt.disown(m.entry.info.PID, m.entry.info.Label)
		v.carryOut(m.entry.endLeft())
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
		v.ctx.Respond(v.slots.limitReached())
		return
	}
	id := v.ids.next(func(id messages.ProcessID) bool { return v.entries[id] != nil || v.records.find(id) != nil })
	e := newEntry(id, &o, process.Start(v.ctx, process.Config{Session: v.Session, Runtime: v.runtime, Process: id, Command: o, Settings: v.settings, Paused: v.paused}))
	e.info.Limits = v.settings.Limits.Tighter(o.Limits)
	e.span = v.Telemetry.Began()
	v.entries[id] = e
	v.slots.use(e)
	v.questions.join(e)
	v.ctx.Send(e.actor, protocol.Begin{Caller: v.open(&openCall{entry: e})})
	v.expected(e)
}

// maxQueued bounds the commands of a session that wait for a slot or for an earlier step.
const maxQueued = 256

// lookup returns the entry of an id, or answers the current message itself.
func (v *supervisor) lookup(id messages.ProcessID, message any) *entry {
	switch e := v.entries[id]; {
	case e == nil:
		answer := v.records.answer(id, message, v.settings)
		if looks, is := answer.(lookup); is {
			v.look(v.open(&openCall{}).Call, looks)
		} else {
			v.ctx.Respond(answer)
		}
	case e.crashed != "":
		v.ctx.Respond(crashError(e))
	default:
		return e
	}
	return nil
}

// route passes on a request that does not count as use of the process.
func (v *supervisor) route(id messages.ProcessID, message any) {
	if e := v.lookup(id, message); e != nil {
		v.ctx.Send(e.actor, protocol.Request{Caller: v.open(&openCall{entry: e}), Message: message})
	}
}

// call passes on a request that uses the process: a process in use is not among the first to end when slots are scarce.
func (v *supervisor) call(id messages.ProcessID, message any) {
	if e := v.entries[id]; e != nil {
		v.slots.use(e)
	}
	v.route(id, message)
}

func (v *supervisor) write(m messages.WriteStdin) {
	if len(m.Bytes) == 0 && !m.UntilTaken && !m.NoWait {
		v.call(m.Process, messages.Poll{Process: m.Process, Yield: m.Yield, NoTimeout: m.NoTimeout, Until: m.Until,
			MaxOutputTokens: m.MaxOutputTokens, MaxOutputBytes: m.MaxOutputBytes, View: m.View})
		return
	}
	v.call(m.Process, m)
}

// open notes the message at hand as a call.
func (v *supervisor) open(c *openCall) protocol.Caller {
	c.asker = v.ctx.Sender()
	caller := protocol.Caller{Call: v.calls.open(c)}
	if c.asker != nil {
		caller.Asker = sender{v.ctx.System(), c.asker}
	}
	return caller
}

// sender is the recipient of an answer to a message.
type sender struct {
	system *system.System
	pid    *system.PID
}

func (s sender) Answer(reply any) { s.system.Send(s.pid, reply) }

// reply answers a call that no other actor will answer, or begins the lookup that does.
func (v *supervisor) reply(id protocol.CallID, answer any) {
	if looks, is := answer.(lookup); is {
		v.look(id, looks)
		return
	}
	if c := v.calls.answered(id); c != nil && c.asker != nil {
		v.ctx.Send(c.asker, answer)
	}
}

// cancel cancels the calls of one asker. They are answered at once.
func (v *supervisor) cancel(m protocol.CancelWait) {
	for _, id := range slices.Clone(v.calls.byAsker[m.Waiter]) {
		switch c := v.calls.table[id]; {
		case c.home != nil:
			v.ctx.Send(c.home, protocol.CancelCall{Call: id})
		case c.entry == nil:
			v.reply(id, &messages.Error{Code: messages.ErrCancelled, Op: "use session", Detail: "the call was cancelled"})
		case c.ender || c.entry.last != nil: // the termination goes on; the process answers nobody any more
			v.reply(id, protocol.CancelledError(c.entry.info.Process))
		default:
			v.ctx.Send(c.entry.actor, protocol.CancelCall{Call: id})
		}
	}
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
		for _, id := range v.calls.that(func(c *openCall) bool { return c.waits }) {
			v.ctx.Send(v.calls.table[id].home, message)
		}
	}
	v.ctx.Respond(protocol.Done{})
}

// cancelCallsOf cancels the calls that wait for processes of an owner.
func (v *supervisor) cancelCallsOf(owner string) {
	v.endPatches(false, owner, &messages.Error{Code: messages.ErrCancelled, Op: "apply patch", Detail: "what it belonged to was ended, and nothing was changed"})
	for _, e := range v.entries {
		if owner != "" && e.info.Owner == owner {
			v.ctx.Send(e.actor, protocol.CancelCalls{})
		}
	}
	for id, c := range v.calls.expecting {
		if owner != "" && slices.ContainsFunc(c.expects, func(x expectation) bool { return x.owner == owner }) {
			v.ctx.Send(c.home, protocol.CancelCall{Call: id})
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
		if err := v.connect(built); err != nil {
			v.ctx.Respond(err)
			return
		}
		v.settings.Enclosing.Over()
		built.Enclose(v.ctx.Detach, v.Spawner, v.Protected)
	}
	v.settings = built
	v.ctx.Respond(protocol.Done{})
}

// progress notes the facts that the actor of a process reports.
func (v *supervisor) progress(m protocol.Progress) []effect {
	e := v.entries[m.Process]
	if e == nil {
		return nil
	}
	e.learn(m)
	if m.State == messages.StateRunning {
		v.Logger.LogAttrs(context.Background(), slog.LevelDebug, "process started", slog.Int("process", int(m.Process)), slog.Int("pid", m.PID))
	}
	if m.State == messages.StateAwaitingApproval {
		return nil
	}
	return v.questions.leave(e)
}

// childEvent comes from the child itself, even if its actor has crashed.
func (v *supervisor) childEvent(m protocol.ChildEvent) []effect {
	e := v.entries[m.Process]
	if e == nil {
		m.Discard()
		return nil
	}
	e.attempt.learn(m)
	switch m.Event.(type) {
	case ptyio.Spawned:
		v.teardowns.restart(e)
		if e.crashed != "" {
			v.abandonLeft(e)
		}
	case ptyio.Background:
		if !e.keeps {
			v.teardowns.begin(e)
		}
	case ptyio.TreeEnded:
		return append(v.teardowns.release(e), e.endLeft()...)
	}
	return nil
}

// wantSlot serves a process that is about to start, unless a tree holds it back; nil if it has ended.
func (v *supervisor) wantSlot(e *entry) []effect {
	if e == nil {
		return nil
	}
	if do := v.teardowns.hold(e); do != nil {
		return do
	}
	return v.slots.want(e)
}

// carryOut sends what was decided to where it belongs.
func (v *supervisor) carryOut(effects []effect) {
	for _, one := range effects {
		switch m := one.message.(type) {
		case protocol.Slot, protocol.StartWaits, protocol.Verdict, protocol.Retire:
			v.ctx.Send(one.entry.actor, m)
		case messages.Terminate:
			v.end(one.entry, m)
		case protocol.TakeSlot, protocol.WithdrawSlot, protocol.GiveSlot, protocol.Counted, protocol.Weighed:
			v.ctx.Request(v.runtime, m)
		case protocol.Consult:
			v.put(m)
		case protocol.Withdraw:
			if v.approval.actor != nil {
				v.ctx.Send(v.approval.actor, m)
			}
		case answer:
			v.reply(m.call, m.reply)
		case messages.ExecEnded:
			v.Bus.Publish(m)
		case messages.ProcessWarning:
			m.Origin = v.origin(one.entry)
			v.Bus.Publish(m)
		case sessionOver:
			v.over()
			v.ctx.Stop(v.ctx.Self()) // when this message is done
		case startReleased, protocol.Ended:
			v.ctx.Send(v.ctx.Self(), m)
		default:
			v.ctx.After(one.after, m)
		}
	}
}

// describe describes one process, which may be an ended one that is remembered.
func (v *supervisor) describe(id messages.ProcessID) any {
	if e := v.entries[id]; e != nil {
		return e.info
	}
	if r := v.records.find(id); r != nil {
		return r.info
	}
	return unknownProcess(id)
}

func (v *supervisor) list(records bool) messages.Processes {
	var all messages.Processes
	for _, e := range v.entries {
		all = append(all, e.info)
	}
	if records {
		for _, r := range v.records.all {
			all = append(all, r.info)
		}
	}
	slices.SortFunc(all, func(a, b messages.ProcessInfo) int { return int(a.Process - b.Process) })
	return all
}

func (v *supervisor) origin(e *entry) messages.Origin {
	return messages.Origin{Session: v.SessionID, Process: e.info.Process, Call: e.info.Call, At: time.Now()}
}
