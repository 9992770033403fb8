package procs

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Pidfds reports whether this process may open pidfds and send signals through them. Seccomp profiles of containers may
// deny either.
var Pidfds = sync.OnceValue(func() bool {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.PidfdSendSignal(fd, 0, nil, 0) == nil
})

// Send delivers sig to exactly the process from which p was read. It returns unix.ESRCH if that process is gone.
func Send(p Process, sig unix.Signal) error {
	switch {
	case Scarce(p.Hidden):
		return p.Hidden
	case p.Hidden != nil:
		return unix.EPERM
	case !Pidfds():
		return sendByNumber(p, sig)
	}
	return SignalBy(p.PID, p, sig, 0)
}

// SignalBy signals by a pidfd of a process: that one, or the group that it leads. In either case that is p, or where p is.
func SignalBy(pid int, p Process, sig unix.Signal, flags int) error {
	once := func() error {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		now, err := readProcessBy(readOnce, p.PID)
		if Scarce(err) {
			return err
		}
		if err != nil || now.Start != p.Start || flags == unix.PIDFD_SIGNAL_PROCESS_GROUP && now.Group != pid {
			return unix.ESRCH
		}
		return unix.PidfdSendSignal(fd, sig, nil, flags)
	}
	return Spare.use(once(), once)
}

// Open returns a pidfd of exactly the process from which p was read, to wait for its end; nil if there is none.
func Open(p Process) *os.File {
	if p.Hidden != nil || !Pidfds() {
		return nil
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return nil
	}
	now, err := Read(p.PID)
	if err != nil || now.Start != p.Start || unix.SetNonblock(fd, true) != nil {
		_ = unix.Close(fd)
		return nil
	}
	return os.NewFile(uintptr(fd), "pidfd")
}

// sendByNumber is for a kernel that refuses pidfds. A leader and an orphan keep their numbers until this process reaps them. Any
// other number could pass to a stranger between the check and the signal, if the kernel gives out all numbers within that moment.
// So reports claim less where pidfds are refused.
func sendByNumber(p Process, sig unix.Signal) error {
	now, err := Read(p.PID)
	if err != nil || now.Start != p.Start {
		return unix.ESRCH
	}
	return unix.Kill(p.PID, sig)
}
