//go:build linux

package ptyio_test

import (
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// underLoad keeps every core doubly busy until the test ends: with processes, and in the full form also with goroutines of
// the host.
func underLoad(t *testing.T) {
	var over atomic.Bool
	t.Cleanup(func() { over.Store(true) })
	for range 2 * runtime.GOMAXPROCS(0) {
		spinner := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
		if err := spinner.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = spinner.Process.Kill()
			_ = spinner.Wait()
		})
		if *full {
			go func() {
				for !over.Load() {
				}
			}()
		}
	}
}

func TestWhatIsWrittenRightBeforeTheExitArrivesUnderLoad(t *testing.T) {
	underLoad(t)
	times := 25
	if *full {
		times = 500
	}
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		for _, size := range []int{1, 4 << 10, 1 << 20} {
			l := launch(tty, "cat", letterFile(t, size))
			want := string(letters(size))
			var all sync.WaitGroup
			slots := make(chan struct{}, 8)
			for i := range times {
				slots <- struct{}{}
				all.Go(func() {
					defer func() { <-slots }()
					r := start(t, spawner, l)
					happened[ptyio.Drained](t, r)
					if got := r.text(); got != want {
						t.Errorf("run %d of %d bytes: %d bytes had come before Drained", i, size, len(got))
					}
					if status := r.awaitEnd(t); status != messages.StatusExited(0) {
						t.Errorf("run %d of %d bytes: %v", i, size, status)
					}
				})
			}
			all.Wait()
		}
	})
}

// leavesBehind is a leader that exits and leaves a child behind. The child holds the output open until it reads from the
// gate.
func leavesBehind(tty bool, g *gate, then string) ptyio.Launch {
	l := shell(tty, fmt.Sprintf(`trap "" HUP; { read word <%s; %s; } & echo leader; exit 5`, g.path, then))
	l.OnLeaderExit = messages.LeaderExitKeepsTree
	return l
}

func TestALeadersExitIsReportedWhileItsOutputIsHeld(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		r := start(t, spawner, leavesBehind(tty, newGate(t), ":"))
		exited, exitedAt := happened[ptyio.Exited](t, r)
		_, drainedAt := happened[ptyio.Drained](t, r)
		if waited := drainedAt.Sub(exitedAt); waited < ptyio.DrainWait/2 && !isRemote(spawner) { // news of both may come from there at once
			t.Errorf("drained %v after the exit, want about %v", waited, ptyio.DrainWait)
		}
		if !strings.Contains(r.text(), "leader") || exited.Status != messages.StatusExited(5) {
			t.Errorf("status %v, output %q", exited.Status, r.text())
		}
		after(2 * ptyio.DrainWait)
		if has[ptyio.Closed](r) || has[ptyio.TreeEnded](r) {
			t.Errorf("the end was reported while a child holds the output: %v", r)
		}
		r.EndTree(0)
		r.awaitEnd(t)
	})
}

func TestOutputThatComesAfterTheExitIsDelivered(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		g := newGate(t)
		r := start(t, spawner, leavesBehind(tty, g, "echo late"))
		happened[ptyio.Drained](t, r)
		g.open(t, "go")
		r.awaitOutput(t, "late")
		r.awaitEnd(t)
	})
}

func TestOutputClosesWhenItsLastHolderLetsGo(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		release, end := newGate(t), newGate(t)
		r := start(t, spawner, leavesBehind(tty, release, "exec <&- >&- 2>&-; read word <"+end.path))
		happened[ptyio.Drained](t, r)
		release.open(t, "go")
		happened[ptyio.Closed](t, r)
		if has[ptyio.TreeEnded](r) {
			t.Error("the tree has ended, but a child of it lives")
		}
		end.open(t, "go")
		r.awaitEnd(t)
	})
}

func TestTheEndOfOutputIsNotWaitedFor(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		best := time.Hour
		for tries := 0; tries < 50 && best >= ptyio.DrainWait; tries++ { // a busy machine may delay many of them
			r := start(t, spawner, shell(tty, "echo text"))
			_, exitedAt := happened[ptyio.Exited](t, r)
			_, drainedAt := happened[ptyio.Drained](t, r)
			r.awaitEnd(t)
			best = min(best, drainedAt.Sub(exitedAt))
		}
		if best >= ptyio.DrainWait {
			t.Errorf("drained %v after the exit at best", best)
		}
	})
}

func TestNothingIsLostWhileTheReceiverIsLate(t *testing.T) {
	rest := letterFile(t, 8000) // a terminal holds 12 KiB for a leader that has exited
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		g := newGate(t)
		l := shell(tty, fmt.Sprintf("for i in 1 2 3 4; do printf %%s $i; read word <%s; done; cat %s", g.path, rest))
		r := startHolding(t, spawner, l, true)
		for i := range credit(tty) {
			r.awaitOutput(t, fmt.Sprint(i+1))
			g.open(t, "go")
		}
		for range ptyio.Credits - credit(tty) {
			g.open(t, "go")
		}
		happened[ptyio.Exited](t, r)
		after(6 * ptyio.DrainWait)
		if most := r.most(); has[ptyio.Drained](r) || has[ptyio.Closed](r) || most != credit(tty) {
			t.Errorf("without credit: %v, %d batches out", r, most)
		}
		r.release()
		r.awaitEnd(t)
		if want := "1234" + string(letters(8000)); r.text() != want {
			t.Errorf("%d bytes of %d arrived", len(r.text()), len(want))
		}
	})
}

func TestADrainEndsEvenIfABackgroundChildNeverStopsWriting(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		l := shell(tty, `trap "" HUP; yes & echo leader`)
		l.OnLeaderExit = messages.LeaderExitKeepsTree
		r := start(t, spawner, l)
		happened[ptyio.Drained](t, r)
		if !strings.Contains(r.text(), "leader") {
			t.Error("what the leader wrote had not come before Drained")
		}
		r.EndTree(0)
		r.awaitEnd(t)
	})
}

func TestAPipeThatAStrangerHoldsIsGivenUpWhenTheTreeHasEnded(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		r := start(t, spawner, shell(false, "echo ready; read word"))
		r.awaitOutput(t, "ready")
		stranger := exec.CommandContext(t.Context(), "sh", "-c", fmt.Sprintf("exec 8>/proc/%d/fd/1; echo open; read word", r.PID()))
		said, err := stranger.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		hold, err := stranger.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := stranger.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := said.Read(make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		r.write(t, "\n")
		r.awaitEnd(t)
		_ = hold.Close()
		_ = stranger.Wait()
	})
}

func TestTheReceiverOfTheLastEventFindsTheChildOver(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		g := newGate(t)
		l := shell(tty, "read word <"+g.path)
		child, over := make(chan ptyio.Child, 1), make(chan error, 2)
		var left atomic.Int32 // Closed and TreeEnded
		left.Store(2)
		l.Events = func(event ptyio.Event) {
			switch e := event.(type) {
			case ptyio.Output:
				e.Release()
			case ptyio.Closed, ptyio.TreeEnded:
				if left.Add(-1) == 0 {
					c := <-child
					c.Write([]byte("x"), time.Time{}, func(_ ptyio.Taken, err error) { over <- err })
					c.CloseStdin(func(err error) { over <- err })
				}
			}
		}
		c, err := spawner.Spawn(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Abandon)
		child <- c
		g.open(t, "end")
		for range 2 {
			mustBe(t, receive(t, over), messages.ErrClosed)
		}
	})
}
