package ptyio

import (
	"fmt"
	"sort"

	"github.com/execbus/execbus/messages"
)

// mark says where a chunk began and on which stream: the low 30 bits of the offset, then a 2-bit index into streams.
type mark uint32

const (
	markSize        = 4
	markOffsetMask  = 1<<30 - 1
	markStreamWidth = 2
)

var streams = [...]messages.Stream{messages.StreamStdout, messages.StreamStderr, messages.StreamPTY}

func newMark(stream messages.Stream, offset int64) mark {
	for i, s := range streams {
		if s == stream {
			return mark(offset&markOffsetMask)<<markStreamWidth | mark(i)
		}
	}
	panic(fmt.Sprintf("ptyio: %q is not an output stream", stream))
}

func (m mark) stream() messages.Stream { return streams[m&(1<<markStreamWidth-1)] }

// extent is a run of output without a hole, with a mark for each chunk that has a byte in it. A full one drops its
// oldest bytes, so its first chunk may have begun before its first byte.
type extent struct {
	bytes byteQueue
	marks ring[mark]
	most  int    // marks
	end   int64  // the offset after the last byte
	last  uint64 // the number of the last chunk
}

// newExtent makes an empty extent after a position.
func newExtent(from Position, maxBytes, maxChunks int) extent {
	return extent{bytes: byteQueue{budget: maxBytes}, most: maxChunks, end: from.Offset, last: from.Seq}
}

// append adds a chunk, or the rest of one. end is the offset after it.
func (e *extent) append(seq uint64, m mark, p []byte, end int64) {
	if e.marks.n == e.most {
		e.marks.drop(1)
	}
	e.marks.push(m)
	e.bytes.push(p)
	e.last, e.end = seq, end
	if gone := e.chunkStart(0) - e.first(); gone > 0 { // the oldest mark was dropped, so its bytes have to go
		e.bytes.drop(int(gone))
	}
	for e.marks.n > 1 && e.chunkStart(1) <= e.first() { // the oldest bytes were dropped, so their marks have to go
		e.marks.drop(1)
	}
}

// first is the offset of the first byte.
func (e *extent) first() int64 { return e.end - int64(e.bytes.n) }

// firstSeq is the number of the chunk with the first byte.
func (e *extent) firstSeq() uint64 { return e.last + 1 - uint64(e.marks.n) }

// chunkStart returns the offset at which chunk i of this extent began. All chunks began less than 1 GiB before the end, so
// the low bits in a mark are enough.
func (e *extent) chunkStart(i int) int64 {
	start := int64(*e.marks.at(i) >> markStreamWidth)
	return e.end - (e.end-start)&markOffsetMask
}

// chunkAt returns the index of the chunk with the given offset, which must be in this extent.
func (e *extent) chunkAt(offset int64) int {
	return sort.Search(e.marks.n, func(i int) bool { return e.chunkStart(i) > offset }) - 1
}

// read appends the bytes between two offsets of this extent to buf, which has room for them, and their chunks to chunks. A
// chunk that was split over two extents becomes one again.
func (e *extent) read(chunks []Chunk, buf []byte, from, to int64) ([]Chunk, []byte) {
	from, to = max(from, e.first()), min(to, e.end)
	for i := e.chunkAt(from); from < to; i++ {
		end := to
		if i+1 < e.marks.n {
			end = min(end, e.chunkStart(i+1))
		}
		c := Chunk{Seq: e.firstSeq() + uint64(i), Offset: from, Stream: e.marks.at(i).stream()}
		if n := len(chunks); n > 0 && chunks[n-1].Seq == c.Seq {
			c = chunks[n-1]
			chunks = chunks[:n-1]
		}
		buf = e.appendBytes(buf, from, end)
		c.Bytes = buf[len(buf)-len(c.Bytes)-int(end-from) : len(buf) : len(buf)]
		chunks = append(chunks, c)
		from = end
	}
	return chunks, buf
}

// appendBytes appends the bytes between two offsets of this extent.
func (e *extent) appendBytes(dst []byte, from, to int64) []byte {
	from, to = max(from, e.first()), min(to, e.end)
	if from >= to {
		return dst
	}
	return e.bytes.appendTo(dst, int(from-e.first()), int(to-e.first()))
}

func (e *extent) memory() int { return e.bytes.memory() + markSize*len(e.marks.slots) }
