package client

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// spawning starts a process and lets the test answer.
func spawning(s *spawner, ctx context.Context, launch ptyio.Launch) (*log, <-chan error) {
	l := newLog()
	launch.Events = l.receive
	came := make(chan error, 1)
	go func() {
		child, err := s.Spawn(ctx, launch)
		l.Child = child
		came <- err
	}()
	return l, came
}

func TestALaunchIsPassedOnWhole(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	grace := 1500 * time.Millisecond
	confinement := ptyio.Confinement{Policy: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, WritableRoots: []string{"/w"}}, Dir: "/d",
		TempDir: "/t", Least: messages.AssuranceConfined}
	e := p.enclose(s, confinement)
	_, came := spawning(s, context.Background(), ptyio.Launch{Argv: []string{"a", "b c"}, Argv0: "zero", Env: []string{"A=1", "B=x=y", "odd", "A=2"},
		Dir: "/some where", TTY: true, Size: messages.Size{Rows: 5}, Merged: true, OnLeaderExit: messages.LeaderExitKeepsTree, Grace: &grace,
		Sandbox: e, Limits: messages.Limits{OpenFiles: 7}})
	m := p.expect(wire.ProcessStart)
	var got wire.StartParams
	if err := json.Unmarshal(m.Params, &got); err != nil {
		t.Fatal(err)
	}
	want := `{"processId":"` + got.ProcessID + `","argv":["a","b c"],"cwd":"file:///some%20where","env":{"A":"2","B":"x=y"},"tty":true,"arg0":"zero",` +
		`"sandbox":{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[` +
		`{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"},` +
		`{"path":{"type":"path","path":"file:///w"},"access":"write"},{"path":{"type":"special","value":{"kind":"slash_tmp"}},"access":"write"},` +
		`{"path":{"type":"special","value":{"kind":"project_roots","subpath":".git"}},"access":"read","missing_path_behavior":"skip"},` +
		`{"path":{"type":"special","value":{"kind":"project_roots","subpath":".agents"}},"access":"read","missing_path_behavior":"skip"},` +
		`{"path":{"type":"special","value":{"kind":"project_roots","subpath":".codex"}},"access":"read","missing_path_behavior":"skip"},` +
		`{"path":{"type":"special","value":{"kind":"tmpdir"}},"access":"write"}]}},` +
		`"cwd":"file:///d","workspaceRoots":["file:///d"],"temporaryDirectories":["file:///t"],"least":"confined"},` +
		`"size":{"rows":5,"cols":80},"merged":true,"onLeaderExit":"keep","graceMs":1500,"limits":{"openFiles":7}}`
	if string(m.Params) != want {
		t.Errorf("%s\nwant\n%s", m.Params, want)
	}
	enforced := &messages.Enforcement{Level: messages.AssuranceConfined}
	p.answer(m, wire.StartResult{ProcessID: got.ProcessID, Enforced: enforced})
	if err := within(t, "the start", came); err != nil {
		t.Error(err)
	}
}

// A server that knows no sizes leaves the size of a terminal to its programs.
func TestTheSizeOfATerminalIsToldToAnyServer(t *testing.T) {
	p := newPeer(t)
	s := p.connect()
	_, came := spawning(s, context.Background(), ptyio.Launch{Argv: []string{"a"}, Env: []string{"LINES=9"}, Dir: "/", TTY: true, Size: messages.Size{Rows: 5, Cols: 7}})
	m := p.expect(wire.ProcessStart)
	var got wire.StartParams
	if err := json.Unmarshal(m.Params, &got); err != nil || got.Size != nil || got.Env["LINES"] != "9" || got.Env["COLUMNS"] != "7" {
		t.Errorf("%s, %v", m.Params, err)
	}
	p.fail(m, wire.Internal, "no")
	if err := within(t, "the start", came); err == nil {
		t.Error("it started")
	}
}

