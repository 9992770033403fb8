package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// locked is a file that only this process writes.
type locked struct {
	*os.File
	path string
	info fs.FileInfo
}

// openFile opens a file of this user alone, or makes it, and locks it. The end of the process gives the lock back.
func openFile(path string) (disk, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, refused(path, reason(err))
	}
	l := &locked{File: file, path: path}
	if err := l.take(); err != nil {
		_ = file.Close()
		return nil, err
	}
	return l, nil
}

func (l *locked) take() error {
	info, err := l.Stat()
	if err != nil {
		return refused(l.path, reason(err))
	}
	l.info = info
	is := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return refused(l.path, "it is no regular file; name another")
	case int(is.Uid) != os.Geteuid():
		return refused(l.path, "it belongs to another user; name a file of your own")
	case info.Mode().Perm()&0o077 != 0:
		return refused(l.path, "other users may use it; change that with: chmod 600 "+l.path)
	case is.Nlink != 1:
		return refused(l.path, "it has another name, too, through which it could be changed; move it away")
	}
	switch err := unix.Flock(int(l.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return refused(l.path, "another program writes it; name another file, or wait until that program has ended")
	case err != nil:
		return refused(l.path, fmt.Sprintf("it cannot be locked: %v; name a file on another file system", err))
	}
	return l.Gone() // the program that had the lock may have moved it
}

// Size implements disk.
func (l *locked) Size() (int64, error) {
	info, err := l.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Gone implements disk.
func (l *locked) Gone() error {
	info, err := os.Lstat(l.path)
	if err == nil && os.SameFile(info, l.info) {
		return nil
	}
	return refused(l.path, "the file was moved, removed or replaced; put it back")
}

// Writing reports whether a host writes a log now.
func Writing(path string) bool {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	return errors.Is(unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

func refused(path, why string) error {
	return &messages.Error{Code: messages.ErrAuditFailed, Op: "audit", Subject: path, Detail: why}
}

func reason(err error) string {
	if known, is := errors.AsType[*fs.PathError](err); is {
		if errors.Is(known.Err, syscall.ELOOP) {
			return "it is a symbolic link; name the file itself"
		}
		return known.Err.Error()
	}
	return err.Error()
}
