package execserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/internal/connections"
	"github.com/execbus/execbus/messages"
)

// DefaultListen is the address of a server that is given no other: a free port of the loopback interface.
const DefaultListen = "ws://127.0.0.1:0"

// ListenOptions say which clients are admitted over TCP. Unix sockets admit the server's own user, and have no options.
type ListenOptions struct {
	// Token is the token that clients must send; see Server.Handler. Without a token, either the address must be a loopback address
	// or TLS must require client certificates.
	Token string
	// TLS makes the server serve wss instead of ws; nil means neither certificates nor encryption.
	TLS *tls.Config
}

// Listener is a place where a server listens.
type Listener struct {
	server   *Server
	listener net.Listener
	options  ListenOptions
}

// Listen begins to listen at ws://IP:PORT or at unix:///PATH. Port 0 means a free port. A socket that an earlier server has left
// behind is replaced.
func (s *Server) Listen(address string, options ListenOptions) (*Listener, error) {
	if path, is := strings.CutPrefix(address, "unix://"); is {
		listener, err := listenUnix(path)
		if err != nil {
			return nil, cannotListen(address, err)
		}
		return &Listener{server: s, listener: listener}, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "ws" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, unsupported(address)
	}
	at, err := netip.ParseAddrPort(u.Host)
	if err != nil {
		return nil, unsupported(address)
	}
	mutual := options.TLS != nil && options.TLS.ClientAuth == tls.RequireAndVerifyClientCert
	if options.Token == "" && !mutual && !at.Addr().IsLoopback() {
		return nil, &messages.Error{Code: messages.ErrInvalidRequest, Op: "listen", Subject: address,
			Detail: "everyone who can reach this address could run commands; use a token, client certificates, or a loopback address"}
	}
	listener, err := net.Listen("tcp", at.String())
	if err != nil {
		return nil, cannotListen(address, err)
	}
	return &Listener{server: s, listener: listener, options: options}, nil
}

func unsupported(address string) error {
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: "listen", Subject: fmt.Sprintf("%q", address),
		Detail: "this is not an address; use ws://IP:PORT or unix:///PATH"}
}

func cannotListen(address string, err error) error {
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: "listen", Subject: address, Detail: err.Error() + "; use another address", Like: messages.LikeOf(err)}
}

// listenUnix makes a socket that only its user can open.
func listenUnix(path string) (*net.UnixListener, error) {
	if !strings.HasPrefix(path, "/") {
		return nil, errors.New("the path is not absolute")
	}
	address := &net.UnixAddr{Name: path, Net: "unix"}
	listener, err := net.ListenUnix("unix", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		conn, failed := net.DialUnix("unix", nil, address)
		if failed == nil {
			return nil, errors.Join(errors.New("another server listens there"), conn.Close())
		}
		info, unknown := os.Lstat(path)
		if unknown != nil || info.Mode().Type() != os.ModeSocket || !errors.Is(failed, syscall.ECONNREFUSED) {
			return nil, err // it is not a socket that a server has left
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
		listener, err = net.ListenUnix("unix", address)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// URL returns the address at which clients connect, without a token.
func (l *Listener) URL() string {
	switch {
	case l.listener.Addr().Network() == "unix":
		return "unix://" + l.listener.Addr().String()
	case l.options.TLS != nil:
		return "wss://" + l.listener.Addr().String()
	default:
		return "ws://" + l.listener.Addr().String()
	}
}

// Bounds on the time for the head of a request, on the idle time of a connection, and on the size of the head.
const (
	headTime = 10 * time.Second
	idleTime = 2 * time.Minute
	maxHead  = 64 << 10
)

// Serve serves clients until ctx ends or the server is closed. Then it stops listening. Websockets that are already connected go on
// until the server is closed.
func (l *Listener) Serve(ctx context.Context) error {
	if socket, is := l.listener.(*net.UnixListener); is {
		return l.server.ServeUnix(ctx, socket)
	}
	front := &http.Server{Handler: l.server.Handler(l.options.Token), ReadHeaderTimeout: headTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHead,
		ErrorLog: slog.NewLogLogger(l.server.options.Logger.Handler(), slog.LevelDebug), TLSConfig: l.options.TLS,
		Protocols: new(http.Protocols), ConnContext: connections.Context}
	front.Protocols.SetHTTP1(true) // websockets need it
	defer context.AfterFunc(ctx, func() { _ = front.Close() })()
	defer context.AfterFunc(l.server.ctx, func() { _ = front.Close() })()
	var err error
	if l.options.TLS != nil {
		err = front.ServeTLS(l.server.bounded(l.listener), "", "")
	} else {
		err = front.Serve(l.server.bounded(l.listener))
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Close stops listening. It is for a Listener on which Serve is not called.
func (l *Listener) Close() error { return l.listener.Close() }

// Handler serves clients over websockets at any path, and answers GET /readyz with 200. If token is not empty, a client must send it
// as "Authorization: Bearer TOKEN" or as the query's "token". Otherwise every client that reaches the handler can run commands.
// A request with an Origin header comes from a web page and is refused with 403.
func (s *Server) Handler(token string) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(headTime)) // for the body; an upgrade ends it
		switch {
		case len(r.Header.Values("Origin")) > 0:
			connections.Refuse(w, http.StatusForbidden, "requests from web pages are refused")
		case r.URL.Path == "/readyz" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			w.WriteHeader(http.StatusOK)
		case token != "" && !hasToken(r, want):
			connections.Refuse(w, http.StatusUnauthorized, "the token is missing or wrong; send it as Authorization: Bearer TOKEN, or as ?token=TOKEN")
		default:
			connections.Admit(r.Context())
			if conn, err := wire.Accept(w, r, s.options.MaxMessage); err == nil { // otherwise it has been answered
				_ = s.serve(s.ctx, conn, false)
			}
		}
	})
}

// hasToken reports whether a request has the token. The comparison takes the same time for every wrong token.
func hasToken(r *http.Request, want [sha256.Size]byte) bool {
	said := connections.Bearer(r)
	if r.Header.Get("Authorization") == "" {
		said = r.URL.Query().Get("token")
	}
	got := sha256.Sum256([]byte(said))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

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

// ServeStream serves one client whose messages are lines, such as a parent on standard input and output, until in ends or ctx ends.
// Then the client's processes end, too. The caller must not write to out meanwhile. ServeStream does not close the streams. If a read
// or a write still blocks when ctx ends, a goroutine that waits for it is left behind.
func (s *Server) ServeStream(ctx context.Context, in io.Reader, out io.Writer) error {
	// Standard streams cannot always be closed under a reader or a writer, so other goroutines wait for them.
	incoming, feed := io.Pipe()
	go func() {
		_, err := io.Copy(feed, in)
		feed.CloseWithError(err)
	}()
	drain, outgoing := io.Pipe()
	go func() {
		_, err := io.Copy(out, drain)
		drain.CloseWithError(err)
	}()
	return s.serve(ctx, wire.Lines(incoming, outgoing, s.options.MaxMessage), true)
}
