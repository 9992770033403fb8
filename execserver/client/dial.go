package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// Options of a connection. The zero value is usable.
type Options struct {
	// Name is the client's name, which it tells the server; empty means "execbus".
	Name string
	// Token is the token that a server over TCP requires; empty if the URL has it, or the server requires none.
	Token string
	// TLS is for wss URLs: the client's certificates, and the authorities that it trusts. Nil means the machine's authorities.
	TLS *tls.Config
}

// Dial connects to a server at "ws://HOST:PORT", "wss://HOST:PORT" or "unix:///PATH", and begins a session. It takes at most 20
// seconds, or until ctx ends, and fails with a *messages.Error. After Dial has returned, ctx has no effect: Close ends the session.
func Dial(ctx context.Context, address string, options Options) (ptyio.Spawner, error) {
	to, err := url.Parse(address)
	if err != nil {
		return nil, badAddress(address)
	}
	switch {
	case (to.Scheme == "ws" || to.Scheme == "wss") && to.Host != "":
		return begin(ctx, websockets(*to, options), options.Name, usualTimes(), usualLimits())
	case to.Scheme == "unix" && to.Host == "" && to.Path != "":
		return begin(ctx, sockets(to.Path), options.Name, usualTimes(), usualLimits())
	}
	return nil, badAddress(address)
}

// Connect begins a session with a server at the other end of two streams, such as the output and the input of a program that was
// started elsewhere. Close closes both streams. A broken stream cannot be replaced: then the session is lost.
func Connect(ctx context.Context, from io.ReadCloser, to io.WriteCloser, options Options) (ptyio.Spawner, error) {
	return begin(ctx, once(wire.Lines(from, to, wire.MaxMessage)), options.Name, usualTimes(), usualLimits())
}

// once is a dialer that has one connection.
func once(conn wire.Conn) dialer {
	var used atomic.Bool
	return func(context.Context) (wire.Conn, error) {
		if used.Swap(true) {
			return nil, final{errors.New("it has ended, and cannot be made again")}
		}
		return conn, nil
	}
}

func begin(ctx context.Context, dial dialer, name string, times times, limits limits) (ptyio.Spawner, error) {
	s := newSpawner(dial, cmp.Or(name, "execbus"), times, limits)
	if err := s.link.open(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, cancelled("connect", ctx.Err())
		}
		return nil, &messages.Error{Code: messages.ErrRuntimeFailure, Op: "connect", Detail: "there is no session with the server: " +
			clipped(err.Error()) + "; look whether it runs, and at its address and token"}
	}
	return s, nil
}

// websockets takes the token out of the URL: errors repeat URLs, and proxies note them.
func websockets(to url.URL, options Options) dialer {
	query := to.Query()
	if carried := query.Get("token"); carried != "" {
		options.Token = cmp.Or(options.Token, carried)
		query.Del("token")
		to.RawQuery = query.Encode()
	}
	header := http.Header{}
	if options.Token != "" {
		header.Set("Authorization", "Bearer "+options.Token)
	}
	client := &http.Client{Transport: strictEnds{&http.Transport{TLSClientConfig: options.TLS, Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}}
	return func(ctx context.Context) (wire.Conn, error) {
		conn, response, err := wire.DialWebsocket(ctx, to.String(), client, header, wire.MaxMessage)
		if err == nil {
			return conn, nil
		}
		if response != nil && response.StatusCode >= 400 && response.StatusCode < 500 {
			return nil, final{fmt.Errorf("it refused the connection: %s", response.Status)}
		}
		return nil, err
	}
}

func sockets(path string) dialer {
	return func(ctx context.Context) (wire.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", path)
		if err != nil {
			return nil, err
		}
		return wire.Lines(conn, conn, wire.MaxMessage), nil
	}
}

func badAddress(address string) error {
	address, _, _ = strings.Cut(address, "?") // the query may have a token
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: "connect", Subject: clipped(address),
		Detail: "that is no address of a server; use ws://HOST:PORT, wss://HOST:PORT or unix:///PATH"}
}

// strictEnds makes connections whose end is an error. The websocket library takes the end of a connection in the middle of a message for
// the end of the message, and would return half a message.
type strictEnds struct{ http.RoundTripper }

func (c strictEnds) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if body, upgraded := response.Body.(io.ReadWriteCloser); upgraded {
		response.Body = strictBody{body}
	}
	return response, nil
}

type strictBody struct{ io.ReadWriteCloser }

func (c strictBody) Read(p []byte) (int, error) {
	n, err := c.ReadWriteCloser.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
