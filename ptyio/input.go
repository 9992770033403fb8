package ptyio

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
)

// MaxLine is how many bytes of one line, without its end, a terminal in line mode can hold; the kernel (N_TTY_BUF_SIZE)
// silently drops the rest.
const MaxLine = 4095

// input is the queue of bytes for one child.
//
// It is a queue under a lock and not an actor: writers must learn at once that it is full, and the goroutine that waits
// for the descriptor exists only while there is something to write.
type input struct {
	file     *os.File
	terminal bool

	mu      sync.Mutex
	queue   []inputItem
	pending int  // bytes in queue, the item under way included
	busy    bool // drain runs
	closed  error

	line int // bytes of the unfinished line we wrote to a terminal in line mode; owned by drain
}

// inputItem is a write, or the end of the input if finish is set.
type inputItem struct {
	bytes    []byte
	deadline time.Time
	done     func(taken int, err error)
	finish   bool
}

func (in *input) write(p []byte, deadline time.Time, done func(int, error)) {
	in.add(inputItem{bytes: p, deadline: deadline, done: done})
}

func (in *input) finish(done func(error)) {
	in.add(inputItem{finish: true, done: func(_ int, err error) { done(err) }})
}

func (in *input) add(item inputItem) {
	in.mu.Lock()
	err := in.closed
	if err == nil && in.pending+len(item.bytes) > MaxPendingInput {
		err = &messages.Error{Code: messages.CodeInputFull, Op: "write",
			Detail: fmt.Sprintf("%d bytes wait to be taken and %d more would exceed %d", in.pending, len(item.bytes), MaxPendingInput),
			Hint:   "wait until the process has read, or write in smaller parts"}
	}
	start := err == nil && !in.busy
	if err == nil {
		in.queue = append(in.queue, item)
		in.pending += len(item.bytes)
		in.busy = true
	}
	in.mu.Unlock()
	switch {
	case err != nil:
		go item.done(0, err)
	case start:
		go in.drain()
	}
}

// drain writes until the queue is empty.
func (in *input) drain() {
	for {
		in.mu.Lock()
		if len(in.queue) == 0 {
			in.queue, in.busy = nil, false
			in.mu.Unlock()
			return
		}
		item, err := in.queue[0], in.closed
		in.queue = in.queue[1:]
		in.mu.Unlock()
		taken := 0
		switch {
		case err != nil:
		case item.finish:
			err = in.end()
		default:
			taken, err = in.put(item)
		}
		in.mu.Lock()
		in.pending -= len(item.bytes)
		in.mu.Unlock()
		item.done(taken, err)
	}
}

// put writes one item as far as it is taken before its deadline.
func (in *input) put(item inputItem) (int, error) {
	if in.terminal {
		if err := in.checkLines(item.bytes); err != nil {
			return 0, err
		}
	}
	_ = in.file.SetWriteDeadline(item.deadline)
	n, err := in.file.Write(item.bytes)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, &messages.Error{Code: messages.CodeInputNotTaken, Op: "write",
			Detail: fmt.Sprintf("the process took %d of %d bytes in time; the rest was discarded", n, len(item.bytes)),
			Hint:   "wait until it reads and write the rest again"}
	case errors.Is(err, syscall.EPIPE):
		return n, stdinClosed("the process has closed its input")
	case errors.Is(err, os.ErrClosed), errors.Is(err, syscall.EIO):
		return n, closedError("write")
	default:
		return n, &messages.Error{Code: messages.CodeRuntimeFailure, Op: "write", Detail: reason(err)}
	}
}

func stdinClosed(detail string) error {
	return &messages.Error{Code: messages.CodeStdinClosed, Op: "write", Detail: detail}
}

// checkLines refuses, as a whole, input with a line that a terminal in line mode would cut off.
func (in *input) checkLines(p []byte) error {
	mode, err := readLineMode(in.file)
	if err != nil {
		return nil // closed; the write will say so
	}
	if !mode.on {
		in.line = 0
		return nil
	}
	line := in.line
	for _, b := range p {
		line++
		if mode.ends(b) {
			line = 0
		}
		if line > MaxLine {
			return &messages.Error{Code: messages.CodeLineTooLong, Op: "write",
				Detail: fmt.Sprintf("a line is longer than the %d bytes a terminal in line mode can hold", MaxLine),
				Hint:   "break it up, or run the program on pipes"}
		}
	}
	in.line = line
	return nil
}

// end sends the end of the input.
func (in *input) end() error {
	if !in.terminal {
		in.shut(stdinClosed("the input was closed"))
		return in.file.Close()
	}
	mode, err := readLineMode(in.file)
	switch {
	case err != nil:
		return closedError("close stdin")
	case !mode.on || mode.eof == 0:
		return &messages.Error{Code: messages.CodeUnsupported, Op: "close stdin",
			Detail: "the terminal is in raw mode, where there is no end-of-file character",
			Hint:   "tell the program to end in its own language, or signal it"}
	}
	end := []byte{mode.eof}
	if in.line > 0 { // the first only ends the unfinished line
		end = append(end, mode.eof)
	}
	in.line = 0
	_ = in.file.SetWriteDeadline(time.Now().Add(time.Second))
	if _, err := in.file.Write(end); err != nil {
		return closedError("close stdin")
	}
	return nil
}

// shut refuses further input.
func (in *input) shut(why error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed == nil {
		in.closed = why
	}
}

// close is called when the child takes nothing any more. A pipe is closed here, a terminal by its reader.
func (in *input) close() {
	in.shut(closedError("write"))
	if in.file != nil && !in.terminal {
		_ = in.file.Close()
	}
}
