package network

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/hosts"
)

// Bounds. What Options does not set is fixed.
const (
	DefaultMaxConnections = 4096
	DefaultAskTimeout     = 2 * time.Minute

	MaxQuestions = 16 // questions that wait for an answer

	maxHeader       = 64 << 10         // bytes of a request's header
	headerTimeout   = 10 * time.Second // to send a request's header, a SOCKS request, or the first TLS message
	idleTimeout     = time.Minute      // between the requests of a connection
	lookupTimeout   = 10 * time.Second
	dialTimeout     = 10 * time.Second // for one address
	maxAddresses    = 16               // of one name
	maxTurnedAway   = 64               // connections that are told that there are too many; those beyond them are closed
	turnAwayTimeout = time.Second      // for that

	maxLookups = 256 // that go on, those included that nobody waits for any more

	drainTimeout    = time.Second     // for the other side to take what a program has sent before it ended
	halfOpenTimeout = 5 * time.Minute // of idleness, after one side of a tunnel has closed
)

// Options configure a proxy. The zero value lets nothing out.
type Options struct {
	// Snapshot is what the proxy decides from until Update.
	Snapshot hosts.Snapshot
	// Ask puts a question to a person. It returns nil after an approval, when Update has been called with a snapshot that allows the
	// connection, and otherwise why it is refused. It returns soon after its context has ended. The proxy asks once for
	// connections that are equal, and for at most MaxQuestions at a time. Without Ask there is nobody to ask.
	Ask func(context.Context, Question) error
	// Record is told of each connection, and of each request in plain HTTP, when it has ended or was refused. It must not block.
	Record func(messages.Connection)
	// Upstream names the proxy by which a URL is reached, as http.ProxyFromEnvironment does; nil means none. The schemes of
	// proxies are http and https.
	Upstream func(*url.URL) (*url.URL, error)
	// Resolver looks names up; nil means the system's.
	Resolver Resolver
	// Dial connects to an address, which is a literal unless an upstream proxy has a name; nil means a net.Dialer that makes
	// sure of the address.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// MaxConnections bounds the connections of commands; zero means DefaultMaxConnections.
	MaxConnections int
	// AskTimeout bounds how long a connection waits for an answer; zero means DefaultAskTimeout.
	AskTimeout time.Duration

	draining time.Duration // tests wait for less than drainTimeout
	halfOpen time.Duration // tests wait for less than halfOpenTimeout
}

// Resolver looks names up. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Proxy is a proxy for HTTP, CONNECT and SOCKS5 on one port.
type Proxy struct {
	options Options
	key     [32]byte // of credentials
	server  *http.Server
	forward *httputil.ReverseProxy
	feed    *feed
	feeding sync.Once // begins with the first listener
	fed     chan struct{}
	lookups chan struct{} // a token for each that goes on
	ended   context.Context
	end     context.CancelFunc

	mu        sync.Mutex
	snapshot  hosts.Snapshot
	changed   chan struct{} // closed by the next Update
	listeners map[io.Closer]bool
	named     named
	conns     map[net.Conn]bool // accepted and not yet closed
	empty     chan struct{}     // closed when Close has been called and conns is empty
	live      map[*connection]bool
	questions map[questionKey]*question
	asking    int
	blocked   map[messages.ProcessID][]messages.Connection // from Begin to End
	stats     Stats
	own       []netip.Addr
	ownSince  time.Time
}

// Stats are counts since the proxy was made, and what there is now.
type Stats struct {
	Allowed, Refused, Asked int64 // connections and requests that came to an end
	Connections, Questions  int   // now
}

