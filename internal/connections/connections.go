// Package connections bounds how many connections a server has at a time, and keeps clients that only connect from locking out others.
//
//	front := &http.Server{Handler: handler, ConnContext: connections.Context}
//	err := front.Serve(connections.Bound(listener, 256))
//
// A connection is a stranger's until [Admit] says that its client may use the server. When there is no room, a stranger's connection is
// closed for a new one: the oldest from the address from which most strangers come. Strangers from one address have at most half of the
// connections, and there, too, the oldest makes room. So a client that shows at once who it is gets in, whatever strangers do. If all
// connections are admitted, a new one is closed at once, so that its client fails at once instead of waiting for a reason it cannot
// know.
package connections

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Bound returns a listener that accepts from another one, and has at most that many connections. Closing an accepted connection makes
// room for the next. Every connection that it accepts is a *Conn.
func Bound(l net.Listener, most int) net.Listener { return &bounded{Listener: l, most: most} }

type bounded struct {
	net.Listener
	most int

	// mu guards the rest. It is held for moments, by connections that come, are admitted, or end.
	mu        sync.Mutex
	all       int
	strangers []*Conn // the oldest first
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &Conn{Conn: conn, of: b, from: origin(conn.RemoteAddr())}
		leaves, room := b.enter(c)
		if leaves != nil {
			_ = leaves.Conn.Close() // the error would interest no caller
		}
		if room {
			return c, nil
		}
		_ = conn.Close()
	}
}

// origin returns the address of a stranger, or its network.
func origin(address net.Addr) netip.Prefix {
	tcp, is := address.(*net.TCPAddr)
	if !is {
		return netip.Prefix{}
	}
	at := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := at.BitLen()
	if at.Is6() {
		bits = 64 // who has an address there usually has them all
	}
	return netip.PrefixFrom(at, bits).Masked()
}

// enter adds a stranger, and says whether there is room, and which connection has to leave for it.
func (b *bounded) enter(c *Conn) (leaves *Conn, room bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	count := map[netip.Prefix]int{}
	for _, other := range b.strangers {
		count[other.from]++
	}
	from, full := c.from, count[c.from] >= (b.most+1)/2
	if !full && b.all >= b.most {
		for origin, n := range count {
			if !full || n > count[from] {
				from, full = origin, true
			}
		}
		if !full {
			return nil, false
		}
	}
	if full {
		leaves = b.strangers[slices.IndexFunc(b.strangers, func(other *Conn) bool { return other.from == from })]
		b.remove(leaves)
	}
	b.all++
	b.strangers = append(b.strangers, c)
	return leaves, true
}

// remove forgets a connection. It is called with the lock.
func (b *bounded) remove(c *Conn) {
	if !c.left {
		c.left = true
		b.all--
		b.greet(c)
	}
}

// greet notes that a connection is no stranger's. It is called with the lock.
func (b *bounded) greet(c *Conn) {
	b.strangers = slices.DeleteFunc(b.strangers, func(other *Conn) bool { return other == c })
}

// Conn is a connection that makes room when it is closed.
type Conn struct {
	net.Conn
	of   *bounded
	from netip.Prefix
	left bool // the lock of its listener guards it
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.of.mu.Lock()
	c.of.remove(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// Admit says that the client may use the server.
func (c *Conn) Admit() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.greet(c)
}

type key struct{}

// Context is for http.Server.ConnContext. It lets Admit find the connection of a request.
func Context(ctx context.Context, conn net.Conn) context.Context {
	if encrypted, is := conn.(*tls.Conn); is {
		conn = encrypted.NetConn()
	}
	return context.WithValue(ctx, key{}, conn)
}

// Admit says that the client of a request may use the server. It does nothing if the server was set up without this package.
func Admit(ctx context.Context) {
	if c, is := ctx.Value(key{}).(*Conn); is {
		c.Admit()
	}
}

// Bearer returns the token that a request brings as "Authorization: Bearer TOKEN". The word may be written in any case.
func Bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimLeft(token, " ")
}

// bodyTime is how long the body of a request that was turned away may still come, so that its client gets the answer and no reset.
const bodyTime = time.Second

// Refuse answers a request that is not served, and ends its connection. The answer does not wait for the body.
func Refuse(w http.ResponseWriter, status int, text string) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // a writer of another kind has bounds of its own
	w.Header().Set("Connection", "close")
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	http.Error(w, text, status)
}
