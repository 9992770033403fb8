package client

import (
	"context"
	"errors"
	"path"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// child is one process of the server.
type child struct {
	spawner *spawner
	id      string
	launch  ptyio.Launch
	pid     int // set before the Spawned event
	feed    *feed
	input   input
	last    atomic.Uint64 // number of the last event that was reported; questions compare it while events come

	// credits have a token for each batch that its receiver holds: of the main stream, and of stderr.
	credits   [2]chan struct{}
	abandoned context.Context // over when its owner no longer wants its events
	abandon   context.CancelFunc
	ended     chan struct{} // closed before its last event is reported
}

func (s *spawner) newChild(id string, launch ptyio.Launch) *child {
	streams := 2
	if launch.TTY || launch.Merged {
		streams = 1
	}
	c := &child{spawner: s, id: id, launch: launch, feed: newFeed(s.link.flow()), ended: make(chan struct{})}
	c.abandoned, c.abandon = context.WithCancel(context.Background())
	for i := range c.credits {
		c.credits[i] = make(chan struct{}, ptyio.Credits/streams)
	}
	return c
}

// PID is the pid on the server's machine; 0 if the server does not tell it.
func (c *child) PID() int { return c.pid }

func (c *child) Resize(size messages.Size) error {
	switch {
	case c.over():
		return closedError("resize")
	case !c.launch.TTY:
		return &messages.Error{Code: messages.ErrNotATerminal, Op: "resize", Detail: "the process is on pipes; start it on a terminal"}
	}
	return c.control("resize", true, wire.ProcessResize, wire.ResizeParams{ProcessID: c.id, Size: wireSize(size)})
}

// maxSignal is the last real-time signal of Linux.
const maxSignal = 64

// Signal sends a signal once. If the connection breaks before the server has answered, Signal fails, and the signal may or may not
// have arrived.
func (c *child) Signal(sig syscall.Signal, scope ptyio.Scope) error {
	switch {
	case sig <= 0 || sig > maxSignal:
		return &messages.Error{Code: messages.ErrInvalidRequest, Op: "signal", Detail: "there is no such signal; use 1 to 64"}
	case c.over():
		return closedError("signal")
	}
	params := wire.SignalParams{ProcessID: c.id, Signal: signalName(sig), Tree: scope == ptyio.Tree}
	if !c.spawner.link.flow() {
		if sig != syscall.SIGINT || scope == ptyio.Tree {
			return unsupported("signal", "the server can only interrupt a process; terminate it, or use a server of execbus")
		}
		params.Signal = wire.Interrupt
	}
	return c.control("signal", false, wire.ProcessSignal, params)
}

// control makes a call whose result is empty.
func (c *child) control(op string, again bool, method string, params any) error {
	_, err := c.spawner.link.ask(c.spawner.link.life, &call{again: again}, method, params)
	return refusal(op, "", err)
}

// EndTree asks the server to end the tree.
func (c *child) EndTree(grace time.Duration) { c.terminate(grace) }

// Abandon implements ptyio.Child. If the server does not report the end of the process in time, the process counts as lost.
func (c *child) Abandon() {
	c.abandon()
	c.feed.poke()
	c.terminate(0)
}

// terminate does not wait for the answer: the events of the process report the outcome.
func (c *child) terminate(grace time.Duration) {
	if c.over() {
		return
	}
	params := wire.TerminateParams{ProcessID: c.id}
	if c.spawner.link.flow() {
		params.GraceMs = new(milliseconds(grace))
	}
	end := &call{again: true, cleaning: true, done: func([]byte, error) {}}
	if err := c.spawner.link.start(end, wire.ProcessTerminate, params); err != nil {
		c.feed.stop(err)
	}
}

// over reports whether the last event was reported, or is about to be.
func (c *child) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

func closedError(op string) error {
	return &messages.Error{Code: messages.ErrClosed, Op: op, Detail: "the process has ended"}
}

func wireSize(size messages.Size) wire.Size {
	size = size.OrDefault()
	return wire.Size{Rows: size.Rows, Cols: size.Cols}
}

// milliseconds rounds up, so that a short grace does not become zero.
func milliseconds(d time.Duration) uint32 {
	const most = 1 << 31
	return uint32(min(max(0, (d+time.Millisecond-1)/time.Millisecond), most))
}

// signalName is the signal's name on the wire.
func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return "SIG" + strconv.Itoa(int(sig))
}

