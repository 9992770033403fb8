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
	// fewSegments is the length that a list may always have, however few segments are in use.
	fewSegments = 16
)

// rope keeps the last bytes pushed into it, at most budget, in segments. A pushed piece becomes a segment without a copy, and
// nobody may change it afterwards. Small pieces are copied into common segments. Pieces longer than a delta are copied, too,
// because a long segment could not be freed in parts.
//
// Every two neighbouring segments have fewBytes together, and none is longer than messages.MaxOutputDelta. So the memory behind n
// bytes is at most 3n/2 and two deltas: see memory.
type rope struct {
	segments []segment // those from first on are in use
	first    int
	skip     int // the number of bytes of the first segment that were dropped
	n        int // the number of bytes
	budget   int
	behind   int  // the memory behind the bytes of all segments
	open     bool // the last segment is our own, and more bytes may be added to it
}

type segment struct {
	bytes []byte
	end   int64 // the number of bytes that the rope had got when it ended
}

// room is the number of bytes that can be pushed before the oldest are dropped.
func (r *rope) room() int { return r.budget - r.n }

// push adds bytes at the end and returns how many it dropped: the oldest of the rope, then the first of p.
func (r *rope) push(p []byte) (dropped int) {
	dropped = max(0, len(p)-r.room())
	old := min(dropped, r.n)
	r.drop(old)
	share := dropped == old && len(p) <= messages.MaxOutputDelta
	for p = p[dropped-old:]; len(p) > 0; {
		piece := p[:min(len(p), messages.MaxOutputDelta)]
		p = p[len(piece):]
		switch {
		case len(piece) < fewBytes:
			r.gather(piece)
		case share:
			r.add(piece)
		default:
			r.add(bytes.Clone(piece))
		}
	}
	return dropped
}

// gather copies a few bytes into the last segment, after other small pieces.
func (r *rope) gather(p []byte) {
	if !r.open || len(r.last().bytes)+len(p) > messages.MaxOutputDelta {
		r.add(bytes.Clone(p))
		r.open = true
		return
	}
	last := r.last()
	r.behind -= cap(last.bytes)
	last.bytes = append(last.bytes, p...)
	r.behind += cap(last.bytes)
	last.end += int64(len(p))
	r.n += len(p)
}

// add makes p the last segment.
func (r *rope) add(p []byte) {
	end := int64(len(p))
	if r.n > 0 {
		end += r.last().end
	}
	r.segments = append(r.segments, segment{p, end})
	r.open = false
	r.behind += cap(p)
	r.n += len(p)
}

func (r *rope) last() *segment { return &r.segments[len(r.segments)-1] }

// drop removes the n oldest bytes.
func (r *rope) drop(n int) {
	if n == r.n {
		*r = rope{budget: r.budget}
		return
	}
	r.n -= n
	r.skip += n
	for s := &r.segments[r.first]; r.skip >= len(s.bytes); s = &r.segments[r.first] {
		r.skip -= len(s.bytes)
		r.behind -= cap(s.bytes)
		*s = segment{} // otherwise the garbage collector would keep the bytes
		r.first++
	}
	if live := r.segments[r.first:]; cap(r.segments) > 4*len(live)+fewSegments {
		r.segments, r.first = append(make([]segment, 0, 2*len(live)), live...), 0
	}
}

// appendTo appends the bytes from i up to, not including, j.
func (r *rope) appendTo(dst []byte, i, j int) []byte {
	if i >= j {
		return dst
	}
	dst = slices.Grow(dst, j-i)
	segments := r.segments[r.first:]
	origin := r.last().end - int64(r.n)
	from, to := origin+int64(i), origin+int64(j)
	k := sort.Search(len(segments), func(k int) bool { return segments[k].end > from })
	for ; from < to; k++ {
		s := segments[k]
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
func (r *rope) memory() int { return r.behind + segmentSize*cap(r.segments) }
