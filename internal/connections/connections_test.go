package connections

import (
	"errors"
	"net"
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
	closed bool
}

func (c *tracked) Close() error { c.closed = true; return nil }

func TestConnectionsBeyondTheBoundAreClosed(t *testing.T) {
	inner := &queue{}
	listener := Bound(inner, 2)
	connect := func() *tracked {
		conn := &tracked{}
		inner.conns = append(inner.conns, conn)
		return conn
	}
	accepts := func(want *tracked) net.Conn {
		t.Helper()
		conn, err := listener.Accept()
		if err != nil || conn.(*Conn).Conn != net.Conn(want) || want.closed {
			t.Fatalf("accepted %v, %v", conn, err)
		}
		return conn
	}
	refuses := func(conn *tracked) {
		t.Helper()
		if got, err := listener.Accept(); !errors.Is(err, errNobody) {
			t.Errorf("accepted %v, %v", got, err)
		}
		if !conn.closed {
			t.Error("a connection beyond the bound is open")
		}
	}
	first := accepts(connect())
	accepts(connect())
	refuses(connect())

	for range 2 { // the second time makes no room
		if _ = first.Close(); !first.(*Conn).Conn.(*tracked).closed {
			t.Error("a connection is open although it was closed")
		}
	}
	accepts(connect())
	refuses(connect())
}
