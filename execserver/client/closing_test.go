package client

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// A start that is cancelled ends with an error only if nothing of it runs. Otherwise its owner hears what becomes of the process.
func TestWhatBecomesOfAStartThatIsCancelled(t *testing.T) {
	for name, test := range map[string]struct {
		then   func(p *peer, start wire.Message)
		fails  bool
		events string
		lives  int // survivors
	}{
		"the server has cancelled it": {then: func(p *peer, start wire.Message) {
			p.fail(start, wire.InvalidRequest, "process 1 start was cancelled")
		}, fails: true},
		"the server has it, and cancels it": {then: func(p *peer, _ wire.Message) {
			_ = p.Close()
			p.resumed()
			p.fail(p.expect(wire.ProcessStart), wire.InvalidRequest, "process 1 already exists")
			for reads := 0; reads < 2; { // between the requests that end it
				if m := p.receive(); m.Method == wire.ProcessRead {
					p.fail(m, wire.InvalidRequest, []string{"process id 1 is starting", "unknown process id 1"}[reads])
					reads++
				}
			}
		}, events: "Spawned Exited Drained Closed TreeEnded"},
		"the server says nothing": {then: func(*peer, wire.Message) {}, events: "Spawned Exited Drained Closed TreeEnded", lives: 1},
		"the session is lost":     {then: func(p *peer, _ wire.Message) { p.say("nonsense") }, events: "Spawned Exited Drained Closed TreeEnded", lives: 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, all...)
			times, limits := quick()
			limits.cancel, limits.end = patience, patience
			if strings.Contains(name, "nothing") {
				limits.cancel, limits.end = time.Millisecond, time.Millisecond
			}
			s := p.connectIn(times, limits)
			ctx, cancel := context.WithCancel(context.Background())
			l, came := spawning(s, ctx, ptyio.Launch{Argv: []string{"true"}, Dir: "/"})
			start := p.expect(wire.ProcessStart)
			cancel()
			p.expect(wire.ProcessTerminate)
			test.then(p, start)
			if err := within(t, "the start", came); (err != nil) != test.fails || err != nil && !errors.Is(err, messages.ErrCancelled) {
				t.Errorf("%v", err)
			}
			if !test.fails {
				if exited, tree := l.ended(t); exited.Lost == nil || len(tree.Survivors) != test.lives {
					t.Errorf("%+v, %+v", exited, tree)
				}
			}
			eventually(t, "it is forgotten", func() bool { return len(s.all()) == 0 })
			if got := l.names(); got != test.events {
				t.Errorf("got %q", got)
			}
		})
	}
}

// The server may refuse a cancelled start when its owner has been told of the process already. Then nothing of it lives.
func TestACancelledStartIsRefusedLate(t *testing.T) {
	p := newPeer(t, all...)
	times, limits := quick()
	limits.cancel, limits.end = time.Millisecond, patience
	s := p.connectIn(times, limits)
	ctx, cancel := context.WithCancel(context.Background())
	l, came := spawning(s, ctx, ptyio.Launch{Argv: []string{"true"}, Dir: "/"})
	start := p.expect(wire.ProcessStart)
	cancel()
	if err := within(t, "the start", came); err != nil {
		t.Fatal(err)
	}
	p.fail(start, wire.InvalidRequest, "process 1 start was cancelled")
	if exited, tree := l.ended(t); exited.Lost == nil || len(tree.Survivors) != 0 {
		t.Errorf("%+v, %+v", exited, tree)
	}
}

// line is a way to a server that breaks when a start has been sent, and is mended or lost for good when the gate opens.
type line struct {
	dial dialer
	gate chan struct{}
	lost bool
	once sync.Once
}

func (l *line) connect(ctx context.Context) (conn wire.Conn, err error) {
	first := false
	l.once.Do(func() { first = true })
	if !first {
		select {
		case <-l.gate:
			if l.lost {
				return nil, final{errors.New("it has gone")}
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	conn, err = l.dial(ctx)
	if first {
		conn = breaking{conn}
	}
	return conn, err
}

type breaking struct{ wire.Conn }

func (b breaking) Write(ctx context.Context, message []byte) error {
	err := b.Conn.Write(ctx, message)
	if bytes.Contains(message, []byte(`"method":"process/start"`)) {
		_ = b.Close()
	}
	return err
}

// lives reports whether the process whose pid is in a file lives.
func lives(t *testing.T, file string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return syscall.Kill(pid, 0) == nil
}

// A session that is closed while a start is on its way and the connection is cut waits until the command has ended, or says that it does
// not know whether it has.
func TestClosingAmidAStartAndACut(t *testing.T) {
	for name, mended := range map[string]bool{"that is mended": true, "that is not": false} {
		t.Run(name, func(t *testing.T) {
			dial, _ := lineWay(t, newServer(t), 0, nil)
			way := &line{dial: dial, gate: make(chan struct{}), lost: !mended}
			times, limits := usualTimes(), usualLimits()
			limits.cancel, limits.end, times.recover, times.dial = patience, patience, patience, patience
			remote, err := begin(t.Context(), way.connect, "test", times, limits)
			if err != nil {
				t.Fatal(err)
			}
			runtime, err := execbus.Start(execbus.Options{Spawner: remote})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			defer func() { _ = runtime.Shutdown(ctx) }() // what is lost makes an error
			session, err := runtime.OpenSession(execbus.SessionOptions{Dir: "/", Approval: messages.ApprovalPolicy{Mode: messages.ApproveNever}})
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "pid")
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = session.Exec(ctx, messages.ExecCommand{Argv: []string{"/bin/sh", "-c", "echo $$ >" + file + ".new; mv " + file + ".new " + file + "; exec sleep 1000"}})
			}()
			eventually(t, "the command runs", func() bool { _, err := os.Stat(file); return err == nil })
			go func() {
				defer close(way.gate)
				link := remote.(*spawner).link
				eventually(t, "the start is cancelled", func() bool {
					link.mu.Lock()
					defer link.mu.Unlock()
					return slices.ContainsFunc(slices.Collect(maps.Values(link.calls)), func(c *call) bool { return c.cleaning })
				})
			}()
			err = session.Close(ctx)
			switch lived := lives(t, file); {
			case mended && (err != nil || lived):
				t.Errorf("the command lives: %v, %v", lived, err)
			case !mended && (!errors.Is(err, messages.ErrRuntimeFailure) || !strings.Contains(err.Error(), "may live")):
				t.Errorf("got %v", err)
			}
			<-done
		})
	}
}
