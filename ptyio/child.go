package ptyio

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
)

// Spawner starts children. Implementations are safe for concurrent use.
type Spawner interface {
	// Spawn starts one child and returns once its program runs, or a *messages.Error and nothing left behind. It may
	// block for as long as the kernel needs to execute the program; ctx bounds the wait, and a child that comes to life
	// after ctx ended is ended again.
	//
	// Events may be delivered before Spawn returns. A runtime calls Spawn in a goroutine that does other things later: whoever
	// locks it to its thread must unlock it.
	Spawn(ctx context.Context, launch Launch) (Child, error)
	// Can says how much of a confinement a launch would get, or why Spawn would refuse it. So it is known before anybody is
	// asked about the launch. Nil is a launch without one, which is never refused. It does not block.
	Can(confinement *Confinement) (Assurance, error)
	// Close ends every tree this spawner started, waits for that, and refuses further spawns.
	Close() error
}

// Child is one started program with its bytes. All methods are safe for concurrent use and none blocks on the program.
// After the end (Closed and TreeEnded were delivered) they return errors that match messages.ErrClosed.
type Child interface {
	// PID is the kernel's pid of the leader. It stays the leader's until TreeEnded was delivered.
	PID() int

	// Write queues input and calls done exactly once, with the number of bytes the terminal or pipe took and the reason if
	// that is not all of them; until then input must not be changed. It calls done before it returns or later from another
	// goroutine; done must not block, and the caller must hold no lock that done takes.
	// Queued writes go out whole and in the order of the calls. At most MaxPendingInput bytes and MaxPendingWrites writes
	// wait; one over that is refused as a whole with messages.ErrInputFull. What is not taken by the deadline is discarded
	// with messages.ErrInputNotTaken; a zero deadline means none. A terminal in line mode is never sent a line longer than
	// MaxLine: messages.ErrLineTooLong, for the write as a whole.
	Write(input []byte, deadline time.Time, done func(taken int, err error))

	// CloseStdin ends the input, behind the writes queued so far: it closes a pipe, after which writes get
	// messages.ErrStdinClosed, and sends the end-of-file character to a terminal in line mode, which takes further input.
	// A terminal in raw mode has no end of input: messages.ErrUnsupported. done is called as by Write.
	CloseStdin(done func(error))

	// Resize sets the terminal's size and so sends SIGWINCH to its foreground group. On pipes: messages.ErrNotATerminal.
	Resize(messages.Size) error

	// Signal sends sig to the processes of the scope. It never reaches a process outside of the tree.
	Signal(sig syscall.Signal, scope Scope) error

	// EndTree starts to end the tree: SIGTERM (and, under a PTY, SIGHUP to those that ignore it), grace,
	// then SIGKILL until none is left. TreeEnded follows. A further call can only shorten the grace.
	EndTree(grace time.Duration)

	// Abandon is for an owner that can take no more events: output is thrown away from now on, unreleased credit is
	// forgotten, and the tree is killed without grace.
	Abandon()
}

// Scope says whom Child.Signal reaches.
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
	// MaxPendingInput bounds the bytes that wait in one child's input queue, and MaxPendingWrites their number.
	MaxPendingInput  = 1 << 20
	MaxPendingWrites = 1 << 12
	// MaxBatch is the size of the buffers output is read into.
	MaxBatch = 64 << 10
	// Credits is the number of batches of one child that may be unreleased, on pipes half of them for each stream; the
	// stream's reader then stops, and the kernel makes the child wait. So a child's unread output holds at most
	// Credits × MaxBatch bytes of the host.
	Credits = 4
	// DrainWait is how long after the leader's exit the reader, while it holds credit, waits for the end of the output
	// before it reports Drained without it.
	DrainWait = 50 * time.Millisecond
	// DefaultGrace lies between SIGTERM and SIGKILL where a launch names none.
	DefaultGrace = 500 * time.Millisecond
	// MaxInherited bounds the descriptors a launch may pass on, and MaxInheritedFD their numbers in the child.
	MaxInherited   = 32
	MaxInheritedFD = 255
)

// Launch is the concrete way to start a child. It is not changed by Spawn.
type Launch struct {
	// Argv is the program with its arguments. A program without a slash is looked up in the PATH of Env; one with a
	// slash is relative to Dir.
	Argv []string
	// Argv0, if not empty, is what the program sees as its own name instead of Argv[0].
	Argv0 string
	// Env is the child's exact environment.
	Env []string
	// Dir is the working directory; it must be absolute.
	Dir string
	// TTY runs the child on a pseudo-terminal of this Size; otherwise on pipes.
	TTY  bool
	Size messages.Size
	// OpenStdin gives a child on pipes a pipe for its input. Without it the input is the null device.
	OpenStdin bool
	// Inherit passes descriptors on, and only these. The files stay the caller's, but are put into blocking mode, which
	// programs expect and which both sides share; so a caller's own waiting read then costs a thread.
	Inherit []Inherited
	// OnLeaderExit and Grace say what becomes of background children. Zero values: EndTree, DefaultGrace.
	OnLeaderExit messages.OnLeaderExit
	Grace        time.Duration
	// Sandbox confines the child; nil does not. A spawner that cannot enforce it refuses the launch, with
	// messages.ErrUnsupported: it never leaves the sandbox away.
	Sandbox *Confinement
	// Events receives everything that happens to the child, from Spawned on. It is called from several goroutines, but
	// never for two events of one stream at once, and must not block. It may be called before Spawn returns.
	Events func(Event)
}

// Confinement is what a child is allowed.
type Confinement struct {
	Policy     messages.SandboxPolicy
	Additional *messages.AdditionalPermissions // more than the policy allows; nil for nothing
}

// Inherited is a descriptor the child gets under the number FD (3 to MaxInheritedFD).
type Inherited struct {
	FD   int
	File *os.File
}

// Event is what a child reports. Spawned comes first, before Spawn returns; then Output as it is read; Exited once;
// Drained after it, Closed after all Output, TreeEnded after Exited. Nothing comes after Closed and TreeEnded have come.
type Event interface{ event() }

// Spawned says that the child exists.
type Spawned struct{ Child Child }

// Output is a batch of bytes under credit. The receiver must call Release when it is done with Bytes, which are then
// reused.
type Output struct {
	Stream messages.Stream
	Bytes  []byte
	batch  *batch
}

// Release returns the buffer and the credit to the child. It must be called exactly once, from any goroutine.
func (o Output) Release() { o.batch.release() }

// Looked says that the receiver is done with the bytes, even if others will hold the batch for long. Of flooding children
// only some are looked at at once, so without it the others wait longer. It may be called once, before Release.
func (o Output) Looked() { o.batch.looked() }

// Discard makes Output a message that may be dropped: a dropped batch is released.
func (o Output) Discard() { o.batch.release() }

// Discard makes Spawned a message that may be dropped: a child nobody takes is ended.
func (s Spawned) Discard() { s.Child.Abandon() }

// Exited reports the leader's exit as the kernel told it. Lost is set, and Status is none, if the warden died and the
// kernel's word with it.
//
// Denial is set by a spawner that confines and knows from facts that the sandbox stopped the command.
type Exited struct {
	Status messages.ExitStatus
	Lost   error
	Denial *messages.Denial
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
