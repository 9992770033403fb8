package ptyio

import (
	"fmt"
	"sort"
	"strings"

	"github.com/execbus/execbus/messages"
)

// What an OutputLog retains, and what one read of it returns.
const (
	// LogHead is how many of the first bytes are kept for ever.
	LogHead = 512 << 10
	// LogTail and LogTailChunks bound what is kept behind them: the last bytes, of the last chunks.
	LogTail       = 1 << 20
	LogTailChunks = 50_000
	// MaxReadChunks bounds the chunks one read returns, so that an answer made of one-byte chunks stays small.
	MaxReadChunks = 4096
)

// OutputLog remembers the output of one process: its beginning for ever, and the most recent part of what followed.
// All streams share one space of offsets, in the order of the Append calls. Chunks are numbered from 1.
//
// Its memory follows its content: at most 1.5 MiB for bytes, and 4 bytes for each chunk. Chunks of one byte are the
// worst case, with 2 MiB for those of the first 512 KiB and 200 KB for the last 50,000. Of a part with less than 8 Ki
// elements up to half of the memory is free, of a bigger one up to three pages of so many. Readers get copies.
//
// It is not safe for concurrent use: it belongs to the actor of its process.
type OutputLog struct {
	head, tail stretch
	total      int64
	last       uint64
}

// Chunk is the bytes of one Append, or the part of them that was asked for.
type Chunk struct {
	Seq    uint64
	Offset int64 // of Bytes[0] in the process's output
	Stream messages.Stream
	Bytes  []byte
}

// Range is a stretch of output that is retained without a hole.
type Range struct {
	First, End       int64  // the bytes from First up to, not including, End
	FirstSeq, EndSeq uint64 // the chunks that begin in it, from FirstSeq up to, not including, EndSeq
}

// NewOutputLog makes an empty log with the bounds LogHead, LogTail and LogTailChunks.
func NewOutputLog() *OutputLog { return newOutputLog(LogHead, LogTail, LogTailChunks) }

func newOutputLog(head, tail, tailChunks int) *OutputLog {
	return &OutputLog{
		head: stretch{bytes: ring[byte]{budget: head}, marks: ring[mark]{budget: head}},
		tail: stretch{bytes: ring[byte]{budget: tail}, marks: ring[mark]{budget: tailChunks}},
	}
}

// Append adds the next chunk and returns its number and the offset of its first byte. No bytes are no chunk: the number
// is then 0. A chunk must be shorter than half a GiB and come from messages.Stdout, Stderr or PTY; from any other
// stream it is a defect of the caller and panics.
func (l *OutputLog) Append(stream messages.Stream, p []byte) (seq uint64, offset int64) {
	offset = l.total
	if len(p) == 0 {
		return 0, offset
	}
	m := newMark(stream, offset)
	l.last++
	l.total += int64(len(p))
	n := min(len(p), l.head.bytes.room())
	if n > 0 {
		l.head.append(l.last, m, p[:n], offset+int64(n))
	}
	if n < len(p) {
		l.tail.append(l.last, m, p[n:], l.total)
	}
	return l.last, offset
}

// Total is the number of bytes appended so far, and so the offset of the next one.
func (l *OutputLog) Total() int64 { return l.total }

// LastSeq is the number of the newest chunk; 0 if there is none.
func (l *OutputLog) LastSeq() uint64 { return l.last }

// Ranges says what is retained: nothing, everything, or the beginning and the recent part.
func (l *OutputLog) Ranges() []Range {
	if l.total == 0 {
		return nil
	}
	lost, kept := l.hole()
	if lost == kept {
		return []Range{{First: 0, End: l.total, FirstSeq: 1, EndSeq: l.last + 1}}
	}
	var ranges []Range
	if lost > 0 {
		ranges = append(ranges, Range{First: 0, End: lost, FirstSeq: 1, EndSeq: l.head.last + 1})
	}
	if kept < l.total {
		first := l.tail.firstSeq()
		if l.tail.chunkStart(0) < kept {
			first++
		}
		ranges = append(ranges, Range{First: kept, End: l.total, FirstSeq: first, EndSeq: l.last + 1})
	}
	return ranges
}

