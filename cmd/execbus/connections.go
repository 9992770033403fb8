package main

import (
	"net"
	"sync"
)

// maxConnections bounds the connections of a server over HTTP, and with them its requests and streams.
const maxConnections = 256

// bounded is a listener that closes a connection at once if there are too many. So the client fails at once, instead of waiting
// without a known reason.
type bounded struct {
	net.Listener
	room chan struct{} // one entry for each connection
}

func newBounded(l net.Listener) *bounded {
	return &bounded{l, make(chan struct{}, maxConnections)}
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.room <- struct{}{}:
			return &counted{conn, sync.OnceFunc(func() { <-b.room })}, nil
		default:
			_ = conn.Close() // the error would interest no caller
		}
	}
}

// counted is a connection that makes room when it is closed.
type counted struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
