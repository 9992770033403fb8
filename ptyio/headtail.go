package ptyio

import "github.com/execbus/execbus/messages"

// DefaultBufferSize is the usual capacity of a HeadTailBuffer, and of a transcript, in bytes.
const DefaultBufferSize = 1 << 20

// HeadTailBuffer keeps the beginning and the end of a stream and counts what it drops in between. One half of its
// capacity, rounded down, holds the first bytes, the rest holds the last ones.
//
// Its memory follows its content: a few bytes cost a few bytes. Until it drops something it never holds more than twice of
// what it retains, and never more than its capacity and 16 KiB for each half. Pushing costs a copy. The zero value has no
// capacity: it drops and counts everything.
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
