package session

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/execbus/execbus/actors/internal/output"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// ended is the last message of a process. A question about it is withdrawn first, because the end is the last event of a
// process.
func (v *supervisor) ended(m protocol.Ended) {
	e := v.entries[m.Process]
	if e == nil {
		return
	}
	if e.consulting {
		e.last = &m
		v.withdrawAsked(e)
		return
	}
	v.finish(e, m)
}

// finish closes a process that has sent its last message, and stops its actor.
func (v *supervisor) finish(e *entry, m protocol.Ended) {
	v.close(e, m.Record, &record{output: m.Output, told: m.Told, news: m.Unreported, exited: m.ExitedAt})
	for _, late := range e.late {
		v.answerRecord(e.info.Process, late)
	}
	v.ctx.Send(e.actor, protocol.Retire{})
}

// tooLate takes over a request to a process that has ended. It is answered from the record, which does not exist yet
// where the last message is held back.
func (v *supervisor) tooLate(m protocol.Request) {
	c := v.calls.table[m.Call]
	switch {
	case c == nil: // it was cancelled
	case c.entry.last != nil && c.entry.consulting:
		c.entry.late = append(c.entry.late, m)
	default:
		v.answerRecord(c.entry.info.Process, m)
	}
}

// close is where a process leaves the list: it frees the slot, publishes the end, answers the calls that wait
// for it and keeps the record. A process without a record never began, and leaves no trace.
func (v *supervisor) close(e *entry, end *messages.EndRecord, left *record) {
	id := e.info.Process
	delete(v.entries, id)
	delete(v.endings, e)
	v.leaveQueue(e)
	told := cmp.Or(end, &messages.EndRecord{Cause: messages.CauseSpawnFailed, Status: messages.StatusNone()}) // it is counted all the same
	v.leaveSlots(e, told.Cause)                                                                               // callers that learn of the end must find the slot free
	if end != nil {
		e.info.State, e.info.End = messages.StateClosed, end
		v.Bus.Publish(left.output.ExecEnded(v.origin(e), end))
		v.logEnd(id, end)
		left.info = e.info
		v.remember(left)
	}
	v.Telemetry.Ended(e.span, told)
	v.answerEnders(e, end)
	v.letGo(e)
	v.terminated(e, told.Tree.Survivors)
}

// answerEnders answers the calls that wait for the end.
func (v *supervisor) answerEnders(e *entry, end *messages.EndRecord) {
	if e.open == 0 {
		return
	}
	for id, c := range v.calls.table {
		switch {
		case c.entry != e || !c.ender:
		case end != nil:
			v.reply(id, end)
		default:
			v.reply(id, unknownProcess(e.info.Process))
		}
	}
}

func (v *supervisor) logEnd(id messages.ProcessID, end *messages.EndRecord) {
	level := slog.LevelDebug
	if end.Cause == messages.CauseRuntimeFailure || len(end.Tree.Survivors) > 0 {
		level = slog.LevelWarn
	}
	if v.Logger.Enabled(context.Background(), level) {
		v.Logger.Log(context.Background(), level, "process ended", "process", int(id), "cause", string(end.Cause), "by", string(end.By),
			"status", end.Status.String(), "ended", end.Tree.Ended, "survivors", end.Tree.Survivors, "detail", end.Detail)
	}
}

// terminate ends one process. The caller waits here for the end.
func (v *supervisor) terminate(m messages.Terminate) {
	e := v.entries[m.Process]
	if e == nil {
		v.lookup(m.Process, m)
		return
	}
	if m.By == "" {
		m.By = messages.TerminatedByUser
	}
	if asker := v.ctx.Sender(); asker != nil {
		e.open++
		v.note(&openCall{asker: asker, entry: e, ender: true})
	}
	v.unwanted(e)
	v.ctx.Send(e.actor, protocol.Request{Message: m})
}

// termination is a caller that waits for the end of all the processes that existed when it came. It does not wait for later ones:
// where commands keep coming it would wait forever.
type termination struct {
	call      protocol.CallID
	left      map[*entry]bool
	survivors []messages.Survivor
}

func (v *supervisor) terminateAll(by messages.TerminatedBy) {
	v.terminateEach(cmp.Or(by, messages.TerminatedByUser), func(*entry) bool { return true })
}

// terminateEach ends some of the processes for the current caller.
func (v *supervisor) terminateEach(by messages.TerminatedBy, wanted func(*entry) bool) {
	s := &termination{left: map[*entry]bool{}}
	for id, e := range v.entries {
		if wanted(e) {
			v.unwanted(e)
			v.ctx.Send(e.actor, protocol.Request{Message: messages.Terminate{Process: id, By: by}})
			s.left[e] = true
		}
	}
	s.call = v.note(&openCall{asker: v.ctx.Sender()}).Call
	v.terminations = append(v.terminations, s)
	v.answerTerminations()
}

