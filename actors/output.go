package actors

import (
	"bytes"

	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// sink takes output under credit. It may hold the credits for as long as it needs the publisher to wait; the chunk is an
// immutable copy that all sinks share.
type sink func(chunk ptyio.Chunk, credits []*bus.Credit)

// output is the output of a process: the log, which numbers it, and the part that no answer has taken yet. It belongs to the
// process's actor, and to the supervisor after the end.
type output struct {
	log    *ptyio.OutputLog
	unread *ptyio.HeadTailBuffer
	sinks  []sink // fed in this order; none after the end
	// Both are nil until there is output.
	splitters map[messages.Stream]*ptyio.Splitter
	held      map[messages.Stream]*heldBack
}

// heldBack is the beginning of a character that waits for its end, with the credit of the batch it came in.
type heldBack struct {
	timer  *system.Timer
	credit *bus.Credit
}

func newOutput() output {
	return output{unread: ptyio.NewHeadTailBuffer(ptyio.DefaultBufferSize), log: ptyio.NewOutputLog(ptyio.Position{})}
}

// newOutput is an output with the sinks of every process: polls, the bus, and the count.
func (p *process) newOutput() output {
	out := newOutput()
	out.sinks = []sink{
		func(chunk ptyio.Chunk, _ []*bus.Credit) { out.unread.Push(chunk.Bytes) },
		func(chunk ptyio.Chunk, credits []*bus.Credit) {
			p.bus.PublishOutput(messages.OutputDelta{Origin: p.origin(), Stream: chunk.Stream, Seq: chunk.Seq, Offset: chunk.Offset,
				Bytes: chunk.Bytes}, credits...)
		},
		func(chunk ptyio.Chunk, _ []*bus.Credit) { p.telemetry.output(len(chunk.Bytes)) },
	}
	return out
}

// finished is the output without the fields that only a living process needs.
func (o output) finished() output { return output{log: o.log, unread: o.unread} }

// received takes a batch. Its credit goes back when every sink is done with it.
func (p *process) received(batch ptyio.Output) {
	if batch.At != nil {
		p.skip(*batch.At)
	}
	credit := bus.NewCredit(batch.Release)
	emitted := false
	p.output.splitter(batch.Stream).Push(batch.Bytes, func(delta []byte) {
		p.feed(batch.Stream, bytes.Clone(delta), credit)
		emitted = true
	})
	batch.Looked()
	if !p.holdBack(batch.Stream, emitted, credit) {
		credit.Release()
	}
	p.serveReaders()
}

// skip notes output that was lost on its way here. Bytes that wait for the end of their character are not.
func (p *process) skip(to ptyio.Position) {
	waiting := 0
	for _, s := range p.output.splitters {
		waiting += s.Pending()
	}
	if to.Offset <= p.output.log.Total()+int64(waiting) {
		return
	}
	p.flushAll()
	first := p.output.log.Total()
	if lost := p.output.log.Skip(to); lost > 0 {
		p.output.unread.PushOmitted(lost)
		p.bus.Publish(messages.Gap{Origin: p.origin(), First: first, End: first + lost, Deltas: 1})
	}
}

// feed gives a delta its number and place and hands it to every sink. Its beginning may have come with an earlier batch.
func (p *process) feed(stream messages.Stream, delta []byte, credit *bus.Credit) {
	if len(delta) == 0 {
		return
	}
	credits := make([]*bus.Credit, 0, 2)
	if credit != nil {
		credits = append(credits, credit)
	}
	before := p.output.held[stream]
	if before != nil {
		credits = append(credits, before.credit)
		delete(p.output.held, stream)
	}
	chunk := p.output.log.Append(stream, delta)
	for _, take := range p.output.sinks {
		take(chunk, credits)
	}
	if before != nil {
		before.timer.Cancel()
		before.credit.Release()
	}
}

// holdBack keeps the credit of a batch whose last bytes wait for the end of their character, and makes sure that they do
// not wait forever. A batch that is held as a whole neither prolongs the wait nor keeps a credit of its own.
func (p *process) holdBack(stream messages.Stream, emitted bool, credit *bus.Credit) bool {
	if p.output.splitters[stream].Pending() == 0 || p.output.held[stream] != nil && !emitted {
		return false
	}
	if p.output.held == nil {
		p.output.held = map[messages.Stream]*heldBack{}
	}
	p.output.held[stream] = &heldBack{timer: p.ctx.After(ptyio.MaxHold, flushHeld{stream}), credit: credit}
	return true
}

// flush hands on the bytes of a stream that are held back.
func (p *process) flush(stream messages.Stream) {
	if s := p.output.splitters[stream]; s != nil {
		p.feed(stream, s.Flush(), nil)
		p.serveReaders()
	}
}

func (p *process) flushAll() {
	for _, stream := range []messages.Stream{messages.StreamStdout, messages.StreamStderr, messages.StreamPTY} {
		p.flush(stream)
	}
}

func (o *output) splitter(stream messages.Stream) *ptyio.Splitter {
	if o.splitters == nil {
		o.splitters = map[messages.Stream]*ptyio.Splitter{}
	}
	s := o.splitters[stream]
	if s == nil {
		s = &ptyio.Splitter{}
		o.splitters[stream] = s
	}
	return s
}

// take fills the output part of a result with the output since the last one. Where more may come, the beginning of a
// character stays for the next. One before an omission does not: its end is lost, and it would come out of order.
func (o *output) take(r *messages.Result, more bool) {
	taken := o.unread.Drain()
	r.Output, r.Omitted = taken.Bytes(), taken.Omitted()
	if r.Omitted > 0 {
		r.Head = taken.Head()
	}
	if n := ptyio.Unfinished(r.Output[r.Head:]); more && n > 0 {
		o.unread.Push(bytes.Clone(r.Output[len(r.Output)-n:]))
		r.Output = r.Output[:len(r.Output)-n]
	}
}

// weight is how much memory is held.
func (o *output) weight() int64 { return o.unread.Memory() + o.log.Memory() }
