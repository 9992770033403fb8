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
// It is a queue under a lock and not an actor: writers must learn at once that it is full, and a goroutine waits for the
// descriptor only while there are bytes to write.
type input struct {
	file     conn
	terminal bool

	mu       sync.Mutex
	queue    []*inputItem
	current  *inputItem      // the item under way; its goroutine continues with the queue. Nil: no item is under way
	pending  int             // bytes of the current item and of the queue
	added    uint64          // items that were ever to be written
	refusal  *messages.Error // why no more input is taken
	onTheWay int             // bytes that the terminal took and has perhaps not handled yet; they may come between two looks at it

	unfinished unfinished // it belongs to the goroutine of the current item
}

// inputItem is a write, or the end of the input if finish is set.
type inputItem struct {
	bytes     []byte
	rest      []byte // the bytes that have not gone out yet
	taken     int
	runs      []messages.InputRun // taken, by the modes of the terminal
	discarded bool                // the rest must not go out
	answered  bool                // the goroutine that discarded it has called done
	deadline  time.Time
	done      func(taken Taken, err error)
	finish    bool
	answer    bool        // a terminal's answer, which must not go out in line mode
	expiry    *time.Timer // runs while the item is queued behind another
	mode      discipline  // the terminal's mode when the item was admitted
	admitted  bool
}

func (in *input) write(p []byte, deadline time.Time, done func(Taken, error)) (taken func() int) {
	item := &inputItem{bytes: p, rest: p, deadline: deadline, done: done}
	in.add(item)
	return func() int {
		in.mu.Lock()
		defer in.mu.Unlock()
		return item.taken
	}
}

func (in *input) finish(done func(error)) {
	in.add(&inputItem{finish: true, deadline: time.Now().Add(messages.DefaultWritePatience), done: func(_ Taken, err error) { done(err) }})
}

func (in *input) add(item *inputItem) {
	in.mu.Lock()
	in.added++
	if key, is := in.signalKey(item.bytes); is && in.current != nil && in.refusal == nil {
		in.overtake(item, key)
		return
	}
	if err := in.refuses(item); err != nil {
		in.mu.Unlock()
		item.done(Taken{}, err)
		return
	}
	in.pending += len(item.bytes)
	if in.current != nil {
		in.queue = append(in.queue, item)
		if !item.deadline.IsZero() {
			item.expiry = time.AfterFunc(time.Until(item.deadline), func() { in.expire(item) })
		}
		in.mu.Unlock()
		return
	}
	in.current = item
	in.mu.Unlock()
	in.begin(item)
}

// idle reports whether everything has gone out, and how many items there were until now.
func (in *input) idle() (added uint64, idle bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.added, in.current == nil && in.refusal == nil
}

