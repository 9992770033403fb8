package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

// output draws a flood, and returns it with the script that writes it and then exits with the code.
func (st *step) output(most int, tty bool, code int) (flood, string) {
	f := flood{lines: st.between(0, most), tty: tty}
	return f, fmt.Sprintf("%s; exit %d", f.script(), code)
}

// short runs a small command to its end.
func (st *step) short() {
	tty, code := st.coin(), st.code()
	f, script := st.output(60, tty, code)
	command := sh(tty, script)
	command.Yield = new(messages.MaxYield)
	j, result := st.exec(st.ctx, command, want{codes: []int{code}, output: &f})
	if result == nil {
		return
	}
	if result.Running && result.WallTime < *command.Yield && !st.disturbed() {
		st.fault("exec was answered after %v although it runs (%s)", result.WallTime, statusOf(result))
	}
	if st.coin() {
		j.finish()
	}
}

// run runs a command to its end with its streams apart.
func (st *step) run() {
	code := st.code()
	out, err := flood{lines: st.between(0, 3000)}, flood{lines: st.between(0, 3000)}
	script := fmt.Sprintf("%s; %s >&2; exit %d", out.script(), err.script(), code)
	request := messages.RunCommand{Timeout: new(messages.MaxYield)}
	ctx, cancel := st.ctx, context.CancelFunc(func() {})
	timeout, stop := st.dice.IntN(4) == 0, st.dice.IntN(4) == 0
	switch {
	case timeout:
		script = "sleep 20; " + script
		request.Timeout = new(st.millis(10, 200))
	case stop:
		script = "sleep 20; " + script
		ctx, cancel = context.WithTimeout(st.ctx, st.millis(0, 200))
	}
	defer cancel()
	request.Argv = sh(false, script).Argv
	st.commands++
	request.Call = messages.CallID(fmt.Sprintf("%s.%d", st.name, st.commands))
	e := st.client.ledger.expect(request.Call, st.where(), want{codes: []int{code}, struck: timeout || stop})
	result, failure := st.client.session.Run(ctx, request)
	cancelled := failure != nil && ctx.Err() != nil && isCode(failure, messages.ErrCancelled)
	st.client.ledger.answered(e, failure, cancelled && st.taken(request.Call) != 0)
	if cancelled {
		return
	}
	if !st.typed("run", failure, messages.ErrLimitReached) {
		return
	}
	st.checkRun(result, code, timeout || stop, out, err)
}

func (st *step) checkRun(r *messages.RunResult, code int, stopped bool, out, err flood) {
	switch {
	case st.disturbed() || st.client.closing.Load() || st.ctx.Err() != nil:
	case stopped:
		if !r.TimedOut && !r.Cancelled || r.Status == messages.StatusExited(0) {
			st.fault("run was stopped, and answered %+v", r.Status)
		}
	case r.ExitCode == code && r.Status == messages.StatusExited(code):
		if int64(len(r.Stdout)) != out.total() || int64(len(r.Stderr)) != err.total() || r.Omitted != 0 {
			st.fault("run has %d bytes of stdout and %d of stderr, and %d omitted; want %d and %d", len(r.Stdout), len(r.Stderr),
				r.Omitted, out.total(), err.total())
		}
	default:
		st.fault("run returned %d, %s, want %d", r.ExitCode, r.Status, code)
	}
	for _, stream := range []struct {
		flood
		bytes []byte
	}{{out, r.Stdout}, {err, r.Stderr}} {
		st.host.tally.plus("bytes checked", int64(len(stream.bytes)))
		if problem := stream.check(stream.bytes, 0); problem != nil {
			st.fault("run: %v", problem)
		}
	}
}

// flood takes a long output by polls, some of which are cancelled.
func (st *step) flood() {
	tty, code := st.coin(), st.code()
	f, script := st.output(400_000, tty, code)
	command := sh(tty, script)
	command.Yield = new(st.millis(250, 1000))
	j, _ := st.exec(st.ctx, command, want{codes: []int{code}, output: &f})
	if j == nil || !j.identify() {
		return
	}
	for range st.between(0, 3) {
		ctx, cancel := context.WithTimeout(st.ctx, st.millis(0, 50))
		result, err := st.client.session.Poll(ctx, messages.Poll{Process: j.id})
		cancel()
		if j.typed("poll", err, messages.ErrCancelled, messages.ErrProcessEnded, messages.ErrUnknownProcess) {
			j.took("poll", result)
		}
	}
	if st.coin() {
		st.remembered(j)
	}
	j.finish()
}

