package birth

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lastSignal is SIGRTMAX; the C library's own two are among them.
const lastSignal = 64

var allSignals = func() (all []uint64) {
	for signal := range uint64(lastSignal) {
		all = append(all, signal+1)
	}
	return all
}()

// settled holds the signals that this process ignores, once they can no longer change. The kernel resets handled signals
// (CLONE_CLEAR_SIGHAND), so the newborn resets only these: a system call for every signal is a tenth of the whole birth.
var settled atomic.Pointer[[]uint64]

// SettleSignals promises that from now on this process will not begin to ignore any signal. It makes births cheaper.
func SettleSignals() {
	ignored := []uint64{}
	for _, signal := range allSignals {
		const ignore = 1     // SIG_IGN
		var action [4]uint64 // handler, flags, restorer or mask, mask
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(signal), 0, uintptr(unsafe.Pointer(&action)), wordSize, 0, 0)
		if errno != 0 || action[0] == ignore {
			ignored = append(ignored, signal)
		}
	}
	settled.Store(&ignored)
}

// unblocked calls do on a thread that accepts all signals. syscall.ForkExec gives the new process the signal mask of its thread, and
// the host may have been started with blocked signals.
func unblocked(do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.Sigset_t
	if unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, &before) == nil {
		defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	}
	do()
}
