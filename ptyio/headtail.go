package ptyio

import (
	"bytes"

	"github.com/execbus/execbus/messages"
)

// DefaultBufferSize is the usual capacity of a HeadTailBuffer, and of a transcript, in bytes.
const DefaultBufferSize = 1 << 20

// HeadTailBuffer keeps the beginning and the end of a stream and counts what it drops in between. One half of its
// capacity, rounded down, holds the first bytes, the rest holds the last ones.
//
// It keeps what it is given without a copy, so that others can share it; only pieces of less than 1 KiB, and of more than
// messages.MaxOutputDelta, are copied. What comes out are copies. Its memory follows its content: a few bytes cost a few bytes, and
// n bytes, however small the pieces were, at most 3n/2 and 16 KiB for each half. The zero value has no capacity: it drops and
// counts everything.
//
// It is not safe for concurrent use.
type HeadTailBuffer struct {
	capacity   int
	head, tail rope
	omitted    int64
}

// NewHeadTailBuffer makes an empty buffer of the given capacity in bytes; a negative one counts as 0.
func NewHeadTailBuffer(capacity int) *HeadTailBuffer {
	capacity = max(capacity, 0)
	return &HeadTailBuffer{capacity: capacity, head: rope{budget: capacity / 2}, tail: rope{budget: capacity - capacity/2}}
}

// Push adds bytes at the end. They are kept and shared: nobody may change them any more, and p should not be a part of
// something bigger, which would be kept with it.
func (b *HeadTailBuffer) Push(p []byte) {
	n := min(len(p), b.head.room())
	b.head.push(p[:n])
	b.omitted += int64(b.tail.push(p[n:]))
}

// PushOmitted counts n bytes that were lost elsewhere, behind what was pushed so far and before what follows. There is only
// one place for an omission, so what the tail holds by now is dropped, and the head takes nothing more.
func (b *HeadTailBuffer) PushOmitted(n int64) {
	if n <= 0 {
		return
	}
	b.omitted += n + int64(b.tail.n)
	b.tail.drop(b.tail.n)
	b.tail.budget += b.head.room()
	b.head.budget = b.head.n
}

// Write is Push of a copy, as an io.Writer. It takes all bytes and never fails.
func (b *HeadTailBuffer) Write(p []byte) (int, error) {
	b.Push(bytes.Clone(p))
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
	*b = *NewHeadTailBuffer(b.capacity)
	return &drained
}

// Retained is the number of bytes that are still there.
func (b *HeadTailBuffer) Retained() int { return b.head.n + b.tail.n }

// Head is the number of retained bytes that lie before what was dropped, or may come to.
func (b *HeadTailBuffer) Head() int { return b.head.n }

// Omitted is the number of bytes that were dropped since the last Drain.
func (b *HeadTailBuffer) Omitted() int64 { return b.omitted }

// Total is the number of bytes that were pushed since the last Drain: the retained and the omitted ones.
func (b *HeadTailBuffer) Total() int64 { return int64(b.Retained()) + b.omitted }

// Memory is how many bytes of memory are behind what is retained. What is shared with a log or others counts here as it does
// there.
func (b *HeadTailBuffer) Memory() int64 { return int64(b.head.memory() + b.tail.memory()) }

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
	for _, half := range []*rope{&b.head, &b.tail} {
		if half.n > 0 {
			chunks = append(chunks, half.appendTo(nil, 0, half.n))
		}
	}
	return chunks
}
