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

	"github.com/execbus/execbus/policy/hosts"
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
	// The next one is told so.
	if got := r.get("good.test", ""); !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "too many connections are open") {
		t.Error(got)
	}
	if got := r.send("\x05\x01\x00"); got != "\x05\xff" {
		t.Errorf("%q", got)
	}
	for _, record := range r.recorded(2) {
		if record.Allowed || record.Reason != "too many connections are open" {
			t.Errorf("%+v", record)
		}
	}
	for _, conn := range open {
		conn.Close()
	}
	r.recorded(4)
	for late := time.Now().Add(patience); r.Stats().Connections > 0 && time.Now().Before(late); {
		time.Sleep(time.Millisecond)
	}
	if _, err := r.tunnel("good.test:22"); err != nil {
		t.Error(err)
	}
}

// Those that come when even those who are told are many are closed.
func TestThoseWhoAreToldAreBounded(t *testing.T) {
	r := newRig(t, Options{MaxConnections: 1})
	if _, err := r.tunnel("good.test:22"); err != nil {
		t.Fatal(err)
	}
	for range maxTurnedAway {
		r.connect()
	}
	r.recorded(maxTurnedAway)
	if n, err := io.Copy(io.Discard, r.connect()); n != 0 || isTimeout(err) {
		t.Errorf("%d bytes, %v", n, err)
	}
	for late := time.Now().Add(patience); r.Stats().Connections > 1 && time.Now().Before(late); {
		time.Sleep(time.Millisecond)
	}
	if n := r.Stats().Connections; n != 1 {
		t.Errorf("%d connections are open", n)
	}
}

// Listeners come and go with the networks of commands, and leave nothing.
func TestListenersThatComeAndGo(t *testing.T) {
	p := New(Options{})
	defer p.Close()
	serve := func() {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error)
		go func() { served <- p.Serve(listener) }()
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if answer, _ := io.ReadAll(conn); !strings.HasPrefix(string(answer), "HTTP/1.1 400") {
			t.Errorf("%s", answer)
		}
		listener.Close()
		next(t, served)
	}
	serve()
	before := runtime.NumGoroutine()
	for range 20 {
		serve()
	}
	for late := time.Now().Add(patience); runtime.NumGoroutine() > before+5 && time.Now().Before(late); {
		time.Sleep(time.Millisecond)
	}
	if after := runtime.NumGoroutine(); after > before+5 {
		t.Errorf("%d goroutines, %d before", after, before)
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

// Lookups that hang are bounded, and those behind them are told so in their time.
func TestLookupsAreBounded(t *testing.T) {
	h := hanging{make(chan struct{}), make(chan struct{})}
	defer close(h.leave)
	p := New(Options{Resolver: h})
	defer p.Close()
	host, err := hosts.Parse("good.test")
	if err != nil {
		t.Fatal(err)
	}
	lookup := func() (context.CancelFunc, chan error) {
		ctx, cancel := context.WithCancel(t.Context())
		looked := make(chan error, 1)
		go func() {
			_, err := p.lookup(ctx, host)
			looked <- err
		}()
		return cancel, looked
	}
	for range maxLookups {
		cancel, looked := lookup()
		next(t, h.asked)
		cancel()
		next(t, looked)
	}
	cancel, looked := lookup()
	select {
	case <-h.asked:
		t.Error("one more lookup goes on")
	case <-time.After(10 * time.Millisecond):
	}
	cancel()
	if err := next(t, looked); err == nil || !strings.Contains(err.Error(), "the resolver did not answer in time") {
		t.Error(err)
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
	if record := r.recorded(1)[0]; record.Reason != "one side closed, and then the other neither sent nor took anything for 1ms" || record.Sent != 5 {
		t.Errorf("%+v", record)
	}
}

// A program fills what lies between it and a server that reads nothing, and ends. What it has left open is not kept for ever.
func TestAServerThatNeverReads(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this is only known on Linux")
	}
	fill := func(r *rig, conn *net.TCPConn, server net.Listener) {
		io.WriteString(conn, "begins")
		far, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		r.Cleanup(func() { far.Close() })
		far.Read(make([]byte, 1)) // bytes flow
		much := make([]byte, 64<<20)
		conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		conn.Write(much)
		conn.SetLinger(0) // an end behind bytes for which there is no room would not be seen
		conn.Close()
	}
	for name, open := range map[string]func(*rig) *net.TCPConn{
		"tunnel": func(r *rig) *net.TCPConn {
			conn, err := r.tunnel("good.test:22")
			if err != nil {
				t.Fatal(err)
			}
			return conn
		},
		"plain HTTP": func(r *rig) *net.TCPConn {
			conn := r.connect()
			io.WriteString(conn, "POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: 1000000000\r\n\r\n")
			return conn
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{halfOpen: 10 * time.Millisecond})
			server, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			for _, port := range []string{":22", ":80"} {
				r.servers[goodAddress+port] = server.Addr().String()
			}
			fill(r, open(r), server)
			if record := r.recorded(1)[0]; record.Sent == 0 || !record.Allowed {
				t.Errorf("%+v", record)
			}
		})
	}
}

