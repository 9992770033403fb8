package execserver

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// noting is a spawner whose children note what they are told. A start waits until the gate is open.
type noting struct {
	stage
	entered, open chan struct{}
	fails         error
	notes         *notes
}

type notes struct {
	player
	mu   sync.Mutex
	told []string
}

func (n *notes) note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = append(n.told, fmt.Sprintf(format, args...))
}

func (n *notes) Write(input []byte, _ time.Time, done func(ptyio.Taken, error)) func() int {
	n.note("write %s", input)
	done(ptyio.Taken{Bytes: len(input)}, nil)
	return nil
}

func (n *notes) CloseStdin(done func(error)) {
	n.note("close")
	done(nil)
}

func (n *notes) Resize(size messages.Size) error {
	n.note("resize %d", size.Rows)
	return nil
}

func (n *notes) Signal(sig syscall.Signal, _ ptyio.Scope) error {
	n.note("signal %d", sig)
	return nil
}

func (s noting) Spawn(_ context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	close(s.entered)
	<-s.open
	if s.fails != nil {
		return nil, s.fails
	}
	s.notes.events = launch.Events
	launch.Events(ptyio.Spawned{Child: s.notes})
	return s.notes, nil
}

func newNoting(fails error) noting {
	return noting{entered: make(chan struct{}), open: make(chan struct{}), fails: fails, notes: &notes{}}
}

// A client need not wait for the answer to a start before it says more about the process.
func TestWhatComesBehindAStartTakesEffectInItsOrder(t *testing.T) {
	spawner := newNoting(nil)
	c := inProcess(t, newServerOf(t, spawner, Options{}))
	c.open("")
	params := startParams("p", "x")
	params.TTY = true
	answers := []<-chan wire.Message{c.send(wire.ProcessStart, params)}
	<-spawner.entered
	var want []string
	for i := range 20 {
		write := wire.WriteParams{ProcessID: "p", Chunk: wire.Chunk(fmt.Sprint(i)), UntilTaken: i%2 == 0}
		answers = append(answers, c.send(wire.ProcessWrite, write),
			c.send(wire.ProcessSignal, wire.SignalParams{ProcessID: "p", Signal: "interrupt"}),
			c.send(wire.ProcessResize, wire.ResizeParams{ProcessID: "p", Size: wire.Size{Rows: uint16(i + 1)}}))
		want = append(want, fmt.Sprint("write ", i), "signal 2", fmt.Sprint("resize ", i+1))
	}
	answers = append(answers, c.send(wire.ProcessCloseStdin, wire.CloseStdinParams{ProcessID: "p"}))
	ask[wire.StatusResult](t, c, wire.EnvironmentStatus, nil) // nothing else is held up
	close(spawner.open)
	answers = append(answers, c.send(wire.ProcessSignal, wire.SignalParams{ProcessID: "p", Signal: "SIGTERM"}))
	want = append(want, "close", "signal 15")
	for _, answer := range answers {
		if _, fault := understood[wire.WriteResult](t, answer); fault != nil {
			t.Error(fault)
		}
	}
	spawner.notes.mu.Lock()
	defer spawner.notes.mu.Unlock()
	if !slices.Equal(spawner.notes.told, want) {
		t.Errorf("got %q", spawner.notes.told)
	}
}

func TestWhatComesBehindAStartThatFailsFindsNoProcess(t *testing.T) {
	spawner := newNoting(&messages.Error{Code: messages.ErrNoSuchProgram, Op: "spawn", Detail: "there is none"})
	s := newServerOf(t, spawner, Options{MaxRequests: 4})
	c := inProcess(t, s)
	c.open("")
	started := c.send(wire.ProcessStart, startParams("p", "x"))
	<-spawner.entered
	write, signal := c.send(wire.ProcessWrite, wire.WriteParams{ProcessID: "p"}), c.send(wire.ProcessSignal, wire.SignalParams{ProcessID: "p", Signal: "interrupt"})
	resized := c.send(wire.ProcessResize, wire.ResizeParams{ProcessID: "p"})
	refused(t, c, wire.ProcessSignal, wire.SignalParams{ProcessID: "p", Signal: "interrupt"}, wire.Internal, "4 requests are unanswered")
	close(spawner.open)
	if _, fault := understood[wire.StartResult](t, started); fault == nil {
		t.Error("it has started")
	}
	if result, fault := understood[wire.WriteResult](t, write); fault != nil || result.Status != wire.WriteUnknownProcess {
		t.Errorf("write: %+v, %v", result, fault)
	}
	if _, fault := understood[wire.Empty](t, signal); fault != nil {
		t.Errorf("signal: %v", fault)
	}
	if _, fault := understood[wire.Empty](t, resized); fault == nil || !strings.Contains(fault.Message, "unknown process id p") {
		t.Errorf("resize: %v", fault)
	}
	if n := connectionOf(s).unfinished(); n != 0 {
		t.Errorf("%d operations are remembered", n)
	}
}

