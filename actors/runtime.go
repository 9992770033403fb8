package actors

import (
	"maps"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/rulebook"
	"github.com/execbus/execbus/actors/internal/session"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
)

// OpenSession asks the runtime actor for a session. It is answered with the *system.PID of its supervisor.
type OpenSession struct{ Config shared.SessionConfig }

// CloseRuntime asks the runtime actor to close all sessions and then itself. It is answered with Done.
type CloseRuntime struct{}

// GetStats asks the runtime actor for Stats.
type GetStats struct{}

// Stats are the counts of a runtime.
type Stats struct {
	Sessions  int    // open now
	Processes int    // hold a slot now
	Started   uint64 // were given a slot
	Ended     map[messages.Cause]uint64
	Records   int64 // bytes of memory for the output of ended processes, in all sessions
	Hanging   int   // calls of the spawner that were abandoned and have not returned
}

// runtime is the actor that owns the sessions and enforces the bounds of all of them together.
type runtime struct {
	ctx      *system.Context
	deps     *shared.Dependencies
	sessions map[string]*system.PID        // by the actor's name
	names    map[string]messages.SessionID // of the sessions, by the actor's name
	taken    map[messages.SessionID]bool   // the values of names
	slots    map[string]int                // taken, by session
	records  map[string]int64              // bytes remembered, by session
	stats    Stats
	waiting  []waitingStart        // in the order in which they came, with some that have left
	waits    map[startID]time.Time // the starts that wait, and until when
	overdue  *system.Timer         // for the first of them, or for an earlier first that has left; nil if none waits
	keeper   *system.PID           // of the rules
	rules    protocol.NewRules     // the newest, for sessions to come
	closing  []*system.PID         // callers that wait for the end; not nil: no session is opened
}

// StartRuntime starts the runtime actor in a system.
func StartRuntime(sys *system.System, deps shared.Dependencies) (*system.PID, error) {
	r := &runtime{deps: deps.WithDefaults(), sessions: map[string]*system.PID{}, names: map[string]messages.SessionID{}, taken: map[messages.SessionID]bool{},
		slots: map[string]int{}, records: map[string]int64{}, waits: map[startID]time.Time{},
		stats: Stats{Ended: map[messages.Cause]uint64{}}, rules: protocol.NewRules{Rules: deps.Rules}}
	return sys.Spawn("runtime", r.receive)
}

func (r *runtime) receive(ctx *system.Context) {
	r.ctx = ctx
	switch m := ctx.Message().(type) {
	case system.Started:
		r.keeper = rulebook.Spawn(ctx, r.rules, r.deps.AmendmentFile)
	case system.Stopping, system.Crashing:
		r.answerClosing(&messages.Error{Code: messages.ErrRuntimeFailure, Op: "close runtime", Detail: "it ended before its sessions did"})
	case system.Crashed:
	case system.Terminated:
		r.terminated(m.PID.Id)
	case OpenSession:
		r.open(m)
	case CloseRuntime:
		r.closing = append(r.closing, ctx.Sender())
		for _, session := range r.sessions {
			ctx.Send(session, protocol.CloseSession{By: messages.TerminatedByShutdown})
		}
		r.stopIfEmpty()
	case GetStats:
		stats := r.stats
		stats.Sessions, stats.Ended = len(r.sessions), maps.Clone(r.stats.Ended)
		ctx.Respond(stats)
	case protocol.Distribute:
		r.spread(m)
	case protocol.Weighed:
		r.weighed(m.Bytes)
	case protocol.TakeSlot:
		r.takeSlot(m)
	case protocol.WithdrawSlot:
		r.withdrawSlot(m)
	case refuseSlots:
		r.refuseOverdue()
	case protocol.GiveSlot:
		r.giveSlot()
	case protocol.Counted:
		r.stats.Ended[m.Cause]++
		if m.Inherited {
			r.stats.Started++
		}
		if m.Slot {
			r.giveSlot()
		}
	case protocol.SpawnerHangs:
		r.spawnerHangs(m.Change)
	default:
		ctx.Unexpected()
	}
}

func (r *runtime) open(m OpenSession) {
	if r.closing != nil {
		r.ctx.Respond(&messages.Error{Code: messages.ErrClosed, Op: "open session", Detail: "the runtime is shutting down"})
		return
	}
	if r.taken[m.Config.Session] {
		r.ctx.Respond(&messages.Error{Code: messages.ErrInvalidRequest, Op: "open session", Subject: string(m.Config.Session),
			Detail: "there is a session of this name; close it, or use another name"})
		return
	}
	pid := session.Start(r.ctx, session.Config{Session: r.deps.Session(m.Config.Session), Config: m.Config, Rulebook: r.keeper, Rules: r.rules})
	r.sessions[pid.Id] = pid
	if name := m.Config.Session; name != "" {
		r.names[pid.Id], r.taken[name] = name, true
	}
	r.ctx.Respond(pid)
}

// spread hands new rules to every session. Any later message to a session arrives after them.
func (r *runtime) spread(m protocol.Distribute) {
	r.rules = m.NewRules
	for _, session := range r.sessions {
		r.ctx.Send(session, m.NewRules)
	}
	r.ctx.Respond(m.Amended)
}

// weighed bounds the records of all sessions together: the session with the most drops some.
func (r *runtime) weighed(bytes int64) {
	session := r.ctx.Sender().Id
	if r.sessions[session] == nil {
		return
	}
	r.stats.Records += bytes - r.records[session]
	r.records[session] = bytes
	over := r.stats.Records - r.deps.RecordBytes
	if over <= 0 {
		return
	}
	largest := session
	for other, weight := range r.records {
		if weight > r.records[largest] {
			largest = other
		}
	}
	r.ctx.Send(r.sessions[largest], protocol.TrimRecords{Left: r.records[largest] - over})
}

// terminated forgets a session. One that crashed has not given its slots back; its processes end with it.
func (r *runtime) terminated(session string) {
	r.stats.Processes -= r.slots[session]
	r.stats.Records -= r.records[session]
	delete(r.slots, session)
	delete(r.records, session)
	delete(r.sessions, session)
	delete(r.taken, r.names[session])
	delete(r.names, session)
	maps.DeleteFunc(r.waits, func(id startID, _ time.Time) bool { return id.session == session })
	r.serve()
	r.stopIfEmpty()
}

func (r *runtime) stopIfEmpty() {
	if r.closing == nil || len(r.sessions) > 0 {
		return
	}
	r.answerClosing(protocol.Done{})
	r.ctx.Stop(r.ctx.Self())
}

// answerClosing answers the callers that wait for the end.
func (r *runtime) answerClosing(answer any) {
	for _, asker := range r.closing {
		if asker != nil {
			r.ctx.Send(asker, answer)
		}
	}
	r.closing = nil
}
