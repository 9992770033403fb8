package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

// want says how a command may end.
type want struct {
	codes  []int // exit codes that its leader can return; with the first one it has ended as meant
	struck bool  // somebody sends it signals
	output *flood
}

// ofStillborn are the codes of commands that the session took but could not start.
var ofStillborn = []messages.ErrorCode{messages.ErrLimitReached, messages.ErrSpawnFailed,
	messages.ErrWardenLost, messages.ErrRuntimeFailure}

// entry is one command in a ledger.
type entry struct {
	where string
	want  want
	epoch int64
	ran   bool // the answer to its call says so
	never bool // the answer says that it was never taken; before there is one, and if that leaves it open, it may be either

	seen    map[messages.EventKind]int // events
	process messages.ProcessID
	end     messages.ExecEnded // without the transcript
	endedCh chan struct{}
}

func newEntry(where string, w want, epoch int64) *entry {
	return &entry{where: where, want: w, epoch: epoch, seen: map[messages.EventKind]int{}, endedCh: make(chan struct{})}
}

func (e *entry) started() bool { return e.seen[messages.KindExecStarted] > 0 }

func (e *entry) ended() bool { return e.seen[messages.KindExecEnded] > 0 }

// ledger holds every command of a session from its call until the next quiet point, and checks its events.
type ledger struct {
	client *client
	events *bus.Subscription
	over   sync.WaitGroup

	mu      sync.Mutex
	entries map[messages.CallID]*entry
}

func (l *ledger) follow(c *client) (err error) {
	l.client, l.entries = c, map[messages.CallID]*entry{}
	l.events, err = c.session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindExecStarted, messages.KindExecExited,
		messages.KindOutputClosed, messages.KindExecEnded}})
	if err != nil {
		return err
	}
	l.over.Go(func() {
		for event, err := range l.events.All(context.Background()) {
			if err == nil {
				l.note(event)
			} else if !isCode(err, messages.ErrClosed) {
				c.host.faults.add(c.name, "the subscription of the ledger ended: %v", err)
			}
		}
	})
	return nil
}

// expect enters a command before it is requested.
func (l *ledger) expect(id messages.CallID, where string, w want) *entry {
	e := newEntry(where, w, l.client.host.epoch.Load())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[id] = e
	return e
}

// answered notes the answer to the call that started a command. If the call was cancelled, or answered while the start
// waited for something, unstarted says that the session has the command.
func (l *ledger) answered(e *entry, err error, unstarted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.ran, e.never = err == nil && !unstarted, err != nil && !unstarted && !isCode(err, ofStillborn...)
	if e.ran && e.ended() && !e.started() && e.end.Cause != messages.CauseTerminated {
		l.complain(e, "its call has a result, and it never started: %s", e.end.EndRecord.String())
	}
}

// note checks one event.
func (l *ledger) note(event messages.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := event.From()
	e := l.entries[from.Call]
	if e == nil {
		l.complain(&entry{where: l.client.name}, "%s of process %d, whose call %q nobody made", event.Kind(), from.Process, from.Call)
		return
	}
	if e.ended() {
		l.complain(e, "%s of process %d behind its end", event.Kind(), from.Process)
	}
	if e.process != 0 && e.process != from.Process {
		l.complain(e, "%s of process %d, and earlier events were of %d", event.Kind(), from.Process, e.process)
	}
	e.process = from.Process
	if e.seen[event.Kind()]++; e.seen[event.Kind()] > 1 {
		l.complain(e, "%s of process %d came %d times", event.Kind(), e.process, e.seen[event.Kind()])
		return
	}
	if end, is := event.(messages.ExecEnded); is {
		l.ended(e, end)
	} else if !e.started() {
		l.complain(e, "%s of process %d before its start", event.Kind(), e.process)
	}
}

