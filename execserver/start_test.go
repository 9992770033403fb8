package execserver

import (
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

// result runs a process and returns its output and its code.
func (c *client) result(params wire.StartParams) (text string, code int) {
	c.t.Helper()
	c.start(params)
	c.happened(params.ProcessID, is(wire.ProcessClosed))
	text, _ = c.output(params.ProcessID)
	return text, paramsOf(c.happened(params.ProcessID, is(wire.ProcessExited))).ExitCode
}

func opened(t *testing.T, options Options, extensions ...wire.Extension) *client {
	c := inProcess(t, newServer(t, options))
	c.open("", extensions...)
	return c
}

func TestTheEnvironmentIsWhatTheClientSays(t *testing.T) {
	t.Setenv("EXECBUS_TEST_KEPT", "server")
	t.Setenv("EXECBUS_TEST_SECRET_X", "server")
	c := opened(t, Options{})
	exact := startParams("exact", "/usr/bin/env")
	exact.Env = map[string]string{"A": "1", "B": "x y"}
	if text, _ := c.result(exact); text != "A=1\nB=x y\n" {
		t.Errorf("got %q", text)
	}
	overlaid := startParams("overlaid", "/usr/bin/env")
	overlaid.Env = map[string]string{"A": "overlay", "C": "3"}
	overlaid.EnvPolicy = &wire.EnvPolicy{Inherit: messages.InheritAll, Set: map[string]string{"A": "policy", "B": "2"}, Exclude: []string{"PATH"}}
	text, _ := c.result(overlaid)
	lines := strings.Split(text, "\n")
	for _, want := range []string{"A=overlay", "B=2", "C=3", "EXECBUS_TEST_KEPT=server"} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
	if strings.Contains(text, "SECRET") || strings.Contains(text, "\nPATH=") {
		t.Errorf("got %s", text)
	}
	open := startParams("open", "/usr/bin/env")
	open.EnvPolicy = &wire.EnvPolicy{Inherit: messages.InheritAll, IgnoreDefaultExcludes: true}
	if text, _ := c.result(open); !strings.Contains(text, "EXECBUS_TEST_SECRET_X=server") {
		t.Errorf("got %s", text)
	}
	wrong := startParams("wrong", "/usr/bin/env")
	wrong.EnvPolicy = &wire.EnvPolicy{Inherit: "some"}
	refused(t, c, wire.ProcessStart, wrong, wire.InvalidParams, "some")
	wrong.EnvPolicy, wrong.Env = nil, map[string]string{"A=B": ""}
	refused(t, c, wire.ProcessStart, wrong, wire.InvalidParams, "A=B")
}

func TestTheDirectoryIsAPathOrAURI(t *testing.T) {
	c := opened(t, Options{})
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	odd := filepath.Join(dir, "a b%c")
	if err := os.Mkdir(odd, 0o755); err != nil {
		t.Fatal(err)
	}
	for id, cwd := range map[string]string{"path": odd, "uri": wire.FileURI(odd), "host": "file://localhost" + strings.TrimPrefix(wire.FileURI(odd), "file://")} {
		params := startParams(id, "pwd", "-P")
		params.Cwd = cwd
		if text, _ := c.result(params); text != odd+"\n" {
			t.Errorf("%s: got %q", cwd, text)
		}
	}
	for _, cwd := range []string{"", ".", "dir", "file:dir", "file://elsewhere/tmp", "http://localhost/tmp", "file:///tmp?x", "file:///a%00b", "file:///%zz", "C:\\x"} {
		params := startParams("no", "pwd")
		params.Cwd = cwd
		refused(t, c, wire.ProcessStart, params, wire.InvalidParams, "params.cwd")
	}
	params := startParams("p", "pwd")
	params.Cwd = filepath.Join(dir, "none")
	refused(t, c, wire.ProcessStart, params, wire.Internal, "none")
}

func TestAFailedStartGivesTheIDBack(t *testing.T) {
	c := opened(t, Options{})
	refused(t, c, wire.ProcessStart, startParams("p"), wire.InvalidParams, "argv")
	refused(t, c, wire.ProcessStart, startParams("p", "/nonexistent/program"), wire.Internal, "/nonexistent/program")
	refused(t, c, wire.ProcessRead, wire.ReadParams{ProcessID: "p"}, wire.InvalidRequest, "unknown process id p")
	refused(t, c, wire.ProcessStart, startParams(strings.Repeat("x", maxID+1), "true"), wire.InvalidParams, "processId")
	if _, code := c.result(startParams("p", "true")); code != 0 {
		t.Errorf("got %d", code)
	}
}

func TestNobodyElseManagesTheNetwork(t *testing.T) {
	c := opened(t, Options{})
	for _, field := range []string{`"enforceManagedNetwork":true`, `"managedNetwork":{}`, `"networkProxy":{"x":1}`} {
		raw := []byte(`{"processId":"p","argv":["true"],"cwd":"/","env":{},"tty":false,` + field + `}`)
		refused(t, c, wire.ProcessStart, rawParams(raw), wire.InvalidParams, "manages no network")
	}
	raw := []byte(`{"processId":"p","argv":["true"],"cwd":"/","env":{},"tty":false,"enforceManagedNetwork":false,"managedNetwork":null,"networkProxy":null,"sandbox":null}`)
	ask[wire.StartResult](t, c, wire.ProcessStart, rawParams(raw))
}

type rawParams []byte

func (r rawParams) MarshalJSON() ([]byte, error) { return r, nil }

func TestOneOfManyEqualStartsSucceeds(t *testing.T) {
	c := opened(t, Options{})
	const many = 20
	var answers []<-chan wire.Message
	for range many {
		answers = append(answers, c.send(wire.ProcessStart, startParams("p", "sleep", "1000")))
	}
	succeeded := 0
	for _, answer := range answers {
		if _, fault := understood[wire.StartResult](t, answer); fault == nil {
			succeeded++
		} else if fault.Code != wire.InvalidRequest || !strings.Contains(fault.Message, "p already exists") {
			t.Errorf("got %v", fault)
		}
	}
	if succeeded != 1 {
		t.Errorf("%d starts succeeded", succeeded)
	}
}

// gated is a spawner whose starts wait.
type gated struct {
	ptyio.Spawner
	entered, open chan struct{}
	once          *sync.Once
}

func newGated(t *testing.T) gated {
	return gated{newSpawner(t), make(chan struct{}), make(chan struct{}), &sync.Once{}}
}

func (g gated) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	g.once.Do(func() { close(g.entered) })
	select {
	case <-g.open:
	case <-ctx.Done():
		return nil, &messages.Error{Code: messages.ErrCancelled, Op: "spawn", Detail: "cancelled"}
	}
	return g.Spawner.Spawn(ctx, launch)
}