// What a connection had to say behind a start ends with the connection. The next connection waits for the same start.
func TestTheNextConnectionWaitsForTheStart(t *testing.T) {
	spawner := newNoting(nil)
	s := newServerOf(t, spawner, Options{})
	c := inProcess(t, s)
	session := c.open("")
	params := startParams("p", "x")
	params.TTY = true
	c.send(wire.ProcessStart, params)
	<-spawner.entered
	c.send(wire.ProcessWrite, wire.WriteParams{ProcessID: "p", Chunk: wire.Chunk("lost")})
	ask[wire.StatusResult](t, c, wire.EnvironmentStatus, nil) // it has arrived
	c.close()
	c = inProcess(t, s)
	c.open(session)
	first := c.send(wire.ProcessWrite, wire.WriteParams{ProcessID: "p", Chunk: wire.Chunk("1")})
	second := c.send(wire.ProcessResize, wire.ResizeParams{ProcessID: "p", Size: wire.Size{Rows: 2}})
	ask[wire.StatusResult](t, c, wire.EnvironmentStatus, nil)
	close(spawner.open)
	for _, answer := range []<-chan wire.Message{first, second} {
		if _, fault := understood[wire.WriteResult](t, answer); fault != nil {
			t.Error(fault)
		}
	}
	spawner.notes.mu.Lock()
	defer spawner.notes.mu.Unlock()
	if want := []string{"write 1", "resize 2"}; !slices.Equal(spawner.notes.told, want) {
		t.Errorf("got %q", spawner.notes.told)
	}
}

func TestOperationsOnAPathTakeEffectInTheirOrder(t *testing.T) {
	dir := realDir(t)
	c := opened(t, Options{})
	const pairs = 100
	long := bytes.Repeat([]byte("x"), 1<<16)
	file := func(i int) string { return filepath.Join(dir, fmt.Sprint(i)) }
	var answers []<-chan wire.Message
	for i := range pairs {
		answers = append(answers, c.send(wire.WriteFile, wire.WriteFileParams{Path: file(i), Data: long}),
			c.send(wire.WriteFile, wire.WriteFileParams{Path: file(i), Data: wire.Chunk(fmt.Sprint(i))}))
	}
	below, moved := filepath.Join(dir, "a/b/f"), filepath.Join(dir, "g")
	yes, id := true, "h"
	for _, step := range []struct {
		method string
		params any
	}{
		{wire.CreateDirectory, wire.CreateDirectoryParams{Path: filepath.Dir(below), Recursive: &yes}},
		{wire.WriteFile, wire.WriteFileParams{Path: below, Data: long}},
		{wire.Copy, wire.CopyParams{SourcePath: below, DestinationPath: moved}},
		{wire.Remove, wire.RemoveParams{Path: filepath.Join(dir, "a"), Recursive: &yes}},
		{wire.OpenFile, wire.OpenFileParams{Path: moved, HandleID: id}},
		{wire.ReadBlock, wire.ReadBlockParams{HandleID: id, Len: 1}},
		{wire.Remove, wire.RemoveParams{Path: moved}},
		{wire.ReadBlock, wire.ReadBlockParams{HandleID: id, Len: 1}},
		{wire.CloseFile, wire.CloseFileParams{HandleID: id}},
		{wire.CreateDirectory, wire.CreateDirectoryParams{Path: moved}},
	} {
		answers = append(answers, c.send(step.method, step.params))
	}
	after := c.send(wire.ReadBlock, wire.ReadBlockParams{HandleID: id})
	for i, answer := range answers {
		if _, fault := understood[any](t, answer); fault != nil {
			t.Errorf("%d: %v", i, fault)
		}
	}
	if _, fault := understood[any](t, after); fault == nil {
		t.Error("the handle is open")
	}
	for i := range pairs {
		if text, err := os.ReadFile(file(i)); string(text) != fmt.Sprint(i) {
			t.Errorf("%d: %.10q, %v", i, text, err)
		}
	}
}

// connectionOf returns the server's side of the only connection.
func connectionOf(s *Server) *connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.sessions {
		return one.conn
	}
	return nil
}

func (c *connection) unfinished() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.operations)
}

