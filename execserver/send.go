package execserver

import (
	"context"
	"errors"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
)

// burst is how many notifications of one process are sent before it is the next process's turn.
const burst = 16

// keptBuffer is the largest buffer that is kept for the next message.
const keptBuffer = 256 << 10

// write sends one message, which is made only when it can be sent. A client that does not read it in time is disconnected.
func (c *connection) write(make func(to []byte) []byte) error {
	select {
	case c.writing <- struct{}{}:
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
	defer func() { <-c.writing }()
	ctx, cancel := context.WithTimeout(c.ctx, c.server.options.patience.stall)
	defer cancel()
	message := make(c.buffer[:0])
	if cap(message) <= keptBuffer {
		c.buffer = message
	}
	err := c.wire.Write(ctx, message)
	if err != nil {
		c.stop()
	}
	return err
}

// mark notes that a process has something to send.
func (c *connection) mark(p *process) {
	c.mu.Lock()
	if !c.marked[p] {
		c.marked[p] = true
		c.queue = append(c.queue, p)
	}
	c.mu.Unlock()
	select {
	case c.work <- struct{}{}:
	default: // the sender is already to be woken
	}
}

// marks returns the processes that have something to send.
func (c *connection) marks() []*process {
	c.mu.Lock()
	defer c.mu.Unlock()
	queue := c.queue
	c.queue = nil
	clear(c.marked)
	return queue
}

// send sends the notifications. Those of one process keep their order.
func (c *connection) send() {
	for {
		select {
		case <-c.work:
		case <-c.ctx.Done():
			return
		}
		for _, p := range c.marks() {
			if err := c.sendSome(p); err != nil {
				return
			}
		}
	}
}

// errNothing says that a process has nothing to send.
var errNothing = errors.New("nothing to send")

func (c *connection) sendSome(p *process) error {
	for range burst {
		err := c.sendOne(p)
		if errors.Is(err, errNothing) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	c.mark(p)
	return nil
}

func (c *connection) sendOne(p *process) error {
	next, found := p.take(c)
	if !found {
		return errNothing
	}
	if next.method != "" {
		return c.notify(next.method, next.params)
	}
	if p.session.has(wire.ExtensionRaw) && c.wire.Binary() {
		return c.write(func(to []byte) []byte { return wire.AppendRawOutput(to, p.id, next.seq, next.stream, next.bytes) })
	}
	return c.write(func(to []byte) []byte { return wire.AppendOutput(to, p.id, next.seq, next.stream, next.bytes) })
}

func (c *connection) notify(method string, params any) error {
	text, err := wire.AppendNotification(nil, method, params)
	if err != nil {
		return err
	}
	return c.write(func(to []byte) []byte { return append(to, text...) })
}

// ping ends the connection if the client does not answer pings.
func (c *connection) ping() {
	every := time.NewTicker(c.server.options.patience.ping)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-c.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(c.ctx, c.server.options.patience.pong)
		err := c.wire.Ping(ctx)
		cancel()
		if err != nil {
			c.stop()
			return
		}
	}
}
