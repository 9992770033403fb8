package execserver

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// A process waits when this much of its output is unsent or unacknowledged. The record still has room for the output that its child
// can deliver after that.
const (
	windowBytes  = wire.RetainedBytes - ptyio.Credits*ptyio.MaxBatch
	flowBytes    = wire.FlowBytes - ptyio.Credits*ptyio.MaxBatch // with wire.ExtensionFlow
	windowChunks = wire.RetainedChunks - ptyio.Credits - maxMarks
	maxMarks     = 5 // of one process
)

// process is one process of a session.
type process struct {
	id      string
	session *session
	tty     bool
	stdin   bool          // it has an input
	cancel  func()        // ends the start
	started chan struct{} // closed when the start is over

	// asked hold a token each while the child has not answered that question.
	asked [questions]chan struct{}

	// mu guards the rest. Output arrives in calls that must not block, and a sender and any number of long polls read it. A message
	// to each reader would need a queue with a bound of its own.
	mu         sync.Mutex
	about      messages.ProcessInfo // what people are told about it, and does not follow from the rest
	child      ptyio.Child          // nil while it starts
	enforced   *messages.Enforcement
	running    bool // the start has succeeded
	unanswered bool // its client has no answer to the start yet
	stopped    bool // the process was ended while it was starting
	past       record
	spooling   spooling
	conn       *connection // gets the notifications; nil if there is none, or the start is not answered yet
	sent       position    // to conn
	acked      position    // by the client; with wire.ExtensionFlow only
	parked     []ptyio.Output
	discards   bool          // the session has ended, or the start was cancelled
	changed    chan struct{} // closed when something happens; nil if no request waits
	writes     writeIDs
	closing    bool // the client has closed the input, a pipe
	ending     *ptyio.Exited
	lasted     time.Duration      // the leader
	ended      bool               // it was terminated: by its client, or by a person here
	exited     *wire.ExitedParams // process/exited is in the record
	drained    bool               // all output of the leader has come
	told       bool               // process/drained is in the record
	silent     bool               // no more output comes
	closed     bool               // process/closed is in the record
	tree       *messages.TreeReport
	over       bool // nothing more happens
	retired    bool // the session may forget it

	sizes        messages.TerminalSizes
	watchers     int  // people here who see the screen
	watchedThere bool // the client says that somebody there does
	watched      bool // what the child was told of them
}

// receive receives what happens to the child.
func (p *process) receive(event ptyio.Event) {
	if output, is := event.(ptyio.Output); is {
		p.output(output)
		return
	}
	p.mu.Lock()
	switch e := event.(type) {
	case ptyio.Spawned:
		p.child, p.enforced = e.Child, e.Enforced
	case ptyio.Exited:
		p.ending, p.lasted = &e, time.Since(p.about.Began)
	case ptyio.Background:
		p.mark(wire.ProcessBackground, wire.BackgroundParams{ProcessID: p.id, Seq: p.past.next(), Count: e.Count})
	case ptyio.Drained:
		p.drained = true
	case ptyio.Closed:
		p.drained, p.silent = true, true
	case ptyio.TreeEnded:
		p.tree = &e.TreeReport
	}
	over := p.settle()
	if over { // before its client hears of it, and starts another in its place
		p.spooling.end()
		p.session.over()
		p.retire()
	}
	p.wake()
	p.mu.Unlock()
	p.session.server.changed()
	if over {
		p.session.server.running.Done()
	}
}

// settle records the events that have happened, in the order of the protocol, and reports whether it has recorded the last one.
func (p *process) settle() (over bool) {
	// Clients without extensions may take the exit for the end of the output, so they are told of it after the leader's output.
	if p.ending != nil && p.exited == nil && (p.drained || p.session.has(wire.ExtensionEnds)) {
		p.exit(*p.ending)
	}
	if p.exited == nil {
		return false
	}
	if p.drained && !p.told {
		p.told = true
		p.mark(wire.ProcessDrained, wire.SeqParams{ProcessID: p.id, Seq: p.past.next()})
	}
	if p.silent && !p.closed {
		p.closed = true
		p.past.add(entry{method: wire.ProcessClosed, params: wire.SeqParams{ProcessID: p.id, Seq: p.past.next()}})
	}
	if over = p.closed && p.tree != nil && !p.over; over {
		p.over = true
		p.mark(wire.ProcessEnded, wire.EndedParams{ProcessID: p.id, Seq: p.past.next(), Tree: *p.tree})
	}
	return over
}