// An operation that never ends, as on a file system that has gone, holds up only what has to come after it.
func TestAHungOperationHoldsUpOnlyItsPath(t *testing.T) {
	dir := realDir(t)
	s := newServer(t, Options{})
	c := inProcess(t, s)
	c.open("")
	hung := &operation{on: []string{filepath.Join(dir, "hung")}, changes: true}
	server := connectionOf(s)
	server.beginOperation(hung)
	behind := c.send(wire.WriteFile, wire.WriteFileParams{Path: filepath.Join(dir, "hung"), Data: wire.Chunk("x")})
	further := c.send(wire.ReadFile, wire.FileParams{Path: filepath.Join(dir, "hung")})
	ask[wire.Empty](t, c, wire.WriteFile, wire.WriteFileParams{Path: filepath.Join(dir, "other"), Data: wire.Chunk("x")})
	ask[wire.Empty](t, c, wire.WriteFile, wire.WriteFileParams{Path: filepath.Join(dir, "hung-not"), Data: wire.Chunk("x")})
	if list := ask[wire.ReadDirectoryResult](t, c, wire.ReadDirectory, wire.FileParams{Path: dir}); len(list.Entries) != 2 {
		t.Errorf("got %+v", list)
	}
	server.endOperation(hung)
	if _, fault := understood[wire.Empty](t, behind); fault != nil {
		t.Error(fault)
	}
	if read, fault := understood[wire.ReadFileResult](t, further); fault != nil || string(read.Data) != "x" {
		t.Errorf("got %q, %v", read.Data, fault)
	}
	if n := server.unfinished(); n != 0 {
		t.Errorf("%d operations are remembered", n)
	}
}

// jammed is a connection on which nothing can be sent before the gate is open.
type jammed struct {
	wire.Conn
	gate chan struct{}
}

func (j jammed) Write(ctx context.Context, message []byte) error {
	if !bytes.Contains(message, []byte(`"sessionId"`)) {
		select {
		case <-j.gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return j.Conn.Write(ctx, message)
}

// jam connects over a jammed connection.
func jam(t *testing.T, options Options) (*client, *connection, chan struct{}) {
	s := newServer(t, options)
	here, there := newPair()
	gate, served := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(served)
		_ = s.serve(context.Background(), jammed{there, gate}, false)
	}()
	t.Cleanup(func() { <-served })
	c := newClient(t, here)
	c.open("")
	return c, connectionOf(s), gate
}

// A request counts until its answer is being sent, so that a client that does not read cannot fill the server's memory with answers.
func TestAnswersThatWaitCount(t *testing.T) {
	c, server, gate := jam(t, Options{MaxRequests: 4, patience: patience{stall: bound}})
	var answers []<-chan wire.Message
	look := func() { answers = append(answers, c.send(wire.GetMetadata, wire.FileParams{Path: "/"})) }
	for range 4 {
		look()
	}
	until(t, func() bool { return server.unfinished() == 0 && len(server.requests) == 3 }) // one is being sent
	look()
	until(t, func() bool { return len(server.requests) == 4 && server.unfinished() == 0 })
	if server.held.Load() == 0 {
		t.Error("the parameters of requests do not count")
	}
	if server.room(nil) == nil {
		t.Error("one more would have room")
	}
	close(gate)
	for i, answer := range answers {
		if _, fault := understood[wire.MetadataResult](t, answer); fault != nil {
			t.Errorf("%d: %v", i, fault)
		}
	}
	if n := server.held.Load(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}

func TestLargeAnswersThatWaitAreFew(t *testing.T) {
	file := filepath.Join(realDir(t), "f")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, server, gate := jam(t, Options{patience: patience{stall: bound}})
	var answers []<-chan wire.Message
	for range maxLarge + 4 {
		answers = append(answers, c.send(wire.ReadFile, wire.FileParams{Path: file}))
	}
	until(t, func() bool { return server.unfinished() == 3 }) // one answer is being sent
	ask := c.send(wire.GetMetadata, wire.FileParams{Path: file})
	until(t, func() bool { return len(server.requests) == maxLarge+4 && server.unfinished() == 3 })
	close(gate)
	for _, answer := range append(answers, ask) {
		if _, fault := understood[any](t, answer); fault != nil {
			t.Error(fault)
		}
	}
}

func TestRequestsThatWaitHaveALimitOfBytes(t *testing.T) {
	c := &connection{requests: make(chan struct{}, 1)}
	if err := c.room(make([]byte, maxHeld+1)); err != nil {
		t.Errorf("a single one: %v", err)
	}
	c.held.Store(1)
	if err := c.room(make([]byte, maxHeld-1)); err != nil {
		t.Error(err)
	}
	if err := c.room(make([]byte, maxHeld)); err == nil {
		t.Error("one more has room")
	}
}
