//go:build linux

package sandbox_test

import (
	"fmt"
	"os"
	"os/signal"
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

func TestExitCodesAreTheKernels(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		for _, code := range []int{0, 1, 2, 42, 126, 127, 128, 137, 254, 255} {
			_, record := run(t, spawner, bash(tty, fmt.Sprintf("exit %d", code)))
			if status := awaitEvent[ptyio.Exited](t, record).Status; status != messages.StatusExited(code) {
				t.Errorf("exit %d was reported as %v", code, status)
			}
			record.awaitEnd(t)
		}
	})
}

func TestSignalsAreTheKernels(t *testing.T) {
	harmless := map[syscall.Signal]bool{syscall.SIGCHLD: true, syscall.SIGCONT: true, syscall.SIGURG: true,
		syscall.SIGWINCH: true, syscall.SIGSTOP: true, syscall.SIGTSTP: true, syscall.SIGTTIN: true, syscall.SIGTTOU: true}
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		for sig := syscall.Signal(1); sig < 32; sig++ {
			if harmless[sig] || signal.Ignored(sig) { // our starter may have ignored it, as nohup does; direct children inherit that
				continue
			}
			l := launch(tty, "sh", "-c", fmt.Sprintf("ulimit -c 0; kill -%d $$; sleep 1000", sig)) // bash ignores SIGQUIT
			l.Dir = t.TempDir()                                                                    // for a core file, if the system writes one nevertheless
			_, record := run(t, spawner, l)
			exited := awaitEvent[ptyio.Exited](t, record)
			if exited.Status != messages.StatusSignaled(sig) || exited.Lost != nil {
				t.Errorf("%v was reported as %+v", sig, exited)
			}
			record.awaitEnd(t)
		}
	})
}

func TestFiveHundredQuickChildrenAreEachReportedOnce(t *testing.T) {
	for _, direct := range []bool{false, true} {
		t.Run(spawnerName(direct), func(t *testing.T) {
			spawner := newSpawner(t, sandbox.Options{Direct: direct})
			var all sync.WaitGroup
			work := make(chan int, 500)
			for i := range 500 {
				work <- i
			}
			close(work)
			for range 50 {
				all.Go(func() {
					for i := range work {
						_, record := run(t, spawner, launch(i%2 == 0, "sh", "-c", fmt.Sprintf("exit %d", i%256)))
						report := record.awaitEnd(t)
						status := awaitEvent[ptyio.Exited](t, record).Status
						if status != messages.StatusExited(i%256) || report.Ended != 0 || len(report.Survivors) > 0 {
							t.Errorf("child %d: %v %+v", i, status, report)
						}
					}
				})
			}
			all.Wait()
		})
	}
}

func TestALeaderWhoseFirstThreadEndedIsNotDead(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		child, record := run(t, spawner, helper(t, tty, "first-thread-ends"))
		record.awaitOutput(t, "first thread ends")
		eventually(t, "it looks like a zombie", func() bool { p, alive := look(child.PID()); return !alive && p.state == 'Z' })
		if err := child.Signal(syscall.SIGWINCH, ptyio.Tree); err != nil {
			t.Errorf("signal: %v", err)
		}
		if record.has(isExited) {
			t.Error("it was taken for dead")
		}
		child.Write([]byte("\n"), time.Time{}, func(ptyio.Taken, error) {})
		record.awaitEnd(t)
		if status := awaitEvent[ptyio.Exited](t, record).Status; status != messages.StatusExited(7) {
			t.Errorf("status %v", status)
		}
	})
}

func TestALeaderWhoseFirstThreadEndedCanBeEnded(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		child, record := run(t, spawner, helper(t, tty, "first-thread-ends"))
		record.awaitOutput(t, "first thread ends")
		eventually(t, "it looks like a zombie", func() bool { p, alive := look(child.PID()); return !alive && p.state == 'Z' })
		child.EndTree(0)
		record.awaitEnd(t)
		if status := awaitEvent[ptyio.Exited](t, record).Status; status.Kind != messages.ExitSignal {
			t.Errorf("status %v", status)
		}
	})
}

