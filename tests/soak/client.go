package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// watchEnds selects the events that a ledger checks.
var watchEnds = execbus.Watch{Kinds: []messages.EventKind{messages.KindExecStarted, messages.KindExecExited,
	messages.KindOutputClosed, messages.KindExecEnded}}

// client is one session with its ledger.
type client struct {
	host    *host
	session *execbus.Session
	name    string
	max     int // the limit on processes
	ledger  ledger
	closing atomic.Bool
}

// close closes the session. A call that uses it meanwhile gets an error that says so.
func (c *client) close(ctx context.Context) {
	c.closing.Store(true)
	ctx, cancel := context.WithTimeout(ctx, endWait)
	defer cancel()
	if err := c.session.Close(ctx); err != nil {
		c.host.faults.add(c.name, "close: %v", err)
	}
}

// isCode reports whether an error is ours and has exactly this code.
func isCode(err error, codes ...messages.ErrorCode) bool {
	typed, ok := errors.AsType[*messages.Error](err)
	return ok && slices.Contains(codes, typed.Code)
}

// gone are the codes for a call about a process that may have ended meanwhile.
var gone = []messages.ErrorCode{messages.ErrProcessEnded, messages.ErrUnknownProcess}

// away are the codes for an order to a process that is ending, or has not quite begun.
var away = append([]messages.ErrorCode{messages.ErrClosed, messages.ErrWrongState}, gone...)

// typed checks the error of a call. The allowed codes are those that fit the call. The codes for a closing session, a
// cancelled call and a killed warden are always accepted.
func (st *step) typed(op string, err error, allowed ...messages.ErrorCode) (ok bool) {
	if err == nil {
		st.host.tally.add("answers")
		return true
	}
	typed, isOurs := errors.AsType[*messages.Error](err)
	if !isOurs {
		st.fault("%s: an error that is not ours: %T %v", op, err, err)
		return false
	}
	st.host.tally.add("error: " + string(typed.Code))
	switch disturbed := st.host.disturbed(st.epoch); {
	case slices.Contains(allowed, typed.Code):
	case typed.Code == messages.ErrClosed && (st.client.closing.Load() || disturbed):
	case typed.Code == messages.ErrProcessEnded && st.client.closing.Load(): // terminated before it began
	case typed.Code == messages.ErrCancelled && st.ctx.Err() != nil:
	case disturbed && slices.Contains(ofLostWarden, typed.Code):
	default:
		st.fault("%s: %s: %v", op, typed.Code, typed)
	}
	if typed.Code == messages.ErrProcessEnded && typed.Ended == nil {
		st.fault("%s: a process that has ended, without its record", op)
	}
	if typed.Code == messages.ErrLimitReached && len(typed.Busy) == 0 {
		st.fault("%s: a limit was reached, but nobody holds it", op)
	}
	return false
}

// ofLostWarden are the codes for calls whose process was lost with its warden.
var ofLostWarden = []messages.ErrorCode{messages.ErrWardenLost, messages.ErrRuntimeFailure, messages.ErrProcessEnded,
	messages.ErrUnknownProcess, messages.ErrStdinClosed, messages.ErrInputNotTaken, messages.ErrWrongState}

// job is a command that a step has started.
type job struct {
	*step
	entry   *entry
	call    messages.CallID
	id      messages.ProcessID // 0 until it is known
	account account
	heard   bool // it took all of its input
	waiting bool // when its call was answered it waited for its start, as far as is known, and that may still be refused
}

// typed is as that of a step. The first call that waits for a process whose start is refused is told so.
func (j *job) typed(op string, err error, allowed ...messages.ErrorCode) (ok bool) {
	if j.waiting {
		allowed = append(slices.Clip(allowed), messages.ErrLimitReached)
	}
	return j.step.typed(op, err, allowed...)
}

// exec runs a command. It returns nil if it was refused, and the result is nil too if the call was cancelled.
func (st *step) exec(ctx context.Context, command messages.ExecCommand, w want, allowed ...messages.ErrorCode) (*job, *messages.Result) {
	j := st.ordered(&command, w)
	result, err := st.client.session.Exec(ctx, command)
	if !j.accepted(ctx, "exec", err == nil && result.Waiting != "", err, allowed...) {
		return j.known(), nil
	}
	if result.Call != j.call {
		st.fault("exec: the answer is to the call %q, want %q", result.Call, j.call)
	}
	j.id = result.Process
	if !result.Running && result.Status.Kind == messages.ExitNone && !st.disturbed() && !st.client.closing.Load() {
		st.fault("exec was answered after %v, and the process neither runs nor has it ended", result.WallTime)
	}
	j.took("exec", result)
	return j, result
}

