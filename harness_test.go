package execbus_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/execserver"
	"github.com/execbus/execbus/execserver/client"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/tests/proc"
)

// patience bounds the wait for what must happen, on a machine that is busy with other things.
const patience = 30 * time.Second

// tag is a variable that every child of these tests inherits and nobody else has.
const tag = "EXECBUS_DOOR_TESTS"

// noHome has no start files for login shells, and nobody can make it, root included. A user's own can be slow, say something, and get in one
// another's way.
const noHome = "/proc/does/not/exist"

func TestMain(m *testing.M) {
	for name, value := range map[string]string{tag: strconv.Itoa(os.Getpid()), "HOME": noHome} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(tidy{m})
}

// tidy runs the tests and then complains about processes that they have left.
type tidy struct{ *testing.M }

func (m tidy) Run() int {
	code := m.M.Run()
	for _, shared := range []func() *execbus.Runtime{onRemote, onWarden, onDirect} {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if err := shared().Shutdown(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		cancel()
	}
	server, machine := otherMachine()
	server.Close()
	if err := machine.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if left := leftovers(); code == 0 && len(left) > 0 {
		fmt.Fprintf(os.Stderr, "left behind by the tests:\n%s\n", strings.Join(left, "\n"))
		return 1
	}
	return code
}

// leftovers finds living children of these tests, by their environment, and wardens, by their parent.
func leftovers() []string {
	var left []string
	mark := []byte(tag + "=" + strconv.Itoa(os.Getpid()) + "\x00")
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		status, _ := os.ReadFile(filepath.Join(dir, "stat"))
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		warden := bytes.HasPrefix(command, []byte("execbus-warden\x00")) && parentIn(status) == os.Getpid()
		if warden || bytes.Contains(environ, mark) {
			left = append(left, filepath.Base(dir)+" "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return left
}

// parentIn takes the parent's pid out of the content of /proc/PID/stat.
func parentIn(stat []byte) int {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

// patient is a context for calls that must be answered.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// newRuntime starts a runtime that is shut down in the end.
func newRuntime(t testing.TB, options execbus.Options) *execbus.Runtime {
	t.Helper()
	rt, err := execbus.Start(options.Unhurried())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := rt.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	return rt
}

func openSession(t testing.TB, rt *execbus.Runtime, options execbus.SessionOptions) *execbus.Session {
	t.Helper()
	session, err := rt.OpenSession(options)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// Runtimes for tests that need only a session. A warden with the race detector takes a second to exit, so there is not one
// for each test.
var (
	onWarden = sync.OnceValue(func() *execbus.Runtime { return must(execbus.Start(execbus.Options{}.ViewsWithin(patience))) })
	onDirect = sync.OnceValue(func() *execbus.Runtime {
		spawner := must(sandbox.New(sandbox.Options{Direct: true}))
		return must(execbus.Start(execbus.Options{Spawner: spawner}))
	})
	// otherMachine is a server, with the spawner of its processes, and onRemote runs them there.
	otherMachine = sync.OnceValues(func() (*execserver.Server, ptyio.Spawner) {
		spawner := must(sandbox.New(sandbox.Options{Direct: true}))
		return must(execserver.NewServer(spawner, execserver.Options{})), spawner
	})
	onRemote = sync.OnceValue(func() *execbus.Runtime {
		server, _ := otherMachine()
		here, there := net.Pipe()
		go func() { _ = server.ServeStream(context.Background(), there, there) }() // ends with the client
		return must(execbus.Start(execbus.Options{Spawner: must(client.Connect(context.Background(), here, here, client.Options{}))}))
	})
)

// newSession opens a session that is closed in the end.
func newSession(t testing.TB, options execbus.SessionOptions) *execbus.Session {
	return sessionOn(t, onWarden(), options)
}

func sessionOn(t testing.TB, rt *execbus.Runtime, options execbus.SessionOptions) *execbus.Session {
	t.Helper()
	session := openSession(t, rt, options)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := session.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return session
}

// both runs a test with a session on either spawner, and on one whose children a server runs.
func both(t *testing.T, test func(t *testing.T, session *execbus.Session)) {
	for name, shared := range map[string]func() *execbus.Runtime{"warden": onWarden, "direct": onDirect, "remote": onRemote} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, sessionOn(t, shared(), execbus.SessionOptions{}))
		})
	}
}

func newSpawner(t testing.TB, direct bool) ptyio.Spawner {
	t.Helper()
	spawner, err := sandbox.New(sandbox.Options{Direct: direct})
	if err != nil {
		t.Fatal(err)
	}
	return spawner
}

// bash is a command that runs a script and can be written to.
func bash(script string) messages.ExecCommand {
	return messages.ExecCommand{Argv: []string{"bash", "-c", script}, OpenStdin: true}
}

// exec runs a command that must be answered with a result.
func exec(t testing.TB, session *execbus.Session, command messages.ExecCommand) *messages.Result {
	t.Helper()
	result, err := session.Exec(patient(t), command)
	if err != nil {
		t.Fatalf("exec: %v", err)
	}
	return result
}

// launch starts a command and does not wait for anything.
func launch(t testing.TB, session *execbus.Session, command messages.ExecCommand) messages.ProcessID {
	t.Helper()
	return start(t, session, command).ID()
}

// finish polls until the end and gives the result.
func finish(t testing.TB, session *execbus.Session, id messages.ProcessID) *messages.Result {
	t.Helper()
	result, err := session.Poll(patient(t), messages.Poll{Process: id, NoTimeout: true})
	if err != nil {
		t.Fatalf("poll: %v", err)
	}
	return result
}

func watch(t testing.TB, session *execbus.Session, w execbus.Watch) *bus.Subscription {
	t.Helper()
	events, err := session.Events(w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(events.Close)
	return events
}

// await reads events until one of type E satisfies the condition.
func await[E messages.Event](t testing.TB, events *bus.Subscription, is func(E) bool) E {
	t.Helper()
	for event, err := range events.All(patient(t)) {
		if err != nil {
			t.Fatalf("waiting for %T: %v", *new(E), err)
		}
		if e, ok := event.(E); ok && (is == nil || is(e)) {
			return e
		}
	}
	panic("unreachable: the events end with an error")
}

// awaitOutput reads events until the output has the text, and returns what was read.
func awaitOutput(t testing.TB, events *bus.Subscription, text string) string {
	t.Helper()
	var seen []byte
	await(t, events, func(e messages.OutputDelta) bool {
		seen = append(seen, e.Bytes...)
		return bytes.Contains(seen, []byte(text))
	})
	return string(seen)
}

// eventually waits for what nobody announces.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// alive says whether there is a process that has not ended. A zombie has.
func alive(pid int) bool { return proc.Look(pid).Alive() }

// pids are the numbers in an output.
func pids(t testing.TB, output []byte, want int) []int {
	t.Helper()
	var found []int
	for _, word := range strings.Fields(string(output)) {
		if pid, err := strconv.Atoi(word); err == nil {
			found = append(found, pid)
		}
	}
	if len(found) != want {
		t.Fatalf("%d pids in %q, want %d", len(found), output, want)
	}
	return found
}

// wantError checks the code of an error and that its sentence names the facts.
func wantError(t testing.TB, err error, code messages.ErrorCode, facts ...string) {
	t.Helper()
	typed, ok := err.(*messages.Error)
	if !ok || typed.Code != code {
		t.Errorf("the error is %#v, want one of %s", err, code)
		return
	}
	for _, fact := range facts {
		if !strings.Contains(err.Error(), fact) {
			t.Errorf("%q does not say %q", err, fact)
		}
	}
}

// wantHint checks what an error tells the embedder, and nobody else.
func wantHint(t testing.TB, err error, facts ...string) {
	t.Helper()
	typed, _ := err.(*messages.Error)
	for _, fact := range facts {
		if typed == nil || !strings.Contains(typed.Hint, fact) || strings.Contains(err.Error(), fact) {
			t.Errorf("%#v does not hint at %q", err, fact)
		}
	}
}

// listed are the ids of the processes that have not ended.
func listed(t testing.TB, session *execbus.Session) []messages.ProcessID {
	t.Helper()
	processes, err := session.List(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	var ids []messages.ProcessID
	for _, p := range processes {
		ids = append(ids, p.Process)
	}
	return slices.Sorted(slices.Values(ids))
}
