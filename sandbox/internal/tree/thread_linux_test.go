package tree

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/procs"
)

// onAnotherThread calls do on a thread that is not the first of the process, and ends it.
func onAnotherThread(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			do()
			return
		}
		defer runtime.UnlockOSThread()
		onAnotherThread(do)
	}()
	<-done
}

func TestEachThreadHasItsOwnList(t *testing.T) {
	if !procs.HasChildrenFiles() {
		t.Skip("the kernel has no lists of children")
	}
	onAnotherThread(func() {
		command := exec.Command("sleep", "1000")
		if err := command.Start(); err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = command.Process.Kill(); _ = command.Wait() }()
		lists := func(thread int) bool {
			pids, err := newChildList(thread).list()
			if err != nil {
				t.Error(err)
			}
			return slices.Contains(pids, command.Process.Pid)
		}
		if !lists(unix.Gettid()) {
			t.Error("a child is not listed")
		}
		if lists(os.Getpid()) {
			t.Error("a child of another thread is listed with those of the first")
		}
	})
}
