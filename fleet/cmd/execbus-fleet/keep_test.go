package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/fleet"
	"github.com/execbus/execbus/fleet/embedded"
	"github.com/execbus/execbus/messages"
)

func TestMain(m *testing.M) {
	state, err := os.MkdirTemp("", "execbus-fleet-state-") // not that of the user who runs the tests
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = os.Setenv("XDG_STATE_HOME", state)
	code := m.Run()
	_ = os.RemoveAll(state)
	os.Exit(code)
}

// numbers is what "seq 300000" prints: more than a node has in memory and the server of these tests keeps.
var numbers = func() string {
	var text []byte
	for n := int64(1); n <= 300_000; n++ {
		text = append(strconv.AppendInt(text, n, 10), '\n')
	}
	return string(text)
}()

// atLog is how much a node has in memory of the beginning of a process's output, without a file.
const atLog = 512 << 10

// newFleet is a fleet whose server keeps a MiB of output, for programs of this user.
func newFleet(t *testing.T) {
	t.Helper()
	s, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", Token: "token"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	t.Setenv("EXECBUS_FLEET_SERVER", s.URL())
	if code, out, err := program(t, t.Context(), "setup", "--cache", "1048576"); code != 0 {
		t.Fatalf("setup: %d, %q, %q", code, out, err)
	}
}

// newNode makes this machine a node until the test calls stop.
func newNode(t *testing.T, id string, args ...string) (says *said, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	says, code := &said{}, make(chan int, 1)
	go func() {
		code <- runProgram(ctx, append([]string{"node", "--id", id, "--label", "id=" + id}, args...), streams{in: strings.NewReader(""), out: &said{}, err: says})
	}()
	stopped := false
	stop = func() {
		if cancel(); !stopped {
			stopped = true
			endsWith(t, code, 0)
		}
	}
	t.Cleanup(stop)
	says.find(t, "node "+id+" serves")
	return says, stop
}

