//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
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

func TestACommandThatStopsItsWardenEndsAllTheSame(t *testing.T) {
	t.Parallel() // it waits most of the time
	spawner, lost := lossy(t)
	for _, tty := range []bool{false, true} {
		token := newToken()
		_, record := run(t, spawner, bash(tty, `(setsid sleep `+token+` </dev/null >/dev/null 2>&1 &); kill -STOP $PPID; exit 3`))
		if status := awaitEvent[ptyio.Exited](t, record).Status; status != messages.StatusExited(3) {
			t.Errorf("status %v", status)
		}
		if report := record.awaitEnd(t); len(report.Survivors) > 0 || !report.Airtight {
			t.Errorf("%+v", report)
		}
		noneLeft(t, token)
	}
	if len(lost) > 0 {
		t.Errorf("the warden was given up: %+v", <-lost)
	}
}

func TestSignalsOfACommandDoNotEndItsWarden(t *testing.T) {
	spawner, lost := lossy(t)
	script := `for s in HUP INT QUIT PIPE USR1 USR2 ALRM TSTP TTIN TTOU WINCH URG CONT CHLD; do kill -$s $PPID; done; exit 3`
	for range 2 {
		_, record := run(t, spawner, bash(false, script))
		if status := awaitEvent[ptyio.Exited](t, record).Status; status != messages.StatusExited(3) {
			t.Errorf("status %v", status)
		}
		record.awaitEnd(t)
	}
	if len(lost) > 0 {
		t.Errorf("the warden has ended: %+v", <-lost)
	}
}

func TestAStoppedWardenDoesWhatItIsTold(t *testing.T) {
	spawner, _ := lossy(t)
	token := newToken()
	child, record := run(t, spawner, shapes[5].launch(false, token))
	eventually(t, "the daemon is up", func() bool { return shapes[5].up(token) })
	warden := stopWarden(t, child.PID())
	other, otherRecord := run(t, spawner, launch(false, "cat"))
	if next := wardenAbove(other.PID()); next != warden {
		t.Errorf("warden %d after %d", next, warden)
	}
	stopWarden(t, child.PID())
	child.EndTree(0)
	record.awaitEnd(t)
	stopWarden(t, other.PID())
	other.EndTree(0)
	otherRecord.awaitEnd(t)
	noneLeft(t, token)
}

func TestAStoppedWardenNoticesTheHostsDeath(t *testing.T) {
	token := newToken()
	host := exec.Command(self(t))
	host.Env = environment(roleVariable+"=host", "SHAPE=5", "TTY=pipes", "TOKEN="+token)
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = host.Wait() }()
	eventually(t, "the daemon is up", func() bool { return shapes[5].up(token) })
	warden := stopWarden(t, sleepers(token)[0].pid)
	_ = host.Process.Kill()
	noneLeft(t, token)
	eventually(t, "the warden ends", func() bool { _, alive := look(warden); return !alive })
}

func TestAWardenThatIsStoppedAgainAndAgainIsGivenUp(t *testing.T) {
	spawner, lost := lossyAndHasty(t)
	token := newToken()
	child, record := run(t, spawner, bash(false, `(setsid sleep `+token+` </dev/null >/dev/null 2>&1 &)
		read x; while :; do kill -STOP $PPID; done`))
	warden := wardenAbove(child.PID())
	child.Write([]byte("\n"), time.Time{}, func(ptyio.Taken, error) {})
	exited := awaitEvent[ptyio.Exited](t, record)
	if exited.Status != messages.StatusNone() || !errors.Is(exited.Lost, messages.ErrWardenLost) {
		t.Errorf("%+v", exited)
	}
	record.awaitEnd(t)
	noneLeft(t, token)
	if l := receive(t, "WardenLost", lost); l.PID != warden || l.Status != messages.StatusSignaled(syscall.SIGKILL) {
		t.Errorf("%+v", l)
	}
}

