package fleet

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/fleet/embedded"
	"github.com/execbus/execbus/messages"
)

// patience bounds the wait for what must happen, on a machine that is busy with other things.
const patience = time.Minute

func TestMain(m *testing.M) {
	if words := os.Getenv(role); words != "" {
		_ = os.Unsetenv(role)
		if err := runRole(strings.Split(words, "\n")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	if quick := flag.Lookup("rapid.checks"); quick != nil && quick.Value.String() == quick.DefValue {
		_ = flag.Set("rapid.checks", "15") // each has some thirty steps, and each step asks a server
	}
	goleak.VerifyTestMain(m)
}

// world is a server without a port, and nodes on it.
type world struct {
	t      *testing.T
	server *embedded.Server
	dir    string
}

// newWorld starts a server. Its lease is short, so that a test of its end does not last.
func newWorld(t *testing.T, settings Settings) *world {
	t.Helper()
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	w := &world{t: t, server: server}
	if err := Setup(w.context(), w.connect(), settings); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) context() context.Context {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	w.t.Cleanup(cancel)
	return ctx
}

func (w *world) connect() *nats.Conn {
	w.t.Helper()
	nc, err := Connect("", w.server.InProcess())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(nc.Close)
	return nc
}

// member is a node of a test.
type member struct {
	nc   *nats.Conn
	rt   *execbus.Runtime
	stop context.CancelFunc
	done chan error
}

// node starts a runtime and a node on it.
func (w *world) node(config Node) *member {
	w.t.Helper()
	return w.nodeOn(w.connect(), config)
}

func (w *world) nodeOn(nc *nats.Conn, config Node) *member {
	w.t.Helper()
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	m := &member{nc: nc, rt: rt, done: make(chan error, 1)}
	ready := make(chan struct{})
	config.Ready = func() { close(ready) }
	var ctx context.Context
	ctx, m.stop = context.WithCancel(context.Background())
	go func() { m.done <- Serve(ctx, m.nc, rt, config) }()
	w.t.Cleanup(func() {
		m.stop()
		select {
		case err := <-m.done:
			if err != nil {
				w.t.Errorf("node %s: %v", config.ID, err)
			}
		case <-time.After(patience):
			w.t.Errorf("node %s does not stop", config.ID)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := rt.Shutdown(ctx); err != nil {
			w.t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-m.done:
		w.t.Fatal(err)
	case <-time.After(patience):
		w.t.Fatal("the node is not ready")
	}
	return m
}

// stopped waits for the end of a node that ends by itself.
func (m *member) stopped(t *testing.T) {
	t.Helper()
	select {
	case err := <-m.done:
		m.done <- err
	case <-time.After(patience):
		t.Fatal("the node does not stop")
	}
}

func (w *world) open(nc *nats.Conn, p Placement) *Session {
	w.t.Helper()
	p.Session.Dir, p.Wait = or(p.Session.Dir, "/"), or(p.Wait, patience) // a busy machine may be late with a heartbeat
	s, err := Open(w.context(), nc, p)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func shell(script string) messages.ExecCommand {
	return messages.ExecCommand{Argv: []string{"/bin/sh", "-c", script}, Yield: new(20 * time.Second)}
}

// until waits for a fact.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within " + patience.String() + ": " + what)
		}
	}
}

// followed is all that Follow gives.
func followed(t *testing.T, ctx context.Context, nc *nats.Conn, s *Session, p messages.ProcessID, from int64) (output []byte, gaps []messages.Gap) {
	t.Helper()
	at := from
	for event, err := range Follow(ctx, nc, s.ID(), p, from) {
		if err != nil {
			t.Fatalf("after %d bytes: %v", at, err)
		}
		switch e := event.(type) {
		case messages.OutputDelta:
			if e.Offset != at || len(e.Bytes) > messages.MaxOutputDelta {
				t.Fatalf("%d bytes at %d, want them at %d", len(e.Bytes), e.Offset, at)
			}
			at += int64(len(e.Bytes))
			output = append(output, e.Bytes...)
		case messages.Gap:
			if e.First != at {
				t.Fatalf("%v, want it at %d", e, at)
			}
			gaps, at = append(gaps, e), e.End
		default:
			t.Fatalf("%T among the output", e)
		}
	}
	return output, gaps
}

// history is all that Events gives.
func eventsOf(t *testing.T, ctx context.Context, nc *nats.Conn, id messages.SessionID) (all []messages.Event) {
	t.Helper()
	for event, err := range Events(ctx, nc, id) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, event)
	}
	return all
}

// endsOf are the ends among events, by process. Two of one process are an error.
func endsOf(t *testing.T, events []messages.Event) map[messages.ProcessID]messages.ExecEnded {
	t.Helper()
	ends := map[messages.ProcessID]messages.ExecEnded{}
	for _, event := range events {
		if end, is := event.(messages.ExecEnded); is {
			if _, twice := ends[end.Process]; twice {
				t.Errorf("process %v has two ends", end.Process)
			}
			ends[end.Process] = end
		}
	}
	return ends
}

// abandoned joins the fleet, and enters a session "s" of a node that is gone.
func (w *world) abandoned(ctx context.Context) (*fleet, Place) {
	w.t.Helper()
	f, err := join(ctx, w.connect())
	if err != nil {
		w.t.Fatal(err)
	}
	place, err := f.change(ctx, Place{Session: "s", State: StateHeld, Node: "n", Instance: "gone", Epoch: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	return f, place
}
