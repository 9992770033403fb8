package session

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// entry is a supervisor's knowledge of a process that has not ended.
type entry struct {
	actor *system.PID
	info  messages.ProcessInfo
	used  uint64       // a counter: higher is more recent
	open  int          // calls that concern it
	span  *shared.Span // for tracing
	slot  slot
	keeps bool // its background children live on
	again bool // its plan allows another attempt after the current one

	wants    time.Time // when it first wanted a slot
	outlives bool      // the call that asked for it has gone
	until    time.Time // when it is refused, if it waits for a slot; zero if it never has
	claims   bool      // while it waits, a process is being ended for it
	above    bool      // it took its slot above the limit
	pruned   bool      // it is being ended for another

	unwanted bool // somebody has asked for its end
	teardown teardown

	begun   int                 // the latest attempt that its actor has reported
	attempt int                 // the latest one that the spawner has reported
	child   ptyio.Child         // of that one; nil if it has none
	unborn  bool                // the latest attempt has no child, and gets none
	status  messages.ExitStatus // of the leader, as the child says
	tree    *messages.TreeReport

	came       time.Time          // when its call was received
	consulting bool               // a verdict is awaited
	asks       *protocol.Consult  // that waits for the plans of earlier commands; nil if none does
	last       *protocol.Ended    // its last message, held back until the verdict is there
	late       []protocol.Request // requests that came while it was held back
	takeover   *takeover          // its actor has crashed
}

func newEntry(id messages.ProcessID, o *shared.Command, actor *system.PID) *entry {
	now := time.Now()
	return &entry{actor: actor, came: now, status: messages.StatusNone(), keeps: o.OnLeaderExit == messages.LeaderExitKeepsTree, info: messages.ProcessInfo{Process: id, Call: o.Call, Owner: o.Owner, Label: o.Label(), TTY: o.TTY,
		State: messages.StatePlanning, Began: now, LastUsed: now}}
}

// isEnding reports whether a process is about to give its slot back, as far as is known. One that has a further attempt is
// not, nor one that may have one.
func (e *entry) isEnding() bool {
	switch {
	case e.unwanted:
		return true
	case e.info.State == messages.StateStarting || e.isRepeatable():
		return false
	case e.info.State == messages.StateExited && !e.keeps:
		return true
	default:
		return !e.teardown.began.IsZero() || e.tree != nil
	}
}

// isRepeatable reports whether another attempt may follow the exit of the current one: its sandbox may be the cause, and the
// call that asked for the command waits.
func (e *entry) isRepeatable() bool {
	return e.info.State == messages.StateRunning && e.again && !e.outlives && e.status != messages.StatusExited(0)
}

// use notes that a process was used.
func (v *supervisor) use(e *entry) {
	v.slots.uses++
	e.used, e.info.LastUsed = v.slots.uses, time.Now()
}

func (v *supervisor) origin(e *entry) messages.Origin {
	return messages.Origin{Session: v.SessionID, Process: e.info.Process, Call: e.info.Call, At: time.Now()}
}

func (v *supervisor) progress(m protocol.Progress) {
	e := v.entries[m.Process]
	if e == nil {
		return
	}
	e.info.State, e.info.Dir, e.info.PID, e.info.Size, e.begun = m.State, m.Dir, m.PID, m.Size, m.Attempt
	e.info.Enforced, e.again = m.Enforced, m.Repeatable
	if m.State != messages.StateAwaitingApproval {
		v.leaveQueue(e)
	}
	if m.State == messages.StateRunning {
		v.Logger.LogAttrs(context.Background(), slog.LevelDebug, "process started", slog.Int("process", int(m.Process)), slog.Int("pid", m.PID))
	}
}

// childEvent comes from the child itself, even if its actor has crashed.
func (v *supervisor) childEvent(m protocol.ChildEvent) {
	e := v.entries[m.Process]
	if e == nil {
		m.Discard()
		return
	}
	switch event := m.Event.(type) {
	case ptyio.Spawned:
		e.teardown.began = time.Time{} // it was noted for the earlier attempt
		e.child, e.attempt, e.unborn, e.status, e.tree = event.Child, m.Attempt, false, messages.StatusNone(), nil
		if e.takeover != nil {
			v.abandonLeft(e)
		}
	case ptyio.Exited:
		e.status = event.Status
	case ptyio.Background:
		if !e.keeps {
			v.endsNow(e)
		}
	case ptyio.TreeEnded:
		e.tree = &event.TreeReport
		v.letGo(e)
		v.closeTakeover(e)
	}
}

func (v *supervisor) unborn(m protocol.NoChild) {
	if e := v.entries[m.Process]; e != nil && (e.child == nil || e.attempt != m.Attempt) { // otherwise the spawner reported a child before it failed
		e.unborn, e.child, e.attempt = true, nil, m.Attempt
		v.closeTakeover(e)
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

func (v *supervisor) list(m protocol.ListProcesses) messages.Processes {
	var all messages.Processes
	for _, e := range v.entries {
		all = append(all, e.info)
	}
	if m.Records {
		for _, r := range v.records.all {
			all = append(all, r.info)
		}
	}
	slices.SortFunc(all, func(a, b messages.ProcessInfo) int { return int(a.Process - b.Process) })
	return all
}
