package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/sandbox/internal/executions"
	"github.com/execbus/execbus/sandbox/internal/leasetest"
)

// executed runs a test at both levels, and with nothing but the sight of executions.
func executed(t *testing.T, test func(t *testing.T, spawner ptyio.Spawner, l ptyio.Launch, dir string)) {
	for _, level := range []messages.Assurance{messages.AssuranceNone, messages.AssuranceConfined, messages.AssuranceIsolated} {
		t.Run(string(level), func(t *testing.T) {
			spawner := newSpawner(t, sandbox.Options{WithoutNamespaces: level == messages.AssuranceConfined})
			l, dir := bash(false, ""), t.TempDir()
			if level != messages.AssuranceNone {
				c := workspace(dir)
				c.Least = level
				l.Sandbox = enclose(t, spawner, c)
			}
			l.Merged, l.Dir = true, dir
			l.Executions = &ptyio.Executions{Unconfined: level == messages.AssuranceNone}
			enforced, err := spawner.Can(l)
			if err != nil {
				t.Fatal(err)
			}
			if !enforced.Executions {
				t.Skipf("skipped: %v", enforced)
			}
			test(t, spawner, l, dir)
		})
	}
}

// judge notes what it is asked.
type judge struct {
	mu    sync.Mutex
	asked []ptyio.Execution
	allow func(ptyio.Execution) ptyio.Verdict // nil: none
}

func (j *judge) judge(_ context.Context, e ptyio.Execution, _ func()) (ptyio.Verdict, func(error)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked = append(j.asked, e)
	if j.allow == nil {
		return ptyio.Refused, nil
	}
	return j.allow(e), nil
}

