package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// step is one thing that a worker does.
type step struct {
	ctx      context.Context
	host     *host
	pool     pool
	slot     int // of the pool
	client   *client
	dice     *rand.Rand
	name     string // worker and number: unique in this run
	scenario scenario
	epoch    int64
	commands int
}

// over ends a step early.
type over struct{}

// do runs a step, or a part of one in a goroutine of its own.
func (st *step) do(run func(*step)) {
	defer func() {
		if cause := recover(); cause != nil && cause != (over{}) {
			panic(cause)
		}
	}()
	run(st)
}

// where names the step in complaints.
func (st *step) where() string { return st.name + " " + st.scenario.name }

func (st *step) fault(format string, args ...any) {
	st.host.faults.add(st.where()+" in "+st.client.name, format, args...)
}

// disturbed reports whether the warden was killed since the step began.
func (st *step) disturbed() bool { return st.host.disturbed(st.epoch) }

// undisturbed reports that nothing but the step itself can have ended its processes.
func (st *step) undisturbed() bool {
	return !st.disturbed() && !st.client.closing.Load() && st.ctx.Err() == nil
}

func (st *step) coin() bool { return st.dice.IntN(2) == 0 }

// between draws a number from low to high.
func (st *step) between(low, high int) int { return low + st.dice.IntN(high-low+1) }

// millis draws a time.
func (st *step) millis(low, high int) time.Duration {
	return time.Duration(st.between(low, high)) * time.Millisecond
}

// code draws an exit code that no shell returns by itself.
func (st *step) code() int { return st.between(20, 99) }

func (st *step) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-st.ctx.Done():
	}
}

// within calls something with a context that ends at some moment.
func (st *step) within(low, high int, do func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(st.ctx, st.millis(low, high))
	defer cancel()
	do(ctx)
}

// in makes the rest of the step happen in a session of its own.
func (st *step) in(options execbus.SessionOptions) {
	c, err := st.host.session(options)
	if err != nil {
		st.fault("open session: %v", err)
		panic(over{})
	}
	st.client = c
}

// beyond is a context that outlives the run, so that closing is always completed.
func (st *step) beyond() context.Context { return context.WithoutCancel(st.ctx) }

// isCode reports whether an error is ours and has exactly one of these codes.
func isCode(err error, codes ...messages.ErrorCode) bool {
	typed, ok := errors.AsType[*messages.Error](err)
	return ok && slices.Contains(codes, typed.Code)
}

var (
	// gone are the codes for a call about a process that may have ended meanwhile.
	gone = []messages.ErrorCode{messages.ErrProcessEnded, messages.ErrUnknownProcess}
	// interrupted are those for such a call that may have been cancelled.
	interrupted = append([]messages.ErrorCode{messages.ErrCancelled}, gone...)
	// away are those for an order to a process that is ending, or has not quite begun.
	away = append([]messages.ErrorCode{messages.ErrClosed, messages.ErrWrongState}, gone...)
	// ofInput are those for a write to such a process.
	ofInput = append([]messages.ErrorCode{messages.ErrStdinClosed, messages.ErrInputNotTaken}, away...)
	// ofLostWarden are those for calls whose process was lost with its warden.
	ofLostWarden = append([]messages.ErrorCode{messages.ErrWardenLost, messages.ErrRuntimeFailure}, ofInput...)
)

