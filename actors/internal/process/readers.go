package process

import (
	"github.com/execbus/execbus/actors/internal/output"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// newOutput is an output with the sinks of every process: answers, the bus, and the count.
func (p *process) newOutput() output.Feed {
	out := output.NewFeed(func(first, end int64) {
		p.Bus.Publish(messages.Gap{Origin: p.origin(), First: first, End: end, Deltas: 1})
	}, func(stream messages.Stream) func() { return p.ctx.After(ptyio.MaxHold, flushHeld{stream}).Cancel })
	out.Add(func(chunk ptyio.Chunk, credits []*bus.Credit) {
		p.Bus.PublishOutput(messages.OutputDelta{Origin: p.origin(), Stream: chunk.Stream, Seq: chunk.Seq, Offset: chunk.Offset,
			Bytes: chunk.Bytes}, credits...)
	})
	out.Add(func(chunk ptyio.Chunk, _ []*bus.Credit) { p.Telemetry.Output(len(chunk.Bytes)) })
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
	if m.Wait <= 0 || !p.output.Awaits(m) || p.outputOver() {
		p.reply(from, p.page(m))
		return
	}
	c := &call{Caller: from, kind: readCall, read: m}
	c.clock.left = min(m.Wait, messages.MaxReadWait)
	p.await(c)
	c.clock.run(p.ctx, c.Call)
}

// serveReaders answers the calls that wait for output.
func (p *process) serveReaders() {
	for i := 0; i < len(p.calls); {
		c := p.calls[i]
		if c.kind == readCall && (!p.output.Awaits(c.read) || p.outputOver()) {
			p.finish(c) // and it is gone from the list
		} else {
			i++
		}
	}
}

// outputOver reports whether no more output can come.
func (p *process) outputOver() bool {
	_, closed := p.state.(*closed)
	return closed || p.outputTold
}

// page is the output that can be read now.
func (p *process) page(m messages.ReadOutput) any {
	return p.output.Read(m, p.outputOver())
}
