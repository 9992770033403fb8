package tree

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// childInfo is the kernel's siginfo_t as waitid fills it on 64-bit Linux; x/sys leaves these fields unnamed.
type childInfo struct {
	signo, errno, code, _ int32
	pid, uid, status      int32
	_                     [100]byte
}

// si_code values of waitid, from <asm-generic/siginfo.h>.
const (
	cldExited = 1
	cldKilled = 2
	cldDumped = 3
)

// AwaitExit waits on the poller, without a thread, until the process of the pidfd has exited, and leaves it a zombie.
func AwaitExit(pidfd *os.File) Status {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return Status{}
	}
	var status Status
	err = raw.Read(func(fd uintptr) (over bool) {
		status, over = exited(int(fd))
		return over
	})
	if err != nil {
		return Status{}
	}
	return status
}

// exited returns how the process of a pidfd has exited, if it has. The Status is zero if that is not known. The process
// stays a zombie.
func exited(fd int) (status Status, over bool) {
	var info childInfo
	for {
		_, _, errno := unix.Syscall6(unix.SYS_WAITID, unix.P_PIDFD, uintptr(fd), uintptr(unsafe.Pointer(&info)),
			unix.WEXITED|unix.WNOWAIT|unix.WNOHANG|unix.WALL, 0, 0)
		switch {
		case errno == unix.EINTR:
		case errno != 0:
			return Status{}, true
		case info.pid == 0:
			return Status{}, false
		case info.code == cldExited:
			return Status{Exited, int(info.status)}, true
		default:
			return Status{Signaled, int(info.status)}, true
		}
	}
}

// AwaitEnd waits until the process of the pidfd, which need not be a child, has ended. It returns false if the file is closed
// or its deadline passes first.
func AwaitEnd(pidfd *os.File) (ended bool) {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			if err != unix.EINTR {
				ended = n > 0
				return ended || err != nil
			}
		}
	})
	return err == nil && ended
}