// ReadAt returns up to limit bytes from offset on, as chunks, at most MaxReadChunks. It stops in front of a hole; the
// first and the last chunk may be parts. At offset Total there is nothing yet: no chunks and no error. An offset that
// is not retained is a *messages.Error of messages.CodeOutputUnretained whose sentence names the ranges that are.
func (l *OutputLog) ReadAt(offset int64, limit int) ([]Chunk, error) {
	end, ok := l.retainedUntil(offset)
	if !ok {
		return nil, l.unretained(fmt.Sprintf("at offset %d", offset))
	}
	if offset == end || limit <= 0 {
		return nil, nil
	}
	if int64(limit) < end-offset {
		end = offset + int64(limit)
	}
	if next, ok := l.startOf(l.seqAt(offset) + MaxReadChunks); ok {
		end = min(end, next)
	}
	return l.read(offset, end), nil
}

// ReadAfter returns the chunks with numbers above seq, whole ones, as many as fit into limit bytes but at least one if
// there is one, and at most MaxReadChunks. It stops in front of a hole, where the chunk on the edge may have lost its
// end. If the chunk behind seq is not retained from its first byte on, or seq was not given out yet, the error is that
// of ReadAt.
func (l *OutputLog) ReadAfter(seq uint64, limit int) ([]Chunk, error) {
	if seq == l.last {
		return nil, nil
	}
	from, known := l.startOf(seq + 1)
	end, ok := l.retainedUntil(from)
	if seq > l.last || !known || !ok {
		return nil, l.unretained(fmt.Sprintf("after chunk %d", seq))
	}
	to := min(l.endOf(seq+1), end)
	for next := seq + 2; to < end && next-seq <= MaxReadChunks; next++ {
		longer := min(l.endOf(next), end)
		if longer-from > int64(limit) {
			break
		}
		to = longer
	}
	return l.read(from, to), nil
}

// Tail is the last n bytes, or what is retained of them in one piece.
func (l *OutputLog) Tail(n int) []byte {
	from := max(0, l.total-int64(max(n, 0)))
	if lost, kept := l.hole(); lost < kept {
		from = max(from, kept)
	}
	return l.appendBytes(make([]byte, 0, l.total-from), from, l.total)
}

// Transcript renders the whole output in at most limit bytes as a HeadTailBuffer of that capacity would: the first
// half, messages.OmissionMarker (not counted in limit) if anything is missing, and the last half. The halves are shorter
// where the log itself has dropped some of them.
func (l *OutputLog) Transcript(limit int) []byte {
	limit = max(limit, 0)
	headEnd, tailStart := l.total, int64(0)
	if l.total > int64(limit) {
		headEnd, tailStart = int64(limit/2), l.total-int64(limit-limit/2)
	}
	if lost, kept := l.hole(); lost < kept {
		headEnd = min(headEnd, lost)
		tailStart = max(tailStart, kept)
	}
	tailStart = max(tailStart, headEnd)
	marker := ""
	if headEnd < tailStart {
		marker = messages.OmissionMarker(tailStart - headEnd)
	}
	out := make([]byte, 0, headEnd+int64(len(marker))+l.total-tailStart)
	out = l.appendBytes(out, 0, headEnd)
	out = append(out, marker...)
	return l.appendBytes(out, tailStart, l.total)
}

// hole is the part that is not retained, from lost up to kept; the two are equal if everything is.
func (l *OutputLog) hole() (lost, kept int64) {
	return int64(l.head.bytes.n), l.total - int64(l.tail.bytes.n)
}

// retainedUntil is how far one can read from offset on; false if that byte is not retained or lies in the future.
func (l *OutputLog) retainedUntil(offset int64) (end int64, ok bool) {
	lost, kept := l.hole()
	switch {
	case offset < 0 || offset > l.total || lost <= offset && offset < kept:
		return 0, false
	case offset < lost && lost < kept:
		return lost, true
	default:
		return l.total, true
	}
}

func (l *OutputLog) unretained(what string) error {
	hint := "nothing is kept"
	if ranges := l.Ranges(); len(ranges) > 0 {
		names := make([]string, len(ranges))
		for i, r := range ranges {
			names[i] = r.String()
		}
		hint = "kept are " + strings.Join(names, " and ")
	}
	return &messages.Error{
		Code: messages.CodeOutputUnretained, Op: "read output", Subject: what,
		Detail: "this output is not kept", Hint: hint,
	}
}

// String names the last of both, not what follows them: "bytes 0 to 99 (chunks 1 to 7)".
func (r Range) String() string {
	if r.FirstSeq == r.EndSeq {
		return fmt.Sprintf("bytes %d to %d (inside of chunk %d)", r.First, r.End-1, r.EndSeq-1)
	}
	return fmt.Sprintf("bytes %d to %d (chunks %d to %d)", r.First, r.End-1, r.FirstSeq, r.EndSeq-1)
}