// typed checks the error of a call. The allowed codes are those that fit the call. The codes for a closing session, a
// cancelled call and a killed warden are always accepted.
func (st *step) typed(op string, err error, allowed ...messages.ErrorCode) (ok bool) {
	if err == nil {
		st.host.tally.plus("answers", 1)
		return true
	}
	typed, isOurs := errors.AsType[*messages.Error](err)
	if !isOurs {
		st.fault("%s: an error that is not ours: %T %v", op, err, err)
		return false
	}
	st.host.tally.plus("error: "+string(typed.Code), 1)
	disturbed, closing := st.disturbed(), st.client.closing.Load()
	switch {
	case slices.Contains(allowed, typed.Code):
	case typed.Code == messages.ErrClosed && (closing || disturbed):
	case typed.Code == messages.ErrProcessEnded && closing: // terminated before it began
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

// sh makes a command for the shell.
func sh(tty bool, script string) messages.ExecCommand {
	return messages.ExecCommand{Argv: []string{"sh", "-c", script}, TTY: tty}
}

// exec runs a command. It ends the step if that was refused. The result is nil if the call was cancelled.
func (st *step) exec(ctx context.Context, command messages.ExecCommand, w want) (*job, *messages.Result) {
	j := st.ordered(&command.Call, w)
	result, err := st.client.session.Exec(ctx, command)
	if !j.accepted(ctx, "exec", err == nil && result.Waiting != "", err) {
		return j.live(), nil
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

// begin runs a command whose first call answers soon.
func (st *step) begin(command messages.ExecCommand, w want) *job {
	command.Yield = new(messages.MinYield)
	j, _ := st.exec(st.ctx, command, w)
	return j
}

// start starts a command and takes no output. It ends the step if the command was refused, or if the call was cancelled before
// the session had it.
func (st *step) start(command messages.ExecCommand, w want) *job {
	j := st.ordered(&command.Call, w)
	process, err := st.client.session.Start(st.ctx, command)
	if j.accepted(st.ctx, "start", false, err) {
		j.id = process.ID()
	}
	return j.live()
}

// live ends the step if there is no process.
func (j *job) live() *job {
	if j.id == 0 {
		panic(over{})
	}
	return j
}

// ordered gives a command its call id. The ledger expects the events of that call from now on.
func (st *step) ordered(call *messages.CallID, w want) *job {
	st.commands++
	j := &job{step: st, call: messages.CallID(fmt.Sprintf("%s.%d", st.name, st.commands))}
	if w.output != nil {
		j.account.flood = *w.output
	}
	*call = j.call
	j.entry = st.client.ledger.expect(j.call, st.where(), w)
	return j
}

// accepted notes the answer to a command's call, and reports whether it was a result; waits says that the result is about
// a start that waits. If the call was cancelled, it looks for the process: the session handles one request after the other, so
// it is listed by now or never.
func (j *job) accepted(ctx context.Context, op string, waits bool, err error) bool {
	cancelled := isCode(err, messages.ErrCancelled) && ctx.Err() != nil
	if cancelled {
		all, err := j.client.session.Records(j.beyond())
		j.step.typed("records", err)
		for _, p := range all {
			if p.Call == j.call {
				j.id = p.Process
			}
		}
	}
	j.waiting = waits || j.id != 0
	j.client.ledger.answered(j.entry, err, j.waiting)
	return !cancelled && j.typed(op, err, messages.ErrLimitReached)
}

// took checks the output of an answer.
func (j *job) took(op string, r *messages.Result) {
	if j.entry.want.output != nil {
		j.host.tally.plus("bytes checked", int64(len(r.Output)))
		if err := j.account.take(r); err != nil {
			j.fault("%s: %v", op, err)
		}
	}
	if code, known := r.Status.Code(); known && r.Status.Kind == messages.ExitCode && !slices.Contains(j.entry.want.codes, code) {
		j.fault("%s: its leader cannot have returned %d (%s)", op, code, statusOf(r))
	}
	if r.OutputText() == "" && len(r.Output) > 0 {
		j.fault("%s: %d bytes of output and no text", op, len(r.Output))
	}
}

// statusOf describes a result for complaints.
func statusOf(r *messages.Result) string {
	return fmt.Sprintf("process %d, running %v, %s", r.Process, r.Running, r.Status)
}

// finish polls until the process has ended, and checks that nothing of the output is missing. It adds the output to what was said,
// and reports whether the leader ran undisturbed to its end.
func (j *job) finish(said *[]byte) (asMeant bool) {
	for {
		result, err := j.client.session.Poll(j.ctx, messages.Poll{Process: j.id})
		if !j.typed("poll", err, gone...) {
			if !isCode(err, messages.ErrProcessEnded) || !j.awaitEnd() {
				return false
			}
			break
		}
		j.took("poll", result)
		if said != nil {
			*said = append(*said, result.Output...)
		}
	}
	j.client.ledger.mu.Lock()
	defer j.client.ledger.mu.Unlock()
	if end := j.entry.end; j.entry.want.output != nil && j.account.taken != end.Total {
		j.fault("answers have kept and omitted %d bytes, and the process has written %d (%s)", j.account.taken, end.Total, end.EndRecord.String())
	}
	return j.entry.asMeant()
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

// terminate ends the process. It does not matter if another step has ended it meanwhile; then there is no record.
func (j *job) terminate(request messages.Terminate) *messages.EndRecord {
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
