//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// lossy returns a spawner, and a channel for the deaths of its wardens.
func lossy(t *testing.T) (ptyio.Spawner, chan sandbox.WardenLost) {
	t.Helper()
	lost := make(chan sandbox.WardenLost, 100)
	return newSpawner(t, sandbox.Options{Lost: func(l sandbox.WardenLost) { lost <- l }}), lost
}

// soon is the pause of an impatient host between two looks at its warden; a patient one waits for a second.
const soon = 50 * time.Millisecond

// hasty makes the options of an impatient host.
func hasty(o sandbox.Options) sandbox.Options {
	return sandbox.Impatient(o, soon, patience, 40*soon)
}

// lossyAndHasty is lossy with an impatient host.
func lossyAndHasty(t *testing.T) (ptyio.Spawner, chan sandbox.WardenLost) {
	t.Helper()
	lost := make(chan sandbox.WardenLost, 100)
	return newSpawner(t, hasty(sandbox.Options{Lost: func(l sandbox.WardenLost) { lost <- l }})), lost
}

func receive[T any](t *testing.T, what string, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(patience):
		t.Fatalf("never came: %s", what)
	}
	return value
}

func TestADeadWardenTakesItsTreesAlongAndIsReplaced(t *testing.T) {
	spawner, lost := lossy(t)
	daemon := shapes[5]
	var tokens []string
	var records []*recorder
	warden := 0
	for i := range 4 {
		token := newToken()
		child, record := run(t, spawner, daemon.launch(i%2 == 0, token))
		eventually(t, "the daemon is up", func() bool { return daemon.up(token) })
		tokens, records, warden = append(tokens, token), append(records, record), wardenAbove(child.PID())
	}
	_ = syscall.Kill(warden, syscall.SIGKILL)
	for i, record := range records {
		exited := awaitEvent[ptyio.Exited](t, record)
		if exited.Status != messages.StatusNone() || !errors.Is(exited.Lost, messages.ErrWardenLost) {
			t.Errorf("child %d: %+v", i, exited)
		}
		if report := record.awaitEnd(t); report.Ended < 1 || len(report.Survivors) > 0 || report.Airtight {
			t.Errorf("child %d: %+v", i, report)
		}
		if left := observe(tokens[i]); len(left) > 0 {
			t.Errorf("child %d: %v", i, left)
		}
	}
	l := receive(t, "WardenLost", lost)
	if l.PID != warden || l.Status != messages.StatusSignaled(syscall.SIGKILL) || l.Children != 4 || l.Tree.Ended < 4 {
		t.Errorf("%+v", l)
	}
	child, record := run(t, spawner, launch(false, "cat"))
	if next := wardenAbove(child.PID()); next == warden || next == 0 {
		t.Errorf("warden %d after %d", next, warden)
	}
	child.EndTree(0)
	record.awaitEnd(t)
	if len(lost) > 0 {
		t.Errorf("told twice: %+v", <-lost)
	}
}

func TestSpawnsThatRaceWithTheWardensDeathWorkOrFailAndLeaveNothing(t *testing.T) {
	spawner, lost := lossy(t)
	rounds := 8
	if *full {
		rounds = 100
	}
	for range rounds {
		token := newToken()
		child, first := run(t, spawner, launch(false, "sleep", token))
		warden := wardenAbove(child.PID())
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				record := newRecorder()
				l := shapes[5].launch(i%2 == 0, token)
				l.Events = record.receive
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				child, err := spawner.Spawn(ctx, l)
				if err != nil {
					if !errors.Is(err, messages.ErrWardenLost) {
						t.Errorf("error %v", err)
					}
					return
				}
				child.EndTree(0)
				record.awaitEnd(t)
			})
		}
		time.Sleep(time.Duration(rand.IntN(4000)) * time.Microsecond) // any moment is a good one
		_ = syscall.Kill(warden, syscall.SIGKILL)
		all.Wait()
		first.awaitEnd(t)
		if l := receive(t, "WardenLost", lost); l.PID != warden {
			t.Errorf("%+v", l)
		}
		noneLeft(t, token)
	}
	if len(lost) > 0 {
		t.Errorf("told too often: %+v", <-lost)
	}
}

