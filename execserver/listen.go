package execserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

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
