package ptyio

import (
	"runtime"
	"time"
)

// maxTurn is how long a flooding child waits for its turn at most, should somebody keep one.
const maxTurn = time.Millisecond

// turns are for batches of flooding children: so many are looked at at once, half as many as there are processors. More
// would keep every processor busy without a pause, and Go looks at its poller only in pauses, or after 10 ms: whoever
// waits for a few bytes would wait that long.
var turns = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// takeTurn waits for a turn and reports whether there was one. A child that is abandoned gets none.
func takeTurn(abandoned <-chan struct{}) bool {
	select {
	case turns <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(maxTurn)
	defer timer.Stop()
	select {
	case turns <- struct{}{}:
		return true
	case <-timer.C:
	case <-abandoned:
	}
	return false
}

// batch is an Output's way back to its stream. Its methods are called one after the other.
type batch struct {
	stream *stream
	buffer *[MaxBatch]byte
	turn   bool // it has one
}

func (b *batch) looked() {
	if b.turn {
		b.turn = false
		<-turns
	}
}

func (b *batch) release() {
	b.looked()
	buffers.Put(b.buffer)
	b.stream.credits <- struct{}{}
}
