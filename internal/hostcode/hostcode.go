// Package hostcode calls code that a host brings along, such as its logger, its approver, its spawner, and its readers and writers. Such
// code may panic, end its goroutine, or never return, and none of that may reach anybody else.
//
//	call := hostcode.Call[ptyio.Child]{Who: "the spawner", Do: spawn, Patience: 5 * time.Second,
//		Late: func(child ptyio.Child, err error) { ... }} // ends the child
//	child, err := call.Wait(ctx)           // or, without waiting:
//	call.Go(ctx, func(child ptyio.Child, err error) { ... })
//
// A call has exactly one answer: what the code returned, or a [*Failure] that says that the code panicked, ended its goroutine or did
// not return in time. The time begins when the context ends, which the code should heed, and lasts as long as Patience says. What the
// code returns later goes to Late, so that nothing is lost that has to be ended.
//
// Calls whose results nobody needs, such as those of a logger, go into a [Queue].
//
// # What you must not assume
//
//   - That code that does not return costs nothing: it keeps its goroutine.
//   - That an answer comes at all while the context goes on and the code does not return.
package hostcode

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Call is a call of a host's code.
type Call[T any] struct {
	Who string // whose code it is, as the subject of a sentence about a failure; empty means "it"
	Do  func(context.Context) (T, error)
	// Patience is how long Do may take once its context has ended.
	Patience time.Duration
	// Late gets what Do returns after that, or the failure. Nil if a late result need not be ended.
	Late func(T, error)
}

// Failure is the error of a call whose code has not returned.
type Failure struct {
	Hangs bool // it may still return, and then Late gets what it returns
	text  string
}

func (f *Failure) Error() string { return f.text }

// Go makes the call in a goroutine of its own. It calls answer once, in that goroutine or another one, and Late after that.
func (c Call[T]) Go(ctx context.Context, answer func(T, error)) { go c.Here(ctx, answer) }

// Here is Go in the caller's goroutine, for code that is known to return.
func (c Call[T]) Here(ctx context.Context, answer func(T, error)) {
	left := make(chan struct{})        // closed when the call has been answered without its result
	answered := make(chan struct{}, 1) // has room for one: who fills it answers
	first := func() bool {
		select {
		case answered <- struct{}{}:
			return true
		default:
			return false
		}
	}
	clocks := make(chan *time.Timer, 1) // has the one of the patience, once that has begun
	stop := context.AfterFunc(ctx, func() {
		clocks <- time.AfterFunc(c.Patience, func() {
			if first() {
				var none T
				answer(none, c.failure(true, "did not answer in time"))
				close(left)
			}
		})
	})
	var value T
	err := c.failure(false, "ended its goroutine")
	defer func() {
		if reason := recover(); reason != nil {
			err = c.failure(false, "panicked: "+Text(reason))
		}
		if !stop() {
			(<-clocks).Stop() // it would hold on to what the call knows
		}
		if first() {
			answer(value, err)
			return
		}
		if <-left; c.Late != nil {
			c.Late(value, err)
		}
	}()
	value, err = c.Do(ctx)
}

// Wait makes the call and waits for its answer.
func (c Call[T]) Wait(ctx context.Context) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	c.Go(ctx, func(value T, err error) { answered <- answer{value, err} })
	a := <-answered
	return a.value, a.err
}

func (c Call[T]) failure(hangs bool, what string) error {
	return &Failure{hangs, cmp.Or(c.Who, "it") + " " + what}
}

// Run runs code of a host that has no result, without waiting for it. A panic is ignored.
func Run(do func()) {
	Call[struct{}]{Do: func(context.Context) (none struct{}, _ error) {
		do()
		return none, nil
	}}.Go(context.Background(), func(struct{}, error) {})
}

// Text is fmt.Sprint for a value that was passed to panic, without another panic: fmt.Sprint panics if the value's own method panics
// with a value that cannot be printed either.
func Text(reason any) (text string) {
	text = "it cannot be printed" // if the next line panics
	defer func() { _ = recover() }()
	return fmt.Sprint(reason)
}
