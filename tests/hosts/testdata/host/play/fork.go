package play

import (
	"os"
	"syscall"
	"unsafe"
)

// fork makes a copy of this program, as C programs do: it has every descriptor but its output, which
// somebody waits for, and sleeps until it is killed.
//
//go:norace
func fork() uintptr {
	long := syscall.Timespec{Sec: 1000}
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		must(os.NewSyscallError("clone", errno))
	}
	if pid == 0 { // the child has one thread, which must not allocate, grow its stack or enter the scheduler
		_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, 1, 0, 0)
		_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, 2, 0, 0)
		_, _, _ = syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&long)), 0, 0)
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return pid
}
