package warden

import (
	"os"
	"os/signal"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/tree"
)

// reapPause is the time between two searches for dead orphans. They are zombies until the next search.
const reapPause = 100 * time.Millisecond

// reap reaps dead orphans. Between two searches the kernel drops the signal of a dead child. Otherwise each exit would interrupt the
// thread that reports it.
func reap(forest *tree.Forest) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	handled, err := setAction(unix.SIGCHLD, nil)
	for {
		forest.ReapOrphans()
		<-died
		if err == nil {
			_, _ = setAction(unix.SIGCHLD, &action{}) // the default: the child stays a zombie
		}
		<-time.After(reapPause)
		if err == nil {
			_, _ = setAction(unix.SIGCHLD, &handled)
		}
	}
}

// action is the kernel's struct sigaction: a handler, flags, and more.
type action [4]uint64

// setAction changes what happens on a signal, and returns what happened before. Nil changes nothing. Package os/signal can give a
// signal a handler, but not take it away.
func setAction(number syscall.Signal, next *action) (before action, err error) {
	const maskSize = 8
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(number), uintptr(unsafe.Pointer(next)),
		uintptr(unsafe.Pointer(&before)), maskSize, 0, 0)
	if errno != 0 {
		return before, errno
	}
	return before, nil
}
