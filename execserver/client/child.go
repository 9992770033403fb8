package client

import (
	"strconv"
	"sync"
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

	// credits have a token for each batch that its receiver holds: of the main stream, and of stderr.
	credits   [2]chan struct{}
	abandon   sync.Once
	abandoned chan struct{} // closed when its owner no longer wants its events
	ended     chan struct{} // closed before its last event is reported
}

func (s *spawner) newChild(id string, launch ptyio.Launch) *child {
	streams := 2
	if launch.TTY || launch.Merged {
		streams = 1
	}
	c := &child{spawner: s, id: id, launch: launch, feed: newFeed(s.link.flow()), abandoned: make(chan struct{}), ended: make(chan struct{})}
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
	c.abandon.Do(func() { close(c.abandoned) })
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
