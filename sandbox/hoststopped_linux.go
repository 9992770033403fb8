package sandbox

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/tree"
)

// A command may stop the warden: both belong to the same user. The kernel continues the warden for every message of the
// host, but not for the exit of a child. So the host tends the warden while it has leaders.

// maxStops is how many looks in a row may find the warden stopped. After that, a command is stopping it again and again, and
// the warden is treated as dead.
const maxStops = 5

// tendLater makes sure that the warden is looked at while it has leaders. It is called with p.mu held.
func (p *wardenProcess) tendLater() {
	if !p.tended {
		p.tended, p.stops = true, 0
		time.AfterFunc(p.options.waits().tend, p.tend)
	}
}

// tend continues the warden, kills a newborn that hangs, and kills the warden itself if it still does not work.
func (p *wardenProcess) tend() {
	p.tendFork()
	stopped := hasStopped(p.pidfd)
	p.mu.Lock()
	p.tended = !p.dead && len(p.leaders) > 0
	again := p.tended
	if stopped {
		p.stops++
	} else {
		p.stops = 0
	}
	hopeless := p.stops >= maxStops
	p.mu.Unlock()
	switch {
	case hopeless:
		p.signal(unix.SIGKILL)
	case again:
		p.signal(unix.SIGCONT)
		time.AfterFunc(p.options.waits().tend, p.tend)
	}
}

// hasStopped reports whether a child was stopped since the last call and still is.
func hasStopped(pidfd *os.File) (stopped bool) {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PIDFD, int(fd), &info, unix.WSTOPPED|unix.WNOHANG, nil)
		stopped = err == nil && info.Signo == int32(syscall.SIGCHLD)
	})
	return stopped
}

// signal must not hit a stranger, even from a late timer. A dead warden keeps its number until it is reaped. So if pidfds
// are refused, nothing is sent once it may have been reaped.
func (p *wardenProcess) signal(sig unix.Signal) {
	if !tree.Pidfds() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.reaped {
			_ = unix.Kill(p.pid, sig)
		}
		return
	}
	if raw, err := p.pidfd.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
	}
}
