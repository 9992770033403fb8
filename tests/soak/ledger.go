package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

// want says how a command may end.
type want struct {
	codes  []int // exit codes that its leader can return; with the first one it has ended as meant
	struck bool  // somebody sends it signals
	unborn bool  // it may fail to start
	output *flood
}

// outcome is the answer to the call that started a command.
type outcome int

const (
	pending   outcome = iota // no answer yet
	accepted                 // it ran, or it still runs
	taken                    // the session has it, and its start may still be refused
	refused                  // the error says that the command was never taken
	stillborn                // the error says that the command could not be started
)

// ofStillborn are the codes of commands that the session took but could not start.
var ofStillborn = []messages.ErrorCode{messages.ErrLimitReached, messages.ErrNoSuchProgram, messages.ErrSpawnFailed,
	messages.ErrWardenLost, messages.ErrRuntimeFailure}

// entry is one command in a ledger.
type entry struct {
	where   string
	want    want
	epoch   int64
	outcome outcome

	started, exited, closed, ended int // events
	process                        messages.ProcessID
	pid                            int
	end                            messages.ExecEnded // without the transcript
	startedCh, endedCh             chan struct{}
}

// ledger holds every command of a session from its call until the next quiet point, and checks its events.
type ledger struct {
	host   *host
	client *client
	events *bus.Subscription
	over   sync.WaitGroup

	mu      sync.Mutex
	entries map[messages.CallID]*entry
	unnamed *entry // stands for commands whose calls execbus names; nil if there are none
}

func (l *ledger) follow(h *host, c *client) error {
	l.host, l.client, l.entries = h, c, map[messages.CallID]*entry{}
	var err error
	l.events, err = c.session.Events(watchEnds)
	if err != nil {
		return err
	}
	l.over.Go(func() {
		for event, err := range l.events.All(context.Background()) {
			if err == nil {
				l.note(event)
			} else if !isCode(err, messages.ErrClosed) {
				h.faults.add(c.name, "the subscription of the ledger ended: %v", err)
			}
		}
	})
	return nil
}

// expect enters a command before it is requested.
func (l *ledger) expect(id messages.CallID, where string, w want) *entry {
	e := newEntry(where, w, l.host.epoch.Load())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[id] = e
	return e
}

// expectUnnamed allows commands that were not entered.
func (l *ledger) expectUnnamed(where string, w want) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unnamed = newEntry(where, w, l.host.epoch.Load())
}

func newEntry(where string, w want, epoch int64) *entry {
	return &entry{where: where, want: w, epoch: epoch, startedCh: make(chan struct{}), endedCh: make(chan struct{})}
}

// answered notes the answer to the call that started a command. If the call was cancelled, or answered while the start
// waited for something, unstarted says that the session has the command.
func (l *ledger) answered(e *entry, err error, unstarted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case unstarted:
		e.outcome = taken
	case err == nil:
		e.outcome = accepted
	case isCode(err, ofStillborn...):
		e.outcome = stillborn
	default:
		e.outcome = refused
	}
	if err == nil && !unstarted && e.ended > 0 && e.started == 0 && e.end.Cause != messages.CauseTerminated {
		l.complain(e, "its call has a result, and it never started: %s", e.end.EndRecord.String())
	}
}

// note checks one event.
func (l *ledger) note(event messages.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := event.From()
	e := l.entries[from.Call]
	if e == nil && l.unnamed != nil {
		e = newEntry(l.unnamed.where, l.unnamed.want, l.unnamed.epoch)
		e.outcome = accepted
		l.entries[from.Call] = e
	}
	if e == nil {
		l.complain(&entry{where: l.client.name}, "%s of process %d, whose call %q nobody made", event.Kind(), from.Process, from.Call)
		return
	}
	if e.ended > 0 {
		l.complain(e, "%s of process %d behind its end", event.Kind(), from.Process)
	}
	if e.process != 0 && e.process != from.Process {
		l.complain(e, "%s of process %d, and earlier events were of %d", event.Kind(), from.Process, e.process)
	}
	e.process = from.Process
	switch event := event.(type) {
	case messages.ExecStarted:
		l.once(e, &e.started, event)
		if e.started == 1 {
			e.pid = event.PID
			close(e.startedCh)
		}
	case messages.ExecExited:
		l.once(e, &e.exited, event)
	case messages.OutputClosed:
		l.once(e, &e.closed, event)
	case messages.ExecEnded:
		l.ended(e, event)
	}
}

