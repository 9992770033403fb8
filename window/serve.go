package window

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/execbus/execbus/internal/connections"
	"github.com/execbus/execbus/messages"
)

// Bounds of the server: for the head of a request, for a connection that does nothing, and for connections, of which each page that is open
// has one and its files a few more for a moment.
const (
	headTime       = 10 * time.Second
	idleTime       = 2 * time.Minute
	maxHead        = 16 << 10
	maxConnections = 2 * maxSockets
)

// Serve serves the window at an address such as 127.0.0.1:8080 until Close, and returns where it is; port 0 is a free one. An address that is
// not a loopback address needs TLS, or Options.Insecure: somebody who can read the connection could otherwise take the keyboards. For TLS, set
// Options.Secure, too.
func (w *Window) Serve(address string, config *tls.Config) (base string, err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", err
	}
	at := listener.Addr().(*net.TCPAddr)
	if !at.IP.IsLoopback() && config == nil && !w.insecure {
		_ = listener.Close()
		return "", &messages.Error{Code: messages.ErrInvalidRequest, Op: "open window", Subject: address,
			Detail: "others on the way could read this connection, and take the keyboards of your commands; use a loopback address, or TLS",
			Hint:   "or set Options.Insecure"}
	}
	w.access.add(at.IP.String())
	scheme := "http"
	bounded := connections.Bound(listener, maxConnections)
	if config != nil {
		scheme, bounded = "https", tls.NewListener(bounded, config)
	}
	server := &http.Server{Handler: w, ReadHeaderTimeout: headTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHead, ConnContext: connections.Context}
	w.work.Go(func() {
		<-w.ctx.Done()
		_ = server.Close() // those of live pages end by themselves
	})
	w.work.Go(func() { _ = server.Serve(bounded) }) // it ends by Close only
	return fmt.Sprintf("%s://%s", scheme, at), nil
}
