package actors

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/execbus/execbus/actors/kernel"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// Process ids are drawn from this range.
const (
	firstID = 1_000
	endID   = 100_000
)

// reserve finds an id that neither a process nor a record has.
func (v *supervisor) reserve() messages.ProcessID {
	if v.config.DeterministicIDs {
		highest := messages.ProcessID(firstID - 1)
		for id := range v.entries {
			highest = max(highest, id)
		}
		for _, r := range v.records {
			highest = max(highest, r.info.Process)
		}
		return highest + 1
	}
	for {
		id := messages.ProcessID(firstID + rand.IntN(endID-firstID))
		if v.entries[id] == nil && v.record(id) == nil {
			return id
		}
	}
}

func warningText(threshold, now int) string {
	return fmt.Sprintf("The maximum number of unified exec processes you can keep open is %d and you currently have %d processes "+
		"open. Reuse older processes or close them to prevent automatic pruning of old processes", threshold, now)
}

func (v *supervisor) origin(e *entry) messages.Origin {
	return messages.Origin{Session: v.session, Process: e.info.Process, Call: e.info.Call, At: time.Now()}
}

func (v *supervisor) progress(m progress) {
	e := v.entries[m.id]
	if e == nil {
		return
	}
	e.info.State, e.info.Dir, e.info.PID = m.state, m.dir, m.pid
	if m.state == messages.StateStarting { // perhaps not the first time
		e.child, e.tree, e.unborn, e.status = nil, nil, false, messages.NoStatus
	}
	if m.state == messages.StateRunning {
		v.logger.LogAttrs(context.Background(), slog.LevelDebug, "process started", slog.Int("process", int(m.id)), slog.Int("pid", m.pid))
	}
}

// childEvent comes from the child itself, whatever has become of its actor.
func (v *supervisor) childEvent(m childEvent) {
	e := v.entries[m.id]
	if e == nil {
		m.Discard()
		return
	}
	switch event := m.event.(type) {
	case ptyio.Spawned:
		e.child = event.Child
		if e.crashed != nil {
			event.Child.Abandon()
		}
	case ptyio.Exited:
		e.status = event.Status
	case ptyio.TreeEnded:
		e.tree = &event.TreeReport
		v.closeCrashed(e)
	}
}

// ended is a process's own last word.
func (v *supervisor) ended(m ended) {
	e := v.entries[m.id]
	if e == nil {
		return
	}
	v.close(e, m.record, m.output, m.told)
	v.ctx.Send(e.actor, retire{})
}

// close is the one place where a process leaves the list: it publishes the end, answers those who wait for it, frees the
// slot and keeps the record.
func (v *supervisor) close(e *entry, end *messages.EndRecord, out output, told bool) {
	v.ctx.Request(v.runtime, counted{end.Cause, e.granted}) // whoever learns of the end must find the slot free
	id := e.info.Process
	delete(v.entries, id)
	e.info.State, e.info.End = messages.StateClosed, end
	v.bus.Publish(execEnded(v.origin(e), end, out))
	answerAll(v.ctx, e.enders, end)
	v.telemetry.ended(e.span, end)
	v.logEnd(id, end)
	v.remember(&record{info: e.info, output: out, told: told})
	if e.granted {
		v.granted--
	}
	if e.slot {
		v.freeSlot()
	}
	for _, s := range v.sweeps {
		delete(s.left, id)
	}
	v.swept()
}

func (v *supervisor) logEnd(id messages.ProcessID, end *messages.EndRecord) {
	level := slog.LevelDebug
	if end.Cause == messages.CauseRuntimeFailure || len(end.Tree.Survivors) > 0 {
		level = slog.LevelWarn
	}
	if v.logger.Enabled(context.Background(), level) {
		v.logger.Log(context.Background(), level, "process ended", "process", int(id), "cause", string(end.Cause), "by", string(end.By),
			"status", end.Status.String(), "ended", end.Tree.Ended, "survivors", end.Tree.Survivors, "detail", end.Detail)
	}
}

