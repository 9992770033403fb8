package birth

import (
	"runtime"

	"golang.org/x/sys/unix"
)

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