// start starts a command and takes no output. It returns nil if the command was refused, or if the call was cancelled before
// the session had it.
func (st *step) start(command messages.ExecCommand, w want) *job {
	j := st.ordered(&command, w)
	process, err := st.client.session.Start(st.ctx, command)
	if j.accepted(st.ctx, "start", false, err) {
		j.id = process.ID()
	}
	return j.known()
}

// ordered gives a command its call id. The ledger expects the events of that call from now on.
func (st *step) ordered(command *messages.ExecCommand, w want) *job {
	st.commands++
	j := &job{step: st, call: messages.CallID(fmt.Sprintf("%s.%d", st.name, st.commands))}
	if w.output != nil {
		j.account.flood = *w.output
	}
	command.Call = j.call
	j.entry = st.client.ledger.expect(j.call, st.where(), w)
	return j
}

// accepted notes the answer to a command's call, and reports whether it was a result; waits says that the result is about
// a start that waits. If the call was cancelled, it looks for the process.
func (j *job) accepted(ctx context.Context, op string, waits bool, err error, allowed ...messages.ErrorCode) bool {
	cancelled := isCode(err, messages.ErrCancelled) && ctx.Err() != nil
	if cancelled {
		j.id = j.taken(j.call)
		j.host.tally.add("error: cancelled")
	}
	j.waiting = waits || j.id != 0
	j.client.ledger.answered(j.entry, err, j.waiting)
	return !cancelled && j.typed(op, err, append(allowed, messages.ErrLimitReached)...)
}

// known returns the job if it has a process, and otherwise nil.
func (j *job) known() *job {
	if j.id == 0 {
		return nil
	}
	return j
}

// taken finds the process of a cancelled call. It returns 0 if the call was cancelled before the session had it. The session
// handles one request after the other, so a process is listed by now or never.
func (st *step) taken(call messages.CallID) messages.ProcessID {
	all, err := st.client.session.Records(st.beyond())
	st.typed("records", err)
	for _, p := range all {
		if p.Call == call {
			return p.Process
		}
	}
	return 0
}

// sh makes a command for the shell.
func sh(tty bool, script string) messages.ExecCommand {
	return messages.ExecCommand{Argv: []string{"sh", "-c", script}, TTY: tty}
}

// took checks the output of an answer.
func (j *job) took(op string, r *messages.Result) {
	if j.entry.want.output != nil {
		j.host.tally.plus("bytes checked", int64(len(r.Output)))
		if err := j.account.take(r); err != nil {
			j.fault("%s: %v", op, err)
		}
	}
	if code, known := r.Status.Code(); known {
		if r.Status.Kind == messages.ExitCode && !slices.Contains(j.entry.want.codes, code) {
			j.fault("%s: its leader cannot have returned %d (%s)", op, code, statusOf(r))
		}
	}
	if r.OutputText() == "" && len(r.Output) > 0 {
		j.fault("%s: %d bytes of output and no text", op, len(r.Output))
	}
}

// finish polls until the process has ended and all output was taken. It checks that the output is what was sent.
func (j *job) finish() {
	if !j.identify() {
		return
	}
	for j.ctx.Err() == nil {
		result, err := j.client.session.Poll(j.ctx, messages.Poll{Process: j.id})
		if !j.typed("poll", err, gone...) {
			if isCode(err, messages.ErrProcessEnded) {
				j.complete()
			}
			return
		}
		j.took("poll", result)
	}
}

// complete checks that nothing of the output is missing.
func (j *job) complete() {
	if !j.awaitEnd() || j.entry.want.output == nil {
		return
	}
	if j.account.taken != j.entry.end.Total {
		j.fault("answers have kept and omitted %d bytes, and the process has written %d (%s)", j.account.taken, j.entry.end.Total,
			j.entry.end.EndRecord.String())
	}
}

// identify waits until the process is known.
func (j *job) identify() bool {
	if j.id != 0 {
		return true
	}
	select {
	case <-j.entry.startedCh:
	case <-j.entry.endedCh:
	case <-j.ctx.Done():
		return false
	}
	j.client.ledger.mu.Lock()
	defer j.client.ledger.mu.Unlock()
	j.id = j.entry.process
	return j.id != 0
}

// awaitEnd waits for the end event.
func (j *job) awaitEnd() bool {
	select {
	case <-j.entry.endedCh:
		return true
	case <-j.ctx.Done():
		return false
	}
}

// terminate ends the process. It does not matter if another step has ended it meanwhile.
func (j *job) terminate(request messages.Terminate) *messages.EndRecord {
	if !j.identify() {
		return nil
	}
	request.Process = j.id
	record, err := j.client.session.Terminate(j.ctx, request)
	if !j.typed("terminate", err, gone...) {
		return nil
	}
	if record == nil || len(record.Tree.Survivors) > 0 {
		j.fault("terminate: %+v", record)
	}
	return record
}
