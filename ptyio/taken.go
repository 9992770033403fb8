package ptyio

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// Taken is what a terminal or a pipe took of a write.
type Taken struct {
	Bytes int
	// Runs divides these bytes, in their sequence, by the mode that the terminal was in when it took them; messages.InputSecret marks what
	// must not be kept. A child that does not know the mode leaves it out, or leaves out the rest.
	Runs []messages.InputRun
}

// whole is what was taken of an item that is no longer under way.
func (item *inputItem) whole() Taken { return Taken{Bytes: item.taken, Runs: item.runs} }

// took counts bytes that were taken.
func (item *inputItem) took(n int, kind messages.InputKind) {
	item.taken += n
	item.runs = messages.AppendInputRun(item.runs, messages.InputRun{Kind: kind, Bytes: n})
}

// tookKey counts the one key of an item, which was made a signal.
func (item *inputItem) tookKey(in *input) {
	kind := messages.InputSecret
	_ = control(in.file, func(fd int) error {
		kind = in.kind(fd)
		return nil
	})
	item.took(1, kind)
}

// kind tells the kind of what is written now. Of a terminal that cannot be asked nothing may be kept.
func (in *input) kind(fd int) messages.InputKind {
	if !in.terminal {
		return messages.InputPipe
	}
	kind, err := kindOf(fd)
	if err != nil {
		return messages.InputSecret
	}
	return kind
}

// writeMarked writes, and tells the kind of what was taken. A program may change the mode at any time, so it is looked at before and after,
// and the stricter kind counts. A terminal shows a line or not when it handles it, which is a little after the write, or much later if the
// program has not read what came before. Of what it has not handled nobody knows.
func (in *input) writeMarked(fd int, p []byte) (n int, kind messages.InputKind, err error) {
	before, handled := in.kind(fd), false
	if before == messages.InputLine {
		n, handled, err = writeLines(fd, p, in.onTheWay)
	} else {
		n, err = syscall.Write(fd, p)
	}
	if in.onTheWay += max(n, 0); handled {
		in.onTheWay = 0
	}
	kind = messages.StricterInput(before, in.kind(fd))
	if kind == messages.InputLine && !handled {
		kind = messages.InputUnknown
	}
	return n, kind, err
}

// kindOf tells the kind of input from the modes of a terminal, which the master shares with the slave.
func kindOf(fd int) (messages.InputKind, error) {
	mode, err := unix.IoctlGetTermios(fd, getTermios)
	switch {
	case err != nil:
		return "", err
	case mode.Lflag&unix.ICANON == 0:
		return messages.InputKeys, nil
	case mode.Lflag&unix.ECHO == 0:
		return messages.InputSecret, nil
	}
	return messages.InputLine, nil
}