// remembered reads output again. This takes nothing from other readers.
func (st *step) remembered(j *job) {
	read := messages.ReadOutput{Process: j.id, Max: st.between(1, messages.MaxRead)}
	switch offset, after := int64(st.between(0, 2<<20)), uint64(st.between(0, 300)); st.dice.IntN(3) {
	case 0:
		read.Offset = &offset
	case 1:
		read.AfterSeq = &after
	default:
		read.Tail = st.between(1, messages.MaxRead)
	}
	page, err := st.client.session.Read(st.ctx, read)
	if !st.typed("read", err, messages.ErrOutputUnretained, messages.ErrUnknownProcess) {
		return
	}
	for _, chunk := range page.Chunks {
		if err := j.entry.want.output.check(chunk.Bytes, chunk.Offset); err != nil {
			st.fault("read: %v", err)
		}
	}
}

// watch follows a flood with several subscribers. Some are lossless, some slow, some leave early, and some read nothing
// before the end and so find gaps.
func (st *step) watch() {
	tty, code, most := st.coin(), st.code(), 100_000
	if st.dice.IntN(3) == 0 {
		most = 800_000
	}
	f, script := st.output(most, tty, code)
	call := messages.CallID(fmt.Sprintf("%s.%d", st.name, st.commands+1))
	ctx, cancel := context.WithCancel(st.ctx)
	defer cancel()
	ended := make(chan struct{})
	var readers sync.WaitGroup
	for range st.between(1, 3) {
		r := st.reader(f, ended)
		events, err := st.client.session.Events(execbus.Watch{Calls: []messages.CallID{call}, Lossless: r.lossless})
		if err != nil {
			st.fault("subscribe: %v", err)
			continue
		}
		readers.Go(func() { r.read(ctx, st, events) })
	}
	j := st.start(sh(tty, script), want{codes: []int{code}, output: &f})
	if j == nil || !j.awaitEnd() {
		cancel() // the readers may wait for an end that never comes
	}
	close(ended)
	readers.Wait()
}

// reader is one subscriber of a watch.
type reader struct {
	follower
	lossless bool
	leave    int             // how many events it reads before it leaves; 0 means that it stays to the end
	slow     time.Duration   // it pauses now and then for this long
	stall    <-chan struct{} // it reads nothing before this is closed; nil means that it reads at once
}

func (st *step) reader(f flood, ended <-chan struct{}) *reader {
	r := &reader{follower: follower{flood: f}, lossless: st.coin()}
	if st.dice.IntN(3) == 0 {
		r.leave = st.between(1, 100)
	}
	if st.coin() {
		r.slow = time.Duration(st.between(0, 300)) * time.Microsecond
	}
	if !r.lossless && st.coin() {
		r.stall = ended
	}
	return r
}

// read reads to the end, or leaves before it.
func (r *reader) read(ctx context.Context, st *step, events *bus.Subscription) {
	defer events.Close()
	if r.stall != nil {
		<-r.stall
	}
	for n := 1; ; n++ {
		event, err := events.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				st.fault("a subscription ended: %v", err)
			}
			return
		}
		switch e := event.(type) {
		case messages.OutputDelta:
			st.host.tally.plus("bytes checked", int64(len(e.Bytes)))
			err = r.delta(e)
		case messages.Gap:
			st.host.tally.add("gaps")
			err = r.gap(e)
			if r.lossless {
				err = fmt.Errorf("a lossless subscriber got a gap from %d to %d", e.First, e.End)
			}
		case messages.ExecEnded:
			if e.Total != r.pos {
				st.fault("events have told of %d bytes, and the process has written %d", r.pos, e.Total)
			}
			return
		}
		if err != nil {
			st.fault("events: %v", err)
			return
		}
		if n == r.leave {
			return
		}
		if r.slow > 0 && n%8 == 0 {
			time.Sleep(r.slow)
		}
	}
}
