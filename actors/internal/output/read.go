package output

import (
	"context"
	"fmt"
	"slices"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// Awaits reports whether there is no output yet after the position where a read begins.
func (o *Output) Awaits(m messages.ReadOutput) bool {
	switch {
	case m.Grep != nil:
		return false
	case m.AfterSeq != nil:
		return *m.AfterSeq == o.Log.LastSeq()
	case m.Offset != nil:
		return *m.Offset == o.Log.Total()
	default:
		return m.Tail > 0 && o.Log.Total() == 0
	}
}

// Read answers a ReadOutput from the log. Where that does not have it, or lines are asked for, a Lookup does. Missed counts bytes that an
// earlier Lookup has skipped.
func (o *Output) Read(m messages.ReadOutput, missed int64, ended bool) (reply any, lookup Lookup) {
	if m.Line != nil || m.Grep != nil {
		return o.lookup(m, missed, ended)
	}
	page := &messages.OutputPage{Missed: missed}
	if m.SkipLost {
		m, page.Missed, page.MissedChunks = o.skip(m, missed)
	}
	var chunks []ptyio.Chunk
	var err error
	switch {
	case m.Offset != nil:
		if !o.Log.Has(*m.Offset) && o.keeps(*m.Offset, *m.Offset+1) {
			return o.lookup(m, page.Missed, ended)
		}
		chunks, err = o.Log.ReadAt(*m.Offset, m.Most())
	case m.AfterSeq != nil:
		if o.spooled(*m.AfterSeq + 1) {
			return o.lookupAfter(m, page.MissedChunks, ended)
		}
		chunks, err = o.Log.ReadAfter(*m.AfterSeq, m.Most())
	case m.Tail > 0:
		total := o.Log.Total()
		from := max(total-int64(min(m.Tail, m.Most())), o.tailStart())
		if !o.Log.Has(from) && from < total {
			m.Offset, m.Tail = &from, 0
			return o.lookup(m, 0, ended)
		}
		chunks, err = o.Log.ReadAt(from, m.Most())
	default:
		return &messages.Error{Code: messages.ErrInvalidRequest, Op: "read", Subject: m.Process.String(), Detail: "it does not say where to begin; give an offset, a chunk, a line, or a number of bytes at the end",
			Hint: "set one of Offset, AfterSeq, Tail and Line"}, nil
	}
	if err != nil {
		return o.unretained(m, err), nil
	}
	for _, c := range chunks {
		page.Chunks = append(page.Chunks, messages.OutputChunk{Seq: c.Seq, Offset: c.Offset, Stream: c.Stream, Bytes: c.Bytes})
	}
	o.Complete(page, ended)
	return page, nil
}

// unretained is the error of the log with what the file has, too.
func (o *Output) unretained(m messages.ReadOutput, err error) error {
	switch {
	case o.file == nil:
		return err
	case m.Offset != nil:
		return o.Log.Unretained(fmt.Sprintf("at offset %d", *m.Offset), *m.Offset > o.Log.Total(), o.ranges())
	case m.AfterSeq != nil:
		return o.Log.Unretained(fmt.Sprintf("after chunk %d", *m.AfterSeq), *m.AfterSeq > o.Log.LastSeq(), o.ranges())
	default:
		return err
	}
}

// spooled reports whether the file has the beginning of a chunk that the log does not have.
func (o *Output) spooled(seq uint64) bool {
	return o.file != nil && !o.Log.HasChunk(seq) &&
		slices.ContainsFunc(o.file.Ranges(), func(r messages.OutputRange) bool { return r.FirstSeq <= seq && seq < r.EndSeq })
}

// lookupAfter is a lookup by chunk, which counts what is missed in chunks.
func (o *Output) lookupAfter(m messages.ReadOutput, missed uint64, ended bool) (any, Lookup) {
	reply, lookup := o.lookup(m, 0, ended)
	return reply, func(ctx context.Context) any {
		result := lookup(ctx)
		if page, is := result.(*messages.OutputPage); is {
			page.MissedChunks = missed
		}
		return result
	}
}

// skip moves a read to where output is kept again, if the output at its beginning is not.
func (o *Output) skip(m messages.ReadOutput, missed int64) (moved messages.ReadOutput, bytes int64, chunks uint64) {
	ranges := o.ranges()
	switch {
	case m.Offset != nil && *m.Offset < o.Log.Total():
		next := o.Log.Total()
		for _, r := range slices.Backward(ranges) {
			if *m.Offset < r.End {
				next = max(r.First, *m.Offset)
			}
		}
		missed += next - *m.Offset
		m.Offset = &next
	case m.AfterSeq != nil && *m.AfterSeq < o.Log.LastSeq():
		next := o.Log.LastSeq() + 1
		for _, r := range slices.Backward(ranges) {
			if *m.AfterSeq+1 < r.EndSeq && r.FirstSeq < r.EndSeq {
				next = max(r.FirstSeq, *m.AfterSeq+1)
			}
		}
		chunks = next - (*m.AfterSeq + 1)
		m.AfterSeq = new(next - 1)
	}
	return m, missed, chunks
}

// tailStart is where the newest range begins that can be read.
func (o *Output) tailStart() int64 {
	if ranges := o.ranges(); len(ranges) > 0 {
		return ranges[len(ranges)-1].First
	}
	return 0
}
