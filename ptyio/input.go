package ptyio

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
)

// input is the queue of bytes for one child.
//
// It is a queue under a lock and not an actor: writers must learn at once that it is full, and the goroutine that waits
// for the descriptor exists only while there is something to wait for.
type input struct {
	file     *os.File
	terminal bool

	mu      sync.Mutex
	queue   []*inputItem
	pending int             // bytes in queue, the item under way included
	busy    bool            // somebody writes, and will look at the queue again
	refusal *messages.Error // why nothing more is taken

	line line // what the terminal holds of an unfinished line; owned by who is busy
}

// inputItem is a write, or the end of the input if finish is set.
type inputItem struct {
	bytes    []byte
	taken    int
	deadline time.Time
	done     func(taken int, err error)
	finish   bool
	expiry   *time.Timer // runs while the item is queued behind another
	mode     lineMode    // the terminal's when the item was admitted
	admitted bool
}

func (in *input) write(p []byte, deadline time.Time, done func(int, error)) {
	in.add(&inputItem{bytes: p, deadline: deadline, done: done})
}

func (in *input) finish(done func(error)) {
	in.add(&inputItem{finish: true, deadline: time.Now().Add(messages.DefaultPatience), done: func(_ int, err error) { done(err) }})
}

func (in *input) add(item *inputItem) {
	in.mu.Lock()
	if err := in.refuses(item); err != nil {
		in.mu.Unlock()
		item.done(0, err)
		return
	}
	in.pending += len(item.bytes)
	if in.busy {
		in.queue = append(in.queue, item)
		if !item.deadline.IsZero() {
			item.expiry = time.AfterFunc(time.Until(item.deadline), func() { in.expire(item) })
		}
		in.mu.Unlock()
		return
	}
	in.busy = true
	in.mu.Unlock()
	in.begin(item)
}

// refuses says why an item cannot be queued.
func (in *input) refuses(item *inputItem) error {
	switch {
	case in.refusal != nil:
		return in.refused(item)
	case in.pending+len(item.bytes) > MaxPendingInput:
		return &messages.Error{Code: messages.CodeInputFull, Op: "write",
			Detail: fmt.Sprintf("%d bytes wait to be taken and %d more would exceed %d; wait until the process has read, or write in smaller parts", in.pending, len(item.bytes), MaxPendingInput)}
	case len(in.queue) >= MaxPendingWrites:
		return &messages.Error{Code: messages.CodeInputFull, Op: "write",
			Detail: fmt.Sprintf("%d writes wait to be taken; wait until the process has read", len(in.queue))}
	}
	return nil
}

func (in *input) refused(item *inputItem) error {
	refusal := *in.refusal
	refusal.Op = item.op()
	return &refusal
}

func (item *inputItem) op() string {
	if item.finish {
		return "close stdin"
	}
	return "write"
}

// begin takes an item that has none before it. What goes out without waiting goes out, and is reported, from here: waking
// a goroutine takes as long as the echo of a key. Only what would wait is left to one.
func (in *input) begin(item *inputItem) {
	if item.finish {
		go in.drain(item)
		return
	}
	err := in.admit(item)
	if err == nil {
		in.try(item)
		if item.taken < len(item.bytes) {
			go in.drain(item)
			return
		}
	}
	if next := in.next(item); next != nil {
		go in.drain(next)
	}
	item.done(item.taken, err)
}

// try writes what is taken at once. An error comes again when the rest is written.
func (in *input) try(item *inputItem) {
	_ = control(in.file, func(fd int) error {
		n, err := syscall.Write(fd, item.bytes)
		item.taken = max(n, 0)
		return err
	})
}

// drain performs an item and those behind it.
func (in *input) drain(item *inputItem) {
	for item != nil {
		err := in.perform(item)
		next := in.next(item)
		item.done(item.taken, err)
		item = next
	}
}

