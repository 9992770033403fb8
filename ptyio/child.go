package ptyio

import (
	"context"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
)

// Spawner starts children. Implementations are safe for concurrent use.
type Spawner interface {
	// Spawn starts one child and returns once its program runs. If it fails, it returns a *messages.Error and leaves nothing
	// behind. It may block for as long as the kernel needs to execute the program. ctx bounds the wait. A child that starts
	// after ctx has ended is ended at once.
	//
	// Events may be delivered before Spawn returns. A runtime calls Spawn in a goroutine that does other things later: if Spawn
	// locks the goroutine to its thread, it must unlock it.
	Spawn(ctx context.Context, launch Launch) (Child, error)
	// Resolver returns the resolver for the machine on which the children run. Every call returns the same one. It is valid as
	// long as the spawner.
	Resolver() Resolver
	// Enclose looks up, once, where the paths of a confinement lead. It may block for as long as their file system does. ctx
	// bounds the wait.
	Enclose(ctx context.Context, confinement Confinement) (Enclosure, error)
	// Can says what would be enforced for a launch, or why Spawn would refuse it. The runtime can then tell a person before
	// they approve the launch. Can looks only at Sandbox, Limits, Executions and Argv0, and does not block.
	Can(launch Launch) (messages.Enforcement, error)
	// Close ends every tree that this spawner started, waits until they have ended, and refuses further spawns.
	Close() error
}

// Child is one started program with its bytes. All methods are safe for concurrent use, and none blocks on the program.
// After the end, when Closed and TreeEnded have been delivered, they return errors that match messages.ErrClosed.
type Child interface {
	// PID is the kernel's pid of the leader. The kernel does not reuse it before TreeEnded has been delivered.
	PID() int

	// Write queues input and calls done exactly once, with what the terminal or pipe took, and in which mode, and an error if
	// it did not take all bytes. The caller must not change input before that. Write calls done before it returns, or later
	// from another goroutine. done must not block, and the caller must hold no lock that done takes.
	//
	// Queued writes go out whole and in the order of the calls. At most MaxPendingInput bytes and MaxPendingWrites writes wait;
	// a write beyond that is refused as a whole with messages.ErrInputFull. Bytes that are not taken by the deadline are
	// discarded with messages.ErrInputNotTaken; a zero deadline means none. A write that would make a line longer than MaxLine
	// in a terminal in line mode is refused as a whole with messages.ErrLineTooLong.
	//
	// Write returns a function that says how many bytes of this write have been taken so far. The function may be called at any
	// time and from any goroutine, and returns at once. A child of another spawner may return nil.
	//
	// A key that the terminal turns into a signal (by default Ctrl-C, Ctrl-\ and Ctrl-Z), written alone, acts at once, even if
	// other writes wait or the terminal is full. If the terminal would discard the input typed before the key, the waiting
	// writes fail with messages.ErrInputNotTaken, and the input that the terminal holds is lost, too.
	Write(input []byte, deadline time.Time, done func(taken Taken, err error)) (taken func() int)

	// CloseStdin ends the input after the writes queued so far. It closes a pipe; later writes get messages.ErrStdinClosed. To
	// a terminal in line mode it sends the end-of-file character; the terminal still takes further input. A terminal in raw
	// mode has no end of input, and the error is messages.ErrUnsupported. CloseStdin calls done as Write does.
	CloseStdin(done func(error))

	// Resize sets the size of the terminal, which sends SIGWINCH to its foreground group. On pipes the error is
	// messages.ErrNotATerminal.
	Resize(messages.Size) error

	// Signal sends sig to the processes of the scope. It never reaches a process outside of the tree.
	Signal(sig syscall.Signal, scope Scope) error

	// EndTree starts to end the tree: SIGTERM (and, under a PTY, SIGHUP to those that ignore it), grace,
	// then SIGKILL until none is left. TreeEnded follows. A further call can only shorten the grace.
	EndTree(grace time.Duration)

	// Abandon is for an owner that takes no more events. It discards further output, drops all credit that is not released yet,
	// and kills the tree without grace.
	Abandon()
}

// Prompt marks code that can be called without precautions. A Child (or Leader) with this method promises that its calls
// return at once and do not panic. A Spawner with it promises that its Spawn returns soon after its context has ended, and
// does not panic. Other implementations are called in goroutines of their own, and every wait for them has a bound.
type Prompt interface{ Prompt() }

// Keyboard is a Child that knows which keys its terminal turns into signals.
type Keyboard interface {
	// SignalKey reports whether the terminal would turn a key that is typed now into a signal, and whether it would then
	// discard what was typed before and is not read yet.
	SignalKey(key byte) (signals, discards bool)
}

// IsPrompt reports whether the calls to a child return at once. For a child of this package they do if its Leader is a
// Prompt, for any other if it has the method itself.
func IsPrompt(c Child) bool {
	var maker any = c
	if own, ok := c.(*child); ok {
		maker = own.leader
	}
	_, prompt := maker.(Prompt)
	return prompt
}

// Scope says which processes Child.Signal reaches.
type Scope int

// The scopes.
const (
	// Foreground is the terminal's foreground process group; on pipes it is the leader's process group.
	Foreground Scope = iota
	// Tree is every process of the tree.
	Tree
)

// Limits.
const (
	// MaxPendingInput bounds the bytes that wait in one child's input queue, and MaxPendingWrites the writes.
	MaxPendingInput  = 1 << 20
	MaxPendingWrites = 1 << 12
	// MaxBatch is the size of the buffers output is read into.
	MaxBatch = 64 << 10
	// Credits is the number of batches of one child that may be unreleased; two pipes have half of them each. When they are
	// used up, the stream is not read, and the kernel makes the child wait. So a child's unread output takes at most Credits ×
	// MaxBatch bytes of the host.
	Credits = 4
	// DrainWait is how long after the leader's exit the reader waits for the end of the output, while it holds credit. Then it
	// reports Drained without that end.
	DrainWait = 50 * time.Millisecond
	// DefaultGrace is the time between SIGTERM and SIGKILL if a launch does not set it.
	DefaultGrace = 500 * time.Millisecond
	// MaxInherited bounds the number of descriptors that a launch may pass on, and MaxInheritedFD their numbers in the child.
	MaxInherited   = 32
	MaxInheritedFD = 255
)
