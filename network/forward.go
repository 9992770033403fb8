package network

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/hosts"
)

// serveHTTP serves each request of a connection: a tunnel, or a request in plain HTTP that names its host.
func (p *Proxy) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if conn, named := r.Context().Value(nearKey{}).(*namedConn); named {
		p.serveNamedHTTP(w, r, conn)
		return
	}
	request := hosts.Request{Protocol: messages.HostHTTP}
	if r.Method == http.MethodConnect {
		request.Protocol = ""
	}
	process, err := p.processOf(r.Header["Proxy-Authorization"])
	if err != nil {
		p.begin(request, r.RequestURI).refuseHTTP(w, r, err)
		return
	}
	if request.Process = process; r.Method == http.MethodConnect {
		p.connect(w, r, request)
		return
	}
	request.Host, request.Port, err = target(r.URL)
	c := p.begin(request, r.RequestURI)
	if err != nil {
		c.refuseHTTP(w, r, err)
		return
	}
	c.exchange(w, r)
}

// target is where a request in plain HTTP goes.
func target(u *url.URL) (hosts.Host, uint16, error) {
	switch {
	case u.Host == "" || u.Opaque != "":
		return hosts.Host{}, 0, malformed("this is a proxy: a request begins with the whole address of its page, or with CONNECT")
	case u.Scheme != "http":
		return hosts.Host{}, 0, malformed("a proxy gets requests for http addresses, and CONNECT for others")
	case u.User != nil:
		return hosts.Host{}, 0, malformed("the address contains a user")
	}
	authority := u.Host
	if u.Port() == "" {
		authority = strings.TrimSuffix(authority, ":") + ":80"
	}
	host, port, err := hosts.ParseAuthority(authority)
	if err != nil {
		err = malformed("%s is no host: %v", messages.Visible(u.Host), err)
	}
	return host, port, err
}

// exchange forwards one request, and its answer.
func (c *connection) exchange(w http.ResponseWriter, r *http.Request) {
	far, err := c.openPlain(r.Context())
	if err != nil {
		c.refuseHTTP(w, r, err)
		return
	}
	defer far.Close()
	x := &exchange{connection: c, far: far}
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), exchangeKey{}, x))
	defer cancel()
	cut := func() {
		cancel()
		http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // nobody waits for the rest of the body
	}
	if err := c.live(cut, cut); err != nil {
		c.refuseHTTP(w, r, err)
		return
	}
	c.record.Allowed = true
	defer func() {
		x.finish()
		if ctx.Err() == nil {
			drain(w)
		}
	}()
	c.proxy.forward.ServeHTTP(w, r.WithContext(ctx))
}

// drain bounds how long the rest of a body may take that nobody wants any more.
func drain(w http.ResponseWriter) {
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(headerTimeout))
}

// openPlain settles where a request goes, and connects to the host, or to the upstream proxy.
func (c *connection) openPlain(ctx context.Context) (net.Conn, error) {
	if err := c.settle(ctx); err != nil {
		return nil, err
	}
	if c.upstream != nil {
		return c.connectUpstream(ctx)
	}
	return c.dial(ctx)
}

// nearKey is the key of the program's connection.
type nearKey struct{}

// exchangeKey is the key of a request's exchange.
type exchangeKey struct{}

// exchange is a request while it is forwarded.
type exchange struct {
	*connection
	far            net.Conn
	taken          atomic.Bool // the connection, by the transport
	sent, received atomic.Int64
	err            error // why there was no answer
}

func (x *exchange) finish() {
	x.record.Sent, x.record.Received = x.sent.Load(), x.received.Load()
	x.end(x.err)
}

// newForward makes what forwards requests. Each request has a connection of its own, which was allowed for it.
func (p *Proxy) newForward() *httputil.ReverseProxy {
	of := func(r *http.Request) *exchange { return r.Context().Value(exchangeKey{}).(*exchange) }
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 1 << 20,
		Proxy: func(r *http.Request) (*url.URL, error) { return of(r).upstream, nil },
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			x := ctx.Value(exchangeKey{}).(*exchange)
			if x.taken.Swap(true) {
				return nil, errors.New("a request is sent once")
			}
			near, _ := ctx.Value(nearKey{}).(net.Conn)
			return &countingConn{watched{x.far, near, p.options.halfOpen}, x}, nil
		},
	}
	return &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, BufferPool: pool{}, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			x := of(r.In)
			// The host is what was decided about. A Host header that says something else never gets out.
			r.Out.URL.Scheme, r.Out.URL.Host = "http", x.request.Host.Authority(x.request.Port)
			r.Out.Host = strings.TrimSuffix(r.Out.URL.Host, ":80")
			// This is no server's own proxy: what a program says about its way, and its query, is passed on as it is.
			r.Out.URL.RawQuery = r.In.URL.RawQuery
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if values, has := r.In.Header[name]; has {
					r.Out.Header[name] = values
				}
			}
			// After an upgrade nobody could say what the bytes are. A websocket asks for a tunnel.
			r.Out.Header.Del("Upgrade")
			r.Out.Header.Del("Connection")
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			x := of(r)
			refusal, ok := errors.AsType[*refusal](err)
			if !ok {
				refusal = unreachable(socksFailed, "%s did not answer: %v", x.record.Host, err)
			}
			x.err = refusal
			refusal.answer(w, r.Method, x.record)
		},
	}
}

// countingConn counts what passes.
type countingConn struct {
	watched
	exchange *exchange
}

// Read implements io.Reader.
func (c *countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.exchange.received.Add(int64(n))
	return n, err
}

// Write implements io.Writer.
func (c *countingConn) Write(b []byte) (int, error) {
	c.exchange.sent.Add(int64(len(b))) // before the answer to it can be there
	n, err := c.watched.Write(b)
	c.exchange.sent.Add(int64(n - len(b)))
	return n, err
}

// pool lends buffers to the reverse proxy.
type pool struct{}

// Get implements httputil.BufferPool.
func (pool) Get() []byte { return buffers.Get().(*[32 << 10]byte)[:] }

// Put implements httputil.BufferPool.
func (pool) Put(b []byte) { buffers.Put((*[32 << 10]byte)(b)) }