// next settles an item and returns the one behind it; without one nobody is busy any more.
func (in *input) next(item *inputItem) *inputItem {
	if in.terminal {
		in.line, _ = item.mode.after(in.line, item.bytes[:item.taken])
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.pending -= len(item.bytes)
	if len(in.queue) == 0 {
		in.queue, in.busy = nil, false
		return nil
	}
	next := in.queue[0]
	in.queue[0] = nil
	in.queue = in.queue[1:]
	if next.expiry != nil {
		next.expiry.Stop()
	}
	return next
}

// expire takes an item out of the queue whose deadline came before its turn.
func (in *input) expire(item *inputItem) {
	in.mu.Lock()
	i := slices.Index(in.queue, item)
	if i >= 0 {
		in.queue = slices.Delete(in.queue, i, i+1)
		in.pending -= len(item.bytes)
	}
	in.mu.Unlock()
	if i >= 0 {
		item.done(0, notTaken(item))
	}
}

func (in *input) perform(item *inputItem) error {
	in.mu.Lock()
	if in.refusal != nil {
		defer in.mu.Unlock()
		return in.refused(item)
	}
	in.mu.Unlock()
	if item.finish {
		return in.end(item)
	}
	if !item.admitted {
		if err := in.admit(item); err != nil {
			return err
		}
	}
	return in.put(item)
}

// admit refuses, as a whole, input with a line that a terminal in line mode would cut off.
func (in *input) admit(item *inputItem) error {
	item.admitted = true
	if !in.terminal {
		return nil
	}
	mode, err := readLineMode(in.file)
	if err != nil {
		return closedError("write")
	}
	item.mode = mode
	if _, fits := mode.after(in.line, item.bytes); !fits {
		return &messages.Error{Code: messages.CodeLineTooLong, Op: "write",
			Detail: fmt.Sprintf("a line is longer than the %d bytes a terminal in line mode can hold; break it up, or run the program on pipes", MaxLine)}
	}
	return nil
}

// put writes the rest of an item as far as it is taken before its deadline.
func (in *input) put(item *inputItem) error {
	_ = in.file.SetWriteDeadline(item.deadline)
	n, err := in.file.Write(item.bytes[item.taken:])
	item.taken += n
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return notTaken(item)
	case errors.Is(err, syscall.EPIPE):
		return &messages.Error{Code: messages.CodeStdinClosed, Op: item.op(), Detail: "the process has closed its input; nothing can be written to it any more"}
	case errors.Is(err, os.ErrClosed), errors.Is(err, syscall.EIO):
		return closedError(item.op())
	default:
		return &messages.Error{Code: messages.CodeRuntimeFailure, Op: item.op(), Detail: reason(err)}
	}
}

func notTaken(item *inputItem) error {
	return &messages.Error{Code: messages.CodeInputNotTaken, Op: item.op(),
		Detail: fmt.Sprintf("the process took %d of %d bytes in time, and the rest was discarded; wait until it reads and write the rest again",
			item.taken, len(item.bytes))}
}

// end sends the end of the input: a pipe is closed, a terminal in line mode gets the end-of-file character.
func (in *input) end(item *inputItem) error {
	if !in.terminal {
		in.refuse(&messages.Error{Code: messages.CodeStdinClosed, Detail: "the input was closed; nothing can be written any more"})
		if err := in.file.Close(); err != nil {
			return closedError(item.op())
		}
		return nil
	}
	mode, err := readLineMode(in.file)
	switch {
	case err != nil:
		return closedError(item.op())
	case !mode.on || mode.eof == 0:
		return &messages.Error{Code: messages.CodeUnsupported, Op: item.op(),
			Detail: "the terminal is in raw mode, where there is no end-of-file character; tell the program to end in its own language, or signal it"}
	}
	character := &inputItem{bytes: []byte{mode.eof}, deadline: item.deadline, finish: true}
	if in.line.quoted { // the first would be taken literally
		character.bytes = append(character.bytes, mode.eof)
	}
	if in.line.length > 0 || in.line.quoted { // the next only ends the unfinished line
		character.bytes = append(character.bytes, mode.eof)
	}
	in.line = line{}
	return in.put(character)
}

// What is refused is told in a copy, so that all children can share the reasons.
var (
	noInput = &messages.Error{Code: messages.CodeStdinClosed, Detail: "the process was started without input; start it with open input or on a terminal",
		Hint: "set OpenStdin or TTY"}
	inputOver = closedError("")
)

// refuse refuses further input.
func (in *input) refuse(why *messages.Error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.refusal = why
}

// close is called when the child takes nothing any more. A pipe is closed here, a terminal by its reader.
func (in *input) close() {
	in.refuse(inputOver)
	if in.file != nil && !in.terminal {
		_ = in.file.Close()
	}
}
