package wire

import (
	"os"

	"golang.org/x/sys/unix"
)

// Hold calls use with the descriptors of files, and keeps them open until use returns; a nil file is -1.
//
// A child's descriptors must be in blocking mode, or cat fails with EAGAIN. Go's own pipes and terminals are not, so Hold changes
// their mode, as os/exec does.
func Hold(files []*os.File, use func(fds []int) error) error {
	fds := make([]int, len(files))
	var next func(i int) error
	next = func(i int) error {
		if i == len(files) {
			return use(fds)
		}
		if files[i] == nil {
			fds[i] = -1
			return next(i + 1)
		}
		raw, err := files[i].SyscallConn()
		if err != nil {
			return err
		}
		var inner error
		err = raw.Control(func(fd uintptr) {
			fds[i] = int(fd)
			if inner = unix.SetNonblock(int(fd), false); inner == nil || inner == unix.EBADF { // an O_PATH descriptor has no mode
				inner = next(i + 1)
			}
		})
		if err != nil {
			return err
		}
		return inner
	}
	return next(0)
}
