package ptyio

import (
	"fmt"
	"strings"

	"github.com/execbus/execbus/messages"
)

// These constants bound what an OutputLog retains, and what one read of it returns.
const (
	// LogHead is the number of bytes at the beginning that are always kept.
	LogHead = 512 << 10
	// LogTail and LogTailChunks bound the recent output that is kept after the head, in bytes and in chunks.
	LogTail       = 1 << 20
	LogTailChunks = 50_000
	// MaxReadChunks bounds the chunks that one read returns, so that an answer made of one-byte chunks stays small.
	MaxReadChunks = 4096
)

// OutputLog keeps the output of one process: the beginning always, and the most recent part of the rest.
// All streams share one sequence of offsets, in the order of the Append calls. Chunks are numbered from 1.
//
// It keeps chunks without copying them, so that others can share them. Only chunks of less than 1 KiB, or of more than
// messages.MaxOutputDelta, are copied. Its memory grows with its content: at most 1.5 MiB for the bytes, for small chunks up to
// half of that plus 32 KiB of overhead, and 4 to 16 bytes for each chunk. Chunks of one byte are the worst case: they add 2 MiB for
// the first 512 KiB of output and 256 KiB for the last 50,000 chunks. Readers get copies.
//
// It is not safe for concurrent use: it belongs to the actor of its process.
type OutputLog struct {
	head, tail extent
	total      int64
	last       uint64
}

// Chunk has the bytes of one Append, or the requested part of them.
type Chunk struct {
	Seq    uint64
	Offset int64 // of Bytes[0] in the process's output
	Stream messages.Stream
	Bytes  []byte
}

// Range is a part of the output that is retained without a hole.
type Range struct {
	First, End       int64  // the bytes from First up to, not including, End
	FirstSeq, EndSeq uint64 // the chunks that begin in it, from FirstSeq up to, not including, EndSeq
}

// NewOutputLog makes an empty log with the bounds LogHead, LogTail and LogTailChunks. The first chunk follows the position
// from; earlier output is not retained.
func NewOutputLog(from Position) *OutputLog {
	return newOutputLog(from, LogHead, LogTail, LogTailChunks)
}

func newOutputLog(from Position, head, tail, tailChunks int) *OutputLog {
	return &OutputLog{head: newExtent(from, head, head), tail: newExtent(from, tail, tailChunks), total: from.Offset, last: from.Seq}
}

// Append adds the next chunk and returns it with its number and the offset of its first byte. An empty p adds no chunk, and
// the returned number is 0. The bytes are kept and shared, so nobody may change them afterwards. p should not be part of a
// larger array, because the whole array would be kept.
//
// A chunk must be shorter than half a GiB and come from messages.StreamStdout, Stderr or PTY. Append panics on any other
// stream.
func (l *OutputLog) Append(stream messages.Stream, p []byte) Chunk {
	c := Chunk{Offset: l.total, Stream: stream, Bytes: p}
	if len(p) == 0 {
		return c
	}
	m := newMark(stream, c.Offset)
	l.last++
	l.total += int64(len(p))
	n := min(len(p), l.head.bytes.room())
	if n > 0 {
		l.head.append(l.last, m, p[:n], c.Offset+int64(n))
	}
	if n < len(p) {
		l.tail.append(l.last, m, p[n:], l.total)
	}
	c.Seq = l.last
	return c
}

// Memory is the number of bytes of memory that the retained output takes. Memory shared with others, such as a
// HeadTailBuffer, counts in full for each of them.
func (l *OutputLog) Memory() int64 { return int64(l.head.memory() + l.tail.memory()) }

// Total is the offset of the next byte. It is the number of all bytes so far, including those that never reached this log.
func (l *OutputLog) Total() int64 { return l.total }

// LastSeq is the number of the newest chunk, even if that chunk never reached this log; 0 if there is none.
func (l *OutputLog) LastSeq() uint64 { return l.last }

