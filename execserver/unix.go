package execserver

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/internal/connections"
)

// ServeUnix serves clients of a unix socket, whose messages are lines, until ctx ends or the listener is closed. It closes the
// listener. It admits only clients that run as the server's own user.
func (s *Server) ServeUnix(ctx context.Context, listener *net.UnixListener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	defer context.AfterFunc(s.ctx, stop)()
	var serving sync.WaitGroup
	defer serving.Wait()
	limited := s.bounded(listener)
	for {
		conn, err := patiently(ctx, limited.Accept)
		switch {
		case err != nil && (ctx.Err() != nil || errors.Is(err, net.ErrClosed)):
			stop()
			return nil
		case err != nil:
			stop()
			_ = listener.Close()
			return err
		}
		if uid, err := peer(conn); err != nil || uid != os.Geteuid() {
			s.options.Logger.Warn("a client of another user was turned away", "uid", uid, "error", err)
			_ = conn.Close()
			continue
		}
		conn.(*connections.Conn).Admit()
		serving.Go(func() { _ = s.serve(ctx, wire.Lines(conn, conn, s.options.MaxMessage), false) })
	}
}

// peer returns the user on the other side of a connection that a listener for a unix socket has accepted.
func peer(conn net.Conn) (uid int, err error) {
	if wrapped, is := conn.(*connections.Conn); is {
		conn = wrapped.Conn
	}
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return -1, err
	}
	if failed := raw.Control(func(fd uintptr) { uid, err = userBehind(int(fd)) }); failed != nil {
		return -1, failed
	}
	return uid, err
}