// refuses says why an item cannot be queued.
func (in *input) refuses(item *inputItem) error {
	switch {
	case in.refusal != nil:
		return in.refused(item)
	case in.pending+len(item.bytes) > MaxPendingInput:
		return &messages.Error{Code: messages.ErrInputFull, Op: "write",
			Detail: fmt.Sprintf("%d bytes wait to be taken and %d more would exceed %d; wait until the process has read, or write in smaller parts", in.pending, len(item.bytes), MaxPendingInput)}
	case len(in.queue) >= MaxPendingWrites:
		return &messages.Error{Code: messages.ErrInputFull, Op: "write",
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

// begin starts an item when no other is under way. It writes the bytes that can go out without waiting, because waking a
// goroutine takes as long as the echo of a key. A goroutine writes the rest.
func (in *input) begin(item *inputItem) {
	if item.finish {
		go in.drain(item)
		return
	}
	err := in.admit(item)
	if err == nil {
		if key, is := in.signalKey(item.bytes); is && !in.unfinished.quoted && in.waits(key) {
			err = in.press(item, key)
		} else if in.try(item); len(item.rest) > 0 {
			go in.drain(item)
			return
		}
	}
	if next := in.next(item); next != nil {
		go in.drain(next)
	}
	item.report(err)
}

// report calls done for an item that is no longer under way.
func (item *inputItem) report(err error) {
	if !item.answered {
		item.done(item.whole(), err)
	}
}

// try writes the bytes that are taken at once. It ignores errors: they occur again when the rest is written.
func (in *input) try(item *inputItem) {
	_ = control(in.file, func(fd int) error {
		_, err := in.attempt(fd, item)
		return err
	})
}

// drain handles an item and those queued after it.
func (in *input) drain(item *inputItem) {
	for item != nil {
		err := in.perform(item)
		next := in.next(item)
		item.report(err)
		item = next
	}
}

// next completes an item and returns the one after it. It returns nil if there is none; then no item is under way.
func (in *input) next(item *inputItem) *inputItem {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case item.discarded: // the unfinished line in the terminal is discarded as well
		in.unfinished = unfinished{}
	case in.terminal && !item.finish:
		in.unfinished, _ = item.mode.after(in.unfinished, item.bytes[:item.taken])
	}
	in.pending -= len(item.bytes)
	if len(in.queue) == 0 {
		in.queue, in.current = nil, nil
		return nil
	}
	next := in.queue[0]
	in.current = next
	in.queue[0] = nil
	in.queue = in.queue[1:]
	next.stopExpiry()
	return next
}

func (item *inputItem) stopExpiry() {
	if item.expiry != nil {
		item.expiry.Stop()
	}
}

// expire removes an item from the queue if its deadline has passed before its turn.
func (in *input) expire(item *inputItem) {
	in.mu.Lock()
	i := slices.Index(in.queue, item)
	if i >= 0 {
		in.queue = slices.Delete(in.queue, i, i+1)
		in.pending -= len(item.bytes)
	}
	in.mu.Unlock()
	if i >= 0 {
		item.done(Taken{}, notTaken(item))
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
	return in.writeRest(item)
}

// admit refuses, as a whole, input with a line that a terminal in line mode would cut off.
func (in *input) admit(item *inputItem) error {
	item.admitted = true
	if !in.terminal {
		return nil
	}
	mode, err := readDiscipline(in.file)
	if err != nil {
		return closedError("write")
	}
	item.mode = mode
	if item.answer && mode.on {
		return notTaken(item)
	}
	if _, fits := mode.after(in.unfinished, item.bytes); !fits {
		return &messages.Error{Code: messages.ErrLineTooLong, Op: "write",
			Detail: fmt.Sprintf("a line is longer than the %d bytes a terminal in line mode can hold; break it up, or run the program on pipes", MaxLine)}
	}
	return nil
}

// The reasons for a refusal. All children share them, so each caller gets a copy.
var (
	noInput = &messages.Error{Code: messages.ErrStdinClosed, Detail: "the process was started without input; start it with open input or on a terminal",
		Hint: "set OpenStdin or TTY"}
	inputOver = closedError("")
)

// refuse refuses further input.
func (in *input) refuse(why *messages.Error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.refusal = why
}

// close is called when the child takes no more input. A pipe is closed here, a terminal by its reader.
func (in *input) close() {
	in.refuse(inputOver)
	if in.file != nil && !in.terminal {
		_ = in.file.Close()
	}
}

// writeRest writes the rest of an item, until all of it is taken, the deadline is over, or it is discarded.
func (in *input) writeRest(item *inputItem) error {
	raw, err := in.file.SyscallConn()
	if err != nil {
		return closedError(item.op())
	}
	in.mu.Lock()
	if !item.discarded { // the goroutine that discards an item sets a deadline in the past, which must stay
		_ = in.file.SetWriteDeadline(item.deadline)
	}
	in.mu.Unlock()
	var failed error
	err = raw.Write(func(fd uintptr) (over bool) {
		over, failed = in.attempt(int(fd), item)
		return over
	})
	switch {
	case in.isDiscarded(item):
		return discardedError(item)
	case err == nil && failed == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return notTaken(item)
	case errors.Is(failed, syscall.EPIPE):
		return &messages.Error{Code: messages.ErrStdinClosed, Op: item.op(), Detail: "the process has closed its input; nothing can be written to it any more"}
	case err != nil, errors.Is(failed, syscall.EIO):
		return closedError(item.op())
	default:
		return &messages.Error{Code: messages.ErrRuntimeFailure, Op: item.op(), Detail: reason(failed)}
	}
}

// attempt writes the bytes that are taken without waiting, and reports whether it is over: all are taken, or an error came.
// The descriptor does not block, so each write can be made and counted under the lock. A goroutine that holds the lock knows
// how much has gone out, and that nothing goes out meanwhile.
func (in *input) attempt(fd int, item *inputItem) (over bool, err error) {
	for {
		n, err := in.writeOnce(fd, item)
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return false, nil
		case err != nil || n == 0:
			return true, err
		}
	}
}

// writeOnce writes once. It returns 0 if nothing is left to write.
func (in *input) writeOnce(fd int, item *inputItem) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if item.discarded || len(item.rest) == 0 {
		return 0, nil
	}
	n, kind, err := in.writeMarked(fd, item.rest)
	if n > 0 {
		item.rest = item.rest[n:]
		item.took(n, kind)
	}
	return n, err
}

func (in *input) isDiscarded(item *inputItem) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return item.discarded
}

func notTaken(item *inputItem) error {
	return &messages.Error{Code: messages.ErrInputNotTaken, Op: item.op(),
		Detail: fmt.Sprintf("the process took %d of %d bytes in time, and the rest was discarded; wait until it reads and write the rest again",
			item.taken, len(item.bytes)), Like: messages.LikeDeadlineExceeded}
}

// end ends the input: it closes a pipe, and sends the end-of-file character to a terminal in line mode.
func (in *input) end(item *inputItem) error {
	if !in.terminal {
		in.refuse(&messages.Error{Code: messages.ErrStdinClosed, Detail: "the input was closed; nothing can be written any more"})
		if err := in.file.Close(); err != nil {
			return closedError(item.op())
		}
		return nil
	}
	mode, err := readDiscipline(in.file)
	switch {
	case err != nil:
		return closedError(item.op())
	case !mode.on || mode.eof == 0:
		return &messages.Error{Code: messages.ErrUnsupported, Op: item.op(),
			Detail: "the terminal is in raw mode, where there is no end-of-file character; tell the program to end in its own language, or signal it"}
	}
	item.rest = []byte{mode.eof}
	if in.unfinished.quoted { // the line takes the first one literally
		item.rest = append(item.rest, mode.eof)
	}
	if in.unfinished.length > 0 || in.unfinished.quoted { // the next one only ends the unfinished line
		item.rest = append(item.rest, mode.eof)
	}
	in.unfinished = unfinished{}
	return in.writeRest(item)
}
