package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/execbus/execbus/execserver"
	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// newServer is a real server of execbus.
func newServer(t testing.TB) *execserver.Server {
	t.Helper()
	machine, err := sandbox.New(sandbox.Options{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	server, err := execserver.NewServer(machine, execserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Close()
		if err := machine.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// scissors is a proxy to a server. It breaks each connection after some bytes, anywhere in a message.
type scissors struct {
	listener net.Listener
	to       net.Addr
	random   *rand.Rand // belongs to the goroutine that accepts
	cuts     atomic.Int64
	most     int64
	running  sync.WaitGroup
}

// newScissors makes a proxy to an address on this machine, which breaks this number of connections.
func newScissors(t testing.TB, to net.Addr, cuts int64, random *rand.Rand) *scissors {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scissors{listener: listener, to: to, random: random, most: cuts}
	s.running.Go(s.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		s.running.Wait()
	})
	return s
}

func (s *scissors) accept() {
	for {
		near, err := s.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial(s.to.Network(), s.to.String())
		if err != nil {
			_ = near.Close()
			continue
		}
		left := new(atomic.Int64)
		left.Store(1 << 62)
		if s.cuts.Load() < s.most {
			left.Store(s.random.Int64N(200_000))
		}
		var over sync.Once
		end := func(cut bool) {
			over.Do(func() {
				if cut {
					s.cuts.Add(1)
				}
				_, _ = near.Close(), far.Close()
			})
		}
		s.running.Go(func() { end(carry(near, far, left)) })
		s.running.Go(func() { end(carry(far, near, left)) })
	}
}

// carry copies bytes until left is used up, and reports whether that is why it ended.
func carry(to io.Writer, from io.Reader, left *atomic.Int64) (cut bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		rest := left.Add(-int64(n))
		if rest < 0 {
			n = max(0, n+int(rest))
		}
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil || rest < 0 {
			return rest < 0
		}
	}
}

// socketWay makes a websocket through scissors.
func socketWay(t testing.TB, server *execserver.Server, cuts int64, random *rand.Rand) (dialer, *scissors) {
	web := httptest.NewServer(server.Handler("secret"))
	t.Cleanup(web.Close)
	way := newScissors(t, web.Listener.Addr(), cuts, random)
	return websockets(url.URL{Scheme: "ws", Host: way.listener.Addr().String()}, Options{Token: "secret"}), way
}

// lineWay makes a stream through scissors.
func lineWay(t testing.TB, server *execserver.Server, cuts int64, random *rand.Rand) (dialer, *scissors) {
	dir, err := os.MkdirTemp("", "x") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = server.ServeUnix(context.Background(), listener) })
	t.Cleanup(func() {
		_ = listener.Close()
		server.Close()
		running.Wait()
		_ = os.RemoveAll(dir)
	})
	way := newScissors(t, listener.Addr(), cuts, random)
	return func(ctx context.Context) (wire.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", way.listener.Addr().String())
		if err != nil {
			return nil, err
		}
		return wire.Lines(conn, conn, wire.MaxMessage), nil
	}, way
}

// begun begins a session. The connection may break during the handshake.
func begun(t testing.TB, dial dialer, extensions []wire.Extension) *spawner {
	t.Helper()
	times, limits := quick()
	for until := time.Now().Add(patience); ; {
		s := newSpawner(dial, "cut", times, limits)
		s.link.wanted = extensions
		err := s.link.open(context.Background())
		if err == nil {
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return s
		}
		if time.Now().After(until) {
			t.Fatal(err)
		}
	}
}

// Ten MiB go to a process and come back while the connection breaks 200 times, anywhere in a message. They must come back unchanged:
// no byte is lost, and no write is made twice.
func TestTheWayIsCut200Times(t *testing.T) {
	for name, way := range map[string]func(testing.TB, *execserver.Server, int64, *rand.Rand) (dialer, *scissors){"websocket": socketWay, "lines": lineWay} {
		for kind, extensions := range map[string][]wire.Extension{"with extensions": all, "without extensions": nil} {
			t.Run(name+" "+kind, func(t *testing.T) { cutOften(t, way, extensions) })
		}
	}
}