func TestRequestsAboutAProcessThatStarts(t *testing.T) {
	g := newGated(t)
	c := inProcess(t, newServerOf(t, g, Options{}))
	c.open("")
	params := startParams("p", "cat")
	params.PipeStdin = true
	started := c.send(wire.ProcessStart, params)
	<-g.entered
	refused(t, c, wire.ProcessRead, wire.ReadParams{ProcessID: "p"}, wire.InvalidRequest, "process id p is starting")
	resized := c.send(wire.ProcessResize, wire.ResizeParams{ProcessID: "p"})
	close(g.open)
	if _, fault := understood[wire.Empty](t, resized); fault == nil || fault.Code != wire.InvalidRequest { // it is not on a terminal
		t.Errorf("resized: %v", fault)
	}
	if _, fault := understood[wire.StartResult](t, started); fault != nil {
		t.Error(fault)
	}
	c.write("p", "x")
	c.says("p", "x")
}

func TestAStartIsCancelledByTerminate(t *testing.T) {
	g := newGated(t)
	c := inProcess(t, newServerOf(t, g, Options{}))
	c.open("")
	started := c.send(wire.ProcessStart, startParams("p", "true"))
	<-g.entered
	if result := ask[wire.TerminateResult](t, c, wire.ProcessTerminate, wire.TerminateParams{ProcessID: "p"}); !result.Running {
		t.Errorf("got %+v", result)
	}
	if _, fault := understood[wire.StartResult](t, started); fault == nil || fault.Code != wire.InvalidRequest || !strings.Contains(fault.Message, "start was cancelled") {
		t.Errorf("got %v", fault)
	}
	close(g.open)
	c.start(startParams("p", "true"))
}

// tardy is a spawner that returns a child late.
type tardy struct {
	ptyio.Spawner
	proceed chan struct{}
}

func (d tardy) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	child, err := d.Spawner.Spawn(ctx, launch)
	<-d.proceed
	return child, err
}

// A cancelled start is answered when nothing of it lives.
func TestACancelledStartIsAnsweredAfterTheEnd(t *testing.T) {
	proceed := make(chan struct{})
	s := newServerOf(t, tardy{newSpawner(t), proceed}, Options{})
	c := inProcess(t, s)
	c.open("")
	started := c.send(wire.ProcessStart, startParams("p", "sleep", "1000"))
	pid := 0
	untilOne(t, s, func(p *process) bool {
		if p.child != nil {
			pid = p.child.PID()
		}
		return pid > 0
	})
	ask[wire.TerminateResult](t, c, wire.ProcessTerminate, wire.TerminateParams{ProcessID: "p"})
	close(proceed)
	if _, fault := understood[wire.StartResult](t, started); fault == nil || !strings.Contains(fault.Message, "start was cancelled") {
		t.Errorf("got %v", fault)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the process lives")
	}
}

