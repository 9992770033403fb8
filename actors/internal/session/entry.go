package session

import (
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
	span  *shared.Span // for tracing
	keeps bool         // its background children live on
	again bool         // its plan allows another attempt after the current one

	open     int  // calls that concern it; see calls
	unwanted bool // somebody has asked for its end
	slot     slot
	teardown teardown
	question question
	asked    int // inquiries that are open
	attempt  attempt

	last    *protocol.Ended    // its last message, held back until the verdict is there
	late    []protocol.Request // requests that came while it was held back
	crashed string             // why its actor is gone; empty if it lives
	left    *protocol.Ended    // the last message of a process whose actor crashes, until no child can live
}

func newEntry(id messages.ProcessID, o *shared.Command, actor *system.PID) *entry {
	now := time.Now()
	return &entry{actor: actor, attempt: attempt{status: messages.StatusNone()}, keeps: o.OnLeaderExit == messages.LeaderExitKeepsTree,
		info: messages.ProcessInfo{Process: id, Call: o.Call, Owner: o.Owner, Label: o.Label(), TTY: o.TTY,
			State: messages.StatePlanning, Began: now, LastUsed: now}}
}

// learn notes what the actor of the process reports.
func (e *entry) learn(m protocol.Progress) {
	e.info.State, e.info.Dir, e.info.PID, e.info.Size, e.info.Enforced = m.State, m.Dir, m.PID, m.Size, m.Enforced
	e.info.Keyboard = m.Keyboard
	e.attempt.begun, e.again = m.Attempt, m.Repeatable
}

// endLeft sends the last message of a process whose actor is gone, when no child can live any more.
func (e *entry) endLeft() []effect {
	if e.crashed == "" || e.left == nil || !e.attempt.gone() {
		return nil
	}
	m := *e.left
	e.left = nil
	m.Record.Status = e.attempt.status
	if e.attempt.tree != nil {
		m.Record.Tree = *e.attempt.tree
	}
	return []effect{{entry: e, message: m}}
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
		return !e.teardown.began.IsZero() || e.attempt.tree != nil
	}
}

// isRepeatable reports whether another attempt may follow the exit of the current one: its sandbox may be the cause, and the
// call that asked for the command waits.
func (e *entry) isRepeatable() bool {
	return e.info.State == messages.StateRunning && e.again && !e.slot.outlives && e.attempt.status != messages.StatusExited(0)
}

// attempt has the facts about the child of a process, as its spawner and the child itself report them: they hold even if the process's
// actor has crashed.
type attempt struct {
	begun  int                 // the latest attempt that the actor has reported
	number int                 // the latest one that the spawner has reported
	child  ptyio.Child         // of that one; nil if it has none
	asked  chan struct{}       // holds a token while the child has not answered a list's question; a child of ours needs none
	unborn bool                // the latest attempt has no child, and gets none
	status messages.ExitStatus // of the leader
	tree   *messages.TreeReport
}

// learn notes an event of the child.
func (a *attempt) learn(m protocol.ChildEvent) {
	switch event := m.Event.(type) {
	case ptyio.Spawned:
		a.child, a.number, a.unborn, a.status, a.tree = event.Child, m.Attempt, false, messages.StatusNone(), nil
		a.asked = make(chan struct{}, 1)
	case ptyio.Exited:
		a.status = event.Status
	case ptyio.TreeEnded:
		a.tree = &event.TreeReport
	}
}

// fail notes that an attempt has no child, unless the spawner reported one before it failed.
func (a *attempt) fail(number int) {
	if a.child == nil || a.number != number {
		a.unborn, a.child, a.number = true, nil, number
	}
}

// disown goes on without a child whose end was not reported, and without one that may still be born.
func (a *attempt) disown(pid int, label string) {
	a.number, a.unborn = a.begun, true
	if a.child != nil && a.tree == nil {
		a.tree = new(shared.NotEnded(pid, []string{label}))
	}
}

// gone reports whether no child lives, or can be born.
func (a *attempt) gone() bool {
	switch {
	case a.begun == 0:
		return true
	case a.number < a.begun:
		return false // a spawner is at work
	default:
		return a.unborn || a.tree != nil
	}
}