func cutOften(t *testing.T, way func(testing.TB, *execserver.Server, int64, *rand.Rand) (dialer, *scissors), extensions []wire.Extension) {
	const all, cuts = 10 << 20, 200
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dial, scissors := way(t, newServer(t), cuts, rand.New(rand.NewPCG(seed, 1)))
	s := begun(t, dial, extensions)
	l := newLog()
	child, err := s.Spawn(t.Context(), ptyio.Launch{Argv: []string{"cat"}, Env: []string{"PATH=/bin:/usr/bin"}, Dir: "/", OpenStdin: true, Events: l.receive})
	if err != nil {
		t.Fatal(err)
	}
	l.Child = child
	reference := make([]byte, all)
	for i := range reference {
		reference[i] = byte(random.Uint32())
	}
	const pieces = 400
	behind := 300_000
	if extensions == nil { // what was missed is read in one message, which a connection has to last for
		behind = 50_000
	}
	for i := range pieces {
		from, to := all/pieces*i, all/pieces*(i+1)
		if i == pieces-1 {
			to = all
		}
		if r := within(t, "a write", l.write(string(reference[from:to]), time.Time{})); r.err != nil || r.taken != to-from {
			t.Fatalf("write %d: %d, %v", i, r.taken, r.err)
		}
		l.await(t, "most of it is back", func() bool { return l.output.Len() >= from-behind })
	}
	l.await(t, "all is back", func() bool { return l.output.Len() >= all })
	for scissors.cuts.Load() < cuts { // the bytes of this program are few, and each of its cuts is one more
		r := within(t, "a write", l.write(string(reference[:10_000]), time.Time{}))
		if r.err != nil {
			t.Fatal(r.err)
		}
		reference = append(reference, reference[:10_000]...)
	}
	l.await(t, "the rest is back", func() bool { return l.output.Len() >= len(reference) })
	if extensions == nil {
		l.EndTree(0)
	} else {
		done := make(chan error, 1)
		l.CloseStdin(func(err error) { done <- err })
		if err := within(t, "the end of the input", done); err != nil {
			t.Error(err)
		}
	}
	exited, _ := l.ended(t)
	if exited.Lost != nil || extensions != nil && exited.Status != messages.StatusExited(0) {
		t.Errorf("%+v", exited)
	}
	if l.lost > 0 || !bytes.Equal([]byte(l.text()), reference) {
		t.Errorf("%d bytes came back of %d, and %d were lost; the first difference is at %d", len(l.text()), len(reference), l.lost,
			difference([]byte(l.text()), reference))
	}
	t.Logf("%d cuts", scissors.cuts.Load())
}

func difference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// Each start over a connection that breaks makes one process, and its output comes once.
func TestStartsOverAWayThatIsCut(t *testing.T) {
	dial, _ := socketWay(t, newServer(t), 1<<30, rand.New(rand.NewPCG(1, 2)))
	s := begun(t, dial, all)
	dir := t.TempDir()
	for i := range 100 {
		l := newLog()
		_, err := s.Spawn(t.Context(), ptyio.Launch{Argv: []string{"sh", "-c", fmt.Sprintf("echo %d >> %s/started; head -c 30000 /dev/zero; echo %[1]d", i, dir)},
			Env: []string{"PATH=/bin:/usr/bin"}, Dir: "/", Events: l.receive})
		if err != nil {
			t.Fatal(err)
		}
		if exited, _ := l.ended(t); exited.Status != messages.StatusExited(0) || l.text() != strings.Repeat("\x00", 30000)+fmt.Sprintln(i) {
			t.Errorf("%+v, %v", exited, l)
		}
	}
	started, err := os.ReadFile(dir + "/started")
	if lines := strings.Fields(string(started)); err != nil || len(lines) != 100 {
		t.Errorf("%d processes were started, %v", len(lines), err)
	}
}