// enclose makes an enclosure.
func (p *peer) enclose(s *spawner, c ptyio.Confinement) ptyio.Enclosure {
	p.t.Helper()
	came := make(chan ptyio.Enclosure, 1)
	go func() {
		e, err := s.Enclose(context.Background(), c)
		if err != nil {
			p.t.Error(err)
		}
		came <- e
	}()
	p.answer(p.expect(wire.EnvironmentEnclose), wire.EncloseResult{Enforced: &messages.Enforcement{Level: messages.AssuranceIsolated}})
	return within(p.t, "an enclosure", came)
}

func TestASandboxIsNeverDropped(t *testing.T) {
	readOnly := ptyio.Confinement{Policy: messages.SandboxPolicy{Type: messages.SandboxReadOnly}, Least: messages.AssuranceIsolated}
	t.Run("by a server that starts without it", func(t *testing.T) {
		for _, got := range []*messages.Enforcement{nil, {Level: messages.AssuranceNone}, {Level: messages.AssuranceConfined}} {
			p := newPeer(t, all...)
			s := p.connect()
			e := p.enclose(s, readOnly)
			if told, err := s.Can(ptyio.Launch{Sandbox: e}); err != nil || told.Level != messages.AssuranceIsolated {
				t.Errorf("%v, %v", told, err)
			}
			l, came := spawning(s, context.Background(), ptyio.Launch{Argv: []string{"true"}, Dir: "/", Sandbox: e})
			m := p.expect(wire.ProcessStart)
			var params wire.StartParams
			_ = json.Unmarshal(m.Params, &params)
			p.answer(m, wire.StartResult{ProcessID: params.ProcessID, Enforced: got})
			if err := within(t, "the start", came); !errors.Is(err, messages.ErrUnsupported) {
				t.Errorf("%v: %v", got, err)
			}
			p.answer(p.expect(wire.ProcessTerminate), wire.TerminateResult{Running: true})
			l.id = params.ProcessID
			p.chunk(l, 1, "x")
			p.finish(l, 2)
			eventually(t, "it is forgotten", func() bool { return len(s.all()) == 0 })
			if len(l.events) > 0 {
				t.Errorf("a start that failed has events: %v", l)
			}
		}
	})
	t.Run("by a server that cannot look it up", func(t *testing.T) {
		p := newPeer(t, all...)
		s := p.connect()
		for _, answer := range []wire.EncloseResult{{}, {Enforced: &messages.Enforcement{Level: messages.AssuranceConfined}},
			{Error: &messages.Error{Code: messages.ErrUnsupported, Detail: "no"}}} {
			came := make(chan error, 1)
			go func() {
				_, err := s.Enclose(context.Background(), readOnly)
				came <- err
			}()
			p.answer(p.expect(wire.EnvironmentEnclose), answer)
			if err := within(t, "the answer", came); !errors.Is(err, messages.ErrUnsupported) {
				t.Errorf("%+v: %v", answer, err)
			}
		}
	})
	t.Run("by a server without extensions", func(t *testing.T) {
		s := newPeer(t).connect()
		if _, err := s.Enclose(context.Background(), readOnly); !errors.Is(err, messages.ErrUnsupported) {
			t.Error(err)
		}
		open, err := s.Enclose(context.Background(), ptyio.Confinement{Policy: messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}})
		if err != nil {
			t.Error(err)
		}
		if _, err := s.Can(ptyio.Launch{Sandbox: open}); err != nil {
			t.Error(err)
		}
		for _, launch := range []ptyio.Launch{{Sandbox: ptyio.Enclosed(readOnly)}, {Limits: messages.Limits{OpenFiles: 1}}, {Merged: true},
			{OnLeaderExit: messages.LeaderExitKeepsTree}, {Inherit: []ptyio.Inherited{{FD: 3, File: os.Stdin}}}} {
			launch.Argv, launch.Dir, launch.Events = []string{"true"}, "/", func(ptyio.Event) {}
			_, can := s.Can(launch)
			if _, err := s.Spawn(context.Background(), launch); !errors.Is(err, messages.ErrUnsupported) || !errors.Is(can, messages.ErrUnsupported) {
				t.Errorf("%+v: %v, %v", launch, err, can)
			}
		}
	})
}

