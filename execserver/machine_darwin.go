package execserver

import (
	"io/fs"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// userBehind returns the user on the other side of a unix socket.
func userBehind(fd int) (uid int, err error) {
	credentials, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(credentials.Uid), nil
}

// createdMs returns when a file was created, in milliseconds since 1970; 0 if its file system does not say.
func createdMs(_ string, info fs.FileInfo) int64 {
	birth := info.Sys().(*syscall.Stat_t).Birthtimespec
	return max(0, time.Unix(birth.Unix()).UnixMilli())
}
