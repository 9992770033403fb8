package ptyio

import (
	"sync"

	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
)

// Event is what a child reports. Spawned comes first, before Spawn returns; then Output as it is read; Exited once;
// Drained after it, Closed after all Output, TreeEnded after Exited. Nothing comes after Closed and TreeEnded have come.
type Event interface{ event() }

// Spawned says that the child exists.
type Spawned struct {
	Child Child
	// Enforced says what is enforced for the child; nil if the launch wanted nothing enforced.
	Enforced *messages.Enforcement
}

// Output is a batch of bytes under credit. The receiver must call Release when it is done with Bytes, whose memory is then
// used again.
type Output struct {
	Stream messages.Stream
	Bytes  []byte
	// At is the place of Bytes in the child's output, which counts both streams. A spawner for another machine sets it if the
	// other side numbers the bytes. Bytes between the end of the last batch and At were lost there. Nil means right after the
	// last batch.
	At *Position
	// release returns the batch to its source. Nil if it need not be returned.
	release func()
}

// NewOutput makes a batch for a spawner of the host's own. When the batch is released or dropped, release is called once, in
// a goroutine of its own, because it is the host's code and may block. A panic in it is ignored. release may be nil. There
// is at most one such goroutine for each batch.
func NewOutput(stream messages.Stream, bytes []byte, release func()) Output {
	o := Output{Stream: stream, Bytes: bytes}
	if release != nil {
		o.release = sync.OnceFunc(func() { hostcode.Run(release) })
	}
	return o
}

// NewOutputAt is NewOutput for a spawner that knows the place of the bytes.
func NewOutputAt(stream messages.Stream, bytes []byte, at Position, release func()) Output {
	o := NewOutput(stream, bytes, release)
	o.At = &at
	return o
}

// Release returns the buffer and the credit to the child. It must be called exactly once, from any goroutine.
func (o Output) Release() {
	if o.release != nil {
		o.release()
	}
}

// Discard makes Output a message that may be dropped: a dropped batch is released.
func (o Output) Discard() { o.Release() }

// Discard makes Spawned a message that may be dropped: the child, which then has no owner, is ended.
func (s Spawned) Discard() { s.Child.Abandon() }

// Exited reports the leader's exit as the kernel told it. If the warden died before it could pass on the status, Lost is set
// and Status is none.
//
// Denial is set by a spawner that confines children and has evidence that the sandbox stopped the command. Limit is set if the
// kernel or the spawner ended the command because it had reached that limit.
type Exited struct {
	Status messages.ExitStatus
	Lost   error
	Denial *messages.Denial
	Limit  messages.Limit
}

// Background says that the leader has exited and that Count processes of its tree are still alive. It comes right after
// Exited, and not at all if there are none.
type Background struct{ Count int }

// Drained says that everything the leader wrote was delivered: the output has ended, or DrainWait is over.
type Drained struct{}

// Closed says that no more output can come.
type Closed struct{}

// TreeEnded says how the rest of the tree ended.
type TreeEnded struct{ messages.TreeReport }

func (Spawned) event()    {}
func (Output) event()     {}
func (Exited) event()     {}
func (Background) event() {}
func (Drained) event()    {}
func (Closed) event()     {}
func (TreeEnded) event()  {}
