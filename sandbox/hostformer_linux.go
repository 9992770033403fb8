package sandbox

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/tree"
	"github.com/execbus/execbus/sandbox/internal/warden"
)

// reapFormer reaps the wardens of the program that this process was before it executed another. Their socket was closed by
// the execution, so they end, and only this process can reap them. It must be called before this program starts a warden.
var reapFormer = sync.OnceFunc(func() {
	for _, pid := range tree.Children(warden.Name) {
		go func() {
			fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
			if err != nil {
				return
			}
			file := os.NewFile(uintptr(fd), "pidfd")
			defer file.Close()
			if tree.AwaitEnd(file) {
				_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			}
		}()
	}
})
