package network

import (
	"net"

	"golang.org/x/sys/unix"
)

// hungUp reports whether the other end of a connection has closed, even if there are bytes before its end that nobody has read.
func hungUp(conn net.Conn) bool {
	if tcp(conn) == nil {
		return false
	}
	info := infoOf(conn)
	return info == nil || info.State != established
}

// established is TCP_ESTABLISHED of the kernel.
const established = 1

// takenBy counts the bytes that the other end of a connection has acknowledged.
func takenBy(conn net.Conn) uint64 {
	if info := infoOf(conn); info != nil {
		return info.Bytes_acked
	}
	return 0
}

// infoOf is nil for what is no connection, or is closed.
func infoOf(conn net.Conn) (info *unix.TCPInfo) {
	c := tcp(conn)
	if c == nil {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) {
		if got, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			info = got
		}
	})
	return info
}