// eventually waits for a condition of which no message tells.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !is(); <-time.After(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func TestAWidenedSandboxIsLookedUpAnew(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	e := p.enclose(s, ptyio.Confinement{Policy: messages.SandboxPolicy{Type: messages.SandboxReadOnly}})
	came := make(chan ptyio.Enclosure, 1)
	go func() {
		wider, err := e.Widen(context.Background(), messages.AdditionalPermissions{Network: &messages.NetworkPermissions{Enabled: true}}, "/dir")
		if err != nil {
			t.Error(err)
		}
		came <- wider
	}()
	m := p.expect(wire.EnvironmentEnclose)
	if !strings.Contains(string(m.Params), `"cwd":"file:///dir","additional":{"network":{"enabled":true}}`) {
		t.Errorf("%s", m.Params)
	}
	p.answer(m, wire.EncloseResult{Enforced: &messages.Enforcement{Level: messages.AssuranceConfined}})
	wider := within(t, "it", came)
	if wider.Confinement().Additional == nil || e.Confinement().Additional != nil || errors.Join(wider.Check(), e.Check()) != nil {
		t.Error("the enclosures depend on each other")
	}
	wider.Release()
}

func TestAFailedStart(t *testing.T) {
	typed, _ := json.Marshal(&messages.Error{Code: messages.ErrNoSuchProgram, Op: "spawn", Detail: "no such program"})
	for _, test := range []struct {
		fault wire.Fault
		code  error
	}{
		{wire.Fault{Code: wire.Internal, Message: "failed"}, messages.ErrSpawnFailed},
		{wire.Fault{Code: wire.InvalidParams, Message: "failed"}, messages.ErrInvalidRequest},
		{wire.Fault{Code: wire.UnknownMethod, Message: "failed"}, messages.ErrUnsupported},
		{wire.Fault{Code: wire.Internal, Message: "failed", Data: typed}, messages.ErrNoSuchProgram},
		{wire.Fault{Code: wire.Internal, Message: "failed", Data: json.RawMessage(`{"code":7}`)}, messages.ErrSpawnFailed},
	} {
		p := newPeer(t, all...)
		s := p.connect()
		l, came := spawning(s, context.Background(), ptyio.Launch{Argv: []string{"true"}, Dir: "/"})
		p.say(string(wire.AppendFailure(nil, p.expect(wire.ProcessStart).ID, &test.fault)))
		if err := within(t, "the start", came); !errors.Is(err, test.code) {
			t.Errorf("%+v: %v", test.fault, err)
		}
		if len(l.events) > 0 || len(s.all()) > 0 {
			t.Errorf("something is left: %v", l)
		}
	}
}

func TestAStartThatIsCancelled(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	ctx, cancel := context.WithCancel(context.Background())
	l, came := spawning(s, ctx, ptyio.Launch{Argv: []string{"true"}, Dir: "/"})
	m := p.expect(wire.ProcessStart)
	var params wire.StartParams
	_ = json.Unmarshal(m.Params, &params)
	cancel()
	end := p.expect(wire.ProcessTerminate)
	if !strings.Contains(string(end.Params), params.ProcessID) {
		t.Errorf("%s", end.Params)
	}
	p.answer(m, wire.StartResult{ProcessID: params.ProcessID}) // it had begun
	if err := within(t, "the start", came); err != nil {       // its owner waits for its end
		t.Error(err)
	}
	p.answer(end, wire.TerminateResult{Running: true})
	l.id = params.ProcessID
	p.finish(l, 1)
	if exited, tree := l.ended(t); exited.Lost != nil || len(tree.Survivors) > 0 {
		t.Errorf("%+v, %+v", exited, tree)
	}
	eventually(t, "it is forgotten", func() bool { return len(s.all()) == 0 })
	if _, err := s.Spawn(ctx, ptyio.Launch{Argv: []string{"true"}, Dir: "/", Events: func(ptyio.Event) {}}); !errors.Is(err, messages.ErrCancelled) {
		t.Error(err)
	}
	if len(s.all()) > 0 {
		t.Error("a start that was not made is remembered")
	}
}

