package system

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// newTestSystem gives the test a system that must end, with everything it started, before the test does.
func newTestSystem(t *testing.T) *System {
	t.Helper()
	running := goleak.IgnoreCurrent()
	s := NewSystem(slog.New(slog.DiscardHandler), Options{})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		goleak.VerifyNone(t, running)
	})
	return s
}

func mustSpawn(t testing.TB, s *System, receive Receive) *PID {
	t.Helper()
	pid, err := s.Spawn("test", receive)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// end stops an actor; the channel is closed when it has ended.
func end(t testing.TB, s *System, pid *PID) <-chan struct{} {
	t.Helper()
	ended := make(chan struct{})
	mustSpawn(t, s, func(ctx *Context) {
		switch ctx.Message().(type) {
		case Started:
			ctx.Watch(pid)
			ctx.Stop(pid)
		case Terminated:
			close(ended)
			ctx.Stop(ctx.Self())
		}
	})
	return ended
}

func mustEnd(t testing.TB, s *System, pid *PID) {
	t.Helper()
	mustReceive(t, end(t, s, pid))
}

func echo(ctx *Context) { ctx.Respond(ctx.Message()) }

// gated is an actor that stays inside of Receive from the message "block" until the gate opens, or panics then.
type gated struct {
	entered, open chan struct{}
	panics        bool
}

func newGated() *gated { return &gated{entered: make(chan struct{}), open: make(chan struct{})} }

func (g *gated) receive(ctx *Context) {
	if ctx.Message() == "block" {
		close(g.entered)
		<-g.open
		if g.panics {
			panic("told to")
		}
	}
	ctx.Respond(ctx.Message())
}

// logBuffer may be read while actors still write.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// rerunTest runs the calling test in a process of its own and returns its output.
func rerunTest(t *testing.T, environment string) (string, error) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), environment, "GORACE=atexit_sleep_ms=0")
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// captureFile returns the text that run writes to a standard file.
func captureFile(t *testing.T, file **os.File, run func()) string {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	saved := *file
	*file = writer
	run()
	*file = saved
	writer.Close()
	text, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	return string(text)
}

// mustReceive takes a value that must come.
func mustReceive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came for 10 s\n" + string(debug.Stack()))
		panic("unreachable")
	}
}