func (l *ledger) once(e *entry, count *int, event messages.Event) {
	*count++
	if *count > 1 {
		l.complain(e, "%s of process %d came %d times", event.Kind(), e.process, *count)
	}
	if e.started == 0 {
		l.complain(e, "%s of process %d before its start", event.Kind(), e.process)
	}
}

// ended checks how a command ended.
func (l *ledger) ended(e *entry, event messages.ExecEnded) {
	e.ended++
	if e.ended > 1 {
		l.complain(e, "exec_ended of process %d came %d times", e.process, e.ended)
		return
	}
	defer close(e.endedCh)
	transcript := event.Transcript
	event.Transcript = nil
	e.end = event
	l.host.tally.add("ended: " + string(event.Cause))
	disturbed := l.host.disturbed(e.epoch)
	if problem := e.judge(event, disturbed, l.client.closing.Load()); problem != "" {
		l.complain(e, "process %d %s: %s", e.process, event.EndRecord.String(), problem)
	}
	if len(event.Tree.Survivors) > 0 {
		l.complain(e, "process %d left survivors: %+v", e.process, event.Tree.Survivors)
	}
	if out := e.want.output; out != nil {
		l.host.tally.plus("bytes checked", int64(len(transcript)))
		if err := out.transcript(transcript, event.Total); err != nil {
			l.complain(e, "process %d: %v", e.process, err)
		}
		if e.asMeant() && event.Total != out.total() {
			l.complain(e, "process %d returned %d and has %d bytes of output, %d were sent", e.process, e.want.codes[0],
				event.Total, out.total())
		}
	}
}

// judge compares an end with the allowed ones.
func (e *entry) judge(end messages.ExecEnded, disturbed, closing bool) string {
	status := end.Status
	switch status.Kind {
	case messages.ExitCode:
		if !slices.Contains(e.want.codes, status.Number) {
			return "its leader cannot have returned this"
		}
	case messages.ExitSignal:
		if end.Cause != messages.CauseTerminated && !e.want.struck && !disturbed {
			return "nobody sent it a signal"
		}
	case messages.ExitNone:
		if e.started > 0 && !disturbed {
			return "it ran and has no status"
		}
	default:
		return "this is no kind of status"
	}
	switch end.Cause {
	case messages.CauseExited:
		if status.Kind == messages.ExitNone || e.exited == 0 {
			return "it has exited, but not been told to"
		}
	case messages.CauseTerminated:
		if end.By == "" {
			return "nobody terminated it"
		}
	case messages.CauseSpawnFailed:
		if e.started > 0 || !e.want.unborn && !disturbed && !closing && e.outcome == accepted {
			return "it has started, or had to"
		}
	default:
		if !disturbed {
			return "nothing has failed"
		}
	}
	if e.started > 0 && (e.exited == 0 || e.closed == 0) && !disturbed {
		return "its exit or the end of its output was not told"
	}
	return ""
}

// asMeant reports whether the leader ran undisturbed to its end.
func (e *entry) asMeant() bool {
	return e.ended > 0 && e.end.Cause == messages.CauseExited && e.end.Status == messages.StatusExited(e.want.codes[0])
}

func (l *ledger) complain(e *entry, format string, args ...any) {
	l.host.faults.add(e.where+" in "+l.client.name, format, args...)
}

// settle waits until every command that was taken has ended, and complains about those that have not.
func (l *ledger) settle() {
	deadline := time.NewTimer(endWait)
	defer deadline.Stop()
	for _, e := range l.all() {
		l.mu.Lock()
		owed := e.outcome != refused
		if !owed && e.started > 0 && !l.host.disturbed(e.epoch) {
			l.complain(e, "its call was refused, and it ran as process %d", e.process)
		}
		l.mu.Unlock()
		if !owed {
			continue
		}
		select {
		case <-e.endedCh:
			continue
		default:
		}
		select {
		case <-e.endedCh:
		case <-deadline.C:
			deadline.Reset(0) // the others have had their time by now
			l.mu.Lock()
			l.complain(e, "no exec_ended came (process %d, outcome %d, %d starts, %d exits, %d closings)",
				e.process, e.outcome, e.started, e.exited, e.closed)
			l.mu.Unlock()
		}
	}
}

func (l *ledger) all() []*entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*entry, 0, len(l.entries))
	for _, e := range l.entries {
		all = append(all, e)
	}
	return all
}

// restart forgets commands that have ended. It complains about later events of them.
func (l *ledger) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.host.tally.plus("commands", int64(len(l.entries)))
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
	l.restart()
}
