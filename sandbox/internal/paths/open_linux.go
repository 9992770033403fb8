package paths

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// identity identifies the file that a path led to.
type identity struct{ device, inode uint64 }

func identify(info os.FileInfo) identity {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return identity{stat.Dev, stat.Ino}
	}
	return identity{}
}

// opened is the file that a path leads to.
type opened struct {
	path string // absolute, without symbolic links
	identity
	directory, socket bool
	file              *os.File
}

func (o opened) close() { _ = o.file.Close() }

// openPath follows a path to its end.
func openPath(path string) (opened, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	for err == unix.EINTR {
		fd, err = unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return opened{}, err
	}
	o := opened{file: os.NewFile(uintptr(fd), path)}
	var stat unix.Stat_t
	if err = unix.Fstat(fd, &stat); err == nil {
		o.path, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	}
	if err != nil {
		o.close()
		return opened{}, err
	}
	o.identity = identity{stat.Dev, stat.Ino}
	o.directory, o.socket = stat.Mode&unix.S_IFMT == unix.S_IFDIR, stat.Mode&unix.S_IFMT == unix.S_IFSOCK
	return o, nil
}

func duplicate(file *os.File) (*os.File, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var failed error
	err = raw.Control(func(from uintptr) { fd, failed = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0) })
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}
