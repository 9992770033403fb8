package execserver

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// spareConnections is how many connections there can be beside one for each session: those that have not begun one, and those that
// take over a session.
const spareConnections = 256

// The waits after an accept that failed because the machine has no room.
const (
	acceptPause   = 5 * time.Millisecond
	acceptLongest = time.Second
)

// bounded is a listener that closes a connection at once if there are too many, so that clients without a token cannot take all
// descriptors of the server.
type bounded struct {
	net.Listener
	room chan struct{} // one entry for each connection
}

func (s *Server) bounded(l net.Listener) *bounded {
	return &bounded{l, make(chan struct{}, s.options.MaxSessions+spareConnections)}
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

// patiently accepts a connection. While the machine has no room for one, it waits and tries again, as net/http does.
func patiently(ctx context.Context, accept func() (net.Conn, error)) (net.Conn, error) {
	for pause := acceptPause; ; pause = min(2*pause, acceptLongest) {
		conn, err := accept()
		if err == nil || !noRoom(err) {
			return conn, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// noRoom reports whether an accept failed for a reason that passes.
func noRoom(err error) bool {
	for _, passing := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}
