//go:build linux

package sandbox_test

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/tests/proc"
)

// long is a grace that no test waits for. A process that ends earlier was not killed.
const long = 10 * time.Minute

func TestATermTrapRunsWhenATreeIsEnded(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		child, record := run(t, spawner, bash(tty, `trap 'echo trapped; exit 0' TERM; echo ready; while :; do sleep 0.05; done`))
		record.awaitOutput(t, "ready")
		child.EndTree(long)
		record.awaitEnd(t)
		record.awaitOutput(t, "trapped")
		if status := awaitEvent[ptyio.Exited](t, record).Status; status != messages.StatusExited(0) {
			t.Errorf("status %v", status)
		}
	})
}

// On a terminal the kernel itself sends SIGHUP to the leader's group when the leader exits, so the job gets a group of its
// own there, as in an interactive shell.
func TestATermTrapOfABackgroundJobRunsWhenTheLeaderExits(t *testing.T) {
	t.Parallel() // it waits most of the time
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		file := t.TempDir() + "/trapped"
		l := bash(tty, `set -m; (trap "echo yes >$FILE; exit 0" TERM; echo ready; while :; do sleep 0.05; done) & read x; exit 3`)
		l.Env = append(l.Env, "FILE="+file)
		l.Grace = new(long)
		child, record := run(t, spawner, l)
		record.awaitOutput(t, "ready")
		child.Write([]byte("\n"), time.Time{}, func(ptyio.Taken, error) {})
		report := record.awaitEnd(t)
		if text, err := os.ReadFile(file); err != nil || string(text) != "yes\n" {
			t.Errorf("the trap did not run: %q, %v", text, err)
		}
		if report.Ended < 1 {
			t.Errorf("report %+v", report)
		}
	})
}

func TestAnInteractiveShellGoesDownBySIGHUP(t *testing.T) {
	for _, direct := range []bool{false, true} {
		t.Run(spawnerName(direct), func(t *testing.T) {
			l := launch(true, "bash", "--norc", "-i")
			l.Env = append(l.Env, "PS1=prompt>", "HISTFILE=")
			child, record := run(t, newSpawner(t, sandbox.Options{Direct: direct}), l)
			record.awaitOutput(t, "prompt>")
			for proc.Look(child.PID()).State != 'S' { // a signal between its prompt and its read waits in bash for a key
				time.Sleep(time.Millisecond)
			}
			child.EndTree(long)
			record.awaitEnd(t)
			if status := awaitEvent[ptyio.Exited](t, record).Status; status != messages.StatusSignaled(syscall.SIGHUP) {
				t.Errorf("status %v", status)
			}
		})
	}
}

func TestAStoppedMemberIsEnded(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		token := newToken()
		child, record := run(t, spawner, bash(tty, "sleep "+token+" & echo ready; wait"))
		record.awaitOutput(t, "ready")
		eventually(t, "the member runs", func() bool { return len(sleepers(token)) == 1 })
		pid := sleepers(token)[0].pid
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		eventually(t, "it is stopped", func() bool { p, _ := look(pid); return p.state == 'T' })
		child.EndTree(long)
		if report := record.awaitEnd(t); report.Ended != 1 {
			t.Errorf("report %+v", report)
		}
		noneLeft(t, token)
	})
}

func TestASecondEndTreeShortensTheGrace(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		child, record := run(t, spawner, bash(tty, `trap 'echo refused' TERM HUP; echo ready; while :; do sleep 0.05; done`))
		record.awaitOutput(t, "ready")
		child.EndTree(long)
		record.awaitOutput(t, "refused")
		child.EndTree(10 * time.Millisecond)
		child.EndTree(2 * long) // this cannot make the grace longer again
		record.awaitEnd(t)
		if status := awaitEvent[ptyio.Exited](t, record).Status; status != messages.StatusSignaled(syscall.SIGKILL) {
			t.Errorf("status %v", status)
		}
		child.EndTree(0) // after the end this does nothing
	})
}

