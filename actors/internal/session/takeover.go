package session

import (
	"fmt"

	"github.com/execbus/execbus/actors/internal/output"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

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
