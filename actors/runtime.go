package actors

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/rules"
	"github.com/execbus/execbus/ptyio"
)

// Surroundings are what all sessions of a runtime share. They are not changed.
type Surroundings struct {
	Bus     *bus.Bus
	Spawner ptyio.Spawner
	Logger  *slog.Logger
	// MaxProcesses bounds the processes of all sessions together.
	MaxProcesses int
	Telemetry    *Telemetry
	// Rules are what rule files said at the start; amendments are appended to AmendmentFile, or to nothing if it is empty.
	Rules         *rules.Set
	AmendmentFile string
	// Plan decides about commands; nil means policy.MakePlan.
	Plan func(policy.Request, policy.Snapshot) policy.Plan
}

// surroundings are the same for the processes of one session.
type surroundings struct {
	session   messages.SessionID
	bus       *bus.Bus
	spawner   ptyio.Spawner
	logger    *slog.Logger
	telemetry *Telemetry
	makePlan  func(policy.Request, policy.Snapshot) policy.Plan
	ruleFile  string // where a rule that a person makes is written
}

func (s Surroundings) of(session messages.SessionID) *surroundings {
	plan := s.Plan
	if plan == nil {
		plan = policy.MakePlan
	}
	return &surroundings{session: session, bus: s.Bus, spawner: s.Spawner, logger: s.Logger.With("session", string(session)),
		telemetry: s.Telemetry, makePlan: plan, ruleFile: s.AmendmentFile}
}

// SessionConfig is what a supervisor is started with, with nothing left to default. It is not changed.
type SessionConfig struct {
	Session          messages.SessionID
	Dir              string // absolute
	Environment      messages.EnvironmentPolicy
	Base             []string // the host's environment
	NoLoginShell     bool
	LongestPoll      time.Duration
	OutputTokens     int
	MaxProcesses     int
	WarnProcesses    int
	Protected        int
	DeterministicIDs bool
	Approval         messages.ApprovalPolicy
	Sandbox          messages.SandboxPolicy
	Approver         Approver      // nil: only subscribers and callers answer
	ApprovalDeadline time.Duration // zero: none
	OnDeadline       messages.DecisionKind
}

func (c SessionConfig) settings() settings {
	return settings{dir: c.Dir, environment: c.Environment, base: c.Base, noLogin: c.NoLoginShell, longestPoll: c.LongestPoll,
		outputTokens: c.OutputTokens, approval: c.Approval, sandbox: c.Sandbox}
}

// OpenSession asks the runtime actor for a session. It is answered with the *PID of its supervisor.
type OpenSession struct{ Config SessionConfig }

// CloseRuntime asks the runtime actor to close all sessions and then itself. It is answered with messages.Done.
type CloseRuntime struct{}

// GetStats asks the runtime actor for Stats.
type GetStats struct{}

// Stats counts what a runtime has done.
type Stats struct {
	Sessions  int    // open now
	Processes int    // hold a slot now
	Started   uint64 // were given a slot
	Ended     map[messages.Cause]uint64
}

// Messages between a supervisor and the runtime.
type (
	// takeSlot is answered with slotTaken.
	takeSlot  struct{ id messages.ProcessID }
	slotTaken struct {
		id  messages.ProcessID
		err error
	}
	// refuse tells one that has waited long enough.
	refuse struct{ applicant *applicant }
	// giveSlot comes as a request, because the sender is whose slot it was; it is not answered.
	giveSlot struct{}
	// counted tells of an end. It is a giveSlot, too, if the process had a slot.
	counted struct {
		cause messages.Cause
		slot  bool
	}
)

// runtime is the actor that owns the sessions and the limit over all of them.
type runtime struct {
	around   Surroundings
	sessions map[string]*PID // by the actor's name
	slots    map[string]int  // taken, by session
	stats    Stats
	waiting  []*applicant // the first come first
	keeper   *PID         // of the rules
	rules    newRules     // the newest, for sessions to come
	closing  []*PID       // who waits for the end; not nil: nothing new is opened
}

// slotPatience is how long a start waits for a slot of whichever session before it is refused: that of a command that has
// just ended, or could not begin, may be on its way.
const slotPatience = 250 * time.Millisecond

// applicant is a process that waits for a slot.
type applicant struct {
	session *PID
	id      messages.ProcessID
	timer   *Timer
}