// Ranges lists the retained ranges: none, one that is everything, or the beginning and the recent part.
func (l *OutputLog) Ranges() []Range {
	begin := l.head.first()
	lost, kept := l.hole()
	switch {
	case begin == l.total:
		return nil
	case lost == kept:
		return []Range{{First: begin, End: l.total, FirstSeq: l.head.firstSeq(), EndSeq: l.last + 1}}
	}
	ranges := []Range{{First: begin, End: lost, FirstSeq: l.head.firstSeq(), EndSeq: l.head.last + 1}}
	if kept < l.total {
		first := l.tail.firstSeq()
		if l.tail.chunkStart(0) < kept {
			first++
		}
		ranges = append(ranges, Range{First: kept, End: l.total, FirstSeq: first, EndSeq: l.last + 1})
	}
	return ranges
}

// HeadEnd is the offset behind the bytes at the beginning that are always kept.
func (l *OutputLog) HeadEnd() int64 { return l.head.end }

// Has reports whether the byte at an offset is retained.
func (l *OutputLog) Has(offset int64) bool {
	end, ok := l.retainedUntil(offset)
	return ok && offset < end
}

// HasChunk reports whether the first byte of a chunk is retained.
func (l *OutputLog) HasChunk(seq uint64) bool {
	from, known := l.startOf(seq)
	return known && l.Has(from)
}

// Bytes copies retained bytes, from one offset to another.
func (l *OutputLog) Bytes(from, to int64) []byte {
	return l.appendBytes(make([]byte, 0, to-from), from, to)
}

