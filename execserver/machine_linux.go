package execserver

import (
	"io/fs"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// userBehind returns the user on the other side of a unix socket.
func userBehind(fd int) (uid int, err error) {
	credentials, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(credentials.Uid), nil
}

// createdMs returns when a file was created, in milliseconds since 1970; 0 if its file system does not say. It finds the file by its
// path, because a descriptor would need permissions. If another file has taken that path since info was read, it returns 0.
func createdMs(path string, info fs.FileInfo) int64 {
	flags := 0
	if info.Mode().Type() == fs.ModeSymlink {
		flags = unix.AT_SYMLINK_NOFOLLOW
	}
	var s unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, flags, unix.STATX_BTIME|unix.STATX_INO, &s) != nil || s.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	known := info.Sys().(*syscall.Stat_t)
	if s.Ino != known.Ino || unix.Mkdev(s.Dev_major, s.Dev_minor) != known.Dev {
		return 0
	}
	return time.Unix(s.Btime.Sec, int64(s.Btime.Nsec)).UnixMilli()
}