// counted is a session on a node whose one command has printed the numbers, with nobody looking.
func counted(t *testing.T, ctx context.Context, id string) *fleet.Session {
	t.Helper()
	nc, err := fleet.Connect(os.Getenv("EXECBUS_FLEET_SERVER"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	p := fleet.Placement{Labels: map[string]string{"id": id}, Wait: patience}
	p.Session.Dir = "/"
	s, err := fleet.Open(ctx, nc, p)
	if err != nil {
		t.Fatal(err)
	}
	result, err := s.Exec(ctx, messages.ExecCommand{Argv: []string{"seq", "300000"}, Yield: new(time.Duration)})
	if err == nil && result.Running {
		_, err = s.Wait(ctx, messages.Wait{For: []messages.WaitFor{{Process: result.Process}}, NoTimeout: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// attached is what attach shows of the one command of a session: the numbers, but for gaps, which it names.
func attached(t *testing.T, ctx context.Context, s *fleet.Session) (gaps [][2]int) {
	t.Helper()
	code, out, err := program(t, ctx, "attach", string(s.ID()))
	want, at := "", 0
	for _, found := range regexp.MustCompile(`lost bytes (\d+) to (\d+) of output`).FindAllStringSubmatch(err, -1) {
		first, _ := strconv.Atoi(found[1])
		end, _ := strconv.Atoi(found[2])
		if first < at || end <= first || end > len(numbers) {
			t.Fatalf("after %d: %q", at, err)
		}
		want, at, gaps = want+numbers[at:first], end, append(gaps, [2]int{first, end})
	}
	if want += numbers[at:]; code != 0 || out != want {
		t.Fatalf("exit code %d, %d bytes of %d, and gaps %v; %q", code, len(out), len(numbers), gaps, err)
	}
	return gaps
}

// opens reports whether this process has opened a file in a directory.
func opens(dir string) bool {
	descriptors, _ := filepath.Glob("/proc/self/fd/*")
	for _, name := range descriptors {
		if target, err := os.Readlink(name); err == nil && strings.HasPrefix(target, dir+"/") {
			return true
		}
	}
	return false
}

// All output of a command that nobody looked at can be read later, although neither the server nor the memory of the node has it. When the
// session has ended nothing of it is left.
func TestANodeKeepsAllOutput(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	output := filepath.Join(state, "execbus", "output")
	newFleet(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	says, stop := newNode(t, "keeps")
	s := counted(t, ctx, "keeps")
	if gaps := attached(t, ctx, s); len(gaps) > 0 {
		t.Errorf("lost are %v", gaps)
	}
	if info, err := os.Stat(output); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if runtime.GOOS == "linux" && !opens(output) {
		t.Error("no file in the directory is open")
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	until(t, "the file is given back", func() bool { return !opens(output) })
	if left, err := os.ReadDir(output); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	if text := says.String(); strings.Count(text, "\n") != 1 {
		t.Errorf("the node says %q", text)
	}
	stop()
}

// Beyond a quota the middle of the output is lost, and more of it if no file is kept; attach says what.
func TestTheFlagsOfANodeBoundWhatItKeeps(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	newFleet(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	lost := func(id string, args ...string) (first int) {
		t.Helper()
		_, stop := newNode(t, id, args...)
		defer stop()
		s := counted(t, ctx, id)
		gaps := attached(t, ctx, s)
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		if len(gaps) != 1 {
			t.Fatalf("%v: lost are %v", args, gaps)
		}
		return gaps[0][0]
	}
	if first := lost("none", "--no-keep-output"); first != atLog {
		t.Errorf("without a file the output is lost from %d on, want %d", first, atLog)
	}
	if _, err := os.Stat(filepath.Join(state, "execbus", "output")); err == nil {
		t.Error("there is a directory for output that is not kept")
	}
	for _, flag := range []string{"--output-quota", "--output-total"} {
		if first := lost(flag[2:], flag, "512K"); first <= atLog || first > atLog+512<<10 {
			t.Errorf("%s: the output is lost from %d on, and without a file from %d", flag, first, atLog)
		}
	}
}

// A node that has no place for output says so and serves, unless it was told to keep output.
func TestANodeWithoutAPlaceForOutput(t *testing.T) {
	newFleet(t)
	t.Setenv("XDG_STATE_HOME", "/dev/null/state")
	says, stop := newNode(t, "a")
	says.find(t, "^execbus-fleet: only the newest output of commands is kept, because .*/dev/null")
	stop()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	refused := func(code int, why string, args ...string) {
		t.Helper()
		if got, out, err := program(t, ctx, args...); got != code || out != "" || !strings.Contains(err, why) {
			t.Errorf("%v: %d, %q, %q", args, got, out, err)
		}
	}
	refused(exitFailed, "/dev/null", "node", "--keep-output")
	refused(exitFailed, "/dev/null", "up", "--keep-output", "--", "true")
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	says, stop = newNode(t, "b")
	stop()
	if text := says.String(); strings.Count(text, "\n") != 1 {
		t.Errorf("a node of a user without a home says %q", text)
	}
	refused(exitFailed, "no home directory", "node", "--no-keep-output=false")
	refused(exitMisused, "500M", "node", "--output-quota", "100K")
	refused(exitMisused, "500M", "node", "--output-total", "much")
	refused(exitMisused, "maybe", "node", "--keep-output=maybe")
}

// The command of a fleet of this machine is on a node as any other, and its output is kept unless a flag says something else.
func TestUpKeepsTheOutputOfItsCommand(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("skipped: it looks for descriptors in /proc")
	}
	t.Setenv("EXECBUS_FLEET_SERVER", "")
	for _, args := range [][]string{{"run"}, {"up", "--no-keep-output"}} {
		state := t.TempDir()
		t.Setenv("XDG_STATE_HOME", state)
		ctx, interrupt := context.WithCancel(t.Context())
		out, code := &said{}, make(chan int, 1)
		go func() {
			code <- runProgram(ctx, append(args, "--", "sh", "-c", "seq 200000; exec sleep 1000"), streams{in: strings.NewReader(""), out: out, err: &said{}})
		}()
		out.find(t, "\n200000\n")
		if keeps, want := opens(filepath.Join(state, "execbus", "output")), len(args) == 1; keeps != want {
			t.Errorf("%v: output is kept: %t, want %t", args, keeps, want)
		}
		interrupt()
		endsWith(t, code, 130)
	}
}
