//go:build linux

package ptyio_test

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/tests/proc"
)

func TestAProgramSeesTheNewSizeAndASignal(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		for size, want := range map[messages.Size]string{ // bash loses a signal that comes while it handles the previous one
			{Rows: 40, Cols: 100}: "size 40 100", {Rows: 65535, Cols: 65535}: "size 65535 65535", {Rows: 3}: "size 3 80",
		} {
			r := start(t, spawner, launch(true, "bash", "--norc", "-c", `trap 'echo size $(stty size)' WINCH; echo ready
while :; do sleep 0.02; done`))
			r.awaitOutput(t, "ready")
			if err := r.Resize(size); err != nil {
				t.Fatal(err)
			}
			r.awaitOutput(t, want)
			if err := r.Resize(messages.Size{}); err != nil {
				t.Error(err)
			}
			r.EndTree(0)
			r.awaitEnd(t)
			mustBe(t, r.Resize(size), messages.ErrClosed)
		}
	})
}

func TestPipesHaveNoSize(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		r := start(t, spawner, launch(false, "cat"))
		mustBe(t, r.Resize(messages.Size{Rows: 40, Cols: 100}), messages.ErrNotATerminal)
		r.EndTree(0)
		r.awaitEnd(t)
		mustBe(t, r.Resize(messages.Size{Rows: 40, Cols: 100}), messages.ErrClosed)
	})
}

func TestAnInterruptHitsTheForegroundJobAndNotItsShell(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		r := start(t, spawner, launch(true, "bash", "--norc", "--noprofile", "-i"))
		r.awaitOutput(t, "$ ")
		for round := range 3 {
			r.write(t, "sleep 1000\n")
			eventually(t, "the job is in the foreground", func() bool {
				name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", proc.Look(r.PID()).Foreground))
				return string(name) == "sleep\n"
			})
			if err := r.Signal(syscall.SIGINT, ptyio.Foreground); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the shell is in the foreground again", func() bool { return proc.Look(r.PID()).Foreground == r.PID() })
			r.write(t, fmt.Sprintf("echo status $? of round $((%d))\n", round))
			r.awaitOutput(t, fmt.Sprintf("status 130 of round %d", round))
		}
		r.write(t, "exit 7\n")
		if status := r.awaitEnd(t); status != messages.StatusExited(7) {
			t.Errorf("status %v", status)
		}
	})
}

// traps is a leader with two children: one in its group, and one that has left its session. Each prints a line when it gets
// SIGUSR1.
const traps = `say() { trap "echo $1 was hit" USR1; echo $1 is ready; while :; do sleep 0.02; done; } 2>/dev/null
export -f say
setsid bash -c "say stray" & bash -c "say kid" & say leader`

func TestSignalsReachTheirScopeAndNobodyElse(t *testing.T) {
	own := make(chan os.Signal, 8)
	signal.Notify(own, syscall.SIGUSR1)
	defer signal.Stop(own)
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		begin := func() *record {
			r := start(t, spawner, launch(tty, "bash", "--norc", "-c", traps))
			for _, name := range []string{"leader", "kid", "stray"} {
				r.awaitOutput(t, name+" is ready")
			}
			return r
		}
		r, sibling := begin(), begin()
		mustSignal(t, r, ptyio.Foreground)
		r.awaitOutput(t, "leader was hit")
		r.awaitOutput(t, "kid was hit")
		if strings.Contains(r.text(), "stray was hit") {
			t.Error("a signal to the foreground reached another group")
		}
		mustSignal(t, r, ptyio.Tree)
		r.awaitOutput(t, "stray was hit")
		if strings.Contains(sibling.text(), "was hit") || len(own) > 0 {
			t.Errorf("somebody else was hit: %q, the host %d times", sibling.text(), len(own))
		}
		for _, r := range []*record{r, sibling} {
			r.EndTree(0)
			r.awaitEnd(t)
			mustBe(t, r.Signal(syscall.SIGUSR1, ptyio.Foreground), messages.ErrClosed)
			mustBe(t, r.Signal(syscall.SIGUSR1, ptyio.Tree), messages.ErrClosed)
		}
	})
}

func mustSignal(t *testing.T, r *record, scope ptyio.Scope) {
	t.Helper()
	if err := r.Signal(syscall.SIGUSR1, scope); err != nil {
		t.Fatal(err)
	}
}

func TestSignalsThatDoNotExistAreRefused(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		r := start(t, spawner, launch(tty, "cat"))
		for _, number := range []syscall.Signal{-1, 0, 65, 1 << 20} {
			mustBe(t, r.Signal(number, ptyio.Foreground), messages.ErrInvalidRequest)
		}
	})
}

func TestAnEndedChildAnswersEverythingWithClosed(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		r := start(t, spawner, launch(tty, "true"))
		r.awaitEnd(t)
		mustBe(t, receive(t, r.send(t, []byte("x"), 0)).err, messages.ErrClosed)
		mustBe(t, r.closeStdin(t), messages.ErrClosed)
		mustBe(t, r.Resize(messages.Size{}.OrDefault()), messages.ErrClosed)
		mustBe(t, r.Signal(syscall.SIGTERM, ptyio.Tree), messages.ErrClosed)
		r.EndTree(time.Second)
		r.Abandon()
	})
}
