package output

import (
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// Awaits reports whether there is no output yet after the position where a read begins.
func (o *Output) Awaits(m messages.ReadOutput) bool {
	switch {
	case m.AfterSeq != nil && m.Offset == nil && m.Tail == 0:
		return *m.AfterSeq == o.Log.LastSeq()
	case m.Offset != nil && m.AfterSeq == nil && m.Tail == 0:
		return *m.Offset == o.Log.Total()
	case m.Tail > 0 && m.Offset == nil && m.AfterSeq == nil:
		return o.Log.Total() == 0
	default:
		return false // it is refused
	}
}

// Read answers a ReadOutput.
func (o *Output) Read(m messages.ReadOutput, ended bool) any {
	limit := m.Max
	if limit <= 0 || limit > messages.MaxRead {
		limit = messages.MaxRead
	}
	page := &messages.OutputPage{Ended: ended}
	var chunks []ptyio.Chunk
	var err error
	switch {
	case m.Offset != nil && m.AfterSeq == nil && m.Tail == 0:
		chunks, page.Missed, err = o.readAt(*m.Offset, limit, m.SkipLost)
	case m.AfterSeq != nil && m.Offset == nil && m.Tail == 0:
		chunks, page.MissedChunks, err = o.readAfter(*m.AfterSeq, limit, m.SkipLost)
	case m.Tail > 0 && m.Offset == nil && m.AfterSeq == nil:
		wanted := min(int64(min(m.Tail, limit)), o.Log.Total())
		chunks, err = o.Log.ReadAt(max(o.Log.Total()-wanted, o.tailStart()), limit)
	default:
		return &messages.Error{Code: messages.ErrInvalidRequest, Op: "read", Subject: m.Process.String(),
			Detail: "it does not say where to begin, or says so twice; give an offset, a chunk, or a number of bytes at the end", Hint: "set one of Offset, AfterSeq and Tail"}
	}
	if err != nil {
		return err
	}
	page.Total, page.LastSeq = o.Log.Total(), o.Log.LastSeq()
	for _, c := range chunks {
		page.Chunks = append(page.Chunks, messages.OutputChunk{Seq: c.Seq, Offset: c.Offset, Stream: c.Stream, Bytes: c.Bytes})
	}
	for _, r := range o.Log.Ranges() {
		page.Retained = append(page.Retained, messages.OutputRange{First: r.First, End: r.End, FirstSeq: r.FirstSeq, EndSeq: r.EndSeq})
	}
	return page
}

// readAt reads from an offset. Output that is not kept any more is an error, or is skipped and counted.
func (o *Output) readAt(offset int64, limit int, skip bool) ([]ptyio.Chunk, int64, error) {
	chunks, err := o.Log.ReadAt(offset, limit)
	if err == nil || !skip || offset < 0 || offset > o.Log.Total() {
		return chunks, 0, err
	}
	chunks, missed := o.Log.ReadFrom(offset, limit)
	return chunks, missed, nil
}

// readAfter reads the output after a chunk, as readAt does after an offset; it counts chunks.
func (o *Output) readAfter(seq uint64, limit int, skip bool) ([]ptyio.Chunk, uint64, error) {
	chunks, err := o.Log.ReadAfter(seq, limit)
	if err == nil || !skip || seq > o.Log.LastSeq() {
		return chunks, 0, err
	}
	for _, r := range o.Log.Ranges() {
		if r.FirstSeq > seq+1 && r.FirstSeq < r.EndSeq {
			chunks, err = o.Log.ReadAfter(r.FirstSeq-1, limit)
			return chunks, r.FirstSeq - 1 - seq, err
		}
	}
	return nil, o.Log.LastSeq() - seq, nil
}

// tailStart is where the newest retained stretch begins.
func (o *Output) tailStart() int64 {
	if ranges := o.Log.Ranges(); len(ranges) > 0 {
		return ranges[len(ranges)-1].First
	}
	return 0
}
