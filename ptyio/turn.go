package ptyio

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// maxTurn is the longest that a flooding child waits for its turn if a receiver keeps one.
const maxTurn = time.Millisecond

// turns bounds the batches of flooding children that are handled at once to half the number of processors. More would keep
// every processor busy without a pause, and Go checks its poller only in pauses, or after 10 ms. A goroutine that waits for
// a few bytes would then wait that long.
var turns = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// turn is one of turns. It is given back when its batch has been handled, or at the latest at the end of its stream: an
// owner that abandons a child need not release its batches, and all children share the turns.
type turn struct{ back atomic.Bool }

func (t *turn) giveBack() {
	if t != nil && !t.back.Swap(true) {
		<-turns
	}
}

// takeTurn waits for a turn, at most for maxTurn. It returns nil if none became free. It does not wait for a child that is
// abandoned.
//
// A flood that had to wait also rests. Several floods together could keep a processor busy all the time; the host would use
// up its share of it, and the kernel would make the whole host wait. Eight floods still reach some 600 MB/s.
func takeTurn(abandoned <-chan struct{}) *turn {
	select {
	case turns <- struct{}{}:
		return &turn{}
	default:
	}
	timer := time.NewTimer(maxTurn)
	defer timer.Stop()
	select {
	case turns <- struct{}{}:
		rest()
		return &turn{}
	case <-timer.C:
	case <-abandoned:
	}
	return nil
}

// takeTurn takes a turn for a batch of this stream.
func (s *stream) takeTurn() *turn {
	t := takeTurn(s.child.abandoned)
	if t != nil {
		s.turns = append(slices.DeleteFunc(s.turns, func(t *turn) bool { return t.back.Load() }), t)
	}
	return t
}

// batch leads an Output back to its stream. Its methods are called one after the other.
type batch struct {
	stream *stream
	buffer *[MaxBatch]byte
	turn   *turn // nil if it has none
	kept   bool  // the credit was given back
}

func (b *batch) looked() { b.turn.giveBack() }

func (b *batch) keep() bool {
	b.looked()
	b.kept = true
	b.stream.credits <- struct{}{}
	return true
}

func (b *batch) release() {
	b.looked()
	buffers.Put(b.buffer)
	if !b.kept {
		b.stream.credits <- struct{}{}
	}
}
