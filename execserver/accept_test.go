package execserver

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Clients that only connect cannot take all descriptors of the server: those beyond the bound are closed, and one that leaves makes
// room.
func TestAListenerHasSoManyConnections(t *testing.T) {
	for address, hello := range map[string]string{
		DefaultListen: "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"unix://" + filepath.Join(t.TempDir(), "s"): `{"id":1,"method":"initialize","params":{"clientName":"test"}}` + "\n",
	} {
		server, err := NewServer(newSpawner(t), Options{MaxSessions: 1})
		if err != nil {
			t.Fatal(err)
		}
		listener, err := server.Listen(address, ListenOptions{Token: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- listener.Serve(t.Context()) }()
		at := listener.listener.Addr()
		var all []net.Conn
		dial := func() net.Conn {
			conn, err := net.Dial(at.Network(), at.String())
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, conn)
			return conn
		}
		answered := func(conn net.Conn) bool {
			_ = conn.SetDeadline(time.Now().Add(bound))
			_, _ = io.WriteString(conn, hello) // a connection that is closed says so below
			n, _ := conn.Read(make([]byte, 1))
			return n > 0
		}
		for range 1 + spareConnections {
			dial()
		}
		if answered(dial()) {
			t.Errorf("%s: one more is served", address)
		}
		_ = all[0].Close()
		for until := time.Now().Add(bound); !answered(dial()); {
			if time.Now().After(until) {
				t.Fatalf("%s: there is no room, although one has gone", address)
			}
		}
		for _, conn := range all {
			_ = conn.Close()
		}
		server.Close()
		if err := <-served; err != nil {
			t.Error(err)
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