func TestLaunchesThatMakeNoSense(t *testing.T) {
	s := newPeer(t, all...).connect()
	for _, launch := range []ptyio.Launch{{}, {Argv: []string{"a\x00b"}}, {Argv: []string{"a"}, OnLeaderExit: "x"}} {
		launch.Events = func(ptyio.Event) {}
		if _, err := s.Spawn(context.Background(), launch); !errors.Is(err, messages.ErrInvalidRequest) {
			t.Errorf("%+v: %v", launch, err)
		}
	}
}

func TestAnAbandonedProcessIsForgotten(t *testing.T) {
	for name, told := range map[string]bool{"when it ends": true, "when its end is not told": false} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, all...)
			times, limits := quick()
			limits.end = 50 * time.Millisecond
			if told {
				limits.end = patience
			}
			s := p.connectIn(times, limits)
			l := p.startLog(s, &log{holding: true})
			for i := range 10 { // more than there are credits
				p.chunk(l, uint64(i+1), strings.Repeat("x", wire.MaxChunk))
			}
			l.await(t, "the credits are out", func() bool { return len(l.hold) == ptyio.Credits/2 })
			l.Abandon()
			p.answer(p.expect(wire.ProcessTerminate), wire.TerminateResult{Running: true})
			if told {
				p.finish(l, 11)
			}
			l.ended(t)
			eventually(t, "it is forgotten", func() bool { return len(s.all()) == 0 })
		})
	}
}

func TestAnAbandonedProcessIsForgottenAlthoughTheServerDoesNotAnswerARead(t *testing.T) {
	p := newPeer(t)
	times, limits := quick()
	limits.end = 50 * time.Millisecond
	s := p.connectIn(times, limits)
	l := p.start(s, ptyio.Launch{})
	p.chunk(l, 2, "b")
	p.expect(wire.ProcessRead)
	l.Abandon()
	if exited, _ := l.ended(t); !errors.Is(exited.Lost, messages.ErrRuntimeFailure) {
		t.Errorf("%+v", exited)
	}
	s.running.Wait()
}

func TestCloseEndsEverything(t *testing.T) { synctest.Test(t, closeEndsEverything) }