// ReadAt returns up to limit bytes from offset on, in at most MaxReadChunks chunks. It stops before a hole. The first and
// the last chunk may be incomplete. At offset Total it returns no chunks and no error. For an offset that is not retained
// it returns a *messages.Error of messages.ErrOutputUnretained whose sentence names the retained ranges.
func (l *OutputLog) ReadAt(offset int64, limit int) ([]Chunk, error) {
	end, ok := l.retainedUntil(offset)
	if !ok {
		return nil, l.Unretained(fmt.Sprintf("at offset %d", offset), offset > l.total, l.Ranges())
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

// ReadFrom is ReadAt for a reader that goes on where output is retained again, or at the end, if it is not at offset. missed is the
// number of bytes that it skips.
func (l *OutputLog) ReadFrom(offset int64, limit int) (chunks []Chunk, missed int64) {
	from := max(offset, 0)
	if _, ok := l.retainedUntil(from); !ok && from < l.total {
		next := l.head.first()
		if from >= next {
			_, next = l.hole()
		}
		missed = next - from
	}
	chunks, _ = l.ReadAt(from+missed, limit)
	return chunks, missed
}

// ReadAfter returns whole chunks with numbers above seq: as many as fit into limit bytes, at least one if there is one, and
// at most MaxReadChunks. It stops before a hole; the last chunk before the hole may have lost its end. It fails as ReadAt
// does if the first byte of the chunk after seq is not retained, or if no chunk has the number seq yet.
func (l *OutputLog) ReadAfter(seq uint64, limit int) ([]Chunk, error) {
	if seq == l.last {
		return nil, nil
	}
	from, known := l.startOf(seq + 1)
	end, ok := l.retainedUntil(from)
	if seq > l.last || !known || !ok {
		return nil, l.Unretained(fmt.Sprintf("after chunk %d", seq), seq > l.LastSeq(), l.Ranges())
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

// Transcript renders the whole output in at most limit bytes as a HeadTailBuffer of that capacity would: the first
// half, messages.OmissionMarker (not counted in limit) if anything is missing, and the last half. A half is shorter if the
// log itself has dropped part of it. If the output before the first half is missing, another marker comes first.
func (l *OutputLog) Transcript(limit int) []byte {
	limit = max(limit, 0)
	begin := l.head.first()
	headEnd, tailStart := l.total, begin
	if l.total-begin > int64(limit) {
		headEnd, tailStart = begin+int64(limit/2), l.total-int64(limit-limit/2)
	}
	if lost, kept := l.hole(); lost < kept {
		headEnd = min(headEnd, lost)
		tailStart = max(tailStart, kept)
	}
	if headEnd == begin { // there is no first half, so one marker is enough
		begin, headEnd = 0, 0
	}
	tailStart = max(tailStart, headEnd)
	before, between := omission(begin), omission(tailStart-headEnd)
	out := make([]byte, 0, int64(len(before))+headEnd-begin+int64(len(between))+l.total-tailStart)
	out = append(out, before...)
	out = l.appendBytes(out, begin, headEnd)
	out = append(out, between...)
	return l.appendBytes(out, tailStart, l.total)
}

func omission(n int64) string {
	if n == 0 {
		return ""
	}
	return messages.OmissionMarker(n)
}

// hole returns the range after the head that is not retained, from lost up to kept. They are equal if everything is
// retained.
func (l *OutputLog) hole() (lost, kept int64) {
	return l.head.end, l.total - int64(l.tail.bytes.n)
}

// retainedUntil returns the end of the retained range that contains offset. It returns false if that byte is not retained or
// does not exist yet.
func (l *OutputLog) retainedUntil(offset int64) (end int64, ok bool) {
	lost, kept := l.hole()
	switch {
	case offset < l.head.first() || offset > l.total || lost <= offset && offset < kept:
		return 0, false
	case offset < lost && lost < kept:
		return lost, true
	default:
		return l.total, true
	}
}

// Unretained is the error for output that cannot be read, because it is not kept any more or, if ahead says so, because it does not exist
// yet. The ranges are what can be read.
func (l *OutputLog) Unretained(what string, ahead bool, ranges []Range) error {
	state, kept := "this output is not kept", "nothing is kept"
	if ahead {
		state = fmt.Sprintf("there is none yet, only %d bytes in %d chunks so far", l.total, l.LastSeq())
	}
	if len(ranges) > 0 {
		names := make([]string, len(ranges))
		for i, r := range ranges {
			names[i] = r.String()
		}
		kept = "kept are " + strings.Join(names, " and ")
	}
	return &messages.Error{
		Code: messages.ErrOutputUnretained, Op: "read output", Subject: what,
		Detail: state + "; " + kept,
	}
}

// String gives inclusive ends: "bytes 0 to 99 (chunks 1 to 7)".
func (r Range) String() string {
	if r.FirstSeq == r.EndSeq {
		return fmt.Sprintf("bytes %d to %d (inside of chunk %d)", r.First, r.End-1, r.EndSeq-1)
	}
	return fmt.Sprintf("bytes %d to %d (chunks %d to %d)", r.First, r.End-1, r.FirstSeq, r.EndSeq-1)
}

// startOf returns the offset at which a chunk began. It returns false if there is no such chunk or no byte of it is
// retained.
func (l *OutputLog) startOf(seq uint64) (int64, bool) {
	for _, s := range []*extent{&l.head, &l.tail} { // a chunk in both begins in the head
		if s.marks.n > 0 && s.firstSeq() <= seq && seq <= s.last {
			return s.chunkStart(int(seq - s.firstSeq())), true
		}
	}
	return 0, false
}

// endOf returns the offset at which a chunk ends: the start of the next chunk if that is known, otherwise the end of the
// log.
func (l *OutputLog) endOf(seq uint64) int64 {
	if next, ok := l.startOf(seq + 1); ok {
		return next
	}
	return l.total
}

// seqAt returns the number of the chunk that holds a retained offset.
func (l *OutputLog) seqAt(offset int64) uint64 {
	s := &l.tail
	if offset < l.head.end {
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

// Position is a place between two chunks of a process's output. The zero value is the beginning.
type Position struct {
	Offset int64  // of the next byte
	Seq    uint64 // the number of the last chunk before it; 0 if there is none
}

// Skip says that the output up to a position was lost before it reached this log, and returns how much that is. The next
// chunk follows the position. Chunk numbers never go back. The head stays as it is, even if it is not full, and the bytes
// kept after it are dropped. Skip ignores a position that is not ahead of Total.
func (l *OutputLog) Skip(to Position) (lost int64) {
	lost = to.Offset - l.total
	if lost <= 0 {
		return 0
	}
	to.Seq = max(to.Seq, l.last)
	l.total, l.last = to.Offset, to.Seq
	if l.head.bytes.n == 0 {
		l.head = newExtent(to, l.head.bytes.budget, l.head.most)
	} else {
		l.head.bytes.budget = l.head.bytes.n
	}
	l.tail = newExtent(to, l.tail.bytes.budget, l.tail.most)
	return lost
}
