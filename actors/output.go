package actors

import (
	"bytes"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// output is what a process has said: what no answer has taken yet, and what is remembered. It belongs to the process's
// actor, and to the supervisor after the end.
type output struct {
	unread *ptyio.HeadTailBuffer
	log    *ptyio.OutputLog

	// Both are nil until there is output.
	splitters map[messages.Stream]*ptyio.Splitter
	holding   map[messages.Stream]*Timer // of held beginnings of characters
}

func newOutput() output {
	return output{unread: ptyio.NewHeadTailBuffer(ptyio.DefaultBufferSize), log: ptyio.NewOutputLog(ptyio.Position{})}
}

// split cuts a batch into deltas.
func (o *output) split(stream messages.Stream, batch []byte, emit func(delta []byte)) {
	if o.splitters == nil {
		o.splitters, o.holding = map[messages.Stream]*ptyio.Splitter{}, map[messages.Stream]*Timer{}
	}
	s := o.splitters[stream]
	if s == nil {
		s = &ptyio.Splitter{}
		o.splitters[stream] = s
	}
	s.Push(batch, emit)
}

func (o *output) held(stream messages.Stream) bool { return o.splitters[stream].Pending() > 0 }

// keep remembers a copy of a delta, which is returned with its number and place and is shared by all who keep it.
func (o *output) keep(stream messages.Stream, delta []byte) ptyio.Chunk {
	delta = bytes.Clone(delta)
	o.unread.Push(delta)
	return o.log.Append(stream, delta)
}

// take fills the output part of a result with what came since the last one.
func (o *output) take(r *messages.Result) {
	taken := o.unread.Drain()
	r.Output, r.Omitted = taken.Bytes(), taken.Omitted()
	if r.Omitted > 0 {
		r.Head = len(taken.Snapshot()[0])
	}
}

// weight is about how much memory is held.
func (o *output) weight() int64 {
	weight := int64(o.unread.Retained())
	for _, r := range o.log.Ranges() {
		weight += r.End - r.First
	}
	return weight
}

// read answers a ReadOutput.
func (o *output) read(m messages.ReadOutput, ended bool) any {
	limit := m.Max
	if limit <= 0 || limit > messages.MaxRead {
		limit = messages.MaxRead
	}
	var chunks []ptyio.Chunk
	var err error
	switch {
	case m.Offset != nil && m.AfterSeq == nil && m.Tail == 0:
		chunks, err = o.log.ReadAt(*m.Offset, limit)
	case m.AfterSeq != nil && m.Offset == nil && m.Tail == 0:
		chunks, err = o.log.ReadAfter(*m.AfterSeq, limit)
	case m.Tail > 0 && m.Offset == nil && m.AfterSeq == nil:
		wanted := min(int64(min(m.Tail, limit)), o.log.Total())
		chunks, err = o.log.ReadAt(max(o.log.Total()-wanted, o.tailStart()), limit)
	default:
		return &messages.Error{Code: messages.CodeInvalidRequest, Op: "read", Subject: m.Process.String(),
			Detail: "it does not say where to begin", Hint: "set one of offset, afterSeq and tail"}
	}
	if err != nil {
		return err
	}
	page := &messages.OutputPage{Total: o.log.Total(), LastSeq: o.log.LastSeq(), Ended: ended}
	for _, c := range chunks {
		page.Chunks = append(page.Chunks, messages.OutputChunk{Seq: c.Seq, Offset: c.Offset, Stream: c.Stream, Bytes: c.Bytes})
	}
	for _, r := range o.log.Ranges() {
		page.Retained = append(page.Retained, messages.OutputRange{First: r.First, End: r.End, FirstSeq: r.FirstSeq, EndSeq: r.EndSeq})
	}
	return page
}

// tailStart is where the newest retained stretch begins.
func (o *output) tailStart() int64 {
	if ranges := o.log.Ranges(); len(ranges) > 0 {
		return ranges[len(ranges)-1].First
	}
	return 0
}
