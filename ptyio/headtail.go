package ptyio

import (
	"slices"

	"github.com/execbus/execbus/messages"
)

// DefaultBufferSize is the usual capacity of a HeadTailBuffer, and of a transcript, in bytes.
const DefaultBufferSize = 1 << 20

// HeadTailBuffer keeps the beginning and the end of a stream and counts what it drops in between. One half of its
// capacity, rounded down, holds the first bytes, the rest holds the last ones.
//
// Its memory follows its content: a few bytes cost a few bytes, and it never holds more than twice of what it retains,
// nor more than its capacity. Pushing costs a copy. The zero value has no capacity: it drops and counts everything.
//
// It is not safe for concurrent use. Byte slices go in and come out as copies.
type HeadTailBuffer struct {
	head, tail ring[byte]
	omitted    int64
}

// NewHeadTailBuffer makes an empty buffer of the given capacity in bytes; a negative one counts as 0.
func NewHeadTailBuffer(capacity int) *HeadTailBuffer {
	capacity = max(capacity, 0)
	return &HeadTailBuffer{
		head: ring[byte]{budget: capacity / 2},
		tail: ring[byte]{budget: capacity - capacity/2},
	}
}

// Push adds bytes at the end.
func (b *HeadTailBuffer) Push(p []byte) {
	n := min(len(p), b.head.room())
	b.head.push(p[:n])
	b.omitted += int64(b.tail.push(p[n:]))
}

// Write is Push as an io.Writer. It takes all bytes and never fails.
func (b *HeadTailBuffer) Write(p []byte) (int, error) {
	b.Push(p)
	return len(p), nil
}

// PushBuffer adds what other retains, and other's omitted bytes to the count. Totals add up; but where bytes fit in
// here that other had dropped its middle around, the place of the omission is lost. Other is not changed.
func (b *HeadTailBuffer) PushBuffer(other *HeadTailBuffer) {
	for _, chunk := range other.Snapshot() {
		b.Push(chunk)
	}
	b.omitted += other.omitted
}

// Drain moves everything, the count of omitted bytes included, into a new buffer of the same capacity and leaves this
// one empty, holding no memory.
func (b *HeadTailBuffer) Drain() *HeadTailBuffer {
	drained := *b
	*b = HeadTailBuffer{
		head: ring[byte]{budget: b.head.budget},
		tail: ring[byte]{budget: b.tail.budget},
	}
	return &drained
}

// Retained is the number of bytes that are still there.
func (b *HeadTailBuffer) Retained() int { return b.head.n + b.tail.n }

// Omitted is the number of bytes that were dropped since the last Drain.
func (b *HeadTailBuffer) Omitted() int64 { return b.omitted }

// Total is the number of bytes that were pushed since the last Drain: the retained and the omitted ones.
func (b *HeadTailBuffer) Total() int64 { return int64(b.Retained()) + b.omitted }

// Bytes is the head followed by the tail.
func (b *HeadTailBuffer) Bytes() []byte {
	return b.render("")
}

// WithMarker is the head followed by the tail, with messages.OmissionMarker between them if bytes were dropped.
func (b *HeadTailBuffer) WithMarker() []byte {
	if b.omitted == 0 {
		return b.render("")
	}
	return b.render(messages.OmissionMarker(b.omitted))
}

func (b *HeadTailBuffer) render(between string) []byte {
	out := make([]byte, 0, b.Retained()+len(between))
	out = b.head.appendTo(out, 0, b.head.n)
	out = append(out, between...)
	return b.tail.appendTo(out, 0, b.tail.n)
}

// Snapshot is the head and the tail as separate chunks. An empty one is left out, so there are at most two.
func (b *HeadTailBuffer) Snapshot() [][]byte {
	var chunks [][]byte
	for _, half := range []*ring[byte]{&b.head, &b.tail} {
		if half.n > 0 {
			chunks = append(chunks, half.appendTo(nil, 0, half.n))
		}
	}
	return chunks
}

// ring keeps the last elements pushed into it, at most budget. It starts without memory and doubles up to the budget.
type ring[T any] struct {
	buf    []T // the slots; some may be free
	start  int // the slot of the oldest element
	n      int // how many elements there are
	budget int
}

// room is how many elements can be pushed before the oldest are dropped.
func (r *ring[T]) room() int { return r.budget - r.n }

// push adds elements at the end and returns how many it dropped: the oldest of the ring, then the first of p.
func (r *ring[T]) push(p []T) (dropped int) {
	dropped = max(0, len(p)-r.room())
	old := min(dropped, r.n)
	r.drop(old)
	p = p[dropped-old:]

	r.reserve(r.n + len(p))
	free := r.slot(r.n)
	copied := copy(r.buf[free:], p)
	copy(r.buf, p[copied:])
	r.n += len(p)
	return dropped
}

// drop removes the n oldest elements.
func (r *ring[T]) drop(n int) {
	r.start = r.slot(n)
	r.n -= n
	if r.n == 0 {
		r.start = 0 // the next push is one copy
	}
}

// reserve makes slots for n elements, n ≤ budget.
func (r *ring[T]) reserve(n int) {
	if n <= len(r.buf) {
		return
	}
	bigger := make([]T, min(max(n, 2*len(r.buf)), r.budget))
	r.appendTo(bigger[:0], 0, r.n)
	r.buf, r.start = bigger, 0
}

// slot is where the element i is, or goes; i may be n.
func (r *ring[T]) slot(i int) int {
	i += r.start
	if i >= len(r.buf) {
		i -= len(r.buf)
	}
	return i
}

// at is the element i, counted from the oldest.
func (r *ring[T]) at(i int) T { return r.buf[r.slot(i)] }

// appendTo appends the elements from i up to, not including, j.
func (r *ring[T]) appendTo(dst []T, i, j int) []T {
	if i == j {
		return dst
	}
	dst = slices.Grow(dst, j-i)
	from, to := r.slot(i), r.slot(j)
	if from < to {
		return append(dst, r.buf[from:to]...)
	}
	dst = append(dst, r.buf[from:]...)
	return append(dst, r.buf[:to]...)
}
