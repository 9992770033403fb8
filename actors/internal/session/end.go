package session

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
)

// ended handles the last message of a process: its own, or that which its crashed actor has left. Everything that follows from the end
// follows here. A process without a record never began, and leaves no trace.
func (v *supervisor) ended(m protocol.Ended) []effect {
	e := v.entries[m.Process]
	if e == nil {
		return nil
	}
	do := v.questions.withdraw(e)
	v.withdrawInquiries(e)
	if e.question.open || e.asked > 0 { // the end is the last event of a process, so it waits for the verdicts
		e.last = &m
		return do
	}
	id, end := m.Process, m.Record
	delete(v.entries, id)
	v.forgetHosts(id)
	v.forgetInquiries(id)
	do = append(do, v.questions.leave(e)...)
	if end == nil { // it is counted all the same
		end = &messages.EndRecord{Cause: messages.CauseSpawnFailed, Status: messages.StatusNone()}
	}
	v.Telemetry.Ended(e.span, end)
	do = append(do, v.slots.leave(e, end.Cause)...) // callers that learn of the end must find the slot free
	do = append(do, v.teardowns.release(e)...)
	var reply any = end
	if m.Record != nil {
		v.logEnd(id, end)
		e.info.State, e.info.End, e.info.Keyboard = messages.StateClosed, end, nil
		do = append(do, effect{entry: e, message: m.Output.ExecEnded(v.origin(e), end)})
		do = append(do, v.records.add(&record{info: e.info, output: m.Output, told: m.Told, news: m.Unreported, exited: m.ExitedAt})...)
	} else {
		m.Output.Close()
		reply = unknownProcess(id)
	}
	for _, call := range v.calls.about(e, true) {
		do = append(do, effect{message: answer{call, reply}})
	}
	v.terminations.ended(e, end.Tree.Survivors)
	do = append(do, v.serveTerminations()...)
	for _, late := range e.late {
		do = append(do, v.tooLate(late)...)
	}
	return append(do, effect{entry: e, message: protocol.Retire{}})
}

// tooLate answers a request to a process that has ended from its record, which does not exist yet where the last message is held back.
func (v *supervisor) tooLate(m protocol.Request) []effect {
	c := v.calls.table[m.Call]
	switch {
	case c == nil: // it was cancelled
		return nil
	case v.entries[c.entry.info.Process] == c.entry:
		c.entry.late = append(c.entry.late, m)
		if o, is := m.Message.(protocol.Observe); is {
			m.Asker.Answer(protocol.Observed{Target: protocol.Target{Item: o.Item, Process: c.entry.info.Process}})
		}
		return nil
	default:
		return []effect{{message: answer{m.Call, v.records.answer(c.entry.info.Process, m.Message, v.settings)}}}
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

// end asks a process to end.
func (v *supervisor) end(e *entry, m messages.Terminate) {
	e.unwanted = true
	v.teardowns.begin(e)
	v.ctx.Send(e.actor, protocol.Request{Message: m})
}

// terminate ends one process. The caller waits here for the end.
func (v *supervisor) terminate(m messages.Terminate) {
	e := v.entries[m.Process]
	if e == nil {
		v.lookup(m.Process, m)
		return
	}
	m.By = cmp.Or(m.By, messages.TerminatedByUser)
	if v.ctx.Sender() != nil {
		v.open(&openCall{entry: e, ender: true})
	}
	v.end(e, m)
}

func (v *supervisor) terminateAll(by messages.TerminatedBy) {
	v.terminateEach(cmp.Or(by, messages.TerminatedByUser), nil, func(*entry) bool { return true })
}

// endOwner ends the processes and patches of an owner. Its calls need not wait for that.
func (v *supervisor) endOwner(owner string) {
	v.terminateEach(messages.TerminatedByOwner, v.patchesOf(owner), func(e *entry) bool { return owner != "" && e.info.Owner == owner })
	v.cancelCallsOf(owner)
}

// terminateEach ends some of the processes for the current caller, who waits for patches, too.
func (v *supervisor) terminateEach(by messages.TerminatedBy, patches map[string]bool, wanted func(*entry) bool) {
	left := map[*entry]bool{}
	for id, e := range v.entries {
		if wanted(e) {
			v.end(e, messages.Terminate{Process: id, By: by})
			left[e] = true
		}
	}
	v.terminations = append(v.terminations, &termination{call: v.open(&openCall{}).Call, left: left, patches: patches})
	v.carryOut(v.serveTerminations())
}

// serveTerminations answers the terminations that are over. A session that closes waits for its patches, too, and ends with the last
// process.
func (v *supervisor) serveTerminations() (do []effect) {
	if v.closing && len(v.patches) > 0 {
		return nil
	}
	if v.closing && len(v.entries) == 0 && len(v.inquiries.open) > 0 { // of connections that belong to no process
		v.withdrawInquiries(nil)
		return nil
	}
	if v.closing && len(v.entries) == 0 {
		do = append(do, effect{message: sessionOver{}})
	}
	return append(do, v.terminations.serve()...)
}

// over reports that no event of the session follows.
func (v *supervisor) over() {
	if v.config.Ended != nil {
		v.config.Ended()
	}
}