// output keeps a copy of a batch. The child gets its credit back at once, or later if the client has to catch up first.
func (p *process) output(batch ptyio.Output) {
	p.mu.Lock()
	held := !p.discards && p.held(batch)
	p.past.addOutput(batch.Stream, bytes.Clone(batch.Bytes))
	if held {
		p.parked = append(p.parked, batch)
	}
	p.spool()
	p.wake()
	p.mu.Unlock()
	if !held {
		batch.Release()
	}
}

// held reports whether the process has to wait for its client or for its disk, if further output is recorded.
func (p *process) held(more ...ptyio.Output) bool {
	from, most := p.sent, uint64(windowBytes)
	switch {
	case p.session.has(wire.ExtensionFlow):
		from, most = p.acked, flowBytes
	case p.conn == nil && !p.unanswered:
		from = p.past.now
	}
	if p.spooling.writes() && p.spooling.written.seq < from.seq {
		from = p.spooling.written
	}
	unsent := p.past.now.bytes - from.bytes
	for _, batch := range more {
		unsent += uint64(len(batch.Bytes))
	}
	return unsent > most || p.past.now.chunks-from.chunks+uint64(len(more)) > windowChunks
}

// unpark returns the batches to release. The caller releases them without the lock.
func (p *process) unpark() []ptyio.Output {
	if len(p.parked) == 0 || !p.discards && p.held() {
		return nil
	}
	released := p.parked
	p.parked = nil
	return released
}

func release(batches []ptyio.Output) {
	for _, batch := range batches {
		batch.Release()
	}
}

func (p *process) exit(e ptyio.Exited) {
	params := wire.ExitedParams{ProcessID: p.id, Seq: p.past.next(), ExitCode: -1}
	if code, known := e.Status.Code(); known {
		params.ExitCode = code
	}
	if e.Denial != nil {
		params.SandboxDenied = new(true)
	}
	if p.session.has(wire.ExtensionEnds) {
		params.Status, params.Denial, params.Limit = &e.Status, e.Denial, e.Limit
		if e.Lost != nil {
			params.Lost = e.Lost.Error()
		}
	}
	p.past.add(entry{method: wire.ProcessExited, params: params})
	p.exited = &params
}

// mark records a notification that only a client with wire.ExtensionEnds gets.
func (p *process) mark(method string, params any) {
	if p.session.has(wire.ExtensionEnds) {
		p.past.add(entry{method: method, params: params})
	}
}

// wake wakes the requests that wait for an event.
func (p *process) wake() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
	if p.conn != nil {
		p.conn.mark(p)
	}
}

// announce begins the notifications when the start has been answered.
func (p *process) announce(to *connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session.attached(to) {
		p.conn, p.unanswered = to, false
		to.mark(p)
		p.tellWatched()
	}
}

// attach sends the notifications to another connection from now on. A client that acknowledges output gets everything that it has not
// acknowledged again.
func (p *process) attach(to *connection) {
	p.mu.Lock()
	p.conn, p.sent, p.unanswered = to, p.past.now, false
	if p.session.has(wire.ExtensionFlow) {
		p.sent = p.acked
	}
	to.mark(p)
	p.tellWatched()
	released := p.unpark()
	p.mu.Unlock()
	release(released)
}

// detach sends the notifications to no connection. The session may have the next connection by then, which then keeps the process.
func (p *process) detach(from *connection) {
	p.mu.Lock()
	if p.conn == from {
		p.conn = nil
	}
	p.unanswered = false
	p.tellWatched()
	released := p.unpark()
	p.mu.Unlock()
	release(released)
}

