package connections

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"testing"
)

// queue is a listener that accepts what is in it, and fails if there is nothing.
type queue struct {
	net.Listener
	conns []net.Conn
}

var errNobody = errors.New("nobody connects")

func (q *queue) Accept() (net.Conn, error) {
	if len(q.conns) == 0 {
		return nil, errNobody
	}
	conn := q.conns[0]
	q.conns = q.conns[1:]
	return conn, nil
}

// tracked is a connection that knows whether it was closed.
type tracked struct {
	net.Conn
	from   string
	closed bool
}

func (c *tracked) Close() error { c.closed = true; return nil }

func (c *tracked) RemoteAddr() net.Addr {
	if c.from == "" {
		return &net.UnixAddr{}
	}
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(c.from), 1))
}

// door is a listener under test.
type door struct {
	t        *testing.T
	inner    queue
	Listener net.Listener
}

func behind(t *testing.T, most int) *door {
	d := &door{t: t}
	d.Listener = Bound(&d.inner, most)
	return d
}

// connects accepts a connection from an address.
func (d *door) connects(from string) (*Conn, *tracked) {
	d.t.Helper()
	conn := &tracked{from: from}
	d.inner.conns = append(d.inner.conns, conn)
	accepted, err := d.Listener.Accept()
	if err != nil || accepted.(*Conn).Conn != net.Conn(conn) || conn.closed {
		d.t.Fatalf("accepted %v, %v", accepted, err)
	}
	return accepted.(*Conn), conn
}

func (d *door) admits(from string) *Conn {
	d.t.Helper()
	conn, _ := d.connects(from)
	Admit(Context(d.t.Context(), conn))
	return conn
}

func (d *door) refuses(from string) {
	d.t.Helper()
	conn := &tracked{from: from}
	d.inner.conns = append(d.inner.conns, conn)
	if got, err := d.Listener.Accept(); !errors.Is(err, errNobody) || !conn.closed {
		d.t.Errorf("accepted %v, %v", got, err)
	}
}

func TestConnectionsBeyondTheBoundAreClosed(t *testing.T) {
	d := behind(t, 2)
	first := d.admits("")
	d.admits("10.0.0.1")
	d.refuses("")
	d.refuses("10.0.0.2")
	for range 2 { // the second time makes no room
		if _ = first.Close(); !first.Conn.(*tracked).closed {
			t.Error("a connection is open although it was closed")
		}
	}
	d.admits("")
	d.refuses("")
}

func TestTheOldestStrangerMakesRoom(t *testing.T) {
	d := behind(t, 4)
	known := d.admits("10.0.0.1")
	_, lone := d.connects("10.0.0.2")
	_, old := d.connects("10.0.0.1")
	_, next := d.connects("10.0.0.1")
	d.connects("10.0.0.3")
	if !old.closed || next.closed || lone.closed || known.Conn.(*tracked).closed {
		t.Error("not the oldest of the address with most strangers has made room")
	}
	d.admits("10.0.0.4")
	d.admits("10.0.0.4")
	d.admits("10.0.0.4")
	d.refuses("10.0.0.4") // all are admitted
	if known.Conn.(*tracked).closed {
		t.Error("an admitted client was locked out")
	}
}

func TestAnAddressHasSoManyStrangers(t *testing.T) {
	for name, from := range map[string][2]string{"IPv4": {"10.0.0.1", "::ffff:10.0.0.1"}, "IPv6": {"2001:db8::1", "2001:db8::ffff:2"}} {
		const most = 20
		d := behind(t, most)
		_, other := d.connects("2001:db8:0:1::1")
		_, first := d.connects(from[0])
		d.admits(from[0])
		for range most/2 - 1 {
			d.connects(from[1])
		}
		if first.closed {
			t.Errorf("%s: there was room", name)
		}
		if d.connects(from[1]); !first.closed || other.closed {
			t.Errorf("%s: the oldest stranger: %v, one from elsewhere: %v", name, first.closed, other.closed)
		}
	}
}

func TestTheTokenOfARequest(t *testing.T) {
	for header, want := range map[string]string{"Bearer secret": "secret", "bearer secret": "secret", "BEARER  secret": "secret", "Bearer": "", "": "",
		"secret": "", "Basic secret": "", "Bearersecret": ""} {
		if got := Bearer(&http.Request{Header: http.Header{"Authorization": {header}}}); got != want {
			t.Errorf("%q: got %q", header, got)
		}
	}
}