// executing runs a script to its end, and returns what it printed.
func executing(t *testing.T, spawner ptyio.Spawner, l ptyio.Launch, script string, arguments ...string) string {
	t.Helper()
	l.Argv = append([]string{"bash", "-c", script, "bash"}, arguments...)
	_, r := run(t, spawner, l)
	r.awaitEnd(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.TrimSpace(r.output.String())
}

func TestAnExecutionIsJudgedByItsNames(t *testing.T) {
	executed(t, func(t *testing.T, spawner ptyio.Spawner, l ptyio.Launch, dir string) {
		j := &judge{}
		l.Executions.Names, l.Executions.Judge = []string{"touch"}, j.judge
		if err := os.Symlink("/usr/bin/touch", filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		got := executing(t, spawner, l, `touch a; /bin/touch b; ./link c; (exec -a touch cat /dev/null); /bin/echo good; ls; true`)
		if strings.Count(got, "Permission denied") != 4 || !strings.Contains(got, "good") || !strings.HasSuffix(got, "link") {
			t.Error(got)
		}
		if len(j.asked) != 4 {
			t.Fatalf("%+v", j.asked)
		}
		for i, want := range []ptyio.Execution{
			{Program: "/usr/bin/touch", Resolved: "/usr/bin/touch", Argv: []string{"touch", "a"}},
			{Program: "/bin/touch", Resolved: "/usr/bin/touch", Argv: []string{"/bin/touch", "b"}},
			{Program: "./link", Resolved: "/usr/bin/touch", Argv: []string{"./link", "c"}},
			{Program: "/usr/bin/cat", Resolved: "/usr/bin/cat", Argv: []string{"touch", "/dev/null"}},
		} {
			e := j.asked[i]
			if e.Program != want.Program || e.Resolved != want.Resolved || strings.Join(e.Argv, " ") != strings.Join(want.Argv, " ") || e.Dir != dir ||
				e.Unread != "" || e.PID <= 0 || e.Parent <= 0 {
				t.Errorf("%+v", e)
			}
		}
	})
}

func TestWhatIsAllowedAlikeIsJudgedOnce(t *testing.T) {
	executed(t, func(t *testing.T, spawner ptyio.Spawner, l ptyio.Launch, dir string) {
		for _, verdict := range []ptyio.Verdict{ptyio.Allowed, ptyio.AllowedAlike} {
			j, seen := &judge{allow: func(e ptyio.Execution) ptyio.Verdict {
				if e.Argv[len(e.Argv)-1] == "bad" {
					return ptyio.Refused
				}
				return verdict
			}}, 0
			l.Executions.Names, l.Executions.Judge = []string{"tool", "echo"}, j.judge
			l.Executions.Seen = func(batch []ptyio.Execution, dropped int) {
				for _, e := range batch {
					if e.Argv[len(e.Argv)-1] == "good" {
						seen++
					}
				}
			}
			// The last ones differ in one thing each: the arguments, how they are divided, their number, the path, and the file.
			got := executing(t, spawner, l, `ln -sf /bin/echo tool; for i in 1 2 3 4; do ./tool good; ./tool bad; done; ./tool "a b"; ./tool a b; ./tool a b ""; (exec -a ./tool "$PWD/tool" good); ln -sf /usr/bin/printf tool; ./tool good`)
			asked := map[string]int{}
			for _, e := range j.asked {
				asked[fmt.Sprintf("%s %s %q", filepath.Base(e.Program), filepath.Base(e.Resolved), e.Argv[1:])]++
			}
			good := 4 + 1
			if verdict == ptyio.AllowedAlike {
				good = 1 + 1
			}
			want := map[string]int{`tool echo ["good"]`: good, `tool echo ["bad"]`: 4, `tool echo ["a b"]`: 1, `tool echo ["a" "b"]`: 1, `tool echo ["a" "b" ""]`: 1, `tool printf ["good"]`: 1}
			if !maps.Equal(asked, want) || seen != 5-good || strings.Count(got, "Permission denied") != 4 || strings.Count(got, "good") != 6 {
				t.Errorf("%d: asked %v and seen %d: %s", verdict, asked, seen, got)
			}
			must(os.Remove(filepath.Join(dir, "tool")))
		}
	})
}

func TestReportsSayWhatWasExecutedAndHowMuchWasDropped(t *testing.T) {
	executed(t, func(t *testing.T, spawner ptyio.Spawner, l ptyio.Launch, dir string) {
		var seen []ptyio.Execution
		dropped := 0
		l.Executions.Seen = func(batch []ptyio.Execution, more int) { seen, dropped = append(seen, batch...), dropped+more }
		got := executing(t, spawner, l, `for i in $(seq 20); do /bin/true $i; done; ./nothing; /bin/echo $(seq 10000) | wc -l`)
		if !strings.Contains(got, "No such file") || !strings.HasSuffix(got, "1") {
			t.Error(got)
		}
		if len(seen)+dropped != 24 || dropped > 0 {
			t.Fatalf("%d and %d dropped: %.2000v", len(seen), dropped, seen)
		}
		trues, cut := 0, 0
		for _, e := range seen {
			if e.Program == "/bin/true" && len(e.Argv) == 2 && e.Dir == dir && e.PID > 0 && !e.Cut {
				trues++
			}
			if e.Cut && e.Program == "/bin/echo" && len(e.Argv) > 100 {
				cut++
			}
		}
		if trues != 20 || cut != 1 {
			t.Errorf("%+v", seen)
		}
	})
}

// PATH often has directories of other users. Shells and libraries try them, too.
func TestADirectoryThatMayNotBeSearchedIsNobodysBusiness(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("skipped: root may search every directory")
	}
	executed(t, func(t *testing.T, spawner ptyio.Spawner, l ptyio.Launch, dir string) {
		j := &judge{}
		l.Executions.Names, l.Executions.Judge = []string{"touch"}, j.judge
		locked := filepath.Join(dir, "locked")
		if err := os.Mkdir(locked, 0); err != nil {
			t.Fatal(err)
		}
		got := executing(t, spawner, l, `PATH="$1:$PATH" env echo good; "$1/touch"`, locked)
		if !strings.HasPrefix(got, "good\n") || !strings.HasSuffix(got, "Permission denied") || len(j.asked) > 0 {
			t.Errorf("%s: %+v", got, j.asked)
		}
	})
}

func TestAQuestionIsWithdrawnWhenItsCallerIsGone(t *testing.T) {
	executed(t, func(t *testing.T, spawner ptyio.Spawner, l ptyio.Launch, dir string) {
		asked, cause := make(chan bool, 1), make(chan error, 1)
		l.Executions.Names, l.Executions.Judge = []string{"touch"}, func(ctx context.Context, _ ptyio.Execution, hold func()) (ptyio.Verdict, func(error)) {
			hold()
			asked <- true
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return ptyio.Allowed, nil
		}
		l.Argv = []string{"bash", "-c", `touch x & read; kill -9 $!; wait $!; echo over; read`}
		child, r := run(t, spawner, l)
		receive(t, "the question", asked)
		child.Write([]byte("\n"), time.Time{}, func(ptyio.Taken, error) {})
		if err := receive(t, "the end of the question", cause); err != ptyio.ErrCallerGone {
			t.Error(err)
		}
		r.awaitOutput(t, "over")
		child.Write([]byte("\n"), time.Time{}, func(ptyio.Taken, error) {})
		r.awaitEnd(t)
		if _, err := os.Lstat(filepath.Join(dir, "x")); err == nil {
			t.Error("it was executed")
		}
	})
}

func TestATreeThatAsksTooMuchAtOnceWaitsAlone(t *testing.T) {
	executed(t, func(t *testing.T, spawner ptyio.Spawner, l ptyio.Launch, dir string) {
		const all = ptyio.MaxJudged + 72
		var now, most, total atomic.Int32
		full, release := make(chan bool), make(chan bool)
		l.Executions.Names, l.Executions.Judge = []string{"touch"}, func(ctx context.Context, _ ptyio.Execution, hold func()) (ptyio.Verdict, func(error)) {
			hold()
			total.Add(1)
			if n := now.Add(1); n > most.Load() {
				if most.Store(n); n == ptyio.MaxJudged {
					close(full)
				}
			}
			defer now.Add(-1)
			select {
			case <-release:
			case <-ctx.Done():
			}
			return ptyio.Refused, nil
		}
		l.Argv = []string{"bash", "-c", fmt.Sprintf(`for i in $(seq %d); do touch $i & done 2>/dev/null; wait; echo over`, all)}
		_, r := run(t, spawner, l)
		<-full
		other := l
		other.Executions = &ptyio.Executions{Names: []string{"true"}, Unconfined: true, Judge: func(context.Context, ptyio.Execution, func()) (ptyio.Verdict, func(error)) { return ptyio.Allowed, nil }}
		if got := executing(t, spawner, other, `for i in $(seq 20); do /bin/true || exit; done; echo good`); got != "good" {
			t.Error(got)
		}
		if most.Load() != ptyio.MaxJudged || total.Load() != ptyio.MaxJudged {
			t.Errorf("%d at once, and %d in all", most.Load(), total.Load())
		}
		close(release)
		r.awaitEnd(t)
		if files, _ := os.ReadDir(dir); total.Load() != all || len(files) > 0 || !strings.Contains(r.output.String(), "over") {
			t.Errorf("%d were judged, and there is %v", total.Load(), files)
		}
	})
}

func TestTheDeathOfTheWardenLeavesNoExecutionWaiting(t *testing.T) {
	for _, script := range []string{
		`(setsid touch a &); touch b`,                                    // asked about
		`(setsid bash -c "while /bin/true; do :; done" "$1" &); touch b`, // being read and answered
	} {
		executed(t, func(t *testing.T, spawner ptyio.Spawner, l ptyio.Launch, dir string) {
			asked, cause := make(chan bool, 2), make(chan error, 2)
			l.Executions.Names, l.Executions.Judge = []string{"touch"}, func(ctx context.Context, _ ptyio.Execution, hold func()) (ptyio.Verdict, func(error)) {
				hold()
				asked <- true
				<-ctx.Done()
				cause <- context.Cause(ctx)
				return ptyio.Allowed, nil
			}
			token := newToken()
			l.Argv = []string{"bash", "-c", script, "bash", token}
			child, r := run(t, spawner, l)
			receive(t, "the question", asked)
			_ = syscall.Kill(topWarden(child.PID()), syscall.SIGKILL)
			if exited := awaitEvent[ptyio.Exited](t, r); !errors.Is(exited.Lost, messages.ErrWardenLost) {
				t.Errorf("%+v", exited)
			}
			if report := r.awaitEnd(t); len(report.Survivors) > 0 {
				t.Errorf("%+v", report)
			}
			if err := receive(t, "the end of the question", cause); err != ptyio.ErrCallerGone {
				t.Error(err)
			}
			noneLeft(t, token)
			for _, file := range []string{"a", "b"} {
				if _, err := os.Lstat(filepath.Join(dir, file)); err == nil {
					t.Errorf("%s was executed", file)
				}
			}
		})
	}
}

// A warden may also die during a birth: as soon as it has the listener, while the child may have it, too, or when the child executes already.
func TestTheDeathOfTheWardenDuringABirthLeavesNothing(t *testing.T) {
	executed(t, func(t *testing.T, spawner ptyio.Spawner, l ptyio.Launch, _ string) {
		l.Executions.Seen = func([]ptyio.Execution, int) {}
		for round := range 4 {
			token := newToken()
			l.Argv = []string{"sleep", "1000"}
			child, r := run(t, spawner, l)
			warden := topWarden(child.PID())
			before := listenersOf(warden)
			starting, giveBack, late := l, func() {}, newRecorder()
			starting.Argv, starting.Events = []string{"sh", "-c", "/bin/true; /bin/true; :", token}, late.receive
			ready := func() bool { return listenersOf(warden) > before }
			if round == 0 {
				starting.Argv[0], giveBack, ready = leasetest.Watched(t, "/bin/sh")
			}
			type birth struct {
				child ptyio.Child
				err   error
			}
			started := make(chan birth, 1)
			go func() {
				child, err := spawner.Spawn(context.Background(), starting)
				started <- birth{child, err}
			}()
			for begin := time.Now(); !ready() && len(started) == 0; { // it may be over before anybody looks
				if time.Since(begin) > patience {
					t.Fatal("it is never born")
				}
			}
			born := childrenOf(t, warden)
			_ = syscall.Kill(warden, syscall.SIGKILL)
			r.awaitEnd(t)
			eventually(t, "no child is left", func() bool {
				return !slices.ContainsFunc(born, func(child string) bool {
					pid, _ := strconv.Atoi(child)
					_, alive := look(pid)
					return alive
				})
			})
			giveBack()
			if b := receive(t, "the start", started); b.err == nil { // one that was killed before can pass for started
				late.awaitEnd(t)
			}
			noneLeft(t, token)
		}
	})
}

// listenersOf counts the listeners of a process.
func listenersOf(pid int) (count int) {
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	for _, fd := range fds {
		if target, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name())); target == "anon_inode:seccomp notify" {
			count++
		}
	}
	return count
}