func TestSignalsReachTheirScope(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		// The inner shell has a group of its own. The outer one waits without forking, so its group is in the foreground.
		child, record := run(t, spawner, bash(tty, `
			(set -m; bash -c 'trap "echo inner 1" USR1; trap "echo inner 2" USR2; echo up; while :; do sleep 0.02; done' </dev/null &)
			trap "echo outer 1" USR1; trap "echo outer 2" USR2; echo ready; while :; do read -t 0.02 x; done`))
		record.awaitOutput(t, "up")
		record.awaitOutput(t, "ready")
		heard := func(what string) bool { return strings.Contains(record.output.String(), what) }
		if err := child.Signal(syscall.SIGUSR1, ptyio.Foreground); err != nil {
			t.Fatal(err)
		}
		record.awaitOutput(t, "outer 1")
		if err := child.Signal(syscall.SIGUSR2, ptyio.Tree); err != nil {
			t.Fatal(err)
		}
		record.await(t, "both hear of it", func() bool { return heard("outer 2") && heard("inner 2") })
		child.EndTree(0)
		record.awaitEnd(t)
		if heard("inner 1") {
			t.Errorf("the foreground's signal reached another group")
		}
		if err := child.Signal(syscall.SIGUSR1, ptyio.Tree); err == nil {
			t.Error("a signal after the end was accepted")
		}
	})
}

// The warden looks for dead orphans ten times a second at most, and misses none that dies between two looks.
func TestOrphansAreReapedAgainAndAgain(t *testing.T) {
	t.Parallel() // it waits most of the time
	spawner := newSpawner(t, sandbox.Options{})
	child, record := run(t, spawner, bash(false, `while read; do (sh -c 'kill -9 $$' &); echo next; done`))
	warden, rounds := wardenAbove(child.PID()), ""
	for range 5 {
		child.Write([]byte("\n"), time.Time{}, func(ptyio.Taken, error) {})
		rounds += "next\n"
		record.awaitOutput(t, rounds)
		eventually(t, "the orphan is reaped", func() bool { _, dead := children(warden); return dead == 0 })
	}
	child.EndTree(0)
	record.awaitEnd(t)
}

func TestNoZombieAndNoDescriptorIsLeft(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		token := newToken()
		cycle := func() (warden int) {
			child, record := run(t, spawner, bash(tty, `(setsid sleep `+token+` </dev/null >/dev/null 2>&1 &); (exit 3) & read x`))
			warden = wardenAbove(child.PID())
			child.EndTree(0)
			record.awaitEnd(t)
			missing := launch(tty, "/does/not/exist")
			missing.Events = newRecorder().receive
			if _, err := spawner.Spawn(t.Context(), missing); err == nil {
				t.Fatal("it exists")
			}
			return warden
		}
		parent := cycle()
		if parent == 0 {
			parent = os.Getpid()
		}
		host, ours := len(proc.Descriptors(os.Getpid())), len(proc.Descriptors(parent))
		for range 20 {
			cycle()
		}
		eventually(t, "the host has as many descriptors as before", func() bool { return len(proc.Descriptors(os.Getpid())) <= host })
		eventually(t, "the warden has as many descriptors as before", func() bool { return len(proc.Descriptors(parent)) <= ours })
		if parent != os.Getpid() {
			noneLeft(t, token)
			eventually(t, "the warden has no children", func() bool {
				living, dead := children(parent)
				return living == 0 && dead == 0
			})
		}
		noneLeftUnlessDirect(t, token, parent != os.Getpid())
	})
}

func TestATerminalErasesCharactersAndNotBytes(t *testing.T) {
	for _, direct := range []bool{false, true} {
		spawner := newSpawner(t, sandbox.Options{Direct: direct})
		child, record := run(t, spawner, bash(true, `read -r line; printf '<%s>' "$line" | od -An -tx1; exit`))
		child.Write([]byte("a\u00e9\x7fb\n"), time.Time{}, func(ptyio.Taken, error) {}) // one erase removes both bytes
		record.awaitOutput(t, "3c 61 62 3e")
		record.awaitEnd(t)
	}
}
