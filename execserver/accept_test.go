package execserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
)

// served listens at an address, and serves until the test is over.
func served(t *testing.T, address string, options Options) (at net.Addr, dial func() net.Conn) {
	t.Helper()
	server, err := NewServer(newSpawner(t), options)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := server.Listen(address, ListenOptions{Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- listener.Serve(context.Background()) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	at = listener.listener.Addr()
	return at, func() net.Conn {
		conn, err := net.Dial(at.Network(), at.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(bound))
		return conn
	}
}

// Clients that only connect cannot take all descriptors of the server: those beyond the bound are closed, and one that leaves makes
// room.
func TestAListenerHasSoManyConnections(t *testing.T) {
	_, dial := served(t, "unix://"+filepath.Join(t.TempDir(), "s"), Options{MaxSessions: 1})
	answered := func(conn net.Conn) bool {
		_, _ = io.WriteString(conn, `{"id":1,"method":"initialize","params":{"clientName":"test"}}`+"\n") // a connection that is closed says so below
		n, _ := conn.Read(make([]byte, 1))
		return n > 0
	}
	first := dial()
	for range spareConnections {
		dial()
	}
	if answered(dial()) {
		t.Error("one more is served")
	}
	_ = first.Close()
	for until := time.Now().Add(bound); !answered(dial()); {
		if time.Now().After(until) {
			t.Fatal("there is no room, although one has gone")
		}
	}
}

// Clients without a token lock nobody out, however many connections they hold, and however slowly they send.
func TestStrangersLockNobodyOut(t *testing.T) {
	at, dial := served(t, DefaultListen, Options{MaxSessions: 1})
	connect := func() *client {
		conn, _, err := wire.DialWebsocket(t.Context(), "ws://"+at.String()+"/?token=secret", http.DefaultClient, nil, wire.MaxMessage)
		if err != nil {
			t.Fatal(err)
		}
		return newClient(t, conn)
	}
	early := connect()
	session := early.open("")
	early.start(startParams("p", "cat"))
	var silent []net.Conn
	for _, head := range []string{"", "GET / HT", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n", "GET /readyz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"} {
		for range 1 + spareConnections {
			conn := dial()
			_, _ = io.WriteString(conn, head) // it may be closed already
			silent = append(silent, conn)
		}
	}
	late := connect()
	ask[wire.StatusResult](t, early, wire.EnvironmentStatus, nil)
	early.close()
	if again := late.open(session); again != session {
		t.Errorf("got %s", again)
	}
	if _, err := silent[0].Read(make([]byte, 1)); err == nil {
		t.Error("the first stranger was not turned away")
	}
}

// A request that is refused is answered before its body has come, and its connection ends.
func TestTheBodyOfAStrangerIsNotWaitedFor(t *testing.T) {
	_, dial := served(t, DefaultListen, Options{})
	for name, head := range map[string]string{"401": "", "403": "Origin: http://evil.example\r\n"} {
		conn := dial()
		if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"+head+"\r\n{"); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		if !strings.HasPrefix(string(answer), "HTTP/1.1 "+name) || err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: got %q, %v", name, answer, err)
		}
	}
}

// A machine that has no descriptor left for a moment does not end the server.
func TestAnAcceptIsTriedAgainWhenThereIsNoRoom(t *testing.T) {
	one, other := net.Pipe()
	defer other.Close()
	tries := 0
	conn, err := patiently(t.Context(), func() (net.Conn, error) {
		if tries++; tries < 3 {
			return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
		}
		return one, nil
	})
	if err != nil || conn != one || tries != 3 {
		t.Errorf("%v, %v after %d tries", conn, err, tries)
	}
	_ = one.Close()
	if _, err := patiently(t.Context(), func() (net.Conn, error) { return nil, net.ErrClosed }); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
	over, end := context.WithCancel(t.Context())
	end()
	if _, err := patiently(over, func() (net.Conn, error) { return nil, syscall.ENFILE }); !errors.Is(err, syscall.ENFILE) {
		t.Errorf("got %v", err)
	}
}
