package ptyio

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// signalKey is a key that the terminal turns into a signal.
type signalKey struct {
	signal   syscall.Signal
	discards bool // the terminal then throws away what was typed before and is not read yet
}

// SignalKey is Keyboard.SignalKey of a child whose calls return at once; other children know of no keys.
func SignalKey(c Child, key byte) (signals, discards bool) {
	if keyboard, ok := c.(Keyboard); ok && IsPrompt(c) {
		return keyboard.SignalKey(key)
	}
	return false, false
}

func (c *child) SignalKey(key byte) (signals, discards bool) {
	found, signals := c.input.signalKey([]byte{key})
	return signals, found.discards
}

// signalKey looks at what the terminal would make of input that is one key alone.
func (in *input) signalKey(p []byte) (key signalKey, is bool) {
	if !in.terminal || len(p) != 1 {
		return key, false
	}
	_ = control(in.file, func(fd int) error {
		state, err := unix.IoctlGetTermios(fd, getTermios)
		if err == nil {
			key, is = signalKeyOf(state, p[0])
		}
		return err
	})
	return key, is
}

func signalKeyOf(state *unix.Termios, b byte) (key signalKey, is bool) {
	if state.Lflag&unix.ISIG == 0 || b == noCharacter {
		return key, false
	}
	key.discards = state.Lflag&unix.NOFLSH == 0
	switch b {
	case state.Cc[unix.VINTR]:
		key.signal = syscall.SIGINT
	case state.Cc[unix.VQUIT]:
		key.signal = syscall.SIGQUIT
	case state.Cc[unix.VSUSP]:
		key.signal = syscall.SIGTSTP
	}
	return key, key.signal != 0
}

// overtake acts on a key that was typed behind input which nobody takes, as the terminal does when it comes to see one: what
// was typed before is discarded. Its writer is told before the signal, so that what the program says to that comes
// later. The lock is held, so that nothing goes out meanwhile, and released here.
func (in *input) overtake(item *inputItem, key signalKey) {
	var discarded []*inputItem
	if key.discards {
		discarded = in.discard()
	}
	in.mu.Unlock()
	for _, other := range discarded {
		other.done(other.taken, discardedError(other))
	}
	err := in.raise(key)
	if err == nil {
		item.taken = 1
	}
	item.done(item.taken, err)
}

// discard throws away what waits and what the terminal holds, and returns the items that are to be answered. The lock is held.
func (in *input) discard() []*inputItem {
	discarded := in.queue
	in.queue = nil
	for _, item := range discarded {
		in.pending -= len(item.bytes)
		item.stopExpiry()
	}
	if current := in.current; !current.discarded && len(current.rest) > 0 {
		discarded = append([]*inputItem{current}, discarded...)
		current.answered = true
	}
	in.current.discarded = true
	_ = in.file.SetWriteDeadline(past) // its goroutine goes on
	_ = control(in.file, func(fd int) error {
		discardUnread(fd)
		return nil
	})
	return discarded
}

// raise sends the signal of a key to the terminal's foreground.
func (in *input) raise(key signalKey) error {
	return controlError("write", control(in.file, func(fd int) error { return unix.IoctlSetInt(fd, unix.TIOCSIG, int(key.signal)) }))
}

// follow sees to a key that went to a terminal which holds input that is not read. The terminal looks at the key at once,
// and is empty then, unless it is full: then it would do so only when the program has read.
func (in *input) follow(item *inputItem, key signalKey) {
	var err error
	for range keyLooks {
		unread := in.unread()
		if unread == 0 || in.isDiscarded(item) {
			break
		}
		if len(item.rest) > 0 || unread+in.line.length > MaxLine-nearlyFull {
			err = in.press(item, key)
			break
		}
		<-time.After(keyPause) // the kernel brings input to the terminal a little later
	}
	if err == nil && len(item.rest) > 0 { // its end came, or another key's
		in.drain(item)
		return
	}
	next := in.next(item)
	item.report(err)
	in.drain(next)
}

const (
	// A key is looked after for keyLooks × keyPause at most.
	keyLooks = 20
	keyPause = time.Millisecond
	// nearlyFull is the room that may be left in a terminal which the kernel calls full (TTY_THRESHOLD_THROTTLE).
	nearlyFull = 128
)

// press does what the terminal does with a key that it sees.
func (in *input) press(item *inputItem, key signalKey) error {
	if key.discards {
		_ = control(in.file, func(fd int) error {
			discardUnread(fd)
			return nil
		})
	}
	err := in.raise(key)
	in.mu.Lock()
	defer in.mu.Unlock()
	if err == nil {
		item.rest, item.taken = nil, 1
	}
	return err
}

// unread is how much the child could read now, in line mode of whole lines.
func (in *input) unread() (n int) {
	_ = control(in.file, func(fd int) error {
		n = unreadInput(fd)
		return nil
	})
	return n
}

func discardedError(item *inputItem) error {
	return &messages.Error{Code: messages.ErrInputNotTaken, Op: item.op(),
		Detail: fmt.Sprintf("the process had taken %d of %d bytes when a key interrupted it; the rest was discarded", item.taken, len(item.bytes)),
		Hint:   "write the rest again if it is still wanted"}
}