func TestEndTreeFromManyGoroutinesEndsOnce(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		child, record := run(t, spawner, bash(tty, `sleep 1000 & sleep 1001 & echo ready; wait`))
		record.awaitOutput(t, "ready")
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() { child.EndTree(time.Duration(i) * 10 * time.Millisecond) })
		}
		all.Wait()
		record.awaitEnd(t)
	})
}

func TestTheReportCountsTheBackgroundChildrenThatWereEnded(t *testing.T) {
	t.Parallel() // it waits most of the time
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		token := newToken()
		child, record := run(t, spawner, bash(tty, `trap "" HUP; for i in 1 2 3 4 5; do sleep $1 & done; read x; exit 0`, token))
		eventually(t, "five children", func() bool { return len(sleepers(token)) == 5 })
		child.Write([]byte("\n"), time.Time{}, func(ptyio.Taken, error) {})
		report := record.awaitEnd(t)
		if report.Ended != 5 || len(report.Survivors) > 0 {
			t.Errorf("report %+v", report)
		}
	})
}

func TestACometIsCaught(t *testing.T) {
	spawner := newSpawner(t, sandbox.Options{})
	token := newToken()
	// There is another tree, so that the comet is recognised by its mark and not because it is alone.
	other, bystander := run(t, spawner, launch(false, "cat"))
	l := helper(t, false, "comet", "GENERATIONS=1000000", "TOKEN="+token)
	l.Argv = append(l.Argv, token)
	child, record := run(t, spawner, l)
	awaitEvent[ptyio.Exited](t, record)
	child.EndTree(0)
	report := record.awaitEnd(t)
	if left := observe(token); len(left) > 0 || len(report.Survivors) > 0 {
		t.Errorf("it escaped: %v, report %+v", left, report)
	}
	if bystander.has(isExited) {
		t.Error("the other tree was hit")
	}
	other.EndTree(0)
}

func TestATreeIsNotReportedEndedWhileACometFlies(t *testing.T) {
	t.Parallel() // it waits most of the time
	spawner := newSpawner(t, sandbox.Options{})
	keep, _ := run(t, spawner, launch(false, "cat"))
	for range 3 {
		token := newToken()
		l := helper(t, false, "comet", "GENERATIONS=40", "TOKEN="+token)
		l.Argv = append(l.Argv, token)
		l.OnLeaderExit = messages.LeaderExitKeepsTree // it may run to its end
		_, record := run(t, spawner, l)
		record.awaitEnd(t)
		if left := observe(token); len(left) > 0 {
			t.Errorf("still flying: %v", left)
		}
	}
	keep.EndTree(0)
}

// shed lowers the limits that mark its tree, as any process can, and leaves a running daemon behind.
func shed(token string) ptyio.Launch {
	return bash(false, `ulimit -R 1234567; ulimit -x 5
		(setsid sleep $1 </dev/null >/dev/null 2>&1 &)
		until pgrep -xf "sleep $1" >/dev/null; do :; done`, token)
}

func TestAProcessThatShedItsMarkIsNamedAndEndedWithTheLastTree(t *testing.T) {
	spawner := newSpawner(t, sandbox.Options{})
	token := newToken()
	other, last := run(t, spawner, launch(false, "cat"))
	_, record := run(t, spawner, shed(token))
	report := record.awaitEnd(t)
	stray := sleepers(token)
	if len(stray) != 1 || len(report.Survivors) != 1 || report.Survivors[0].PID != stray[0].pid || report.Airtight {
		t.Fatalf("stray %v, report %+v", stray, report)
	}
	if why := report.Survivors[0].Why; !strings.Contains(why, "shed") {
		t.Errorf("why %q", why)
	}
	other.EndTree(0)
	last.awaitEnd(t)
	noneLeft(t, token)
}

func TestTwoTreesThatEndAtOnceLeaveNoStrayBetweenThem(t *testing.T) {
	spawner := newSpawner(t, sandbox.Options{})
	for range 5 {
		token := newToken()
		a, first := run(t, spawner, launch(false, "cat"))
		b, second := run(t, spawner, launch(false, "cat"))
		_, stray := run(t, spawner, shed(token))
		stray.awaitEnd(t)
		a.EndTree(0)
		b.EndTree(0)
		first.awaitEnd(t)
		second.awaitEnd(t)
		if left := observe(token); len(left) > 0 {
			t.Fatalf("left behind: %v", left)
		}
	}
}

