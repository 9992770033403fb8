package network

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/hosts"
)

// connect serves CONNECT: all that can be said no to is done before the 200.
func (p *Proxy) connect(w http.ResponseWriter, r *http.Request, request hosts.Request) {
	host, port, err := hosts.ParseAuthority(r.RequestURI)
	request.Host, request.Port = host, port
	c := p.begin(request, r.RequestURI)
	if err != nil {
		c.refuseHTTP(w, r, malformed("%s is not a host and a port: %v", c.record.Host, err))
		return
	}
	far, err := c.open(r.Context())
	if err != nil {
		c.refuseHTTP(w, r, err)
		return
	}
	near, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		far.Close()
		c.end(err)
		return
	}
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	early = slices.Clone(early)
	go c.tunnel(near, far, early, func(r *refusal) string {
		if r != nil {
			return r.response(authorityOf(c.record))
		}
		return "HTTP/1.1 200 Connection established\r\n\r\n"
	})
}

// open settles where a tunnel goes, and connects.
func (c *connection) open(ctx context.Context) (net.Conn, error) {
	if err := c.settle(ctx); err != nil {
		return nil, err
	}
	if c.upstream != nil {
		return c.dialUpstream(ctx)
	}
	return c.dial(ctx)
}

// tunnel tells the program that the tunnel is open, looks at the first bytes unless anything goes, and relays. It owns both connections.
// early are bytes that came before; answer says in the program's protocol that it is open, or is refused after all.
func (c *connection) tunnel(near, far net.Conn, early []byte, answer func(*refusal) string) {
	// The relays get goroutines of their own, whose stacks are small, because a tunnel may be idle for long.
	if err := c.pass(near, far, early, answer); err != nil {
		near.Close()
		far.Close()
		c.end(err)
		c.proxy.release(near)
		return
	}
	t := &tunnel{connection: c, near: near, far: far}
	t.relays.Store(2)
	go t.relay(far, near, &c.record.Sent)
	go t.relay(near, far, &c.record.Received)
}

// pass lets the first bytes through, if they are what the tunnel may carry.
func (c *connection) pass(near, far net.Conn, early []byte, answer func(*refusal) string) error {
	cut := func() { near.Close(); far.Close() }
	if err := c.live(cut, func() { c.drainTunnel(far, cut) }); err != nil {
		if r, is := errors.AsType[*refusal](err); is {
			c.note(err)
			near.SetWriteDeadline(time.Now().Add(time.Second))
			io.WriteString(near, answer(r))
		}
		return err
	}
	if _, err := io.WriteString(near, answer(nil)); err != nil {
		return err
	}
	if c.verdict.Protocol == messages.HostHTTPS {
		near.SetReadDeadline(time.Now().Add(headerTimeout))
		hello, err := readHello(near, early)
		near.SetReadDeadline(time.Time{})
		if err == nil {
			err = c.check(hello)
		}
		if err != nil {
			c.note(err)
			c.farewell(near, hello.bytes, err)
			return err
		}
		early = hello.bytes
	}
	c.record.Allowed = true
	if len(early) > 0 {
		n, err := far.Write(early)
		c.record.Sent += int64(n)
		return err
	}
	return nil
}

// check compares the first TLS message with what the tunnel was allowed for.
func (c *connection) check(h hello) error {
	v, host, port := c.verdict, c.request.Host, c.request.Port
	tcp := hosts.Smallest(host, port, messages.HostTCP)
	hidden := hosts.Smallest(host, port, messages.HostHTTPS)
	hidden.HiddenName = true
	_, literal := host.Address()
	switch {
	case !h.tls:
		return unlike(v, &tcp, "the tunnel carries plain text, which a rule has to allow as tcp")
	case v.HiddenName && (h.encrypted || h.name == ""):
		return nil
	case h.encrypted:
		return unlike(v, &hidden, "the name of the server is encrypted (ECH), which a rule has to allow as a hidden name")
	case h.name == "" && literal:
		return nil
	case h.name == "":
		return unlike(v, &hidden, "TLS names no server, which a rule has to allow as a hidden name")
	}
	if name, err := hosts.Parse(h.name); err != nil || name != host {
		return unlike(v, nil, "TLS names the server %s", messages.Visible(h.name))
	}
	return nil
}

// drainTunnel ends a tunnel whose program is gone: nobody reads what comes, and what the program has sent is passed on for a while. The
// program need not have closed its end, and need not be seen to.
func (c *connection) drainTunnel(far net.Conn, cut func()) {
	time.AfterFunc(c.proxy.options.draining, cut)
	if far := tcp(far); far != nil {
		far.CloseRead()
	}
}