func TestATerminatedWardenEndsItsTreesAndExits(t *testing.T) {
	spawner, lost := lossy(t)
	token := newToken()
	child, record := run(t, spawner, shapes[5].launch(false, token))
	eventually(t, "the daemon is up", func() bool { return shapes[5].up(token) })
	warden := wardenAbove(child.PID())
	_ = syscall.Kill(warden, syscall.SIGTERM)
	report := record.awaitEnd(t)
	exited := awaitEvent[ptyio.Exited](t, record)
	if exited.Lost != nil || exited.Status != messages.StatusSignaled(syscall.SIGTERM) || report.Ended < 1 {
		t.Errorf("%+v %+v", exited, report)
	}
	noneLeft(t, token)
	if l := receive(t, "WardenLost", lost); l.Status != messages.StatusExited(0) || l.Children != 0 {
		t.Errorf("%+v", l)
	}
}

func TestAWardenHasTheHostsEnvironmentWithoutWhatIsExcluded(t *testing.T) {
	t.Setenv("EXECBUS_TEST_SECRET", "hidden")
	t.Setenv("EXECBUS_TEST_NEED", "this")
	t.Setenv("GOGC", "off") // a warden lives long
	spawner := newSpawner(t, sandbox.Options{WardenEnvironment: messages.EnvironmentPolicy{Exclude: []string{"*_SECRET"}}})
	_, record := run(t, spawner, bash(false, `echo "<$EXECBUS_TEST_NEED>"`))
	record.awaitOutput(t, "<>")
	child, _ := run(t, spawner, launch(false, "cat"))
	base := fmt.Sprintf("/proc/%d/", wardenAbove(child.PID()))
	environ, err := os.ReadFile(base + "environ")
	line, _ := os.ReadFile(base + "cmdline")
	name, _ := os.ReadFile(base + "comm")
	dir, _ := os.Readlink(base + "cwd")
	variables := strings.Split(string(environ), "\x00")
	if err != nil || slices.Contains(variables, "EXECBUS_TEST_SECRET=hidden") || !slices.Contains(variables, "EXECBUS_TEST_NEED=this") ||
		!slices.Contains(variables, "GOMAXPROCS=2") || !slices.Contains(variables, "GOGC=25") {
		t.Errorf("environ %q, %v", environ, err)
	}
	if string(line) != "execbus-warden\x00" || dir != "/" || string(name) != "execbus-warden\n" {
		t.Errorf("cmdline %q, comm %q, cwd %q", line, name, dir)
	}
}

func TestAWardenStartedByHandExplainsItselfAndStops(t *testing.T) {
	plain, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	const greeting = "execbus warden 1\n"
	ours := []string{"execbus-warden", "-test.v"}
	for _, c := range []struct {
		what  string
		file  *os.File
		argv  []string
		wrong string
	}{
		{"nothing", nil, ours, "not a socket"},
		{"a file", plain, ours, "not a socket"},
		{"a silent socket of its parent", greeted(t, ""), ours, "has not greeted us"},
		{"another greeting", greeted(t, "execbus warden 0\n"), ours, "has not greeted us"},
		{"a part of the greeting", greeted(t, greeting[:5]), ours, "has not greeted us"},
		{"a socket of another process", greeted(t, greeting), []string{"bash", "-c", `(exec -a execbus-warden "$0" -test.v); exit $?`, self(t)},
			"not a socket of our parent"},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		command := exec.CommandContext(ctx, self(t))
		if command.Args = c.argv; c.argv[0] == "bash" {
			if command.Path, err = exec.LookPath("bash"); err != nil {
				t.Fatal(err)
			}
		}
		if c.file != nil {
			command.ExtraFiles = []*os.File{c.file}
		}
		out, _ := command.CombinedOutput()
		if command.ProcessState.ExitCode() != 127 || !strings.Contains(string(out), "not started by execbus") ||
			!strings.Contains(string(out), c.wrong) || strings.Contains(string(out), "RUN") {
			t.Errorf("with %s: %v: %s", c.what, command.ProcessState, out)
		}
	}
}

// greeted returns one end of a pair of sockets that this process has made, and into which it has written a text.
func greeted(t *testing.T, text string) *os.File {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	if _, err := ours.WriteString(text); err != nil {
		t.Fatal(err)
	}
	return theirs
}

func TestAWardenNeedsNoFileOfItsOwn(t *testing.T) {
	for _, denied := range []string{"memfds", "files"} {
		for _, in := range []string{"", "yes"} {
			out := says(t, []string{self(t)}, "DENIED="+denied, "SANDBOX="+in, "SCRIPT=echo done")
			if strings.Contains(out, "notice:") || !strings.Contains(out, "error: <nil>") || !strings.Contains(out, "Airtight:true") ||
				!strings.Contains(out, `output: "done\n"`) {
				t.Errorf("without %s, sandbox %q: it says %s", denied, in, out)
			}
		}
	}
}