// terminated takes an ended process out of the terminations.
func (v *supervisor) terminated(e *entry, survivors []messages.Survivor) {
	for _, s := range v.terminations {
		if s.left[e] {
			delete(s.left, e)
			s.survivors = append(s.survivors, survivors...)
		}
	}
	v.answerTerminations()
}

// outcome is the answer to a termination of several that is over.
func (s *termination) outcome() any {
	if len(s.survivors) == 0 {
		return protocol.Done{}
	}
	first := s.survivors[0]
	return &messages.Error{Code: messages.ErrRuntimeFailure, Op: "end processes", Subject: first.Name,
		Detail: fmt.Sprintf("%d processes may live, the first with the pid %d: %s; their records name all", len(s.survivors), first.PID, first.Why)}
}

// answerTerminations answers those whose processes have all ended. The last one ends a session that closes.
func (v *supervisor) answerTerminations() {
	if v.closing && len(v.entries)+len(v.patches) == 0 {
		v.over()
	}
	kept := v.terminations[:0]
	for _, s := range v.terminations {
		if len(s.left) > 0 || v.closing && len(v.patches) > 0 {
			kept = append(kept, s)
		} else {
			v.reply(s.call, s.outcome())
		}
	}
	clear(v.terminations[len(kept):])
	v.terminations = kept
	if v.closing && len(v.entries)+len(v.patches) == 0 {
		v.ctx.Stop(v.ctx.Self())
	}
}

// over reports that no event of the session follows.
func (v *supervisor) over() {
	if v.config.Ended != nil {
		v.config.Ended()
	}
}

// leave answers everyone when the supervisor itself ends. If processes are left, it crashed, perhaps at a message that
// owed something, or was stopped by force; those whose actors live send their last messages themselves. It answers all
// the calls it knows of, even those that a process may be answering just now: a caller takes the first answer.
func (v *supervisor) leave(at any) {
	v.owed(at)
	for id, c := range v.calls.table {
		failure := &messages.Error{Code: messages.ErrClosed, Op: "use process", Detail: "the session has ended; open another one"}
		if c.entry != nil {
			failure.Subject = c.entry.info.Process.String()
		}
		v.reply(id, failure)
	}
	for _, e := range v.entries {
		v.Telemetry.Ended(e.span, &messages.EndRecord{Cause: messages.CauseRuntimeFailure, Status: e.status})
		if e.asks != nil {
			e.asks.Discard()
		}
		switch {
		case e.takeover != nil:
			if e.child != nil && !e.takeover.abandoned {
				shared.Abandon(e.child)
			}
			e.takeover.event.Publish(e.takeover.record, e.takeover.output)
		case e.last != nil:
			e.last.Discard()
		}
	}
	// The library's parent keeps a stale reference to an ended child until it has as many again.
	v.entries, v.endings, v.terminations, v.calls, v.records = nil, nil, nil, calls{}, records{}
	v.over()
}

// owed keeps the obligations of a message at which the supervisor crashed.
func (v *supervisor) owed(at any) {
	switch m := at.(type) {
	case protocol.Ended:
		if e := v.entries[m.Process]; e != nil && e.last == nil {
			e.last = &m
		}
	case protocol.Handover:
		v.handover(m)
	case protocol.ChildEvent:
		m.Discard()
	case protocol.Consult:
		m.Discard()
	}
}

// teardown is a tree that is being ended. The next command must not find it alive, so it holds back one start that comes
// after its ending began, until it is gone.
type teardown struct {
	began time.Time // zero: it is not being ended
	held  *entry    // the start that it holds back
	done  bool      // it has held one back
}

// unwanted notes that somebody has asked for the end of a process.
func (v *supervisor) unwanted(e *entry) {
	e.unwanted = true
	v.endsNow(e)
}

// endsNow notes that a process's tree is being ended.
func (v *supervisor) endsNow(e *entry) {
	if e.teardown.began.IsZero() {
		e.teardown.began = time.Now()
		v.endings[e] = struct{}{}
	}
}

// holdBack lets a process that is about to start wait for a tree that is being ended. It reports whether there is one.
func (v *supervisor) holdBack(e *entry) bool {
	if e.wants.IsZero() {
		e.wants = time.Now()
	}
	for other := range v.endings {
		a := &other.teardown
		left := v.Teardown - time.Since(a.began)
		if a.began.IsZero() || a.done || other.tree != nil || left <= 0 {
			delete(v.endings, other)
			continue
		}
		if other == e || a.began.After(e.wants) {
			continue
		}
		a.held, a.done = e, true
		v.ctx.Send(e.actor, protocol.StartWaits{What: "for the processes of an earlier command, which are being ended"})
		v.ctx.After(left, teardownOver{other.info.Process})
		return true
	}
	return false
}

