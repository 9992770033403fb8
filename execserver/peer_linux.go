package execserver

import (
	"net"

	"golang.org/x/sys/unix"
)

// peer returns the user on the other side of a connection.
func peer(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	var credentials *unix.Ucred
	if failed := raw.Control(func(fd uintptr) {
		credentials, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); failed != nil {
		return -1, failed
	}
	if err != nil {
		return -1, err
	}
	return int(credentials.Uid), nil
}