// New makes a proxy. Serve starts it, and Close ends it.
func New(options Options) *Proxy {
	if options.MaxConnections == 0 {
		options.MaxConnections = DefaultMaxConnections
	}
	if options.AskTimeout == 0 {
		options.AskTimeout = DefaultAskTimeout
	}
	if options.draining == 0 {
		options.draining = drainTimeout
	}
	if options.halfOpen == 0 {
		options.halfOpen = halfOpenTimeout
	}
	if options.Resolver == nil {
		options.Resolver = net.DefaultResolver
	}
	if options.Dial == nil {
		options.Dial = (&net.Dialer{Timeout: dialTimeout, ControlContext: sameAddress}).DialContext
	}
	p := &Proxy{
		options: options, snapshot: options.Snapshot, changed: make(chan struct{}), empty: make(chan struct{}),
		listeners: map[io.Closer]bool{}, conns: map[net.Conn]bool{}, live: map[*connection]bool{}, questions: map[questionKey]*question{},
		blocked: map[messages.ProcessID][]messages.Connection{}, named: named{addresses: map[hosts.Host]netip.Addr{}, hosts: map[netip.Addr]hosts.Host{}},
	}
	p.key = newKey()
	p.ended, p.end = context.WithCancel(context.Background())
	p.feed, p.fed = &feed{conns: make(chan net.Conn), done: p.ended.Done()}, make(chan struct{})
	p.lookups = make(chan struct{}, maxLookups)
	p.forward = p.newForward()
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.serveHTTP), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		DisableGeneralOptionsHandler: true, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return p.ended },
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, nearKey{}, conn)
		},
		ConnState: func(conn net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				p.release(conn)
			}
		},
	}
	return p
}

// Serve accepts connections of commands until Close or until the listener fails, and closes the listener. After Close it returns nil.
func (p *Proxy) Serve(listener net.Listener) error { return p.serve(listener, p.sort) }

// serve has each connection served by a function, in a goroutine.
func (p *Proxy) serve(listener net.Listener, each func(net.Conn)) error {
	p.mu.Lock()
	if p.ended.Err() != nil {
		p.mu.Unlock()
		listener.Close()
		return nil
	}
	p.listeners[listener] = true
	p.mu.Unlock()
	p.feeding.Do(func() {
		go func() {
			defer close(p.fed)
			p.server.Serve(p.feed)
		}()
	})
	err := p.accept(listener, each)
	p.mu.Lock()
	delete(p.listeners, listener)
	p.mu.Unlock()
	listener.Close()
	if p.ended.Err() != nil {
		<-p.fed
		return nil
	}
	return err
}

// accept accepts. Where descriptors or memory are short it tries again, up to once a second.
func (p *Proxy) accept(listener net.Listener, each func(net.Conn)) error {
	pause := time.Duration(0)
	for {
		conn, err := listener.Accept()
		if err == nil {
			pause = 0
			p.admit(conn, each)
			continue
		}
		if temporary, ok := err.(interface{ Temporary() bool }); !ok || !temporary.Temporary() {
			return err
		}
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		select {
		case <-time.After(pause):
		case <-p.ended.Done():
			return nil
		}
	}
}

// admit counts a connection and serves it, or tells it that there are too many, or closes it.
func (p *Proxy) admit(conn net.Conn, serve func(net.Conn)) {
	p.mu.Lock()
	if len(p.conns) >= p.options.MaxConnections {
		serve = p.turnAway
	}
	ended := p.ended.Err() != nil
	admitted := !ended && len(p.conns) < p.options.MaxConnections+maxTurnedAway
	if admitted {
		p.conns[conn] = true
		go serve(conn)
	}
	p.mu.Unlock()
	if admitted {
		return
	}
	conn.Close()
	if !ended {
		p.recorded(messages.Connection{Began: time.Now(), Reason: tooMany})
	}
}

const tooMany = "too many connections are open"

// turnAway tells a connection in its own protocol that there are too many.
func (p *Proxy) turnAway(conn net.Conn) {
	p.recorded(messages.Connection{Began: time.Now(), Reason: tooMany})
	conn.SetDeadline(time.Now().Add(turnAwayTimeout))
	first, err := peek(conn)
	switch {
	case err != nil:
	case first == socksVersion:
		conn.Write([]byte{socksVersion, socksNoMethod})
	default:
		r := &refusal{status: http.StatusServiceUnavailable, text: tooMany + "; close some, or try again later"}
		io.WriteString(conn, r.response(""))
	}
	p.hangUp(conn)
	p.release(conn)
}

