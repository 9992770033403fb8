package spool

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openNameless makes a file that never has a name; nil where the file system cannot. O_EXCL says that it cannot get one later.
func openNameless(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EINVAL):
		return nil, nil
	case err != nil:
		return nil, &os.PathError{Op: "create a file in", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}
