// Package connections bounds how many connections a server has at a time. A connection beyond the bound is closed at once, so its
// client fails at once instead of waiting for a reason it cannot know, and clients that only connect cannot take all descriptors of
// the server.
//
//	err := server.Serve(connections.Bound(listener, 256))
package connections

import (
	"net"
	"sync"
)

// Bound returns a listener that accepts from another one and closes the connections beyond most. Closing an accepted connection makes
// room for the next. Every connection that it accepts is a *Conn.
func Bound(l net.Listener, most int) net.Listener {
	return &bounded{l, make(chan struct{}, most)}
}

type bounded struct {
	net.Listener
	room chan struct{} // one entry for each connection
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
			return &Conn{conn, sync.OnceFunc(func() { <-b.room })}, nil
		default:
			_ = conn.Close() // the error would interest no caller
		}
	}
}

// Conn is a connection that makes room when it is closed.
type Conn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