// StartRuntime starts the runtime actor.
func (s *System) StartRuntime(around Surroundings) (*PID, error) {
	r := &runtime{around: around, sessions: map[string]*PID{}, slots: map[string]int{},
		stats: Stats{Ended: map[messages.Cause]uint64{}}, rules: newRules{rules: around.Rules}}
	return s.Spawn("runtime", r.receive)
}

func (r *runtime) receive(ctx *Context) {
	switch m := ctx.Message().(type) {
	case Started:
		keeper := &rulesKeeper{runtime: ctx.Self(), newest: r.rules, file: r.around.AmendmentFile}
		r.keeper = ctx.Spawn("rules", keeper.receive)
	case OpenSession:
		r.open(ctx, m)
	case spread:
		r.spread(ctx, m)
	case takeSlot:
		r.takeSlot(ctx, m)
	case refuse:
		r.refuse(ctx, m.applicant)
	case giveSlot:
		r.giveSlot(ctx)
	case counted:
		r.stats.Ended[m.cause]++
		if m.slot {
			r.giveSlot(ctx)
		}
	case GetStats:
		stats := r.stats
		stats.Sessions, stats.Ended = len(r.sessions), maps.Clone(r.stats.Ended)
		ctx.Respond(stats)
	case CloseRuntime:
		r.closing = append(r.closing, ctx.Sender())
		for _, session := range r.sessions {
			ctx.Send(session, CloseSession{By: messages.ByShutdown})
		}
		r.stopIfEmpty(ctx)
	case Terminated:
		r.terminated(ctx, m.PID.Id)
	}
}

func (r *runtime) open(ctx *Context, m OpenSession) {
	if r.closing != nil {
		ctx.Respond(&messages.Error{Code: messages.CodeClosed, Op: "open session", Detail: "the runtime is shutting down"})
		return
	}
	v := newSupervisor(m.Config, r.around, ctx.Self(), r.keeper, r.rules)
	pid := ctx.Spawn("session", v.receive)
	r.sessions[pid.Id] = pid
	ctx.Respond(pid)
}

// spread hands new rules to every session. Whatever is sent to a session from now on arrives behind them.
func (r *runtime) spread(ctx *Context, m spread) {
	r.rules = m.newRules
	for _, session := range r.sessions {
		ctx.Send(session, m.newRules)
	}
	ctx.Respond(m.amended)
}

func (r *runtime) takeSlot(ctx *Context, m takeSlot) {
	if len(r.waiting) == 0 && r.stats.Processes < r.around.MaxProcesses {
		r.grant(ctx, ctx.Sender(), m.id)
		return
	}
	a := &applicant{session: ctx.Sender(), id: m.id}
	a.timer = ctx.After(slotPatience, refuse{a})
	r.waiting = append(r.waiting, a)
}

func (r *runtime) grant(ctx *Context, session *PID, id messages.ProcessID) {
	r.slots[session.Id]++
	r.stats.Processes++
	r.stats.Started++
	ctx.Send(session, slotTaken{id: id})
}

// serve gives what slots there are to those who wait.
func (r *runtime) serve(ctx *Context) {
	for len(r.waiting) > 0 && r.stats.Processes < r.around.MaxProcesses {
		a := r.waiting[0]
		r.waiting = slices.Delete(r.waiting, 0, 1)
		a.timer.Cancel()
		r.grant(ctx, a.session, a.id)
	}
}

func (r *runtime) refuse(ctx *Context, a *applicant) {
	r.waiting = slices.DeleteFunc(r.waiting, func(other *applicant) bool { return other == a })
	ctx.Send(a.session, slotTaken{a.id, &messages.Error{Code: messages.CodeLimitReached, Op: "exec",
		Detail: "all sessions together have as many processes as the runtime may have",
		Hint:   "wait for one to end, or raise Options.MaxProcesses"}})
}

func (r *runtime) giveSlot(ctx *Context) {
	r.slots[ctx.Sender().Id]--
	r.stats.Processes--
	r.serve(ctx)
}

// terminated forgets a session. One that crashed has not given its slots back; its processes end with it.
func (r *runtime) terminated(ctx *Context, session string) {
	r.stats.Processes -= r.slots[session]
	delete(r.slots, session)
	delete(r.sessions, session)
	r.waiting = slices.DeleteFunc(r.waiting, func(a *applicant) bool {
		gone := a.session.Id == session
		if gone {
			a.timer.Cancel()
		}
		return gone
	})
	r.serve(ctx)
	r.stopIfEmpty(ctx)
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
