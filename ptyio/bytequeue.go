package ptyio

import (
	"bytes"
	"slices"
	"sort"

	"github.com/execbus/execbus/messages"
)

const (
	// fewBytes is the size below which a piece is copied: the segment for a shared piece would cost more than sharing saves.
	fewBytes = 1 << 10
	// segmentSize is the memory of a segment without its bytes.
	segmentSize = 32
)

// byteQueue keeps the last bytes pushed into it, at most budget, in segments. A pushed piece becomes a segment without a copy, and
// nobody may change it afterwards. Small pieces are copied into common segments. Pieces longer than a delta are copied, too,
// because a long segment could not be freed in parts.
//
// Every two neighbouring segments have fewBytes together, and none is longer than messages.MaxOutputDelta. So the memory behind n
// bytes is at most 3n/2 and two deltas: see memory.
type byteQueue struct {
	segments ring[segment]
	skip     int // the number of bytes of the first segment that were dropped
	n        int // the number of bytes
	budget   int
	behind   int  // the memory behind the bytes of all segments
	open     bool // the last segment is our own, and more bytes may be added to it
}

type segment struct {
	bytes []byte
	end   int64 // the number of bytes that the queue had got when it ended
}

// room is the number of bytes that can be pushed before the oldest are dropped.
func (q *byteQueue) room() int { return q.budget - q.n }

// push adds bytes at the end and returns how many it dropped: the oldest of the queue, then the first of p.
func (q *byteQueue) push(p []byte) (dropped int) {
	dropped = max(0, len(p)-q.room())
	old := min(dropped, q.n)
	q.drop(old)
	share := dropped == old && len(p) <= messages.MaxOutputDelta
	for p = p[dropped-old:]; len(p) > 0; {
		piece := p[:min(len(p), messages.MaxOutputDelta)]
		p = p[len(piece):]
		switch {
		case len(piece) < fewBytes:
			q.gather(piece)
		case share:
			q.add(piece)
		default:
			q.add(bytes.Clone(piece))
		}
	}
	return dropped
}

// gather copies a few bytes into the last segment, after other small pieces.
func (q *byteQueue) gather(p []byte) {
	if !q.open || len(q.last().bytes)+len(p) > messages.MaxOutputDelta {
		q.add(bytes.Clone(p))
		q.open = true
		return
	}
	last := q.last()
	q.behind -= cap(last.bytes)
	last.bytes = append(last.bytes, p...)
	q.behind += cap(last.bytes)
	last.end += int64(len(p))
	q.n += len(p)
}

// add makes p the last segment.
func (q *byteQueue) add(p []byte) {
	end := int64(len(p))
	if q.n > 0 {
		end += q.last().end
	}
	q.segments.push(segment{p, end})
	q.open = false
	q.behind += cap(p)
	q.n += len(p)
}

func (q *byteQueue) last() *segment { return q.segments.at(q.segments.n - 1) }

// drop removes the n oldest bytes.
func (q *byteQueue) drop(n int) {
	if n == q.n {
		*q = byteQueue{budget: q.budget}
		return
	}
	q.n -= n
	q.skip += n
	for s := q.segments.at(0); q.skip >= len(s.bytes); s = q.segments.at(0) {
		q.skip -= len(s.bytes)
		q.behind -= cap(s.bytes)
		q.segments.drop(1)
	}
}

// appendTo appends the bytes from i up to, not including, j.
func (q *byteQueue) appendTo(dst []byte, i, j int) []byte {
	if i >= j {
		return dst
	}
	dst = slices.Grow(dst, j-i)
	origin := q.last().end - int64(q.n)
	from, to := origin+int64(i), origin+int64(j)
	k := sort.Search(q.segments.n, func(k int) bool { return q.segments.at(k).end > from })
	for ; from < to; k++ {
		s := q.segments.at(k)
		part := s.bytes[len(s.bytes)-int(s.end-from):]
		part = part[:min(int64(len(part)), to-from)]
		dst = append(dst, part...)
		from += int64(len(part))
	}
	return dst
}

// memory is the memory of the segments, shared or not, and of their list. Besides the retained bytes it includes the dropped
// part of the first segment, the spare room after gathered bytes, and the list, which is at most four times as long as
// necessary.
func (q *byteQueue) memory() int { return q.behind + segmentSize*len(q.segments.slots) }