// ended checks how a command ended.
func (l *ledger) ended(e *entry, event messages.ExecEnded) {
	defer close(e.endedCh)
	transcript := event.Transcript
	event.Transcript = nil
	e.end = event
	h := l.client.host
	h.tally.plus("ended: "+string(event.Cause), 1)
	if problem := e.judge(event, h.disturbed(e.epoch), l.client.closing.Load()); problem != "" {
		l.complain(e, "process %d %s: %s", e.process, event.EndRecord.String(), problem)
	}
	if len(event.Tree.Survivors) > 0 {
		l.complain(e, "process %d left survivors: %+v", e.process, event.Tree.Survivors)
	}
	if out := e.want.output; out != nil {
		h.tally.plus("bytes checked", int64(len(transcript)))
		if err := out.transcript(transcript, event.Total); err != nil {
			l.complain(e, "process %d: %v", e.process, err)
		}
		if e.asMeant() && event.Total != out.total() {
			l.complain(e, "process %d returned %d and has %d bytes of output, %d were sent", e.process, e.want.codes[0], event.Total, out.total())
		}
	}
}

// judge compares an end with the allowed ones.
func (e *entry) judge(end messages.ExecEnded, disturbed, closing bool) string {
	switch status := end.Status; status.Kind {
	case messages.ExitCode:
		if !slices.Contains(e.want.codes, status.Number) {
			return "its leader cannot have returned this"
		}
	case messages.ExitSignal:
		if end.Cause != messages.CauseTerminated && !e.want.struck && !disturbed {
			return "nobody sent it a signal"
		}
	case messages.ExitNone:
		if e.started() && !disturbed {
			return "it ran and has no status"
		}
	default:
		return "this is no kind of status"
	}
	exited, closed := e.seen[messages.KindExecExited] > 0, e.seen[messages.KindOutputClosed] > 0
	switch {
	case end.Cause == messages.CauseExited && (end.Status.Kind == messages.ExitNone || !exited):
		return "it has exited, but not been told to"
	case end.Cause == messages.CauseTerminated && end.By == "":
		return "nobody terminated it"
	case end.Cause == messages.CauseSpawnFailed && (e.started() || !disturbed && !closing && e.ran):
		return "it has started, or had to"
	case end.Cause != messages.CauseExited && end.Cause != messages.CauseTerminated && end.Cause != messages.CauseSpawnFailed && !disturbed:
		return "nothing has failed"
	case e.started() && (!exited || !closed) && !disturbed:
		return "its exit or the end of its output was not told"
	}
	return ""
}

// asMeant reports whether the leader ran undisturbed to its end.
func (e *entry) asMeant() bool {
	return e.ended() && e.end.Cause == messages.CauseExited && e.end.Status == messages.StatusExited(e.want.codes[0])
}

func (l *ledger) complain(e *entry, format string, args ...any) {
	l.client.host.faults.add(e.where+" in "+l.client.name, format, args...)
}

// settle waits until every command that was taken has ended, complains about those that have not, and forgets them all. It
// complains about later events of them.
func (l *ledger) settle() {
	deadline := time.NewTimer(endWait)
	defer deadline.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.never {
			if e.started() && !l.client.host.disturbed(e.epoch) {
				l.complain(e, "its call was refused, and it ran as process %d", e.process)
			}
			continue
		}
		l.mu.Unlock()
		late := false
		select {
		case <-e.endedCh:
		case <-deadline.C:
			late = true
			deadline.Reset(0) // the others have had their time by now
		}
		l.mu.Lock()
		if late && !e.ended() {
			l.complain(e, "no exec_ended came (process %d, ran %v, %v)", e.process, e.ran, e.seen)
		}
	}
	l.client.host.tally.plus("commands", int64(len(l.entries)))
	l.entries = map[messages.CallID]*entry{}
}

// lateEvents is how long a ledger waits for events that should not come.
const lateEvents = 20 * time.Millisecond

// finish ends the ledger.
func (l *ledger) finish() {
	l.settle()
	time.Sleep(lateEvents)
	l.events.Close()
	l.over.Wait()
}
