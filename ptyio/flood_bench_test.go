package ptyio

import (
	"bytes"
	"testing"

	"github.com/execbus/execbus/messages"
)

// BenchmarkFloodIsKept does what a process does with each batch of a flood: it makes one copy of each delta, for everyone
// who keeps it.
func BenchmarkFloodIsKept(b *testing.B) {
	batch := bytes.Repeat([]byte("0123456789abcdef"), MaxBatch/16)
	l, unread := NewOutputLog(Position{}), NewHeadTailBuffer(DefaultBufferSize)
	b.SetBytes(MaxBatch)
	b.ReportAllocs()
	for b.Loop() {
		for part := batch; len(part) > 0; part = part[messages.MaxOutputDelta:] {
			delta := bytes.Clone(part[:messages.MaxOutputDelta])
			unread.Push(delta)
			l.Append(messages.StreamPTY, delta)
		}
	}
}