// take returns the next notification for a connection. What was dropped before it is missing in the numbers.
func (p *process) take(to *connection) (next entry, found bool) {
	p.mu.Lock()
	var released []ptyio.Output
	if unsent := p.past.after(p.sent.seq); p.conn == to && len(unsent) > 0 {
		next, found = unsent[0], true
		p.sent = next.position
		released = p.unpark()
	}
	p.mu.Unlock()
	release(released)
	return next, found
}

// discard ends the process with its session.
func (p *process) discard() {
	p.mu.Lock()
	p.discards, p.stopped, p.conn = true, true, nil
	released, child := p.unpark(), p.child
	p.mu.Unlock()
	p.spooling.close()
	p.cancel()
	release(released)
	if child != nil {
		child.EndTree(ptyio.DefaultGrace)
	}
}

// wait returns when something has happened, or ctx ends. The lock is held before and after.
func (p *process) wait(ctx context.Context) error {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	changed := p.changed
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// startIsOver reports whether the process has started, or has failed to. There may be no process.
func (p *process) startIsOver() bool {
	if p == nil {
		return true
	}
	select {
	case <-p.started:
		return true
	default:
		return false
	}
}

// ifRunning returns the process, or nil if it was not started.
func (p *process) ifRunning() *process {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		return nil
	}
	return p
}

// longestWait bounds the wait of a process/read.
const longestWait = 24 * time.Hour

func millis(n *uint64, unsaid time.Duration) time.Duration {
	if n == nil {
		return unsaid
	}
	return time.Duration(min(*n, uint64(longestWait/time.Millisecond))) * time.Millisecond
}

// read returns output, and can wait for something to happen.
func read(c *connection, params wire.ReadParams) (later, error) {
	p := c.session.find(params.ProcessID)
	if p == nil {
		return nil, errUnknown(params.ProcessID)
	}
	after := uint64(0)
	if params.AfterSeq != nil {
		after = *params.AfterSeq
	}
	return func(ctx context.Context) (any, error) {
		if err := p.await(ctx, after, millis(params.WaitMs, 0)); err != nil {
			return nil, err
		}
		if p.hasMissed(after) {
			if err := take(ctx, c.large); err != nil {
				return nil, err
			}
			page, err := p.missed(ctx, after, params.MaxBytes)
			if page != nil {
				return func() any {
					<-c.large // the answer is being sent
					return *page
				}, nil
			}
			if <-c.large; err != nil {
				return nil, err
			}
		}
		return func() any { return p.read(after, params.MaxBytes) }, nil
	}, nil
}

// await returns when there is news for a client that knows the events up to a number, or when the patience is over.
func (p *process) await(ctx context.Context, after uint64, patience time.Duration) error {
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		return errStarting(p.id)
	}
	for !p.hasNews(after) {
		if p.wait(wait) != nil {
			return ctx.Err() // nil if only the patience is over
		}
	}
	return nil
}

// hasNews reports whether there is output after a number, or an end that is news to the client.
func (p *process) hasNews(after uint64) bool {
	return p.past.hasOutput(after) || p.closed || p.exited != nil && after < p.exited.Seq
}

func (p *process) read(after uint64, room *uint64) wire.ReadResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pageAfter([]wire.ReadChunk{}, after, room)
}

// pageAfter is an answer with chunks that come before the record, and with what the record has after a number, if the room is not for those alone.
// It is called with the lock.
func (p *process) pageAfter(before []wire.ReadChunk, after uint64, room *uint64) wire.ReadResult {
	result := wire.ReadResult{Chunks: before, NextSeq: p.past.next(), Exited: p.exited != nil, Closed: p.closed}
	if p.exited != nil {
		result.ExitCode = &p.exited.ExitCode
		result.SandboxDenied = p.exited.SandboxDenied != nil && *p.exited.SandboxDenied
	}
	limit := uint64(math.MaxUint64)
	if room != nil {
		limit = *room
	}
	if room == nil || len(before) == 0 {
		for _, e := range p.past.output(after, limit) {
			result.Chunks = append(result.Chunks, wire.ReadChunk{Seq: e.seq, Stream: e.stream, Chunk: e.bytes})
		}
	}
	if n := len(result.Chunks); n > 0 && room != nil {
		result.NextSeq = result.Chunks[n-1].Seq + 1
	}
	return result
}