// farewell tells the program why its tunnel is closed, as well as its protocol can.
func (c *connection) farewell(near net.Conn, first []byte, err error) {
	r, refused := errors.AsType[*refusal](err)
	if !refused {
		return
	}
	near.SetWriteDeadline(time.Now().Add(time.Second))
	switch method, _, _ := strings.Cut(string(first[:min(len(first), 16)]), " "); {
	case len(first) > 0 && first[0] == recordHandshake:
		near.Write([]byte{recordAlert, 3, 1, 0, 2, 2, 49}) // fatal: access denied
	case slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}, method):
		io.WriteString(near, r.response(authorityOf(c.record)))
	}
}

// Kinds of TLS records.
const (
	recordAlert     = 21
	recordHandshake = 22
)

// Bounds of the first message of TLS, with what came behind it at once.
const (
	firstRead = 4 << 10
	maxHello  = 128 << 10
)

// hello is what a tunnel begins with.
type hello struct {
	bytes     []byte // all that was read
	tls       bool
	name      string // of the server; empty if there is none
	encrypted bool
}

// encryptedHello is the TLS extension of the encrypted client hello.
const encryptedHello = 0xfe0d

var errRead = errors.New("the message was read")

// readHello reads the first message of TLS with the parser that package crypto/tls uses for its servers, and nothing if the first
// byte is not that of TLS.
func readHello(near net.Conn, early []byte) (hello, error) {
	if len(early) == 0 {
		early = make([]byte, firstRead)
		n, err := near.Read(early)
		if n == 0 {
			return hello{}, fmt.Errorf("the program sent nothing, and a tunnel for TLS begins with its message: %w", err)
		}
		early = early[:n]
	}
	h := hello{bytes: early}
	if early[0] != recordHandshake {
		return h, nil
	}
	recording := &recordingConn{Conn: near, early: early}
	err := tls.Server(recording, &tls.Config{GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
		h.tls, h.name, h.encrypted = true, info.ServerName, slices.Contains(info.Extensions, encryptedHello)
		return nil, errRead
	}}).Handshake()
	h.bytes = append(recording.seen, recording.early...)
	if !h.tls {
		return h, &refusal{status: http.StatusForbidden, reason: hosts.NotAllowed, decision: "deny", source: byRules, text: "the first message of TLS cannot be read: " + err.Error()}
	}
	return h, nil
}

// recordingConn keeps what is read, up to a bound, and writes nothing.
type recordingConn struct {
	net.Conn
	early, seen []byte
}

// Read implements io.Reader.
func (r *recordingConn) Read(b []byte) (n int, err error) {
	if len(r.seen) >= maxHello {
		return 0, errors.New("it is too long")
	}
	if len(r.early) > 0 {
		n = copy(b, r.early)
		r.early = r.early[n:]
	} else {
		n, err = r.Conn.Read(b)
	}
	r.seen = append(r.seen, b[:n]...)
	return n, err
}

// Write implements io.Writer.
func (r *recordingConn) Write(b []byte) (int, error) { return len(b), nil }

// tunnel is a connection while bytes are relayed.
type tunnel struct {
	*connection
	near, far net.Conn
	relays    atomic.Int32 // that go on
	lapsed    atomic.Bool  // one direction had ended, and the other was idle for too long
}

// relay copies in one direction. The end of one direction is passed on; an error ends both. The last relay ends the tunnel.
func (t *tunnel) relay(to, from net.Conn, count *int64) {
	n, err := flow(to, from, t.half, t.proxy.options.halfOpen)
	*count += n
	if err == nil {
		err = closeWrite(to)
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		t.lapsed.Store(true)
	}
	if err != nil {
		t.near.Close()
		t.far.Close()
	}
	if t.relays.Add(-1) > 0 {
		to.SetReadDeadline(time.Now().Add(t.proxy.options.halfOpen)) // for the other relay
		return
	}
	t.near.Close()
	t.far.Close()
	var why error
	if t.lapsed.Load() {
		why = fmt.Errorf("one side closed, and then the other neither sent nor took anything for %v", t.proxy.options.halfOpen)
	}
	t.end(why)
	t.proxy.release(t.near)
}

// half is how long a direction may be idle: zero, which means for ever, while both go on.
func (t *tunnel) half() time.Duration {
	if t.relays.Load() < 2 {
		return t.proxy.options.halfOpen
	}
	return 0
}

func closeWrite(conn net.Conn) error {
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return conn.Close()
}

// refuseHTTP answers and records.
func (c *connection) refuseHTTP(w http.ResponseWriter, r *http.Request, err error) {
	refusal, ok := errors.AsType[*refusal](err)
	if !ok {
		refusal = malformed("%s", err.Error())
	}
	drain(w)
	c.note(err)
	refusal.answer(w, r.Method, c.record)
	c.end(err)
}
