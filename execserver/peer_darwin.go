package execserver

import "golang.org/x/sys/unix"

// userBehind returns the user on the other side of a unix socket.
func userBehind(fd int) (uid int, err error) {
	credentials, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(credentials.Uid), nil
}