func closeEndsEverything(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	good, bad := p.start(s, ptyio.Launch{}), p.start(s, ptyio.Launch{})
	came := make(chan error, 1)
	go func() { came <- s.Close() }()
	for range 2 {
		p.expect(wire.ProcessTerminate)
	}
	if _, err := s.Spawn(context.Background(), ptyio.Launch{Argv: []string{"true"}, Dir: "/", Events: func(ptyio.Event) {}}); !errors.Is(err, messages.ErrClosed) {
		t.Errorf("%v", err)
	}
	p.finish(good, 1)
	if exited, _ := good.ended(t); exited.Lost != nil {
		t.Errorf("%+v", exited)
	}
	if err := within(t, "the close", came); !errors.Is(err, messages.ErrRuntimeFailure) || !strings.Contains(err.Error(), " 1 ") {
		t.Errorf("%v", err)
	}
	if exited, tree := bad.ended(t); exited.Lost == nil || len(tree.Survivors) != 1 {
		t.Errorf("%+v, %+v", exited, tree)
	}
	p.gone()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestTheMachineOfAServer(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	r := s.Resolver()
	type answer struct {
		text string
		err  error
	}
	came := make(chan answer, 1)
	ask := func(do func() answer) { go func() { came <- do() }() }
	ask(func() answer { text, err := r.UserShell(context.Background()); return answer{text: text, err: err} })
	p.answer(p.expect(wire.EnvironmentMachine), wire.MachineResult{UserShell: "/bin/zsh", Environment: []string{"A=1"}, TrustedDirs: []string{"/nix"}})
	if a := within(t, "the shell", came); a.err != nil || a.text != "/bin/zsh" {
		t.Errorf("%+v", a)
	}
	if list, err := r.Environment(context.Background()); err != nil || list[0] != "A=1" { // known by now
		t.Errorf("%q, %v", list, err)
	}
	if list, err := r.TrustedDirs(context.Background()); err != nil || list[0] != "/nix" {
		t.Errorf("%q, %v", list, err)
	}
	ask(func() answer {
		text, err := r.Program(context.Background(), "x", "/d", "/p")
		return answer{text: text, err: err}
	})
	m := p.expect(wire.EnvironmentProgram)
	if string(m.Params) != `{"name":"x","dir":"/d","path":"/p"}` {
		t.Errorf("%s", m.Params)
	}
	p.answer(m, wire.ProgramResult{Error: &messages.Error{Code: messages.ErrNoSuchProgram, Detail: "no"}})
	if a := within(t, "the program", came); !errors.Is(a.err, messages.ErrNoSuchProgram) {
		t.Errorf("%+v", a)
	}
	leads := func() answer {
		text, err := r.(ptyio.Follower).Leads(context.Background(), "/l")
		return answer{text, err}
	}
	ask(leads)
	p.answer(p.expect(wire.EnvironmentLeads), wire.LeadsResult{Path: "/etc"})
	if a := within(t, "where a path leads", came); a.err != nil || a.text != "/etc" {
		t.Errorf("%+v", a)
	}
	ask(leads) // a server of an earlier version
	p.fail(p.expect(wire.EnvironmentLeads), wire.UnknownMethod, "no")
	if a := within(t, "where a path leads", came); a.err != nil || a.text != "" {
		t.Errorf("%+v", a)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ask(func() answer { _, err := r.IsFile(ctx, "x"); return answer{err: err} })
	p.expect(wire.EnvironmentPath)
	cancel()
	if a := within(t, "the file", came); !errors.Is(a.err, messages.ErrCancelled) {
		t.Errorf("%+v", a)
	}
}

func TestTheMachineOfAServerWithoutExtensions(t *testing.T) {
	p := newPeer(t)
	r := p.connect().Resolver()
	type answer struct {
		text string
		err  error
	}
	came := make(chan answer, 1)
	go func() {
		text, err := r.UserShell(context.Background())
		came <- answer{text, err}
	}()
	p.answer(p.expect(wire.EnvironmentInfo), wire.InfoResult{Shell: wire.Shell{Name: "zsh", Path: "/bin/zsh"}})
	if a := within(t, "the shell", came); a.err != nil || a.text != "/bin/zsh" {
		t.Errorf("%+v", a)
	}
	if list, err := r.Environment(context.Background()); err != nil || len(list) != 1 || !strings.HasPrefix(list[0], "PATH=/") {
		t.Errorf("%q, %v", list, err)
	}
	go func() {
		text, err := r.Program(context.Background(), "x", "/d", "/p:rel:/q")
		came <- answer{text, err}
	}()
	for _, path := range []string{"/p/x", "/d/rel/x"} {
		m := p.expect(getMetadata)
		if string(m.Params) != `{"path":"file://`+path+`"}` {
			t.Errorf("%s", m.Params)
		}
		p.fail(m, wire.NotFound, "no such file")
	}
	p.say(`{"id":` + p.expect(getMetadata).ID.String() + `,"result":{"isDirectory":false,"isFile":true,"isSymlink":false,"size":1}}`)
	if a := within(t, "the program", came); a.err != nil || a.text != "/q/x" {
		t.Errorf("%+v", a)
	}
	if text, err := r.Program(context.Background(), "./x", "/d", ""); err != nil || text != "/d/x" {
		t.Errorf("%q, %v", text, err)
	}
}
