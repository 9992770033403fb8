package ptyio

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// signalKey is a key that the terminal turns into a signal.
type signalKey struct {
	signal   syscall.Signal
	discards bool // the terminal also throws away unread input that was typed before it
}

// SignalKey calls Keyboard.SignalKey of a child whose calls return at once. For other children no key is a signal key.
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

// signalKey reports whether the input is a single key that the terminal would turn into a signal.
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

// overtake handles a key that is queued behind input the child does not read. It does what the terminal would do at the key:
// it discards the earlier input. The writers of that input learn of it before the signal is sent, and so before they see the
// program's reaction. The caller holds the lock, so that nothing goes out meanwhile; overtake releases it.
func (in *input) overtake(item *inputItem, key signalKey) {
	var discarded []*inputItem
	if key.discards {
		discarded = in.discard()
	}
	in.mu.Unlock()
	for _, other := range discarded {
		other.done(other.whole(), discardedError(other))
	}
	err := in.raise(key)
	if err == nil {
		item.tookKey(in)
	}
	item.done(item.whole(), err)
}

// discard drops the queued input and the input that the terminal holds. It returns the items that need an answer. The caller
// holds the lock.
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
	_ = in.file.SetWriteDeadline(past) // wakes the goroutine of the item
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

// nearlyFull is how many bytes a terminal that the kernel calls full may still take (TTY_THRESHOLD_THROTTLE).
const nearlyFull = 128

// waits reports whether a key would find input in the terminal that the program has not read: a full terminal would handle the key
// only after that, and the kernel may take long to pass the key on. A terminal without such input handles it at once.
func (in *input) waits(key signalKey) bool {
	unread := in.unread()
	return unread > 0 && (key.discards || unread+in.unfinished.length > MaxLine-nearlyFull)
}

// press has the effect that the key has when the terminal handles it.
func (in *input) press(item *inputItem, key signalKey) error {
	if key.discards {
		_ = control(in.file, func(fd int) error {
			discardUnread(fd)
			return nil
		})
	}
	err := in.raise(key)
	if err == nil {
		in.mu.Lock()
		item.rest = nil
		item.tookKey(in)
		in.mu.Unlock()
	}
	return err
}

// unread is the number of bytes that the child could read now. In line mode only whole lines count.
func (in *input) unread() (n int) {
	look := unreadPipe
	if in.terminal {
		look = unreadInput
	}
	_ = control(in.file, func(fd int) error {
		n = look(fd)
		return nil
	})
	return n
}

func discardedError(item *inputItem) error {
	return &messages.Error{Code: messages.ErrInputNotTaken, Op: item.op(),
		Detail: fmt.Sprintf("the process had taken %d of %d bytes when a key interrupted it; the rest was discarded", item.taken, len(item.bytes)),
		Hint:   "write the rest again if it is still wanted"}
}
