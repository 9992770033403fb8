package ptyio

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/execbus/execbus/messages"
)

// put writes the rest of an item, until all of it is taken, the deadline is over, or it is discarded.
func (in *input) put(item *inputItem) error {
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
	n, err := syscall.Write(fd, item.rest)
	if n > 0 {
		item.rest = item.rest[n:]
		item.taken += n
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
	mode, err := readLineMode(in.file)
	switch {
	case err != nil:
		return closedError(item.op())
	case !mode.on || mode.eof == 0:
		return &messages.Error{Code: messages.ErrUnsupported, Op: item.op(),
			Detail: "the terminal is in raw mode, where there is no end-of-file character; tell the program to end in its own language, or signal it"}
	}
	item.rest = []byte{mode.eof}
	if in.line.quoted { // the line takes the first one literally
		item.rest = append(item.rest, mode.eof)
	}
	if in.line.length > 0 || in.line.quoted { // the next one only ends the unfinished line
		item.rest = append(item.rest, mode.eof)
	}
	in.line = line{}
	return in.put(item)
}