// The id is free again, and the client must not take the events of one process for those of the other.
func TestAClientHearsNothingOfAProcessWhoseStartItCancelled(t *testing.T) {
	proceed := make(chan struct{})
	s := newServerOf(t, tardy{newSpawner(t), proceed}, Options{})
	c := inProcess(t, s)
	session := c.open("", wire.ExtensionEnds)
	c.send(wire.ProcessStart, startParams("p", "sleep", "1000"))
	untilOne(t, s, func(p *process) bool { return p.child != nil })
	c.close()
	c = inProcess(t, s)
	c.open(session)
	ask[wire.TerminateResult](t, c, wire.ProcessTerminate, wire.TerminateParams{ProcessID: "p"})
	close(proceed)
	until(t, func() bool {
		s.mu.Lock()
		one := s.sessions[session]
		s.mu.Unlock()
		one.mu.Lock()
		defer one.mu.Unlock()
		return one.living == 0 && one.processes["p"] == nil
	})
	c.start(startParams("p", "echo", "hi"))
	c.happened("p", is(wire.ProcessEnded))
	if text, seqs := c.output("p"); text != "hi\n" || len(seqs) != 5 {
		t.Errorf("got %q in events %v", text, seqs)
	}
}

func TestAStartOutlivesItsConnection(t *testing.T) {
	g := newGated(t)
	s := newServerOf(t, g, Options{})
	c := inProcess(t, s)
	session := c.open("")
	c.send(wire.ProcessStart, startParams("p", "echo", "hi"))
	<-g.entered
	c.close()
	c = inProcess(t, s)
	c.open(session)
	close(g.open)
	c.happened("p", is(wire.ProcessClosed))
	if text, _ := c.output("p"); text != "hi\n" {
		t.Errorf("got %q", text)
	}
}

func TestASessionHasALimitOfProcesses(t *testing.T) {
	c := opened(t, Options{MaxProcesses: 1}, wire.ExtensionEnds)
	c.start(startParams("p", "sleep", "1000"))
	refused(t, c, wire.ProcessStart, startParams("q", "true"), wire.Internal, "limit of 1 processes")
	ask[wire.TerminateResult](t, c, wire.ProcessTerminate, wire.TerminateParams{ProcessID: "p", GraceMs: new(uint32)})
	c.happened("p", is(wire.ProcessEnded))
	c.start(startParams("q", "true"))
}

// A client that hears of an end may start the next process at once.
func TestASessionKnowsOfAnEndBeforeItsClient(t *testing.T) {
	c := opened(t, Options{MaxProcesses: 1}, wire.ExtensionEnds)
	for i := range 100 {
		id := fmt.Sprint(i)
		c.start(startParams(id, "true"))
		c.happened(id, is(wire.ProcessEnded))
	}
}

func TestAClosedProcessIsForgotten(t *testing.T) {
	s := newServer(t, Options{patience: patience{retention: time.Millisecond}})
	c := inProcess(t, s)
	session := c.open("")
	c.start(startParams("p", "true"))
	c.happened("p", is(wire.ProcessClosed))
	s.mu.Lock()
	one := s.sessions[session]
	s.mu.Unlock()
	until(t, func() bool { return one.find("p") == nil })
	c.start(startParams("p", "true"))
}

// until waits for something that nothing reports.
func until(t testing.TB, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(bound); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not happen")
		}
	}
}

func TestLateOutputIsKeptUntilTheStreamsClose(t *testing.T) {
	c := opened(t, Options{patience: patience{retention: time.Millisecond}})
	fifo := filepath.Join(t.TempDir(), "fifo")
	if _, code := c.result(startParams("make", "mkfifo", fifo)); code != 0 {
		t.Fatal(code)
	}
	c.start(shell("p", "(read line <"+fifo+"; echo late) & echo early"))
	exited := paramsOf(c.happened("p", is(wire.ProcessExited)))
	c.start(startParams("other", "true"))
	c.happened("other", is(wire.ProcessClosed))
	page := ask[wire.ReadResult](t, c, wire.ProcessRead, wire.ReadParams{ProcessID: "p"})
	if !page.Exited || page.Closed || len(page.Chunks) != 1 {
		t.Errorf("got %+v", page)
	}
	go func() { _ = os.WriteFile(fifo, []byte("\n"), 0) }()
	late, closed := paramsOf(c.happened("p", outputIs("late\n"))), paramsOf(c.happened("p", is(wire.ProcessClosed)))
	if exited.Seq != 2 || late.Seq != 3 || closed.Seq != 4 {
		t.Errorf("got %+v, %+v, %+v", exited, late, closed)
	}
}