// Bounds on the output and the events that are reported but not acknowledged. They are low enough that a process of a server with flow
// does not wait.
const (
	acknowledgeBytes  = wire.FlowBytes / 4
	acknowledgeEvents = 1000
)

// pump reports the events of a process to its owner, one after the other, in a goroutine that ends after the last event.
type pump struct {
	*child
	offset   int64  // of the output that was reported
	acked    uint64 // number of the last event that was acknowledged to the server
	bytes    int    // of output that were told and not acknowledged
	exited   bool
	drained  bool
	closed   bool
	over     bool
	awaiting awaited
	until    time.Time
}

// awaited says what a pump waits for with a time limit.
type awaited int

const (
	nothing   awaited = iota
	outputEnd         // after the exit of the leader
	lastEvent         // of a process that was abandoned
)

func (c *child) run() {
	p := &pump{child: c}
	for p.step() {
	}
	c.spawner.forget(c)
}

// step takes the next step, or waits for it. It returns false when the last event was reported.
func (p *pump) step() bool {
	s := p.feed.take()
	p.tellUrgent() // an urgent event may have come meanwhile; it never has to wait for the others
	for _, it := range s.items {
		p.awaiting = nothing
		p.tell(it)
	}
	switch {
	case p.over:
		p.acknowledge()
		return false
	case len(s.items) > 0: // there may be more by now
		return true
	case s.err != nil:
		p.lose(s.err)
		return false
	case s.behind:
		p.catchUp(s.due, s.seen)
		return true
	}
	return p.wait()
}

// wait waits for news, or until they are overdue.
func (p *pump) wait() bool {
	what, limit := p.awaits()
	if what != p.awaiting {
		p.awaiting, p.until = what, time.Now().Add(limit)
	}
	var overdue <-chan time.Time
	if what != nothing {
		timer := time.NewTimer(time.Until(p.until))
		defer timer.Stop()
		overdue = timer.C
	}
	select {
	case <-p.feed.wake:
		return true
	case <-overdue:
	}
	if len(p.feed.wake) > 0 { // it came in time, while this goroutine did not run
		return true
	}
	p.awaiting = nothing
	if what == lastEvent {
		p.lose(errSilent)
		return false
	}
	p.drain() // at least one process has the output open
	p.launch.Events(ptyio.Background{Count: 1})
	return true
}

func (p *pump) awaits() (awaited, time.Duration) {
	select {
	case <-p.abandoned.Done():
		return lastEvent, p.spawner.limits.end
	default:
	}
	if p.exited && !p.drained && !p.feed.flow {
		return outputEnd, p.spawner.limits.drain
	}
	return nothing, 0
}

// tell reports one event.
func (p *pump) tell(it item) {
	switch it.kind {
	case output:
		p.output(it)
	case gap:
		p.offset += it.count
		p.batch(p.mainStream(), nil, nil)
	case drained:
		p.drain()
	case closed:
		p.close()
		if !p.feed.flow { // such a server does not say what becomes of the tree
			p.end(messages.TreeReport{})
		}
	case ended:
		p.end(it.tree)
	}
	p.last.Store(max(p.last.Load(), it.seq))
	if p.bytes >= acknowledgeBytes || p.last.Load()-p.acked >= acknowledgeEvents {
		p.acknowledge()
	}
}

// tellUrgent reports the events that overtake output. They are acknowledged together with later events. After a cut it repeats the
// acknowledgement. Otherwise the server would send too much again, and more after each cut.
func (p *pump) tellUrgent() {
	items, again := p.feed.takeUrgent()
	if again {
		p.acknowledge()
	}
	for _, it := range items {
		p.awaiting = nothing
		if it.kind == exited {
			p.exit(it.exit)
		} else {
			p.launch.Events(ptyio.Background{Count: int(it.count)})
		}
	}
}

func (p *pump) acknowledge() {
	p.bytes, p.acked = 0, p.last.Load()
	p.spawner.link.acknowledge(p.id, p.acked)
}

func (p *pump) output(it item) {
	p.bytes += len(it.bytes)
	if len(it.bytes) > ptyio.MaxBatch {
		it.message = nil
	}
	for len(it.bytes) > 0 {
		n := min(len(it.bytes), ptyio.MaxBatch)
		p.batch(it.stream, it.bytes[:n], it.message)
		p.offset += int64(n)
		it.bytes = it.bytes[n:]
	}
}

