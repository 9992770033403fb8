//go:build !linux

package network

import "net"

// Whether the other end has closed or takes something is not known here: a copy waits as long as its connections are open.

func hungUp(net.Conn) bool { return false }

func takenBy(net.Conn) uint64 { return 0 }
