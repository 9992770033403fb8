package execserver

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
)

// descriptors counts the open descriptors; -1 if they cannot be listed.
func descriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(entries)
}

// leavesNothing compares goroutines and descriptors before and after.
func leavesNothing(t *testing.T, do func()) {
	t.Helper()
	newSpawner(t)
	goroutines, open := runtime.NumGoroutine(), descriptors()
	do()
	until(t, func() bool { return runtime.NumGoroutine() <= goroutines && descriptors() <= open })
}

func TestManySessionsWithManyProcesses(t *testing.T) {
	const sessions, each = 100, 10
	warm := inProcess(t, newServer(t, Options{}))
	warm.open("")
	warm.result(startParams("p", "true"))
	leavesNothing(t, func() {
		s, err := NewServer(newSpawner(t), Options{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.Listen(DefaultListen, ListenOptions{Token: "t"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- l.Serve(ctx) }()
		var group sync.WaitGroup
		for range sessions {
			group.Go(func() {
				conn, _, err := wire.DialWebsocket(ctx, l.URL()+"/?token=t", nil, nil, wire.MaxMessage)
				if err != nil {
					t.Error(err)
					return
				}
				c := newClient(t, conn)
				defer c.close()
				c.open("", wire.ExtensionEnds)
				c.several(each)
			})
		}
		group.Wait()
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		s.Close()
		if len(s.sessions) != 0 {
			t.Errorf("%d sessions are left", len(s.sessions))
		}
	})
}

// several starts processes, talks to each and ends them.
func (c *client) several(n int) {
	for i := range n {
		params := startParams(fmt.Sprint(i), "cat")
		params.PipeStdin = true
		c.start(params)
	}
	for i := range n {
		c.write(fmt.Sprint(i), fmt.Sprintf("hello %d", i))
	}
	for i := range n {
		c.says(fmt.Sprint(i), fmt.Sprintf("hello %d", i))
		if i%2 == 0 {
			ask[wire.WriteResult](c.t, c, wire.ProcessCloseStdin, wire.CloseStdinParams{ProcessID: fmt.Sprint(i)})
		} else {
			ask[wire.TerminateResult](c.t, c, wire.ProcessTerminate, wire.TerminateParams{ProcessID: fmt.Sprint(i)})
		}
	}
	for i := range n {
		c.happened(fmt.Sprint(i), is(wire.ProcessEnded))
	}
}

// A thousand clients: some work, some send nothing, some send nonsense, some disconnect in the middle of a message.
func TestAThousandConnections(t *testing.T) {
	const many = 1000
	leavesNothing(t, func() {
		s, err := NewServer(newSpawner(t), Options{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.Listen(DefaultListen, ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- l.Serve(ctx) }()
		address := strings.TrimPrefix(l.URL(), "ws://")
		var group sync.WaitGroup
		var raw []net.Conn
		var clients []*client
		for i := range many {
			conn, err := net.DialTimeout("tcp", address, bound)
			if err != nil {
				t.Fatal(err)
			}
			raw = append(raw, conn)
			if i%5 == 0 { // it says nothing
				continue
			}
			if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			noise := make([]byte, 1+rand.IntN(40))
			for j := range noise {
				noise[j] = byte(rand.Uint32())
			}
			_, _ = conn.Write(noise)
			if i%5 == 1 {
				_ = conn.Close()
			}
		}
		for range 20 { // other clients do not notice
			conn, _, err := wire.DialWebsocket(ctx, l.URL(), nil, nil, wire.MaxMessage)
			if err != nil {
				t.Fatal(err)
			}
			c := newClient(t, conn)
			clients = append(clients, c)
			group.Go(func() {
				c.open("")
				if text, code := c.result(startParams("p", "echo", "hi")); text != "hi\n" || code != 0 {
					t.Errorf("got %q, %d", text, code)
				}
			})
		}
		group.Wait()
		for _, c := range clients {
			c.close()
		}
		for _, conn := range raw {
			_ = conn.Close()
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		s.Close()
	})
}

// Clients that die at any moment leave sessions, and these expire.
func TestClientsThatDieInTheMiddle(t *testing.T) {
	leavesNothing(t, func() {
		s, err := NewServer(newSpawner(t), Options{Detached: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for i := range 50 {
			here, there := net.Pipe()
			group.Go(func() { _ = s.serve(context.Background(), wire.Lines(there, there, wire.MaxMessage), false) })
			group.Go(func() {
				defer here.Close()
				go func() { _, _ = io.Copy(io.Discard, io.LimitReader(here, rand.Int64N(1<<20))) }()
				_ = here.SetDeadline(time.Now().Add(time.Second))
				text := `{"id":1,"method":"initialize","params":{"clientName":"x"}}` + "\n" + `{"method":"initialized"}` + "\n" +
					`{"id":2,"method":"process/start","params":{"processId":"p","argv":["yes"],"cwd":"/","env":{"PATH":"/usr/bin:/bin"},"tty":` + fmt.Sprint(i%2 == 0) + "}}\n" +
					`{"id":3,"method":"process/read","params":{"processId":"p","waitMs":100000,"afterSeq":1000000000}}` + "\n"
				_, _ = io.WriteString(here, text[:len(text)-rand.IntN(len(text)/2)])
			})
		}
		group.Wait()
		until(t, func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.sessions) == 0
		})
		s.Close()
	})
}