// stopWarden stops the warden above a process and returns its pid.
func stopWarden(t *testing.T, below int) int {
	t.Helper()
	warden := wardenAbove(below)
	eventually(t, "the warden is stopped", func() bool {
		if err := syscall.Kill(warden, syscall.SIGSTOP); err != nil { // again and again: the host continues it every second
			t.Fatalf("stop warden %d: %v", warden, err)
		}
		p, _ := look(warden)
		return p.state == 'T'
	})
	return warden
}

func TestAWardenThatHangsDoesNotHangClose(t *testing.T) {
	t.Parallel() // it waits most of the time
	spawner, _ := lossyAndHasty(t)
	token := newToken()
	child, record := run(t, spawner, shapes[5].launch(false, token))
	eventually(t, "the daemon is up", func() bool { return shapes[5].up(token) })
	hang(t, wardenAbove(child.PID()))
	_ = spawner.Close()
	record.awaitEnd(t)
	noneLeft(t, token)
}

// hang keeps every thread of a warden from running until the warden is killed or letGo is called. It works like a debugger,
// so SIGCONT does not help.
func hang(t *testing.T, pid int) (letGo func()) {
	t.Helper()
	stopped, enough := make(chan error), make(chan struct{})
	go onAThreadThatEnds(func() { // the thread is the tracer, and must end before the dead warden can be reaped
		stopped <- trace(pid)
		for p, alive := look(pid); alive && p.isWarden(); p, alive = look(pid) {
			select {
			case <-enough:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	if err := <-stopped; err != nil {
		t.Skipf("this system lets nobody trace: %v", err)
	}
	return sync.OnceFunc(func() { close(enough) })
}

func TestNobodyWaitsForAWardenThatDoesNotRead(t *testing.T) {
	t.Parallel() // it waits most of the time
	lost := make(chan sandbox.WardenLost, 1)
	spawner := newSpawner(t, sandbox.Impatient(sandbox.Options{Lost: func(l sandbox.WardenLost) { lost <- l }}, time.Second, patience, 20*soon))
	token := newToken()
	child, record := run(t, spawner, bash(false, `trap 'echo got it' USR1; echo up; while :; do sleep 0.05; done`, token))
	record.awaitOutput(t, "up")
	letGo := hang(t, wardenAbove(child.PID()))
	defer letGo()
	started := make(chan error, 4)
	large := launch(false, "true", strings.Repeat("x", 100<<10))
	for range 15 {
		large.Argv = append(large.Argv, large.Argv[1])
	}
	for range cap(started) {
		l := large
		l.Events = newRecorder().receive
		go func() { _, err := spawner.Spawn(context.Background(), l); started <- err }()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond) // by then the socket is full
	defer cancel()
	l := large
	l.Events = func(e ptyio.Event) { t.Errorf("event %T", e) }
	if _, err := spawner.Spawn(ctx, l); !errors.Is(err, messages.ErrCancelled) {
		t.Errorf("a start that was cancelled: %v", err)
	}
	for range 100 { // one that waited for the warden would wait until letGo
		if err := child.Signal(syscall.SIGUSR1, ptyio.Tree); err != nil {
			t.Fatal(err)
		}
	}
	letGo()
	record.awaitOutput(t, "got it")
	child.EndTree(0)
	record.awaitEnd(t)
	for range cap(started) {
		if err := receive(t, "the answer to a start", started); err != nil {
			t.Error(err)
		}
	}
	if len(lost) > 0 {
		t.Errorf("the warden was given up: %+v", <-lost)
	}
}

// onAThreadThatEnds calls do on a thread that ends afterwards. The main thread never ends.
func onAThreadThatEnds(do func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		do()
		return
	}
	defer runtime.UnlockOSThread()
	over := make(chan struct{})
	go func() {
		defer close(over)
		onAThreadThatEnds(do)
	}()
	<-over
}

func trace(pid int) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, thread := range threads {
		id, _ := strconv.Atoi(thread.Name())
		if err == nil {
			err = unix.PtraceSeize(id)
		}
		if err == nil {
			err = unix.PtraceInterrupt(id)
		}
	}
	return err
}
