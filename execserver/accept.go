package execserver

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/execbus/execbus/internal/connections"
)

// spareConnections is how many connections there can be beside one for each session: those that have not begun one, and those that
// take over a session.
const spareConnections = 256

// The waits after an accept that failed because the machine has no room.
const (
	acceptPause   = 5 * time.Millisecond
	acceptLongest = time.Second
)

// bounded is a listener whose clients cannot take all descriptors of the server.
func (s *Server) bounded(l net.Listener) net.Listener {
	return connections.Bound(l, s.options.MaxSessions+spareConnections)
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
