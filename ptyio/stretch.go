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

// stretch is a run of output without a hole, with a mark for each chunk that has a byte in it. A full stretch drops its
// oldest bytes, so its first chunk may have begun before its first byte.
type stretch struct {
	bytes rope
	marks ring[mark]
	end   int64  // the offset after the last byte
	last  uint64 // the number of the last chunk
}

// newStretch makes an empty stretch after a position.
func newStretch(from Position, maxBytes, maxChunks int) stretch {
	return stretch{bytes: rope{budget: maxBytes}, marks: ring[mark]{budget: maxChunks}, end: from.Offset, last: from.Seq}
}

// append adds a chunk, or the rest of one. end is the offset after it.
func (s *stretch) append(seq uint64, m mark, p []byte, end int64) {
	s.marks.push([]mark{m})
	s.bytes.push(p)
	s.last, s.end = seq, end
	if gone := s.chunkStart(0) - s.first(); gone > 0 { // the oldest mark was dropped, so its bytes have to go
		s.bytes.drop(int(gone))
	}
	for s.marks.n > 1 && s.chunkStart(1) <= s.first() { // the oldest bytes were dropped, so their marks have to go
		s.marks.drop(1)
	}
	s.marks.shrink()
}

// first is the offset of the first byte.
func (s *stretch) first() int64 { return s.end - int64(s.bytes.n) }

// firstSeq is the number of the chunk with the first byte.
func (s *stretch) firstSeq() uint64 { return s.last + 1 - uint64(s.marks.n) }

// chunkStart returns the offset at which chunk i of this stretch began. All chunks began less than 1 GiB before the end, so
// the low bits in a mark are enough.
func (s *stretch) chunkStart(i int) int64 {
	start := int64(s.marks.at(i) >> markStreamWidth)
	return s.end - (s.end-start)&markOffsetMask
}

// chunkAt returns the index of the chunk with the given offset, which must be in this stretch.
func (s *stretch) chunkAt(offset int64) int {
	return sort.Search(s.marks.n, func(i int) bool { return s.chunkStart(i) > offset }) - 1
}

// read appends the bytes between two offsets of this stretch to buf, which has room for them, and their chunks to chunks. A
// chunk that was split over two stretches becomes one again.
func (s *stretch) read(chunks []Chunk, buf []byte, from, to int64) ([]Chunk, []byte) {
	from, to = max(from, s.first()), min(to, s.end)
	for i := s.chunkAt(from); from < to; i++ {
		end := to
		if i+1 < s.marks.n {
			end = min(end, s.chunkStart(i+1))
		}
		c := Chunk{Seq: s.firstSeq() + uint64(i), Offset: from, Stream: s.marks.at(i).stream()}
		if n := len(chunks); n > 0 && chunks[n-1].Seq == c.Seq {
			c = chunks[n-1]
			chunks = chunks[:n-1]
		}
		buf = s.appendBytes(buf, from, end)
		c.Bytes = buf[len(buf)-len(c.Bytes)-int(end-from) : len(buf) : len(buf)]
		chunks = append(chunks, c)
		from = end
	}
	return chunks, buf
}

// appendBytes appends the bytes between two offsets of this stretch.
func (s *stretch) appendBytes(dst []byte, from, to int64) []byte {
	from, to = max(from, s.first()), min(to, s.end)
	if from >= to {
		return dst
	}
	return s.bytes.appendTo(dst, int(from-s.first()), int(to-s.first()))
}

func (s *stretch) memory() int { return s.bytes.memory() + markSize*s.marks.slots() }