func TestTheLastWordsOfAWardenThatDoesNotStartAreReported(t *testing.T) {
	token := newToken()
	for name, script := range map[string]string{
		"after many others":           "yes | head -c 300000 >&2; echo last >&2; exit 3",
		"though another can say more": "sleep " + token + " 3>&- & echo last >&2; exit 3",
	} {
		program := write(t, 0o755, "#!/bin/sh\n"+script+"\n")
		l := launch(false, "true")
		l.Events = func(ptyio.Event) {}
		_, err := newSpawner(t, sandbox.Options{Warden: program}).Spawn(t.Context(), l)
		if err == nil || !strings.Contains(err.Error(), "last") || len(err.Error()) > 6<<10 {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	for _, p := range sleepers(token) {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
}

func TestManyTreesThatEndAtOnceDoNotDrownTheWarden(t *testing.T) {
	spawner, _ := lossy(t)
	var children []ptyio.Child
	var records []*recorder
	for range 64 {
		child, record := run(t, spawner, bash(false, `for i in 1 2 3; do (setsid sleep 1000 </dev/null >/dev/null 2>&1 &); done; echo up; read x`))
		children, records = append(children, child), append(records, record)
	}
	for _, record := range records {
		record.awaitOutput(t, "up")
	}
	warden := wardenAbove(children[0].PID())
	before, begin := cpu(warden), time.Now()
	for _, child := range children {
		child.EndTree(long)
	}
	for _, record := range records {
		record.awaitEnd(t)
	}
	t.Logf("64 trees with 192 daemons ended in %v with %v of the warden's CPU", time.Since(begin), cpu(warden)-before)
}

// cpu returns the time that a process has used so far, as its scheduler counts it.
func cpu(pid int) time.Duration {
	var total time.Duration
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, thread := range threads {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, thread.Name()))
		var ns int64
		_, _ = fmt.Sscan(string(text), &ns)
		total += time.Duration(ns)
	}
	return total
}

func BenchmarkSpawnToExit(b *testing.B) {
	for _, direct := range []bool{true, false} {
		b.Run(spawnerName(direct), func(b *testing.B) {
			spawner := newSpawner(b, sandbox.Options{Direct: direct})
			warm, record := run(b, spawner, launch(false, "cat"))
			warden := wardenAbove(warm.PID())
			before := cpu(warden)
			var total time.Duration
			for b.Loop() {
				begin := time.Now()
				_, record := run(b, spawner, launch(false, "/bin/true"))
				awaitEvent[ptyio.Exited](b, record)
				total += record.at(isExited).Sub(begin)
				record.awaitEnd(b)
			}
			b.ReportMetric(float64(total.Microseconds())/float64(b.N), "to-exit-µs/op")
			if !direct {
				b.ReportMetric(float64((cpu(warden)-before).Microseconds())/float64(b.N), "warden-µs/op")
			}
			warm.EndTree(0)
			record.awaitEnd(b)
		})
	}
}

// BenchmarkLeaderExitToEvent kills a sleeping leader and waits for the event.
func BenchmarkLeaderExitToEvent(b *testing.B) {
	for _, direct := range []bool{true, false} {
		b.Run(spawnerName(direct), func(b *testing.B) {
			spawner := newSpawner(b, sandbox.Options{Direct: direct})
			var total time.Duration
			n := 0
			for b.Loop() {
				child, record := run(b, spawner, launch(false, "sleep", "1000"))
				begin := time.Now()
				_ = syscall.Kill(child.PID(), syscall.SIGKILL)
				awaitEvent[ptyio.Exited](b, record)
				total += record.at(isExited).Sub(begin)
				n++
				record.awaitEnd(b)
			}
			b.ReportMetric(float64(total.Microseconds())/float64(n), "exit-µs/op")
		})
	}
}

// A command that kills its warden at once is sometimes faster than the answer to its start.
func TestNothingOfAStartLivesWhenItsErrorArrives(t *testing.T) {
	t.Parallel()
	spawner, _ := lossy(t)
	refused := 0
	for range 20 {
		token := newToken()
		l := bash(false, `sleep `+token+` & sleep `+token+` & kill -KILL $PPID; sleep `+token)
		record := newRecorder()
		l.Events = record.receive
		if _, err := spawner.Spawn(t.Context(), l); err == nil {
			record.awaitEnd(t)
		} else if refused++; !errors.Is(err, messages.ErrWardenLost) {
			t.Fatal(err)
		}
		if left := sleepers(token); len(left) > 0 {
			t.Fatalf("refused %d: %v", refused, left)
		}
	}
	t.Logf("%d starts had an error", refused)
}