// letGo releases the start that a tree has held back.
func (v *supervisor) letGo(e *entry) {
	if held := e.teardown.held; held != nil {
		e.teardown.held = nil
		v.wantSlot(held.info.Process)
	}
}

func (v *supervisor) teardownOver(id messages.ProcessID) {
	if e := v.entries[id]; e != nil {
		v.letGo(e)
	}
}

// takeover is a process whose actor has crashed: its supervisor ends the rest of it, and publishes its end.
type takeover struct {
	record    *messages.EndRecord
	output    output.Output // its output so far
	event     protocol.EndEvent
	crashed   bool // the crash was reported, and its calls are answered
	abandoned bool // its child was told to end
	disowned  bool // the end of its child is not waited for any more
}

// handover keeps the obligations that a crashing process leaves. The report of the crash follows.
func (v *supervisor) handover(m protocol.Handover) {
	if e := v.entries[m.Process]; e != nil {
		e.takeover = &takeover{record: &messages.EndRecord{Cause: messages.CauseRuntimeFailure, Status: e.status, Detail: "its actor crashed"},
			output: m.Output, event: m.Event}
	}
}

// crashed takes over a process whose actor is gone: it answers the open calls and ends the tree. Other processes are
// not affected.
func (v *supervisor) crashed(m system.Crashed) {
	if v.asking.actor != nil && v.asking.actor.Equal(m.PID) {
		v.approvalCrashed(m)
		return
	}
	for _, e := range v.entries {
		if e.actor.Equal(m.PID) {
			v.takeOver(e, m.Reason)
			return
		}
	}
	v.cancel(protocol.CancelWait{Waiter: m.PID.Id}) // the calls for which the crashed actor waited
	for id, c := range v.calls.table {
		if c.home != nil && c.home.Equal(m.PID) {
			v.reply(id, &messages.Error{Code: messages.ErrRuntimeFailure, Op: "wait", Detail: fmt.Sprintf("its actor crashed: %v", m.Reason)})
		}
	}
}

func (v *supervisor) takeOver(e *entry, reason any) {
	if e.last != nil { // it had ended
		return
	}
	if e.takeover == nil { // it crashed at its very beginning
		e.takeover = &takeover{output: output.New(), event: protocol.EndEvent{Bus: v.Bus, Origin: v.origin(e)}}
	}
	failure := crashError(e.info.Process, fmt.Sprintf("its actor crashed: %v", reason))
	e.takeover.crashed = true
	e.takeover.record = &messages.EndRecord{Cause: messages.CauseRuntimeFailure, Detail: fmt.Sprintf("its actor crashed: %v", reason)}
	for id, c := range v.calls.table {
		if c.entry == e && !c.ender {
			v.reply(id, failure)
		}
	}
	if e.consulting {
		v.withdrawAsked(e)
	}
	v.abandonLeft(e)
	v.closeTakeover(e)
}

// abandonLeft ends the living child of a crashed process. A host's own child is abandoned if it does not end in time.
func (v *supervisor) abandonLeft(e *entry) {
	if e.child != nil {
		e.takeover.abandoned = true
		shared.Abandon(e.child)
	}
	if e.attempt < e.begun || e.child == nil || !ptyio.IsPrompt(e.child) { // the spawner may be a host's own, even if the child is prompt
		v.ctx.After(v.Patience.Spawn+v.Patience.End, takeoverOverdue{e.info.Process})
	}
}

func (v *supervisor) takeoverOverdue(id messages.ProcessID) {
	if e := v.entries[id]; e != nil && e.takeover != nil {
		e.takeover.disowned = true
		if e.child != nil && e.tree == nil {
			report := shared.NotEnded(e.info.PID, []string{e.info.Label})
			e.tree = &report
		}
		v.closeTakeover(e)
	}
}

func crashError(id messages.ProcessID, detail string) *messages.Error {
	return &messages.Error{Code: messages.ErrRuntimeFailure, Op: "use process", Subject: id.String(),
		Detail: detail + "; the process was ended, start the command again"}
}

// closeTakeover publishes the end of a process whose actor is gone, when no child can live any more and no question about
// it is open.
func (v *supervisor) closeTakeover(e *entry) {
	t := e.takeover
	if t == nil || !t.crashed || e.consulting || !t.disowned && !e.gone() {
		return
	}
	t.record.Status = e.status
	if e.tree != nil {
		t.record.Tree = *e.tree
	}
	v.close(e, t.record, &record{output: t.output, told: true})
}

// gone reports whether no child lives, or can be born.
func (e *entry) gone() bool {
	switch {
	case e.begun == 0:
		return true
	case e.attempt < e.begun:
		return false // a spawner is at work
	default:
		return e.unborn || e.tree != nil
	}
}