// hangUp closes a connection after an answer, which can be lost if bytes were not read when the connection is closed.
func (p *Proxy) hangUp(conn net.Conn) {
	conn.SetReadDeadline(time.Now().Add(turnAwayTimeout))
	if closeWrite(conn) == nil {
		io.CopyN(io.Discard, conn, maxHeader)
	}
	conn.Close()
}

// release is called once for each connection that was admitted, after it was closed.
func (p *Proxy) release(conn net.Conn) {
	if named, is := conn.(*namedConn); is {
		conn = named.Conn
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
	if p.ended.Err() != nil && len(p.conns) == 0 {
		select {
		case <-p.empty:
		default:
			close(p.empty)
		}
	}
}

// sort looks at the first byte, which says whether the connection speaks SOCKS or HTTP.
func (p *Proxy) sort(conn net.Conn) {
	conn.SetReadDeadline(time.Now().Add(headerTimeout))
	first, err := peek(conn)
	conn.SetReadDeadline(time.Time{})
	switch {
	case err != nil:
		conn.Close()
		p.release(conn)
	case first == socksVersion:
		p.serveSOCKS(conn)
	case !p.feed.put(conn):
		conn.Close()
		p.release(conn)
	}
}

// feed is a listener from which the HTTP server gets its connections, those of all listeners.
type feed struct {
	conns chan net.Conn
	done  <-chan struct{}
}

func (f *feed) put(conn net.Conn) bool {
	select {
	case f.conns <- conn:
		return true
	case <-f.done:
		return false
	}
}

// Accept implements net.Listener.
func (f *feed) Accept() (net.Conn, error) {
	select {
	case conn := <-f.conns:
		return conn, nil
	case <-f.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (f *feed) Close() error { return nil }

// Addr implements net.Listener.
func (f *feed) Addr() net.Addr { return &net.TCPAddr{} }

// Update replaces what the proxy decides from. Connections that the new snapshot does not allow are closed before Update returns;
// connections that wait for an answer are judged again.
func (p *Proxy) Update(snapshot hosts.Snapshot) {
	p.mu.Lock()
	p.snapshot = snapshot
	close(p.changed)
	p.changed = make(chan struct{})
	revoked := map[*connection]hosts.Verdict{}
	for c := range p.live {
		if v := snapshot.Decide(c.request); v.Action != hosts.Allow {
			revoked[c] = v
		}
	}
	p.mu.Unlock()
	for c, v := range revoked {
		c.stop("it is no longer allowed: " + v.Text)
	}
}

// current is the snapshot, and a channel that is closed when there is another.
func (p *Proxy) current() (hosts.Snapshot, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.snapshot, p.changed
}

// Stats counts.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	stats := p.stats
	stats.Connections, stats.Questions = len(p.conns), len(p.questions)
	return stats
}

var errEnded = errors.New("the proxy has ended")

// Close ends all connections, and returns when the last one has ended and was recorded.
func (p *Proxy) Close() error {
	p.end()
	p.mu.Lock()
	listeners, conns, live := p.listeners, p.conns, p.live
	var closing []io.Closer
	for listener := range listeners {
		closing = append(closing, listener)
	}
	for conn := range conns {
		closing = append(closing, conn)
	}
	var stopping []*connection
	for c := range live {
		stopping = append(stopping, c)
	}
	empty := len(conns) == 0
	p.mu.Unlock()
	for _, c := range stopping {
		c.stop(errEnded.Error())
	}
	for _, closer := range closing {
		closer.Close()
	}
	p.server.Close()
	if !empty {
		<-p.empty
	}
	return nil
}

// recorded counts and reports a connection.
func (p *Proxy) recorded(record messages.Connection) {
	record.Lasted = time.Since(record.Began)
	p.mu.Lock()
	if record.Allowed {
		p.stats.Allowed++
	} else {
		p.stats.Refused++
	}
	p.mu.Unlock()
	if p.options.Record != nil {
		p.options.Record(record)
	}
}