// signal sends a signal. It does nothing if the process is not known, or if a signal for the leader finds it exited.
func signal(p *process, params wire.SignalParams) (any, later, error) {
	number, err := signalNumber(params.Signal)
	if err != nil {
		return nil, nil, err
	}
	if p == nil {
		return wire.Empty{}, nil, nil
	}
	p.mu.Lock()
	child, there := p.child, p.exited == nil || params.Tree
	p.mu.Unlock()
	if !there {
		return wire.Empty{}, nil, nil
	}
	scope := ptyio.Foreground
	if params.Tree {
		scope = ptyio.Tree
	}
	if err := child.Signal(number, scope); err != nil && !errors.Is(err, messages.ErrClosed) {
		fault := faultOf(err)
		fault.Code = wire.Internal
		return nil, nil, fault
	}
	return wire.Empty{}, nil, nil
}

// signalNumber returns the signal with a name.
func signalNumber(name string) (syscall.Signal, error) {
	if name == wire.Interrupt {
		return syscall.SIGINT, nil
	}
	if number := unix.SignalNum(name); number != 0 {
		return number, nil
	}
	digits, is := strings.CutPrefix(name, "SIG") // signals without a name
	if number, err := strconv.Atoi(digits); is && err == nil && number > 0 && number < 65 {
		return syscall.Signal(number), nil
	}
	return 0, wire.Refuse(wire.InvalidParams, `params.signal is %.40q; use "interrupt", or a name such as "SIGTERM"`, name)
}

// terminate begins to end a process with its tree, and does not wait for the end.
func terminate(c *connection, params wire.TerminateParams) (any, error) {
	p := c.session.find(params.ProcessID)
	if p == nil {
		return wire.TerminateResult{}, nil
	}
	grace := ptyio.DefaultGrace
	if params.GraceMs != nil {
		grace = time.Duration(*params.GraceMs) * time.Millisecond
	}
	return wire.TerminateResult{Running: p.terminate(grace)}, nil
}

// terminate begins to end the process with its tree, and reports whether its exit was not recorded before.
func (p *process) terminate(grace time.Duration) bool {
	p.mu.Lock()
	child, running, exited := p.child, p.running, p.exited != nil
	p.stopped = p.stopped || !running
	p.ended = p.ended || p.ending == nil
	p.mu.Unlock()
	if !running {
		p.cancel()
	} else {
		child.EndTree(grace) // background children may live
	}
	return !exited
}

// resize changes the size of a terminal.
func resize(p *process, params wire.ResizeParams) (any, later, error) {
	if p == nil {
		return nil, nil, errUnknown(params.ProcessID)
	}
	p.mu.Lock()
	child, before := p.child, p.about.Size.OrDefault()
	size := messages.Size{Rows: params.Size.Rows, Cols: params.Size.Cols}
	if p.tty {
		p.sizes = p.sizes.Changed(int64(p.past.now.bytes), before, size.OrDefault())
	}
	p.mu.Unlock()
	err := child.Resize(size)
	p.mu.Lock()
	if err == nil {
		p.about.Size = size
	} else if p.tty {
		p.sizes = p.sizes.Changed(int64(p.past.now.bytes), size.OrDefault(), before)
	}
	p.mu.Unlock()
	p.session.server.changed()
	return wire.Empty{}, nil, err
}

// defaultPatience is how long a process may take to accept input if the client does not say.
const defaultPatience = messages.DefaultWritePatience

// outcome is the result of a write.
type outcome struct {
	known chan struct{} // closed when the rest is known
	taken ptyio.Taken
	err   error
}

// writeIDs are the last writes of a process that have ids.
type writeIDs struct {
	outcomes map[string]*outcome
	ids      []string // the oldest first
}

// add remembers a write. If there are too many, it forgets the oldest one.
func (w *writeIDs) add(id string, o *outcome) {
	if w.outcomes == nil {
		w.outcomes = map[string]*outcome{}
	}
	if len(w.ids) == wire.RememberedIDs {
		delete(w.outcomes, w.ids[0])
		w.ids = w.ids[1:]
	}
	w.outcomes[id] = o
	w.ids = append(w.ids, id)
}

