package network

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestConnectionsAreBounded(t *testing.T) {
	r := newRig(t, Options{MaxConnections: 2})
	var open []net.Conn
	for range 2 {
		conn, err := r.tunnel("good.test:22")
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	// The next one is closed.
	if n, err := io.Copy(io.Discard, r.connect()); n != 0 || isTimeout(err) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if record := r.recorded(1)[0]; record.Allowed || record.Reason != "too many connections are open" {
		t.Errorf("%+v", record)
	}
	for _, conn := range open {
		conn.Close()
	}
	r.recorded(3)
	for late := time.Now().Add(patience); r.Stats().Connections > 0 && time.Now().Before(late); {
		time.Sleep(time.Millisecond)
	}
	if _, err := r.tunnel("good.test:22"); err != nil {
		t.Error(err)
	}
}

// hanging is a resolver that never answers.
type hanging struct{ asked, leave chan struct{} }

func (h hanging) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	h.asked <- struct{}{}
	<-h.leave
	return nil, net.ErrClosed
}

// A resolver that hangs and does not heed its context keeps neither a program that hangs up nor the proxy.
func TestAResolverThatHangs(t *testing.T) {
	h := hanging{make(chan struct{}), make(chan struct{})}
	defer close(h.leave)
	r := newRig(t, Options{Resolver: h})
	conn := r.connect()
	io.WriteString(conn, "CONNECT good.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	next(t, h.asked)
	conn.Close()
	if record := r.recorded(1)[0]; !strings.Contains(record.Reason, "the resolver did not answer in time") {
		t.Errorf("%+v", record)
	}
	io.WriteString(r.connect(), "\x05\x01\x00"+socksNamed("good.test", 443))
	next(t, h.asked)
	r.Close()
	if record := r.recorded(2)[1]; record.Allowed || record.Reason == "" {
		t.Errorf("%+v", record)
	}
}

func TestTheEndClosesWhatIsOpen(t *testing.T) {
	r := newRig(t, Options{})
	tunnel, err := r.tunnel("good.test:22")
	if err != nil {
		t.Fatal(err)
	}
	fresh, idle := r.connect(), r.connect()
	io.WriteString(idle, "GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n")
	r.recorded(1)
	r.Close()
	for _, conn := range []net.Conn{tunnel, fresh, idle} {
		if _, err := io.Copy(io.Discard, conn); isTimeout(err) {
			t.Error("a connection is still open")
		}
	}
	if s := r.Stats(); s.Connections != 0 {
		t.Errorf("%+v", s)
	}
	if reason := r.recorded(2)[1].Reason; reason != "the proxy has ended" {
		t.Error(reason)
	}
	// A proxy that has ended serves nothing, and may be ended again.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Serve(listener); err != nil {
		t.Error(err)
	}
	if _, err := listener.Accept(); err == nil {
		t.Error("the listener is still open")
	}
	r.Close()
}

func TestAListenerThatFails(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := New(Options{})
	served := make(chan error)
	go func() { served <- p.Serve(listener) }()
	listener.Close()
	if err := next(t, served); err == nil {
		t.Error("nothing says that the listener failed")
	}
	p.Close()
}

// A program ends, and its server neither closes nor sends: the tunnel is not kept for ever.
func TestAServerThatNeverCloses(t *testing.T) {
	r := newRig(t, Options{halfOpen: time.Millisecond})
	r.servers[goodAddress+":22"] = sink(t, true)
	conn, err := r.tunnel("good.test:22")
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, "hello")
	conn.Close()
	if record := r.recorded(1)[0]; record.Reason != "one side closed, and then nothing came from the other for 1ms" || record.Sent != 5 {
		t.Errorf("%+v", record)
	}
}

// A direction that goes on is not bounded by the end of the other.
func TestAServerThatGoesOnAfterItsProgramClosed(t *testing.T) {
	r := newRig(t, Options{halfOpen: patience})
	conn, err := r.tunnel("good.test:22")
	if err != nil {
		t.Fatal(err)
	}
	talks(t, conn)
	if record := r.recorded(1)[0]; record.Reason != "" {
		t.Errorf("%+v", record)
	}
}

// After bytes have flowed, idle tunnels hold no pipe.
func TestIdleTunnelsHoldNoPipe(t *testing.T) {
	pipes := func() (n int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		for _, entry := range entries {
			if to, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && strings.HasPrefix(to, "pipe:") {
				n++
			}
		}
		return n
	}
	before := pipes()
	r := newRig(t, Options{})
	r.servers[goodAddress+":22"] = sink(t, true)
	for range 20 {
		conn, err := r.tunnel("good.test:22")
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, "hello")
	}
	late := time.Now().Add(patience)
	for r.Stats().Connections < 20 || pipes() > before { // those that package net keeps for others go with the garbage
		if time.Now().After(late) {
			t.Fatalf("%d pipes are open, %d before", pipes(), before)
		}
		runtime.GC()
		time.Sleep(flowing)
	}
}
