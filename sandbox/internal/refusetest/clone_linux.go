// Package refusetest gives tests a kernel that refuses to start into shared memory, as user-mode emulators do. It does not need
// root.
//
//	err := refusetest.Clone(refusetest.EveryThread)
package refusetest

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Whose clones are refused from now on.
const (
	ThisThread  = 0
	EveryThread = 1 // SECCOMP_FILTER_FLAG_TSYNC
)

// Clone lets no clone share memory unless it makes a thread or waits for the child as vfork does. It cannot be undone. An error is
// the kernel's: it has no seccomp.
func Clone(who uintptr) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLONE3, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLONE, Jf: 4},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_THREAD},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.CLONE_VM, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if os.Geteuid() != 0 {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, who, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}
