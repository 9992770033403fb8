package window

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// maxEntries bounds the time line of a session, and maxTimelines how many are kept. The oldest entry, and the session that has been still for
// longest, make room.
const (
	maxEntries   = 256
	maxTimelines = 256
	maxDiffs     = 16 // of a session: the last ones, of messages.MaxQuestionDiff each at most
)

// entry is something that has happened.
type entry struct {
	At      time.Time
	Process messages.ProcessID
	Bad     bool // it was refused, stopped or lost
	Talk    bool // it is a connection to a host
	Text    string
	Diff    string // of a patch that was applied
}

// timeline is what has happened in the sessions since the window was made.
type timeline struct {
	// The lock is held to add an entry or to copy some: pages read what one goroutine writes.
	mu       sync.Mutex
	sessions map[messages.SessionID][]entry
}

// kinds are what a time line has. The kind approval_requested is not among them: a subscriber that names it counts as one who can answer.
var kinds = []messages.EventKind{messages.KindExecStarted, messages.KindExecEnded, messages.KindAttemptEnded, messages.KindToolDecision,
	messages.KindApprovalResolved, messages.KindNetworkConnection, messages.KindPatchApplied, messages.KindPatchFailed, messages.KindExecNotice,
	messages.KindProcessWarning, messages.KindProcessSignaled, messages.KindKeyboardTaken, messages.KindKeyboardReturned}

func newTimeline() *timeline { return &timeline{sessions: map[messages.SessionID][]entry{}} }

// follow writes the time lines until the runtime has ended, or ctx. Each event also tells those who look at the window.
func (t *timeline) follow(ctx context.Context, rt *execbus.Runtime, poke func()) {
	for {
		events, err := rt.Events(execbus.Watch{Name: "window", Kinds: kinds})
		if err != nil {
			return
		}
		for event, err := range events.All(ctx) {
			if errors.Is(err, messages.ErrSlowSubscriber) {
				break // and begins again
			}
			if err != nil {
				events.Close()
				return
			}
			t.add(event)
			poke()
		}
		events.Close()
	}
}

func (t *timeline) add(event messages.Event) {
	e := entry{At: event.From().At, Process: event.From().Process}
	if e.Text, e.Bad = describe(event); e.Text == "" {
		return
	}
	_, e.Talk = event.(messages.NetworkConnection)
	if applied, is := event.(messages.PatchApplied); is {
		e.Diff = applied.Diff
	}
	session := event.From().Session
	t.mu.Lock()
	defer t.mu.Unlock()
	list := append(t.sessions[session], e)
	for i, diffs := len(list)-1, 0; e.Diff != "" && i >= 0; i-- {
		if list[i].Diff == "" {
			continue
		}
		if diffs++; diffs > maxDiffs {
			list[i].Diff = ""
		}
	}
	if len(list) > maxEntries {
		list = append([]entry(nil), list[1:]...)
	}
	t.sessions[session] = list
	if len(t.sessions) > maxTimelines {
		oldest := session
		for id, entries := range t.sessions {
			if last(entries).Before(last(t.sessions[oldest])) {
				oldest = id
			}
		}
		delete(t.sessions, oldest)
	}
}

func last(entries []entry) time.Time { return entries[len(entries)-1].At }

// of are the entries of a session, and of one of its processes unless that is zero: the newest first, at most so many of those that are
// wanted.
func (t *timeline) of(session messages.SessionID, process messages.ProcessID, most int, wanted func(entry) bool) (list []entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.sessions[session]
	for i := len(all) - 1; i >= 0 && len(list) < most; i-- {
		if (process == 0 || all[i].Process == process) && wanted(all[i]) {
			list = append(list, all[i])
		}
	}
	return list
}

// describe says in words what an event reports; empty for nothing that is worth a person's time.
func describe(event messages.Event) (text string, bad bool) {
	switch e := event.(type) {
	case messages.ExecStarted:
		return "started", false
	case messages.ExecEnded:
		code, known := e.Status.Code()
		return e.Words(), !known || code != 0
	case messages.AttemptEnded:
		return e.Denial.String(), true
	case messages.ToolDecision:
		if e.Allowed {
			return "", false
		}
		return "not allowed: " + e.Reason, true
	case messages.ApprovalResolved:
		if e.Decision == "" {
			return "a question was withdrawn", false
		}
		return fmt.Sprintf("a question was answered: %s (%s)", plain(string(e.Decision)), e.Source), !e.Decision.Approves()
	case messages.NetworkConnection:
		if !e.Connection.Allowed {
			return e.Connection.String(), true
		}
		c := e.Connection
		return fmt.Sprintf("talked to %s, port %d: %d bytes out, %d in", c.Host, c.Port, c.Sent, c.Received), false
	case messages.Gap:
		return fmt.Sprint(e), true
	case messages.PatchApplied:
		return "applied a patch: " + files(e.Files), false
	case messages.PatchFailed:
		return "a patch was not applied: " + e.Err.Error(), true
	case messages.ExecNotice:
		return e.Text, true
	case messages.ProcessWarning:
		return e.Text, true
	case messages.ProcessSignaled:
		return "was sent " + e.Signal, false
	case messages.KeyboardTaken:
		return named(e.Holder) + " has the keyboard", false
	case messages.KeyboardReturned:
		return fmt.Sprintf("%s gave the keyboard back (%s)", named(e.Holder), e.Why), false
	}
	return "", false
}

func named(holder string) string {
	if holder == "" {
		return "a person"
	}
	return holder
}

func files(changes []messages.FileChange) (text string) {
	const most = 8
	for i, change := range changes[:min(len(changes), most)] {
		if i > 0 {
			text += ", "
		}
		text += change.Display()
	}
	if more := len(changes) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
