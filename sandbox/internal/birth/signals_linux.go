package birth

import (
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

// settled are the signals that this process ignores, if that is known for good. The kernel resets those that are handled
// (CLONE_CLEAR_SIGHAND), and only these are left for the newborn: a system call for each signal is a tenth of the whole birth.
var settled atomic.Pointer[[]uint64]

// SettleSignals says that from now on this process begins to ignore no signal. It makes births cheaper.
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
