package spool

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sort"

	"github.com/execbus/execbus/messages"
)

// errGone says that bytes are not kept, or not any more.
var errGone = errors.New("not kept any more")

// MaxReadChunks bounds the chunks of one answer.
const MaxReadChunks = 4096

func newlines(p []byte) int64 { return int64(bytes.Count(p, []byte{'\n'})) }

// gone is the error of a read: errGone if the bytes from offset on were overwritten, or given up, before it was over.
func (f *File) gone(offset int64, err error) error {
	if !f.has(offset) {
		return errGone
	}
	return err
}

// bytes reads bytes from offset on, as many as p has room for and as are kept without a gap.
func (f *File) bytes(p []byte, offset int64) (int, error) {
	c, storage := f.now()
	end, kept := c.until(offset)
	if !kept || storage == nil {
		return 0, errGone
	}
	p = p[:min(int64(len(p)), end-offset)]
	if err := f.gone(offset, get(storage, c.bytes, offset-c.from, p, 0, 1)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// chunks reads chunks of up to limit bytes from offset on. They end where something is missing. The first and the last may be incomplete.
func (f *File) chunks(offset int64, limit int) ([]messages.OutputChunk, error) {
	c, storage := f.now()
	end, kept := c.until(offset)
	if !kept || storage == nil {
		return nil, errGone
	}
	chunks, err := c.chunks(storage, offset, min(end, offset+int64(limit)))
	if err := f.gone(offset, err); err != nil {
		return nil, err
	}
	return chunks, nil
}

// chunks reads the chunks between two offsets, or fewer.
func (c *contents) chunks(storage Storage, offset, end int64) ([]messages.OutputChunk, error) {
	first, last := int64(0), c.marks.n
	switch {
	case c.gap && offset < c.headEnd:
		last = int64(c.headSeq - c.seq)
	case c.marks.full():
		first = c.marks.oldest()
	}
	var failed error
	first += int64(sort.Search(int(last-first), func(i int) bool {
		at, err := c.mark(storage, first+int64(i))
		failed = errors.Join(failed, err)
		return at > offset
	})) - 1
	if failed != nil || first < 0 {
		return nil, errors.Join(failed, errGone)
	}
	marks := make([]byte, markSize*min(last-first, MaxReadChunks+1))
	if err := get(storage, c.marks, first, marks, c.base, markSize); err != nil {
		return nil, err
	}
	if len(marks) > markSize*MaxReadChunks {
		end = min(end, int64(binary.LittleEndian.Uint64(marks[markSize*MaxReadChunks:])>>2))
	}
	content := make([]byte, max(end-offset, 0))
	if err := get(storage, c.bytes, offset-c.from, content, 0, 1); err != nil {
		return nil, err
	}
	var chunks []messages.OutputChunk
	for seq := c.seq + uint64(first); offset < end && len(marks) > 0; seq++ {
		mark := binary.LittleEndian.Uint64(marks)
		marks = marks[markSize:]
		n := end - offset
		if len(marks) > 0 {
			n = min(n, int64(binary.LittleEndian.Uint64(marks)>>2)-offset)
		}
		if n < 0 || n > int64(len(content)) || mark&3 >= uint64(len(streams)) {
			return nil, errGone // the marks were overwritten meanwhile
		}
		chunks = append(chunks, messages.OutputChunk{Seq: seq, Offset: offset, Stream: streams[mark&3], Bytes: content[:n:n]})
		content, offset = content[n:], offset+n
	}
	return chunks, nil
}

// Chunks reads whole chunks: the one with a number, or the next one that is kept, and those that follow it while they have up to limit bytes
// together. The first one comes however large it is. There are none if nothing from there on is kept. The last one before a gap is not
// kept as a whole. It waits while too many others read, and blocks as long as the disk does.
func (f *File) Chunks(ctx context.Context, seq uint64, limit int) ([]messages.OutputChunk, error) {
	select {
	case f.store.reading <- struct{}{}:
		defer func() { <-f.store.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for ; ctx.Err() == nil; seq++ {
		kept := slices.DeleteFunc(f.Ranges(), func(r messages.OutputRange) bool { return r.EndSeq <= max(seq, r.FirstSeq) })
		if len(kept) == 0 {
			return nil, nil
		}
		seq = max(seq, kept[0].FirstSeq)
		if chunks, err := f.whole(seq, limit); !errors.Is(err, errGone) {
			return chunks, err
		}
	}
	return nil, ctx.Err()
}

// whole reads whole chunks from one on; errGone if that is not kept as a whole.
func (f *File) whole(seq uint64, limit int) ([]messages.OutputChunk, error) {
	at, err := f.offsetOf(seq)
	if err != nil {
		return nil, err
	}
	end, err := f.endOf(seq)
	if err != nil {
		return nil, err
	}
	chunks, err := f.chunks(at, max(limit, int(end-at)))
	if err != nil {
		return nil, err
	}
	if len(chunks) == 0 {
		return nil, errGone
	}
	last := chunks[len(chunks)-1]
	switch end, err := f.endOf(last.Seq); {
	case err == nil && end == last.Offset+int64(len(last.Bytes)):
		return chunks, nil
	case len(chunks) == 1:
		return nil, errGone
	default:
		return chunks[:len(chunks)-1], nil
	}
}

// endOf is where a chunk ends.
func (f *File) endOf(seq uint64) (int64, error) {
	if c, _ := f.now(); seq+1 == c.endSeq() {
		return c.end(), nil
	}
	return f.offsetOf(seq + 1)
}

// offsetOf is where a chunk begins.
func (f *File) offsetOf(seq uint64) (int64, error) {
	c, storage := f.now()
	kept := storage != nil && c.seq <= seq && seq < c.endSeq() && (!c.gap || seq < c.headSeq || c.tailSeq <= seq)
	if !kept {
		return 0, errGone
	}
	offset, err := c.mark(storage, int64(seq-c.seq))
	return offset, f.gone(offset, err)
}
