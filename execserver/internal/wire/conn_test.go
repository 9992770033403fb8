package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"
)

// limit bounds messages in these tests.
const limit = 1 << 10

// connected makes both sides of each transport.
var connected = map[string]func(t *testing.T) (Conn, Conn){
	"lines": func(t *testing.T) (Conn, Conn) {
		a, b := net.Pipe()
		return Lines(a, a, limit), Lines(b, b, limit)
	},
	"websocket": websockets,
}

func websockets(t *testing.T) (Conn, Conn) { return websocketsOf(t, limit) }

func websocketsOf(t testing.TB, limit int) (Conn, Conn) {
	accepted := make(chan Conn, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := Accept(w, r, limit)
		if err != nil {
			t.Error(err)
		}
		accepted <- conn
	}))
	t.Cleanup(server.Close)
	client, _, err := DialWebsocket(t.Context(), "ws"+strings.TrimPrefix(server.URL, "http"), server.Client(), nil, limit)
	if err != nil {
		t.Fatal(err)
	}
	return client, <-accepted
}

func everyTransport(t *testing.T, test func(t *testing.T, here, there Conn)) {
	for name, connect := range connected {
		t.Run(name, func(t *testing.T) {
			here, there := connect(t)
			defer there.Close()
			defer here.Close()
			test(t, here, there)
		})
	}
}

func TestMessagesComeWholeAndInOrder(t *testing.T) {
	everyTransport(t, func(t *testing.T, here, there Conn) {
		const writers, each = 4, 50
		var group sync.WaitGroup
		for w := range writers {
			group.Go(func() {
				for i := range each {
					if err := here.Write(t.Context(), fmt.Appendf(nil, "%d %d %s", w, i, strings.Repeat("x", limit/2))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		var next [writers]int
		for range writers * each {
			message, err := there.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var w, i int
			var rest string
			if _, err := fmt.Sscanf(string(message), "%d %d %s", &w, &i, &rest); err != nil || i != next[w] || len(rest) != limit/2 {
				t.Fatalf("got %.20q, %v", message, err)
			}
			next[w]++
		}
		group.Wait()
	})
}

func TestTheOtherSidesEndIsAnEnd(t *testing.T) {
	everyTransport(t, func(t *testing.T, here, there Conn) {
		go func() { _, _ = here.Read(t.Context()) }() // so that the websocket notices the end
		there.Close()
		for {
			if err := here.Write(t.Context(), []byte("{}")); err != nil {
				break
			}
		}
		if message, err := there.Read(t.Context()); err == nil {
			t.Errorf("got %q", message)
		}
		if err := errors.Join(here.Close(), here.Close()); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

func TestAContextEndsARead(t *testing.T) {
	everyTransport(t, func(t *testing.T, here, there Conn) {
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			_, err := here.Read(ctx)
			failed <- err
		}()
		cancel()
		if err := <-failed; err == nil {
			t.Error("it read something")
		}
		if err := here.Write(t.Context(), []byte("{}")); err == nil {
			t.Error("the connection is still open")
		}
	})
}

func TestAContextEndsAWriteThatNobodyReads(t *testing.T) {
	everyTransport(t, func(t *testing.T, here, there Conn) {
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			for {
				if err := here.Write(ctx, make([]byte, limit/2)); err != nil {
					failed <- err
					return
				}
			}
		}()
		cancel()
		if err := <-failed; err == nil {
			t.Error("nothing failed")
		}
	})
}

func TestALargeMessageEndsTheConnection(t *testing.T) {
	for _, name := range []string{"lines", "websocket"} {
		t.Run(name, func(t *testing.T) {
			here, there := connected[name](t)
			defer here.Close()
			defer there.Close()
			go func() {
				_ = here.Write(t.Context(), []byte(strings.Repeat("x", limit)))
				_ = here.Write(t.Context(), []byte(strings.Repeat("x", limit+1)))
			}()
			if message, err := there.Read(t.Context()); err != nil || len(message) != limit {
				t.Errorf("got %d bytes, %v", len(message), err)
			}
			if message, err := there.Read(t.Context()); !errors.Is(err, ErrTooLarge) {
				t.Errorf("got %d bytes, %v", len(message), err)
			}
		})
	}
}

func TestEmptyLinesAreNoMessages(t *testing.T) {
	from := io.NopCloser(strings.NewReader("\n \r\n{\"a\":1}\r\n\nrest"))
	conn := Lines(from, nopWriter{}, limit)
	if message, err := conn.Read(t.Context()); err != nil || string(message) != `{"a":1}` {
		t.Errorf("got %q, %v", message, err)
	}
	if message, err := conn.Read(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("got %q, %v", message, err)
	}
}

type nopWriter struct{ io.Writer }

func (nopWriter) Close() error { return nil }

func TestPingsAreAnswered(t *testing.T) {
	everyTransport(t, func(t *testing.T, here, there Conn) {
		go func() { _, _ = here.Read(t.Context()) }()
		go func() { _, _ = there.Read(t.Context()) }()
		if err := here.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestBinaryFramesAreMessages(t *testing.T) {
	here, there := websockets(t)
	defer here.Close()
	defer there.Close()
	if err := here.(*socket).conn.Write(t.Context(), websocket.MessageBinary, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if message, err := there.Read(t.Context()); err != nil || string(message) != "{}" {
		t.Errorf("got %q, %v", message, err)
	}
}

func TestSmallPacketsAreNotDelayed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	delays := make(chan bool, 2)
	look := func(conn net.Conn) {
		raw, err := conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Error(err)
			return
		}
		_ = raw.Control(func(fd uintptr) {
			on, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY)
			delays <- err != nil || on == 0
		})
	}
	server := &http.Server{ConnContext: func(ctx context.Context, conn net.Conn) context.Context { look(conn); return ctx },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if conn, err := Accept(w, r, limit); err == nil {
				conn.Close()
			}
		})}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			look(conn)
		}
		return conn, err
	}}
	conn, _, err := DialWebsocket(t.Context(), "ws://"+listener.Addr().String(), &http.Client{Transport: transport}, nil, limit)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if one, other := <-delays, <-delays; one || other {
		t.Error("a side delays small packets")
	}
}
