package ptyio

// DefaultBufferSize is the usual capacity of a HeadTailBuffer, and of a transcript, in bytes.
const DefaultBufferSize = 1 << 20

// HeadTailBuffer keeps the beginning and the end of a stream and counts what it drops in between. One half of its
// capacity, rounded down, holds the first bytes, the rest holds the last ones.
//
// It keeps pieces without copying them, so that others can share them. Only pieces of less than 1 KiB, or of more than
// messages.MaxOutputDelta, are copied. Readers get copies. Its memory grows with its content: n bytes take at most 3n/2 and
// 16 KiB for each half, however small the pieces were. The zero value has no capacity: it drops and counts everything.
//
// It is not safe for concurrent use.
type HeadTailBuffer struct {
	capacity   int
	head, tail byteQueue
	omitted    int64
}

// NewHeadTailBuffer makes an empty buffer of the given capacity in bytes; a negative one counts as 0.
func NewHeadTailBuffer(capacity int) *HeadTailBuffer {
	capacity = max(capacity, 0)
	return &HeadTailBuffer{capacity: capacity, head: byteQueue{budget: capacity / 2}, tail: byteQueue{budget: capacity - capacity/2}}
}

// Push adds bytes at the end. They are kept and shared, so nobody may change them afterwards. p should not be part of a larger
// array, because the whole array would be kept.
func (b *HeadTailBuffer) Push(p []byte) {
	n := min(len(p), b.head.room())
	b.head.push(p[:n])
	b.omitted += int64(b.tail.push(p[n:]))
}

// PushOmitted counts n bytes that were lost elsewhere, between the bytes pushed so far and the next ones. There can be only one
// omission, so the tail's bytes are dropped, and the head takes no more.
func (b *HeadTailBuffer) PushOmitted(n int64) {
	if n <= 0 {
		return
	}
	b.omitted += n + int64(b.tail.n)
	b.tail.drop(b.tail.n)
	b.tail.budget += b.head.room()
	b.head.budget = b.head.n
}

// Drain moves everything, including the count of omitted bytes, into a new buffer of the same capacity. This buffer is then
// empty and holds no memory.
func (b *HeadTailBuffer) Drain() *HeadTailBuffer {
	drained := *b
	*b = *NewHeadTailBuffer(b.capacity)
	return &drained
}

// Retained is the number of bytes that the buffer holds.
func (b *HeadTailBuffer) Retained() int { return b.head.n + b.tail.n }

// Head is the number of retained bytes in the head: those before the omission, if there is one.
func (b *HeadTailBuffer) Head() int { return b.head.n }

// Omitted is the number of bytes that were dropped since the last Drain.
func (b *HeadTailBuffer) Omitted() int64 { return b.omitted }

// Total is the number of bytes that were pushed since the last Drain: the retained and the omitted ones.
func (b *HeadTailBuffer) Total() int64 { return int64(b.Retained()) + b.omitted }

// Memory is the number of bytes of memory that the retained output takes. Memory shared with others, such as a log, counts in
// full for each of them.
func (b *HeadTailBuffer) Memory() int64 { return int64(b.head.memory() + b.tail.memory()) }

// Bytes is the head followed by the tail.
func (b *HeadTailBuffer) Bytes() []byte {
	out := b.head.appendTo(make([]byte, 0, b.Retained()), 0, b.head.n)
	return b.tail.appendTo(out, 0, b.tail.n)
}