// write writes input. It answers at once, or, if the client asks for that, when the process has taken the input.
func write(p *process, params wire.WriteParams) (any, later, error) {
	switch {
	case params.WriteID != nil && (*params.WriteID == "" || len(*params.WriteID) > maxID):
		return nil, nil, wire.Refuse(wire.InvalidParams, "params.writeId must not be empty, and has at most %d bytes", maxID)
	case p == nil:
		return wire.WriteResult{Status: wire.WriteUnknownProcess}, nil, nil
	}
	o, status := p.write(params)
	switch {
	case status != wire.WriteAccepted:
		return wire.WriteResult{Status: status}, nil, nil
	case params.UntilTaken:
		return nil, func(ctx context.Context) (any, error) { return o.wait(ctx, true) }, nil
	}
	select {
	case <-o.known:
		return o.result(false)
	default: // it is queued
		return wire.WriteResult{Status: wire.WriteAccepted}, nil, nil
	}
}

// write begins a write, or finds the one with the same id.
func (p *process) write(params wire.WriteParams) (*outcome, wire.WriteStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if params.WriteID != nil && p.writes.outcomes[*params.WriteID] != nil { // sent again
		return p.writes.outcomes[*params.WriteID], wire.WriteAccepted
	}
	if status := p.takesInput(); status != wire.WriteAccepted {
		return nil, status
	}
	o := &outcome{known: make(chan struct{})}
	if params.WriteID != nil {
		p.writes.add(*params.WriteID, o)
	}
	deadline := time.Now().Add(millis(params.PatienceMs, defaultPatience))
	p.child.Write(params.Chunk, deadline, func(taken ptyio.Taken, err error) {
		o.taken, o.err = taken, err
		close(o.known)
	})
	return o, wire.WriteAccepted
}

// takesInput reports whether a write can be tried. It is called with the lock.
func (p *process) takesInput() wire.WriteStatus {
	if !p.stdin || p.closing {
		return wire.WriteStdinClosed
	}
	return wire.WriteAccepted
}

// wait waits for the outcome.
func (o *outcome) wait(ctx context.Context, exact bool) (any, error) {
	select {
	case <-o.known:
		result, _, err := o.result(exact)
		return result, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// result returns the answer to a write whose outcome is known. An exact answer says how much was taken.
func (o *outcome) result(exact bool) (any, later, error) {
	typed, _ := errors.AsType[*messages.Error](o.err)
	switch {
	case errors.Is(o.err, messages.ErrStdinClosed), errors.Is(o.err, messages.ErrClosed):
		result := wire.WriteResult{Status: wire.WriteStdinClosed}
		if exact {
			result.Taken, result.Runs, result.Error = &o.taken.Bytes, o.taken.Runs, typed
		}
		return result, nil, nil
	case exact && (o.err == nil || typed != nil):
		return wire.WriteResult{Status: wire.WriteAccepted, Taken: &o.taken.Bytes, Runs: o.taken.Runs, Error: typed}, nil, nil
	case o.err == nil:
		return wire.WriteResult{Status: wire.WriteAccepted}, nil, nil
	}
	fault := faultOf(o.err)
	fault.Code, fault.Message = wire.Internal, "the input was not written to the process: "+o.err.Error()
	return nil, nil, fault
}

// closeStdin ends the input after all earlier writes, and answers when the input has ended.
func closeStdin(p *process, _ wire.CloseStdinParams) (any, later, error) {
	o, status := &outcome{known: make(chan struct{})}, wire.WriteUnknownProcess
	if p != nil {
		status = p.closeStdin(o)
	}
	if status != wire.WriteAccepted {
		return wire.WriteResult{Status: status}, nil, nil
	}
	return nil, func(ctx context.Context) (any, error) { return o.wait(ctx, false) }, nil
}

func (p *process) closeStdin(o *outcome) wire.WriteStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	if status := p.takesInput(); status != wire.WriteAccepted {
		return status
	}
	p.closing = !p.tty
	p.child.CloseStdin(func(err error) {
		o.err = err
		close(o.known)
	})
	return wire.WriteAccepted
}