// batch reports output when there is credit for it. The message is recycled when the output was released.
func (p *pump) batch(stream messages.Stream, bytes, message []byte) {
	credits := p.credits[0]
	if stream == messages.StreamStderr {
		credits = p.credits[1]
	}
	for {
		select {
		case <-p.abandoned.Done():
			return
		default:
		}
		select {
		case credits <- struct{}{}:
			at := ptyio.Position{Offset: p.offset}
			p.launch.Events(ptyio.NewOutputAt(stream, bytes, at, func() {
				wire.Recycle(message)
				<-credits
			}))
			return
		case <-p.feed.wake:
			p.tellUrgent()
		case <-p.abandoned.Done():
		}
	}
}

// mainStream returns the stream to which lost output is counted: its true stream is unknown.
func (p *pump) mainStream() messages.Stream {
	if p.launch.TTY {
		return messages.StreamPTY
	}
	return messages.StreamStdout
}

// catchUp reads the events that the process has missed. The feed takes them before any later notification. Only a few processes read at
// once, which bounds the memory.
func (p *pump) catchUp(due, seen uint64) {
	link := p.spawner.link
	ctx, cancel := context.WithCancel(link.life)
	defer cancel()
	defer context.AfterFunc(p.abandoned, func() { time.AfterFunc(p.spawner.limits.end, cancel) })()
	read := &call{again: true, done: func(page []byte, err error) {
		if err != nil {
			return
		}
		if err := p.feed.fill(page, seen); err != nil {
			link.end(err)
			p.feed.stop(disconnected(err))
		}
	}}
	var err error
	select {
	case p.spawner.reading <- struct{}{}:
		_, err = link.ask(ctx, read, wire.ProcessRead, wire.ReadParams{ProcessID: p.id, AfterSeq: new(due - 1)})
		<-p.spawner.reading
	case <-ctx.Done():
		err = ctx.Err()
	}
	switch {
	case err == nil:
	case link.life.Err() != nil:
		p.feed.stop(disconnected(context.Cause(link.life)))
	case ctx.Err() != nil:
		p.feed.stop(errSilent)
	default:
		p.feed.stop(refusal("follow process", "", err))
	}
}

// exit reports the leader's exit.
func (p *pump) exit(e exit) {
	p.exited = true
	told := ptyio.Exited{Status: messages.StatusNone(), Denial: e.denial, Limit: e.limit}
	switch {
	case e.lost != "":
		told.Lost = failed("follow process", e.lost)
	case e.status != nil:
		told.Status = *e.status
	case e.known && e.code >= 0 && e.code <= 255:
		told.Status = messages.StatusExited(e.code)
	default:
		told.Lost = failed("follow process", "the server does not know how the process has exited")
	}
	if told.Denial == nil && e.denied {
		told.Denial = &messages.Denial{FromText: true} // the server may have it from the output
	}
	p.launch.Events(told)
	if !p.feed.flow && p.launch.OnLeaderExit != messages.LeaderExitKeepsTree { // such a server keeps what the leader left behind
		p.terminate(ptyio.DefaultGrace)
	}
}

// drain reports that the leader's output is complete.
func (p *pump) drain() {
	if !p.drained {
		p.drained = true
		p.launch.Events(ptyio.Drained{})
	}
}

// close reports that no more output will come.
func (p *pump) close() {
	p.drain()
	p.closed = true
	p.launch.Events(ptyio.Closed{})
}

// end reports the end of the tree, the last event. Its receiver must find that the process is over.
func (p *pump) end(tree messages.TreeReport) {
	if p.over {
		return
	}
	p.over = true
	close(p.ended)
	p.input.close(p.spawner.limits.write)
	p.launch.Events(ptyio.TreeEnded{TreeReport: tree})
}

// lose ends a process about which the client can learn nothing more. The process may live on.
func (p *pump) lose(err error) {
	if !p.exited {
		p.exit(exit{lost: err.Error()})
	}
	if !p.closed {
		p.close()
	}
	if errors.Is(err, errNotStarted) {
		p.end(messages.TreeReport{})
		return
	}
	p.terminate(0)
	name := path.Base(p.launch.Argv[0])
	p.end(messages.TreeReport{Survivors: []messages.Survivor{{PID: p.pid, Name: name[:min(len(name), 15)],
		Why: "nobody knows whether it has ended: " + err.Error()}}})
}
