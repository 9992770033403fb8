package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/execbus/execbus/fleet/embedded"
	"github.com/execbus/execbus/messages"
)

// link is a proxy between a client and a server that can hold everything back, as a network does that loses packets.
type link struct {
	listener net.Listener
	server   string
	mu       sync.Mutex // tests cut while goroutines copy
	held     chan struct{}
	conns    []net.Conn
	copying  sync.WaitGroup
}

func newLink(t *testing.T, server string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{listener: listener, server: server}
	l.copying.Go(l.accept)
	t.Cleanup(func() {
		l.heal()
		_ = listener.Close()
		l.close()
		l.copying.Wait()
	})
	return l
}

func (l *link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", l.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		l.mu.Lock()
		l.conns = append(l.conns, client, server)
		l.mu.Unlock()
		for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
			l.copying.Go(func() { l.copy(pair[0], pair[1]) })
		}
	}
}

func (l *link) copy(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		l.mu.Lock()
		held := l.held
		l.mu.Unlock()
		if held != nil {
			<-held
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *link) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = make(chan struct{})
}

func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		close(l.held)
		l.held = nil
	}
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close()
	}
}

// listening is a world whose server has a port, for links.
func listening(t *testing.T, settings Settings) *world {
	t.Helper()
	dir := t.TempDir()
	server, err := embedded.Start(embedded.Options{Dir: dir, Listen: "127.0.0.1:0", Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, server: server, dir: dir}
	t.Cleanup(func() { w.server.Close() })
	if err := Setup(w.context(), w.connect(), settings); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) through(l *link) *nats.Conn {
	w.t.Helper()
	nc, err := Connect("nats://secret@" + l.listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(nc.Close)
	return nc
}

const shortLease = 500 * time.Millisecond

func (w *world) address() string { return strings.TrimPrefix(w.server.URL(), "nats://secret@") }

// stateOf is where a session stands, as the books say.
func stateOf(t *testing.T, ctx context.Context, nc *nats.Conn, id messages.SessionID) State {
	t.Helper()
	books, err := Look(ctx, nc)
	if err != nil {
		return ""
	}
	for _, place := range books.Sessions {
		if place.Session == id {
			return place.State
		}
	}
	return ""
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestACutLinkIsNoEnd(t *testing.T) {
	w := listening(t, Settings{Lease: shortLease})
	l := newLink(t, w.address())
	w.nodeOn(w.through(l), Node{ID: "n"})
	nc, ctx := w.connect(), w.context()
	s := w.open(nc, Placement{})
	result, err := s.Exec(ctx, messages.ExecCommand{Argv: []string{"/bin/sh", "-c", "echo before; read -r l; echo $l; read -r l; echo $l"}, OpenStdin: true, Yield: new(patience),
		Until: &messages.Until{Pattern: "before"}}) // a process that is only starting takes no input
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(ctx, messages.WriteStdin{Process: result.Process, Bytes: []byte("one\n"), UntilTaken: true}); err != nil {
		t.Fatal(err)
	}
	l.hold()
	until(t, "the session is unreachable", func() bool { return stateOf(t, ctx, nc, s.ID()) == StateUnreachable })
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := s.List(short); !errors.Is(err, messages.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that was given up: %v", err)
	}
	waiting := make(chan error, 1)
	go func() { // this one waits until the node is back
		_, err := s.Write(ctx, messages.WriteStdin{Process: result.Process, Bytes: []byte("two\n"), UntilTaken: true})
		waiting <- err
	}()
	l.heal()
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	output, gaps := followed(t, ctx, nc, s, result.Process, 0)
	if string(output) != "before\none\ntwo\n" || gaps != nil {
		t.Errorf("%q, %v", output, gaps)
	}
	if _, err := s.Wait(ctx, messages.Wait{For: []messages.WaitFor{{Process: result.Process}}, NoTimeout: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if end := endsOf(t, eventsOf(t, ctx, nc, s.ID()))[result.Process]; end.Cause != messages.CauseExited {
		t.Errorf("%v", end)
	}
}

func TestALostNodeEndsWhatItHad(t *testing.T) {
	w := listening(t, Settings{Lease: shortLease})
	l := newLink(t, w.address())
	lost := w.nodeOn(w.through(l), Node{ID: "lost", Labels: map[string]string{"which": "lost"}})
	w.node(Node{ID: "other", LostAfter: 6 * shortLease})
	nc, ctx := w.connect(), w.context()
	s := w.open(nc, Placement{Labels: map[string]string{"which": "lost"}})
	result, err := s.Exec(ctx, messages.ExecCommand{Argv: []string{"/bin/sh", "-c", "echo $$; exec sleep 1000"}, Yield: new(time.Duration)})
	if err != nil {
		t.Fatal(err)
	}
	done, err := s.Exec(ctx, shell("true"))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the second process is stored", func() bool {
		f, err := join(ctx, nc)
		if err != nil {
			return false
		}
		last, err := f.events.GetLastMsgForSubject(ctx, eventSubject(s.ID()))
		return err == nil && strings.Contains(string(last.Data), `"exec_ended"`)
	})
	var pid int
	for event, err := range Follow(ctx, nc, s.ID(), result.Process, 0) {
		if err != nil {
			t.Fatal(err)
		}
		pid, _ = strconv.Atoi(strings.TrimSpace(string(event.(messages.OutputDelta).Bytes)))
		break
	}
	until(t, "the output is stored", func() bool { // a reader may have it before
		_, err := s.fleet.output.GetLastMsgForSubject(ctx, outputSubject(s.ID(), result.Process))
		return err == nil
	})
	l.hold()
	if _, err := s.List(ctx); !errors.Is(err, messages.ErrNodeLost) || !strings.Contains(err.Error(), "lost") {
		t.Errorf("a call to a lost session: %v", err)
	}
	until(t, "the session is lost", func() bool { return stateOf(t, ctx, nc, s.ID()) == StateLost })
	before := eventsOf(t, ctx, nc, s.ID())
	ends := endsOf(t, before)
	if len(ends) != 2 || ends[result.Process].Cause != messages.CauseNodeLost || ends[done.Process].Cause != messages.CauseExited {
		t.Errorf("%+v", ends)
	}
	output, gaps := followed(t, ctx, nc, s, result.Process, 0)
	if string(output) != strconv.Itoa(pid)+"\n" || len(gaps) != 1 || gaps[0].End != messages.UnknownEnd {
		t.Errorf("%q, %v", output, gaps)
	}
	if !alive(pid) {
		t.Fatal("the process of a node whose link is cut has ended")
	}
	l.heal() // the node comes back, and finds that it was given up
	until(t, "its process has ended", func() bool { return !alive(pid) })
	until(t, "its session has ended", func() bool {
		stats, err := lost.rt.Stats(ctx)
		return err == nil && stats.Sessions == 0
	})
	if after := eventsOf(t, ctx, nc, s.ID()); len(after) != len(before) {
		t.Errorf("a node that was given up has published: %v", after[len(before):])
	}
	if again := w.open(nc, Placement{Labels: map[string]string{"which": "lost"}}); again.Node() != "lost" {
		t.Errorf("it is on %s", again.Node())
	}
}

// What the server no longer has of a lost node's output is a gap with its range, in front of what it has.
func TestAHoleInTheOutputOfALostNodeIsAGap(t *testing.T) {
	w := listening(t, Settings{Lease: shortLease})
	l := newLink(t, w.address())
	lost := w.nodeOn(w.through(l), Node{ID: "n"})
	nc, ctx := w.connect(), w.context()
	s := w.open(nc, Placement{})
	result, err := s.Exec(ctx, messages.ExecCommand{Argv: []string{"/bin/sh", "-c", "echo one; read -r l; echo two; sleep 1000"}, OpenStdin: true, Yield: new(time.Duration)})
	if err != nil {
		t.Fatal(err)
	}
	var seen string
	for event, err := range Follow(ctx, nc, s.ID(), result.Process, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if seen += string(event.(messages.OutputDelta).Bytes); seen == "one\ntwo\n" {
			break
		}
		if _, err := s.Write(ctx, messages.WriteStdin{Process: result.Process, Bytes: []byte("go\n"), NoWait: true}); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the last output is stored", func() bool { // a reader may have it before
		last, err := s.fleet.output.GetLastMsgForSubject(ctx, outputSubject(s.ID(), result.Process))
		return err == nil && string(last.Data) == "two\n"
	})
	if err := s.fleet.output.Purge(ctx, jetstream.WithPurgeSubject(outputSubject(s.ID(), result.Process)), jetstream.WithPurgeKeep(1)); err != nil {
		t.Fatal(err)
	}
	l.hold()
	until(t, "the node is given up", func() bool { return GiveUp(ctx, nc, "n") == nil })
	output, gaps := followed(t, ctx, nc, s, result.Process, 0)
	if string(output) != "two\n" || len(gaps) != 2 || gaps[0].End != 4 || gaps[1].First != 8 || gaps[1].End != messages.UnknownEnd {
		t.Errorf("%q, %v", output, gaps)
	}
	l.heal()
	until(t, "the node has ended the session", func() bool {
		stats, err := lost.rt.Stats(ctx)
		return err == nil && stats.Sessions == 0
	})
}

// An event that nobody here can read keeps no session from being given up, and hides none that was stored with it.
func TestASessionWithEventsOfANewerVersionIsGivenUp(t *testing.T) {
	w := newWorld(t, Settings{})
	ctx := w.context()
	f, place := w.abandoned(ctx)
	started, err := json.Marshal(messages.ExecStarted{Origin: messages.Origin{Session: "s", Process: 7}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.js.Publish(ctx, eventSubject("s"), append([]byte(`{"kind":"of tomorrow"}`+"\n"), started...)); err != nil {
		t.Fatal(err)
	}
	if err := f.lose(ctx, place, "test"); err != nil {
		t.Fatal(err)
	}
	all := eventsOf(t, ctx, f.nc, "s")
	if ends := endsOf(t, all); len(all) != 3 || all[1].Kind() != messages.KindExecNotice || ends[7].Cause != messages.CauseNodeLost {
		t.Errorf("%v", all)
	}
}

// A program that serves a node again gives up what its killed predecessor had; here the predecessor is a node whose link stays cut.
func TestANodeThatStartsAgainGivesUpWhatItHad(t *testing.T) {
	w := listening(t, Settings{Lease: shortLease})
	l := newLink(t, w.address())
	first := w.nodeOn(w.through(l), Node{ID: "n"})
	nc, ctx := w.connect(), w.context()
	s := w.open(nc, Placement{})
	result, err := s.Exec(ctx, messages.ExecCommand{Argv: []string{"sleep", "1000"}, Yield: new(time.Duration)})
	if err != nil {
		t.Fatal(err)
	}
	if err := GiveUp(ctx, nc, "n"); !errors.Is(err, messages.ErrWrongState) {
		t.Errorf("gave up a node that can be reached: %v", err)
	}
	l.hold()
	w.node(Node{ID: "n"})
	if end := endsOf(t, eventsOf(t, ctx, nc, s.ID()))[result.Process]; end.Cause != messages.CauseNodeLost {
		t.Errorf("%+v", end)
	}
	if err := GiveUp(ctx, nc, "absent"); err != nil {
		t.Errorf("a node that is not there: %v", err)
	}
	l.heal()
	if err := <-first.done; !errors.Is(err, messages.ErrInvalidRequest) {
		t.Errorf("the first program serves on: %v", err)
	}
	first.done <- nil
	until(t, "the first program has no session", func() bool { // a runtime counts an end a moment later
		stats, err := first.rt.Stats(ctx)
		return err == nil && stats.Sessions == 0
	})
}

func TestTheServerMayBeRestarted(t *testing.T) {
	w := listening(t, Settings{Lease: shortLease})
	address := w.address()
	nc := w.through(newLink(t, address))
	w.nodeOn(w.through(newLink(t, address)), Node{ID: "n", LostAfter: 10 * shortLease})
	ctx := w.context()
	s := w.open(nc, Placement{})
	result, err := s.Exec(ctx, messages.ExecCommand{Argv: []string{"/bin/sh", "-c", "echo before; read -r l; echo $l"}, OpenStdin: true, Yield: new(patience),
		Until: &messages.Until{Pattern: "before"}})
	if err != nil {
		t.Fatal(err)
	}
	w.server.Close()
	restarted := make(chan error, 1)
	go func() {
		_, err := s.Write(ctx, messages.WriteStdin{Process: result.Process, Bytes: []byte("after\n"), UntilTaken: true})
		restarted <- err
	}()
	until(t, "the server is back at its address", func() bool { // of which another program may have the port for a moment
		server, err := embedded.Start(embedded.Options{Dir: w.dir, Listen: address, Token: "secret"})
		if err == nil {
			w.server = server
		}
		return err == nil
	})
	if err := <-restarted; err != nil {
		t.Fatal(err)
	}
	output, gaps := followed(t, ctx, nc, s, result.Process, 0)
	if string(output) != "before\nafter\n" || gaps != nil {
		t.Errorf("%q, %v", output, gaps)
	}
	if _, err := s.Wait(ctx, messages.Wait{For: []messages.WaitFor{{Process: result.Process}}, NoTimeout: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if ends := endsOf(t, eventsOf(t, ctx, nc, s.ID())); len(ends) != 1 || ends[result.Process].Cause != messages.CauseExited {
		t.Errorf("%+v", ends)
	}
}
