package birth

import (
	"errors"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Child is a process that has been born and may not have executed its program yet.
type Child struct {
	PID   int
	PIDFD int // close-on-exec; the caller's
	steps made
	block *block // nil after syscall.ForkExec
	// inner is set if this is the first process of new namespaces. Release clears it.
	inner *processes
	pin   runtime.Pinner
}

// lookAgain is how often a wait checks whether the child has died. Before Linux 5.17 the kernel does not clear the word of a
// process that dumps core.
const lookAgain = time.Second

// Start starts a process and waits until it has executed its program. After an error no process is left.
func Start(steps []Step) (pid, pidfd int, err error) {
	n, err := Begin(steps)
	if err != nil {
		return 0, -1, err
	}
	if err := n.Wait(); err != nil {
		_ = unix.Close(n.PIDFD)
		n.Reap()
		n.Release()
		return 0, -1, err
	}
	n.Release()
	return n.PID, n.PIDFD, nil
}

// Begin starts a process on this thread. A parent-death signal refers to this thread. Wait and Release must follow.
func Begin(steps []Step) (*Child, error) {
	if len(steps) == 0 {
		return nil, &Error{Step: "execve", Errno: unix.EINVAL}
	}
	n := &Child{PIDFD: -1, steps: complete(steps)}
	pid, errno := n.clone()
	if errno == 0 {
		n.PID, n.PIDFD = int(pid), Aside(int(int32(n.block.header().pidfd)))
		return n, nil
	}
	var err error = &Error{Step: "clone", Errno: unix.Errno(errno)}
	if refusal(err) == nil {
		return nil, err
	}
	unblocked(func() { n.PID, n.PIDFD, err = forkExec(steps) })
	if err != nil {
		return nil, err
	}
	return n, nil
}

// clone makes the call.
func (n *Child) clone() (pid, errno uintptr) {
	s := lay(n.steps)
	h := s.header()
	n.pin.Pin(h)
	syscall.ForkLock.Lock() // a descriptor that another thread is making may not be close-on-exec yet
	pid, errno = clone(h)
	syscall.ForkLock.Unlock()
	if errno != 0 {
		n.pin.Unpin()
		return 0, errno
	}
	n.block = s
	return pid, 0
}

// Plain reports whether syscall.ForkExec started the process, without the steps that it leaves out.
func (n *Child) Plain() bool { return n.block == nil }

// Prompt waits until the child has executed its program or died, but at most this long. Wait must follow. Of one that dumps core
// Prompt does not know that it has died before Linux 5.17.
func (n *Child) Prompt(most time.Duration) (over bool) {
	return n.Plain() || n.await(time.Now().Add(most))
}

// Over reports whether the child is known to have executed its program or died. It waits for nothing, and may be called while
// another goroutine waits, but not after Release. Of what was not born by a plain clone it knows nothing.
func (n *Child) Over() bool {
	return n.block != nil && n.inner == nil && atomic.LoadUint32((*uint32)(unsafe.Pointer(&n.block.header().alive))) == 0
}

// Wait waits until the child has executed its program. After an error the child has ended and must be reaped. Wait is
// called once, by one goroutine.
func (n *Child) Wait() error {
	if n.Plain() {
		return nil
	}
	for !n.await(time.Now().Add(lookAgain)) {
		if n.Died() {
			break
		}
	}
	err := n.outcome()
	n.pin.Unpin()
	return err
}

// Step names the current step, or the last one made. It may be called while another goroutine waits.
func (n *Child) Step() string {
	if n.Plain() {
		return ""
	}
	if n.inner != nil {
		names, at := n.namespacedStep()
		return names[at].title()
	}
	return n.steps.name(n.block.now())
}

// Word returns a word of a memory. It may be called once the child has executed its program, or has ended, until Release.
func (n *Child) Word(m *Memory, index int) uint64 {
	return load(&n.block.words[n.block.known[m]/wordSize+index])
}

// Kill kills a child, or the program that it has executed, as long as it has not been reaped.
func (n *Child) Kill() error {
	if unix.PidfdSendSignal(n.PIDFD, unix.SIGKILL, nil, 0) == nil {
		return nil
	}
	return unix.Kill(n.PID, unix.SIGKILL) // containers may deny pidfds
}

// Reap removes the process, which must have ended.
func (n *Child) Reap() { bury(n.PID) }

// await waits for the kernel to clear the word.
func (n *Child) await(until time.Time) (cleared bool) {
	const wait = 0 // FUTEX_WAIT; the kernel does not wake private ones
	alive := (*uint32)(unsafe.Pointer(&n.block.header().alive))
	for atomic.LoadUint32(alive) != 0 {
		left := time.Until(until)
		if left <= 0 {
			return false
		}
		timeout := unix.NsecToTimespec(left.Nanoseconds())
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(alive)), wait, 1, uintptr(unsafe.Pointer(&timeout)), 0, 0)
	}
	return true
}

// outcome is called when the child no longer uses the launch block. A child that has not executed has no exit signal, so waiting
// for it needs __WALL.
func (n *Child) outcome() error {
	if n.inner != nil {
		return n.namespacedOutcome()
	}
	errno := unix.Errno(load(&n.block.header().errno))
	if errno == 0 && waitFor(n.PIDFD, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG) != unix.ECHILD {
		return nil
	}
	for waitFor(n.PIDFD, unix.WEXITED|unix.WNOWAIT|unix.WALL) == unix.EINTR {
	}
	at := n.block.now()
	return &Error{Step: n.steps.name(at), Index: n.steps.index(at), Errno: errno}
}

// Died reports whether the child has ended.
func (n *Child) Died() bool {
	var fds = []unix.PollFd{{Fd: int32(n.PIDFD), Events: unix.POLLIN}}
	count, err := unix.Poll(fds, 0)
	return err == nil && count > 0
}

func waitFor(pidfd, options int) error {
	err := unix.Waitid(unix.P_PIDFD, pidfd, nil, options, nil)
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return errno
	}
	return nil
}

// load reads what a child may be writing.
func load(word *uint64) uint64 { return atomic.LoadUint64(word) }

// name names the step with this index in the completed list; a negative index is that of a signal.
func (m made) name(at int) string {
	if at < 0 {
		return "reset signals"
	}
	return m.steps[min(at, len(m.steps)-1)].title()
}

// index returns the step's index in the caller's list, or that of the caller's step that would have followed.
func (m made) index(at int) int { return min(max(at, 0), m.last) }