// crashed takes over a process whose actor is gone: it answers the open calls and ends the tree. The others do not notice.
func (v *supervisor) crashed(m kernel.Crashed) {
	if v.approval != nil && v.approval.Equal(m.PID) {
		v.approvalCrashed()
		return
	}
	for _, e := range v.entries {
		if !e.actor.Equal(m.PID) {
			continue
		}
		failure := crashError(e.info.Process, fmt.Sprintf("its actor crashed: %v", m.Reason))
		for _, asker := range e.open {
			v.ctx.Send(asker, failure)
		}
		e.open = nil
		e.crashed = &messages.EndRecord{Cause: messages.CauseRuntimeFailure, Detail: failure.Detail}
		if e.child != nil {
			e.child.Abandon()
		}
		v.closeCrashed(e)
		return
	}
}

func crashError(id messages.ProcessID, detail string) *messages.Error {
	return &messages.Error{Code: messages.CodeRuntimeFailure, Op: "use process", Subject: id.String(), Detail: detail,
		Hint: "the process was ended; start it anew"}
}

// closeCrashed says the last word for a process whose actor is gone, when no child can live any more.
func (v *supervisor) closeCrashed(e *entry) {
	neverStarted := e.child == nil && (e.unborn || e.info.State == messages.StatePlanning || e.info.State == messages.StateAwaitingApproval)
	if e.crashed == nil || e.tree == nil && !neverStarted {
		return
	}
	e.crashed.Status = e.status
	if e.tree != nil {
		e.crashed.Tree = *e.tree
	}
	v.close(e, e.crashed, newOutput(), true)
}

// leave is the supervisor's own end. If processes are left it crashed or was stopped by force; those whose actors live
// say their last words themselves.
func (v *supervisor) leave() {
	failure := &messages.Error{Code: messages.CodeClosed, Op: "use process", Detail: "the session has ended"}
	for _, e := range v.entries {
		answerAll(v.ctx, e.enders, failure)
		if e.crashed != nil {
			v.bus.Publish(execEnded(v.origin(e), e.crashed, newOutput()))
		}
		v.telemetry.ended(e.span, &messages.EndRecord{Cause: messages.CauseRuntimeFailure, Status: e.status})
	}
	for _, s := range v.sweeps {
		answerAll(v.ctx, []*kernel.PID{s.asker}, failure)
	}
	v.entries, v.sweeps = nil, nil
	v.records = nil // the library's parent keeps a stale reference to an ended child until it has as many again
}

func (v *supervisor) list(m messages.ListProcesses) messages.Processes {
	var all messages.Processes
	for _, e := range v.entries {
		all = append(all, e.info)
	}
	if m.Records {
		for _, r := range v.records {
			all = append(all, r.info)
		}
	}
	slices.SortFunc(all, func(a, b messages.ProcessInfo) int { return int(a.Process - b.Process) })
	return all
}

// update replaces the settings of later commands.
func (v *supervisor) update(m messages.UpdateEnvironment) {
	next := *v.settings
	if m.Dir != nil {
		next.dir = *m.Dir
		if !filepath.IsAbs(next.dir) {
			next.dir = filepath.Join(v.settings.dir, next.dir)
		}
		if strings.ContainsRune(next.dir, 0) {
			v.ctx.Respond(badField("dir", "it contains a NUL byte", "remove it"))
			return
		}
	}
	if m.Environment != nil {
		next.environment = *m.Environment
	}
	if m.Approval != nil {
		next.approval = *m.Approval
	}
	if m.Sandbox != nil {
		next.sandbox = *m.Sandbox
		next.sandbox.WritableRoots = slices.Clone(next.sandbox.WritableRoots)
	}
	if err := cmp.Or(next.approval.Check(), next.sandbox.Check()); err != nil {
		v.ctx.Respond(err)
		return
	}
	built := next.built()
	if m.Environment != nil && built.envError != nil { // every later command would fail
		v.ctx.Respond(built.envError)
		return
	}
	v.settings = built
	v.ctx.Respond(messages.Done{})
}
