package ptyio

import (
	"sync"

	"github.com/execbus/execbus/messages"
)

// Event is what a child reports. Spawned comes first, before Spawn returns; then Output as it is read; Exited once;
// Drained after it, Closed after all Output, TreeEnded after Exited. Nothing comes after Closed and TreeEnded have come.
type Event interface{ event() }

// Spawned says that the child exists.
type Spawned struct {
	Child Child
	// Enforced is what is enforced for it; nil where the launch wanted nothing enforced.
	Enforced *messages.Enforcement
}

// Output is a batch of bytes under credit. The receiver must call Release when it is done with Bytes, which are then
// reused.
type Output struct {
	Stream messages.Stream
	Bytes  []byte
	// At is the place of Bytes in the child's output, both streams counted, where the other side of a connection numbers it.
	// What lies between the end of the last batch and At was lost there. Nil: right behind the last batch.
	At    *Position
	owner owner
}

// owner is where a batch comes from. Nil: from nobody who wants it back.
type owner interface {
	looked()
	release()
}

// NewOutput makes a batch for a spawner of the host's own. Once it has been released or dropped release is called, once and in
// a goroutine of its own, because it is the host's code: it may wait, and should it panic nobody notices. It may be nil. As
// many of these goroutines can wait as there are batches that have not come back.
func NewOutput(stream messages.Stream, bytes []byte, release func()) Output {
	o := Output{Stream: stream, Bytes: bytes}
	if release != nil {
		o.owner = lender(sync.OnceFunc(func() { go guarded(release) }))
	}
	return o
}

func guarded(release func()) {
	defer func() { _ = recover() }() // the batch is not ours, and so nobody's loss but its maker's
	release()
}

// NewOutputAt is NewOutput for a spawner whose side knows the place of the bytes.
func NewOutputAt(stream messages.Stream, bytes []byte, at Position, release func()) Output {
	o := NewOutput(stream, bytes, release)
	o.At = &at
	return o
}

// lender calls the host's function.
type lender func()

func (l lender) looked()  {}
func (l lender) release() { l() }

// Release returns the buffer and the credit to the child. It must be called exactly once, from any goroutine.
func (o Output) Release() {
	if o.owner != nil {
		o.owner.release()
	}
}

// Looked says that the receiver is done with the bytes, even if others will hold the batch for long. Of flooding children
// only some are looked at at once, so without it the others wait longer. It may be called once, before Release.
func (o Output) Looked() {
	if o.owner != nil {
		o.owner.looked()
	}
}

// Discard makes Output a message that may be dropped: a dropped batch is released.
func (o Output) Discard() { o.Release() }

// Discard makes Spawned a message that may be dropped: a child nobody takes is ended.
func (s Spawned) Discard() { s.Child.Abandon() }

// Exited reports the leader's exit as the kernel told it. Lost is set, and Status is none, if the warden died and the
// kernel's word with it.
//
// Denial is set by a spawner that confines and knows from facts that the sandbox stopped the command. Limit is set where the
// command was ended, by the kernel or the spawner, because it had reached that one.
type Exited struct {
	Status messages.ExitStatus
	Lost   error
	Denial *messages.Denial
	Limit  messages.Limit
}

// Background says that the leader has exited and left Count living processes behind. It comes after Exited and before
// TreeEnded, at once, and not at all if none were left.
type Background struct{ Count int }

// Drained says that everything the leader wrote was delivered: the output ended, or DrainWait went by.
type Drained struct{}

// Closed says that no more output can come.
type Closed struct{}

// TreeEnded says what became of the descendants.
type TreeEnded struct{ messages.TreeReport }

func (Spawned) event()    {}
func (Output) event()     {}
func (Exited) event()     {}
func (Background) event() {}
func (Drained) event()    {}
func (Closed) event()     {}
func (TreeEnded) event()  {}