func TestKeptChildrenLiveUntilTheyAreEnded(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		token := newToken()
		l := bash(tty, `trap "" HUP; (read y <"$FIFO"; echo kept output; exec sleep $1) & exit 4`, token)
		fifo := t.TempDir() + "/fifo"
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		l.Env = append(l.Env, "FIFO="+fifo)
		l.OnLeaderExit = messages.LeaderExitKeepsTree
		child, record := run(t, spawner, l)
		if status := awaitEvent[ptyio.Exited](t, record).Status; status != messages.StatusExited(4) {
			t.Errorf("status %v", status)
		}
		if err := os.WriteFile(fifo, []byte("\n"), 0); err != nil {
			t.Fatal(err)
		}
		record.awaitOutput(t, "kept output")
		eventually(t, "the kept child sleeps", func() bool { return len(sleepers(token)) == 1 })
		if record.has(isTreeEnded) {
			t.Error("TreeEnded came while a kept child lives")
		}
		child.EndTree(long)
		if report := record.awaitEnd(t); report.Ended != 1 {
			t.Errorf("report %+v", report)
		}
		noneLeft(t, token)
	})
}

func TestTheTreeEndsSoonAfterTheLastKeptChildHasEnded(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		t.Parallel() // it waits most of the time
		token := newToken()
		l := bash(tty, `trap "" HUP; sleep $1 & exit 0`, token)
		l.OnLeaderExit = messages.LeaderExitKeepsTree
		_, record := run(t, spawner, l)
		awaitEvent[ptyio.Exited](t, record)
		eventually(t, "the kept child sleeps", func() bool { return len(sleepers(token)) == 1 })
		_ = syscall.Kill(sleepers(token)[0].pid, syscall.SIGKILL)
		if report := record.awaitEnd(t); report.Ended != 0 {
			t.Errorf("report %+v", report)
		}
	})
}

func TestKeptChildrenThatAreIdleCostTheWardenNothing(t *testing.T) {
	t.Parallel() // it waits most of the time
	idle(t, false, 1000)
}

// This measures the time of the whole process, which includes other tests.
func TestKeptChildrenThatAreIdleCostTheHostNothing(t *testing.T) { idle(t, true, 100) }

// idle keeps 50 trees that do nothing. part is the share of the time that the process may use for that.
func idle(t *testing.T, direct bool, part time.Duration) {
	t.Helper()
	spawner := newSpawner(t, sandbox.Options{Direct: direct})
	daemon := map[bool]string{false: "setsid sleep", true: "sleep"}[direct] // the direct spawner would not find it
	var records []*recorder
	token := newToken()
	for range 50 {
		l := bash(false, `(`+daemon+` $1 </dev/null >/dev/null 2>&1 &)`, token)
		l.OnLeaderExit = messages.LeaderExitKeepsTree
		_, record := run(t, spawner, l)
		records = append(records, record)
	}
	for _, record := range records {
		awaitEvent[ptyio.Background](t, record)
	}
	watched := os.Getpid()
	if !direct {
		eventually(t, "the warden has them all", func() bool { return len(orphans(token)) == len(records) })
		watched = wardenAbove(sleepers(token)[0].pid)
	}
	// Looking at them ten times a second took a third of a processor. With the direct spawner this process also runs this
	// test. On a busy machine it takes a while until all of them have settled, and the warden rests.
	eventually(t, "they cost nothing", func() bool {
		before, begin := cpu(watched), time.Now()
		time.Sleep(time.Second)
		used, passed := cpu(watched)-before, time.Since(begin)
		t.Logf("50 idle kept trees used %v in %v", used, passed)
		return used <= passed/part
	})
}

func TestBackgroundChildrenMayFinishShortlyAfterTheLeader(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		_, record := run(t, spawner, bash(tty, `trap "" HUP TERM; (sleep 0.01; echo tail) & exit 0`))
		record.awaitEnd(t)
		record.awaitOutput(t, "tail")
	})
}
