package tree

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Watch reports the leader's exit, makes sure that the tree ends, and reports that end. It must be called once, right after
// Executed, in a goroutine of its own.
func (t *Tree) Watch() {
	_ = syscall.SetNonblock(t.fd, true)
	t.pidfd = os.NewFile(uintptr(t.fd), "pidfd")
	if t.isolated != nil {
		t.watchIsolated()
		return
	}
	status := AwaitExit(t.pidfd)
	_ = t.pidfd.Close()
	close(t.exited)
	t.spec.Exited(status)
	t.afterReport()
}

// PIDFD is ready when the leader has exited. It is open until Executed has failed or Watch or Exit was called.
func (t *Tree) PIDFD() int { return t.fd }

// Exit does the same as Watch for a leader whose PIDFD is ready, and returns soon. The tree must not be isolated.
func (t *Tree) Exit() {
	status, _ := exited(t.fd)
	_ = unix.Close(t.fd)
	close(t.exited)
	if !t.overNow(status) {
		t.spec.Exited(status)
		go t.afterReport()
	}
}

// afterReport makes sure that the tree ends once the exit is reported.
func (t *Tree) afterReport() {
	runtime.Gosched() // goroutines that wait for the exit go first; the walk takes a while
	t.bury()
	t.endRest()
}

// endRest makes sure that what the leader has left behind ends, too, and reports the end of the tree.
func (t *Tree) endRest() {
	if t.deserted() {
		close(t.counted)
		if t.claim(time.Time{}) {
			t.report(nil)
		}
		return
	}
	if left := len(t.others()); left > 0 {
		t.spec.Left(left)
	}
	close(t.counted)
	if t.spec.Keep {
		t.keep()
	} else {
		t.awaitEmpty(time.Now().Add(settle))
	}
	t.End(t.spec.Grace)
}
