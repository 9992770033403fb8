package process

import (
	"github.com/execbus/execbus/actors/internal/output"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// newOutput is an output with the sinks of every process: answers, the bus, and the count.
func (p *process) newOutput() output.Feed {
	out := output.NewFeed(func(first, end int64) {
		p.Bus.Publish(messages.Gap{Origin: p.origin(), First: first, End: end, Deltas: 1})
	}, func(stream messages.Stream) func() {
		held := p.ctx.After(ptyio.MaxHold, flushHeld{stream})
		return func() { held.Cancel() }
	})
	out.Add(func(chunk ptyio.Chunk, credits []*bus.Credit) {
		p.Bus.PublishOutput(messages.OutputDelta{Origin: p.origin(), Stream: chunk.Stream, Seq: chunk.Seq, Offset: chunk.Offset,
			Bytes: chunk.Bytes}, credits...)
	})
	out.Add(func(chunk ptyio.Chunk, _ []*bus.Credit) { p.Telemetry.Output(len(chunk.Bytes)) })
	if out.Spools = p.Spools; p.Spools != nil && p.Spools.Keeps() {
		p.spooling = &spooling{}
		out.Add(p.spool)
	}
	return out
}

// received takes a batch of output.
func (p *process) received(batch ptyio.Output) {
	p.output.Receive(batch)
	p.serveReaders()
	p.outputCame()
}

// flushAll hands on the bytes that are held back.
func (p *process) flushAll() {
	p.output.FlushAll()
	p.serveReaders()
	p.compareOutput()
}

// readOutput answers a ReadOutput at once, or when there is output after the position where it begins.
func (p *process) readOutput(from protocol.Caller, m messages.ReadOutput) {
	c := &call{Caller: from, kind: readCall, read: m}
	if m.Wait <= 0 || !p.output.Awaits(m) || p.outputOver() {
		c.clock.endless = true
		p.await(c)
		p.page(c, m, 0)
		return
	}
	c.clock.left = min(m.Wait, messages.MaxReadWait)
	p.await(c)
	c.clock.run(p.ctx, c.Call)
}

// serveReaders answers the calls that wait for output.
func (p *process) serveReaders() {
	for i := 0; i < len(p.calls); {
		c := p.calls[i]
		if c.kind == readCall && c.looks == nil && (!p.output.Awaits(c.read) || p.outputOver()) {
			p.finish(c) // it may be gone from the list
		}
		if i < len(p.calls) && p.calls[i] == c {
			i++
		}
	}
}

// outputOver reports whether no more output can come.
func (p *process) outputOver() bool {
	_, closed := p.state.(*closed)
	return closed || p.outputTold
}

// page answers a call from the log, or begins a lookup, which answers it. The read may go on where an earlier lookup has found it.
func (p *process) page(c *call, read messages.ReadOutput, missed int64) {
	reply, lookup := p.output.Read(read, missed, p.outputOver())
	if lookup == nil {
		p.answer(c, reply)
		return
	}
	sys, self, id := p.ctx.System(), p.ctx.Self(), c.Call
	c.looks = shared.Look(lookup, func(result any) { sys.Send(self, lookedUp{id, result}) })
}

// lookedUp is the result of a lookup.
type lookedUp struct {
	call   protocol.CallID
	result any
}

// lookedUp answers a read, or goes on with it.
func (p *process) lookedUp(m lookedUp) {
	c := p.find(m.call)
	if c == nil {
		return // it was cancelled
	}
	switch result := m.result.(type) {
	case output.GoOn:
		p.page(c, result.Read, result.Missed)
	case *messages.OutputPage:
		p.output.Complete(result, p.outputOver())
		p.answer(c, result)
	default:
		p.answer(c, result)
	}
}
