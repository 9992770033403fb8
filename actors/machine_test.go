package actors_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/actors"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/tests/probe"
)

// elsewhere is a machine where programs lie that this one does not have: under place, which is ours under tree. Where the
// kernel lets us, place is a mount that only its children see; otherwise their programs are found for them.
type elsewhere struct {
	ptyio.Spawner
	place, tree string
	mounts      bool
}

// newMachine makes the machine, with the programs of a test.
func newMachine(t *testing.T, mounts bool, programs map[string]string) *elsewhere {
	t.Helper()
	direct, err := sandbox.New(sandbox.Options{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	m := &elsewhere{Spawner: direct, place: "/mnt", tree: t.TempDir()}
	if err := os.Chmod(m.tree, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, script := range programs {
		if err := os.WriteFile(filepath.Join(m.tree, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if !mounts {
		return m
	}
	if out, err := exec.Command("unshare", m.enter("true")[1:]...).CombinedOutput(); err != nil {
		direct.Close()
		t.Skipf("there is no mount namespace: %v: %s", err, out)
	}
	m.mounts = true
	return m
}

// enter is the command line that runs another one in the namespace.
func (m *elsewhere) enter(argv ...string) []string {
	return append([]string{"unshare", "--user", "--map-root-user", "--mount", "sh", "-c", `mount --bind "$0" "$1" && shift && exec "$@"`,
		m.tree, m.place}, argv...)
}

func (m *elsewhere) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	if m.mounts {
		launch.Argv, launch.Argv0 = m.enter(launch.Argv...), ""
	} else {
		launch.Argv = slices.Clone(launch.Argv)
		launch.Argv[0] = m.here(launch.Argv[0])
	}
	return m.Spawner.Spawn(ctx, launch)
}

// here is where we see a file of the machine.
func (m *elsewhere) here(path string) string {
	if rest, within := strings.CutPrefix(path, m.place+"/"); within {
		return filepath.Join(m.tree, rest)
	}
	return path
}

func (m *elsewhere) Resolver() ptyio.Resolver { return atlas{ptyio.Local(), m} }

// atlas knows the machine.
type atlas struct {
	ptyio.Resolver
	machine *elsewhere
}

func (r atlas) Program(ctx context.Context, name, dir, path string) (string, error) {
	for place := range strings.SplitSeq(path, ":") {
		if there, err := r.IsFile(ctx, filepath.Join(place, name)); err == nil && there && !strings.Contains(name, "/") {
			return filepath.Join(place, name), nil
		}
	}
	if strings.Contains(name, "/") {
		return filepath.Join(dir, name), nil
	}
	return "", &messages.Error{Code: messages.ErrNoSuchProgram, Op: "exec", Subject: name, Detail: "the other machine does not have it"}
}

func (r atlas) UserShell(context.Context) (string, error) { return r.machine.place + "/bash", nil }

func (r atlas) IsFile(ctx context.Context, path string) (bool, error) {
	return r.Resolver.IsFile(ctx, r.machine.here(path))
}

func (r atlas) Environment(context.Context) ([]string, error) {
	return []string{"PATH=" + r.machine.place + ":/usr/bin:/bin", "MACHINE=other"}, nil
}

func (r atlas) TrustedDirs(context.Context) ([]string, error) { return []string{r.machine.place}, nil }

// visitor is a session on such a machine, with the host's end of it.
type visitor struct {
	t      *testing.T
	system *system.System
	pid    *system.PID
	events *probe.Probe
}

func visit(t *testing.T, m *elsewhere, plan func(policy.Request, policy.Snapshot) policy.Plan) *visitor {
	t.Helper()
	discard := slog.New(slog.DiscardHandler)
	v := &visitor{t: t, system: system.NewSystem(discard, system.Options{}), events: probe.New(t)}
	b := bus.New(bus.Options{})
	runtime, err := actors.StartRuntime(v.system, actors.Dependencies{Bus: b, Spawner: m, Logger: discard, MaxProcesses: 100, MakePlan: plan})
	if err != nil {
		t.Fatal(err)
	}
	seen, err := b.Subscribe(bus.Filter{}, bus.SubscribeOptions{Lossless: true})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for event, err := range seen.All(context.Background()) {
			if err != nil {
				return
			}
			v.events.Receive(event)
		}
	}()
	base, err := m.Resolver().Environment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v.pid = request[*system.PID](v, runtime, actors.OpenSession{Config: actors.SessionConfig{Session: "visit", Dir: "/", Base: base,
		LongestPoll: messages.DefaultMaxPoll, OutputTokens: messages.DefaultOutputTokens, MaxProcesses: 64, WarnProcesses: 60, Protected: 8,
		Sandbox: messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}, Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}}})
	t.Cleanup(func() {
		request[actors.Done](v, runtime, actors.CloseRuntime{})
		if err := errors.Join(v.system.Shutdown(context.Background()), m.Close()); err != nil {
			t.Error(err)
		}
		b.Close()
	})
	return v
}

const long = 20 * time.Second

func request[T any](v *visitor, to *system.PID, message any) T {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	reply, err := system.Ask[T](ctx, v.system, to, message)
	if err != nil {
		v.t.Fatalf("%T: %v", message, err)
	}
	return reply
}

func (v *visitor) exec(command any) *messages.Result {
	v.t.Helper()
	return request[*messages.Result](v, v.pid, command)
}

func TestCommandsOfAnotherMachine(t *testing.T) {
	t.Run("in a mount namespace", func(t *testing.T) { commandsElsewhere(t, true) })
	t.Run("by path", func(t *testing.T) { commandsElsewhere(t, false) })
}

func commandsElsewhere(t *testing.T, mounts bool) {
	if _, err := os.Stat("/mnt/hello"); err == nil {
		t.Skip("this machine has the program, too")
	}
	requests := make(chan policy.Request, 100)
	v := visit(t, newMachine(t, mounts, map[string]string{
		"hello": "#!/bin/sh\necho hello from $MACHINE; exit 3\n",
		"bash":  "#!/bin/sh\necho the other shell; exec /bin/sh \"$@\"\n",
		"flood": "#!/bin/sh\nyes abcdef | head -n 1000000\n",
		"idle":  "#!/bin/sh\necho up; exec sleep 1000\n",
	}), func(r policy.Request, _ policy.Snapshot) policy.Plan {
		requests <- r
		return policy.Plan{Decision: policy.Run, Source: messages.DecidedByPolicy}
	})
	t.Run("a program", func(t *testing.T) {
		got := v.exec(messages.ExecCommand{Argv: []string{"hello"}, Yield: new(messages.MaxYield)})
		if r := <-requests; r.Program != "/mnt/hello" {
			t.Errorf("planned for %q", r.Program)
		}
		if got.Running || got.Status != messages.StatusExited(3) || string(got.Output) != "hello from other\n" {
			t.Errorf("%+v", got)
		}
		if end := probe.Expect[messages.ExecEnded](v.events, long, nil); end.Cause != messages.CauseExited || end.Total != int64(len(got.Output)) {
			t.Errorf("%+v", end)
		}
	})
	t.Run("a script", func(t *testing.T) {
		got := v.exec(messages.ExecCommand{Script: "exit 5", Yield: new(messages.MaxYield)})
		if r := <-requests; r.Program != "/mnt/bash" || got.Status != messages.StatusExited(5) || !strings.Contains(string(got.Output), "the other shell") {
			t.Errorf("planned for %q, %+v", r.Program, got)
		}
	})
	t.Run("what it does not have", func(t *testing.T) {
		call := v.system.Call(v.pid, messages.ExecCommand{Argv: []string{"no-such-program"}})
		defer call.Close()
		_, err := call.Wait(t.Context())
		if r := <-requests; r.Program != policy.NotFound || !errors.Is(err, messages.ErrNoSuchProgram) {
			t.Errorf("planned for %q, %v", r.Program, err)
		}
	})
	t.Run("a flood", func(t *testing.T) { flood(t, v) })
	t.Run("cancellation", func(t *testing.T) {
		call := v.system.Call(v.pid, messages.RunCommand{Argv: []string{"idle"}})
		defer call.Close()
		probe.Expect(v.events, long, func(e messages.OutputDelta) bool { return bytes.Contains(e.Bytes, []byte("up")) })
		v.system.Send(v.pid, actors.CancelWait{Waiter: call.PID().Id})
		reply, err := call.Wait(t.Context())
		if result, is := reply.(*messages.RunResult); err != nil || !is || !result.Cancelled || string(result.Stdout) != "up\n" {
			t.Errorf("%+v, %v", reply, err)
		}
		probe.Expect(v.events, long, func(e messages.ExecEnded) bool { return e.By == messages.TerminatedByUser })
	})
	if list := request[messages.Processes](v, v.pid, actors.ListProcesses{}); len(list) > 0 {
		t.Errorf("left: %+v", list)
	}
}

// flood reads a flood from a position on, until it is over.
func flood(t *testing.T, v *visitor) {
	const all = 7_000_000
	id := v.exec(actors.StartCommand{ExecCommand: messages.ExecCommand{Argv: []string{"flood"}}}).Process
	var read, missed int64
	for over := false; !over; {
		at := read + missed
		page := request[*messages.OutputPage](v, v.pid, messages.ReadOutput{Process: id, Offset: &at, Wait: long, SkipLost: true})
		missed += page.Missed
		for _, chunk := range page.Chunks {
			if chunk.Offset != read+missed || chunk.Bytes[0] != "abcdef\n"[chunk.Offset%7] {
				t.Fatalf("a chunk at %d, want %d", chunk.Offset, read+missed)
			}
			read += int64(len(chunk.Bytes))
		}
		over = page.Ended && read+missed == page.Total
	}
	if read+missed != all {
		t.Errorf("%d bytes and %d missed", read, missed)
	}
	if end := probe.Expect(v.events, long, func(e messages.ExecEnded) bool { return e.Process == id }); end.Total != all {
		t.Errorf("%+v", end.EndRecord)
	}
}