// topWarden finds the warden above a process, and not process 1 of a namespace, which looks like one at first.
func topWarden(pid int) (warden int) {
	for above := wardenAbove(pid); above != 0; above = wardenAbove(above) {
		warden = above
	}
	return warden
}

// A process that also had a listener would keep executions waiting for ever after the warden's death.
func TestNobodyButTheWardenHasAListener(t *testing.T) {
	executed(t, func(t *testing.T, spawner ptyio.Spawner, l ptyio.Launch, dir string) {
		l.Executions.Seen = func([]ptyio.Execution, int) {}
		l.Argv = []string{"sleep", "1000"}
		child, r := run(t, spawner, l)
		warden := topWarden(child.PID())
		program, giveBack, awaited := leasetest.Watched(t, "/bin/true")
		started, late := make(chan error, 1), newRecorder()
		hanging := l // a child that executes nothing yet
		hanging.Argv, hanging.Events = []string{program}, late.receive
		go func() { _, err := spawner.Spawn(context.Background(), hanging); started <- err }()
		eventually(t, "the start waits for the program", awaited)
		held, unreadable := 0, 0
		entries, _ := filepath.Glob("/proc/[0-9]*")
		for _, entry := range entries {
			var pid int
			_, _ = fmt.Sscanf(entry, "/proc/%d", &pid)
			if pid != warden && topWarden(pid) != warden {
				continue
			}
			fds, err := os.ReadDir(entry + "/fd")
			if err != nil {
				unreadable++
			}
			for _, fd := range fds {
				if target, _ := os.Readlink(entry + "/fd/" + fd.Name()); target != "anon_inode:seccomp notify" {
					continue
				} else if pid != warden {
					t.Errorf("process %d has one", pid)
				}
				held++
			}
		}
		if held < 1 || unreadable > 0 && os.Geteuid() == 0 {
			t.Errorf("%d listeners were found, and %d processes could not be read", held, unreadable)
		}
		giveBack()
		if err := receive(t, "the start", started); err != nil {
			t.Fatal(err)
		}
		late.awaitEnd(t)
		child.EndTree(0)
		r.awaitEnd(t)
		eventually(t, "no listener is left", func() bool { return listenersOf(warden) == 0 })
	})
}

func TestTheBoundsOfExecutionsAreOne(t *testing.T) {
	if executions.MaxArguments != ptyio.MaxExecutionArguments || executions.MaxBytes != ptyio.MaxExecutionBytes || executions.MaxReported != ptyio.MaxReported ||
		executions.MaxReportedBytes != ptyio.MaxReportedBytes || executions.MaxJudged != ptyio.MaxJudged || executions.MaxJudgedBytes != ptyio.MaxJudgedBytes ||
		executions.JudgeWait != ptyio.JudgeWait {
		t.Error("what is promised is not what is done")
	}
}