// startOf is the offset at which a chunk began; false if there is no such chunk or no byte of it is retained.
func (l *OutputLog) startOf(seq uint64) (int64, bool) {
	for _, s := range []*stretch{&l.head, &l.tail} { // a chunk in both begins in the head
		if s.marks.n > 0 && s.firstSeq() <= seq && seq <= s.last {
			return s.chunkStart(int(seq - s.firstSeq())), true
		}
	}
	return 0, false
}

// endOf is where a chunk ends if the next one is known, otherwise the end of everything.
func (l *OutputLog) endOf(seq uint64) int64 {
	if next, ok := l.startOf(seq + 1); ok {
		return next
	}
	return l.total
}

// seqAt is the number of the chunk that holds a retained offset.
func (l *OutputLog) seqAt(offset int64) uint64 {
	s := &l.tail
	if offset < int64(l.head.bytes.n) {
		s = &l.head
	}
	return s.firstSeq() + uint64(s.chunkAt(offset))
}

// read copies the chunks of a retained range into one allocation.
func (l *OutputLog) read(from, to int64) []Chunk {
	buf := make([]byte, 0, to-from)
	chunks, buf := l.head.read(nil, buf, from, to)
	chunks, _ = l.tail.read(chunks, buf, from, to)
	return chunks
}

func (l *OutputLog) appendBytes(dst []byte, from, to int64) []byte {
	dst = l.head.appendBytes(dst, from, to)
	return l.tail.appendBytes(dst, from, to)
}

// mark is where a chunk began and on which stream: the low 30 bits of the offset, then 2 bits of index into streams.
type mark uint32

const (
	markOffsetMask  = 1<<30 - 1
	markStreamWidth = 2
)

var streams = [...]messages.Stream{messages.Stdout, messages.Stderr, messages.PTY}

func newMark(stream messages.Stream, offset int64) mark {
	for i, s := range streams {
		if s == stream {
			return mark(offset&markOffsetMask)<<markStreamWidth | mark(i)
		}
	}
	panic(fmt.Sprintf("ptyio: %q is not an output stream", stream))
}

func (m mark) stream() messages.Stream { return streams[m&(1<<markStreamWidth-1)] }

// stretch is a run of output without a hole, with a mark for each chunk that has a byte in it. When it is full it drops
// its oldest bytes. The first chunk may have begun earlier than the first byte.
type stretch struct {
	bytes ring[byte]
	marks ring[mark]
	end   int64  // the offset behind the last byte
	last  uint64 // the number of the last chunk
}

// append adds a chunk, or the rest of one, that ends at the offset end.
func (s *stretch) append(seq uint64, m mark, p []byte, end int64) {
	s.marks.push([]mark{m})
	s.bytes.push(p)
	s.last, s.end = seq, end
	if gone := s.chunkStart(0) - s.first(); gone > 0 { // the oldest mark had to make room
		s.bytes.drop(int(gone))
		s.bytes.shrink()
	}
	for s.marks.n > 1 && s.chunkStart(1) <= s.first() { // the oldest bytes had to make room
		s.marks.drop(1)
	}
	s.marks.shrink()
}

// first is the offset of the first byte.
func (s *stretch) first() int64 { return s.end - int64(s.bytes.n) }

// firstSeq is the number of the chunk that holds the first byte.
func (s *stretch) firstSeq() uint64 { return s.last + 1 - uint64(s.marks.n) }

// chunkStart is the offset at which the chunk i of this stretch began. All of them began less than 1 GiB before the
// end, so the low bits that a mark holds are enough.
func (s *stretch) chunkStart(i int) int64 {
	start := int64(s.marks.at(i) >> markStreamWidth)
	return s.end - (s.end-start)&markOffsetMask
}

// chunkAt is the index of the chunk that holds the offset, which lies in this stretch.
func (s *stretch) chunkAt(offset int64) int {
	return sort.Search(s.marks.n, func(i int) bool { return s.chunkStart(i) > offset }) - 1
}

// read appends the bytes between two offsets that are in this stretch to buf, which has room for them, and the chunks
// they make to chunks. A chunk that was split over two stretches becomes one again.
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

// appendBytes appends the bytes between two offsets that are in this stretch.
func (s *stretch) appendBytes(dst []byte, from, to int64) []byte {
	from, to = max(from, s.first()), min(to, s.end)
	if from >= to {
		return dst
	}
	return s.bytes.appendTo(dst, int(from-s.first()), int(to-s.first()))
}