// What nobody has shown a credential for ends with the last process that could have opened it.
func TestTheLastProcessEndsWhatIsNobodys(t *testing.T) {
	r := newRig(t, Options{})
	r.servers[goodAddress+":22"] = sink(t, true)
	r.Begin(1000)
	r.Begin(1001)
	conn, err := r.tunnel("good.test:22")
	if err != nil {
		t.Fatal(err)
	}
	r.End(1000)
	io.WriteString(conn, "hello")
	conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := conn.Read(make([]byte, 1)); !isTimeout(err) {
		t.Errorf("it ended with one of two: %v", err)
	}
	conn.SetReadDeadline(time.Now().Add(patience))
	r.End(1001)
	if _, err := conn.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Error(err)
	}
	if record := r.recorded(1)[0]; record.Reason != "the last process has ended" {
		t.Errorf("%+v", record)
	}
}

// A program sends and ends at once. The server gets all of it, though it reads late, and then the end.
func TestWhatAProgramSentBeforeItsEndArrives(t *testing.T) {
	for name, takes := range map[string]bool{"a server that reads": true, "a server that never reads": false} {
		t.Run(name, func(t *testing.T) {
			options := Options{draining: patience}
			if !takes {
				options.draining = 10 * time.Millisecond
			}
			r := newRig(t, options)
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			r.servers[goodAddress+":22"] = listener.Addr().String()
			r.Begin(1000)
			conn, err := r.tunnel("good.test:22")
			if err != nil {
				t.Fatal(err)
			}
			far, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer far.Close()
			conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
			sent, err := conn.Write(make([]byte, 32<<20)) // more than what is between them holds
			if !isTimeout(err) {
				t.Fatal(sent, err)
			}
			conn.Close()
			r.End(1000)
			if takes {
				if got, err := io.ReadAll(far); len(got) != sent || err != nil {
					t.Errorf("%d bytes of %d, %v", len(got), sent, err)
				}
			}
			if record := r.recorded(1)[0]; takes && record.Sent != int64(sent) || record.Reason != "the last process has ended" {
				t.Errorf("%d bytes were sent: %+v", sent, record)
			}
		})
	}
}

// A program that has not closed may wait for a server that does not read.
func TestAServerThatReadsLate(t *testing.T) {
	r := newRig(t, Options{halfOpen: time.Millisecond})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	r.servers[goodAddress+":22"] = listener.Addr().String()
	conn, err := r.tunnel("good.test:22")
	if err != nil {
		t.Fatal(err)
	}
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	much := make([]byte, 64<<20)
	conn.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)) // by then it is full
	sent, _ := conn.Write(much)
	if sent == len(much) {
		t.Skip("everything fits in between")
	}
	if _, err := io.CopyN(io.Discard, far, int64(sent)); err != nil {
		t.Errorf("it read not all of %d bytes: %v", sent, err)
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
