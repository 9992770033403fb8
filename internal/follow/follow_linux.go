package follow

import (
	"os"
	"path"

	"golang.org/x/sys/unix"
)

const only = unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW

// Path follows an absolute path. Names at its end may be missing. It may block for as long as the file systems do.
func Path(name string) (End, error) {
	w, err := begin(name)
	if err != nil {
		return End{}, err
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	if fd, err := unix.Openat2(unix.AT_FDCWD, name, &how); err == nil { // nearly always there are no links
		w.at = path.Clean(name)
		return w.finish(fd)
	}
	fd, err := open(unix.AT_FDCWD, "/", unix.O_DIRECTORY)
	if err != nil {
		return End{}, err
	}
	for next := w.next(); next != ""; next = w.next() {
		now, err := w.step(fd, next)
		if now != fd {
			_ = unix.Close(fd)
			fd = now
		}
		if err != nil {
			if fd >= 0 {
				_ = unix.Close(fd)
			}
			return End{}, &os.PathError{Op: "follow", Path: name, Err: err}
		}
	}
	return w.finish(fd)
}

// step goes one name further and returns the descriptor for where it is then, which may be the same one. It closes none.
func (w *walk) step(dir int, name string) (int, error) {
	if name != ".." {
		text := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(dir, name, text)
		switch err {
		case nil:
			var stat unix.Stat_t
			if err := unix.Fstat(dir, &stat); err != nil {
				return dir, err
			}
			fromRoot, err := w.cross(name, string(text[:n]), stat.Uid, stat.Mode)
			if err != nil || !fromRoot {
				return dir, err
			}
			return open(unix.AT_FDCWD, "/", unix.O_DIRECTORY)
		case unix.EINVAL: // it is no link
		case unix.ENOENT:
			return dir, w.missing(name)
		default:
			return dir, err
		}
	}
	flags := 0
	if w.more() {
		flags = unix.O_DIRECTORY
	}
	fd, err := open(dir, name, flags)
	if err != nil {
		return dir, err
	}
	w.enter(name)
	return fd, nil
}

func open(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, only|flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// finish says what the descriptor is of.
func (w *walk) finish(fd int) (End, error) {
	var stat unix.Stat_t
	err := unix.Fstat(fd, &stat)
	if err == nil && stat.Mode&unix.S_IFMT == unix.S_IFLNK { // it has just become one
		err = unix.EAGAIN
	}
	if err != nil {
		_ = unix.Close(fd)
		return End{}, &os.PathError{Op: "follow", Path: w.at, Err: err}
	}
	w.end.Device, w.end.Inode, w.end.Mode = stat.Dev, stat.Ino, stat.Mode
	w.end.Born = Born(fd)
	w.end.File = os.NewFile(uintptr(fd), w.at)
	return w.over(), nil
}

// Born is when what a descriptor names was made, in nanoseconds since 1970; 0 where the file system does not know.
func Born(fd int) int64 {
	var more unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &more) != nil || more.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return more.Btime.Sec*1e9 + int64(more.Btime.Nsec)
}
