//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/sandbox/internal/leasetest"
)

func TestAProgramThatCannotBeReachedKeepsNobodyElseWaiting(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		t.Parallel() // it waits most of the time
		program, giveBack, awaited := leasetest.Watched(t, "/bin/true")
		events, started := newRecorder(), make(chan error, 1)
		l := launch(tty, program)
		l.Events = events.receive
		go func() { _, err := spawner.Spawn(context.Background(), l); started <- err }()
		eventually(t, "the start waits for the program", awaited)
		_, other := run(t, spawner, launch(tty, "true"))
		other.awaitEnd(t)
		select {
		case err := <-started:
			t.Fatalf("the program was reached: %v", err)
		default:
		}
		giveBack()
		if err := receive(t, "the start", started); err != nil {
			t.Fatal(err)
		}
		events.awaitEnd(t)
		if status := awaitEvent[ptyio.Exited](t, events).Status; status != messages.StatusExited(0) {
			t.Errorf("status %v", status)
		}
	})
}

func TestACancelledSpawnDoesNotWaitForAFileSystem(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		t.Parallel() // it waits most of the time
		program, giveBack := leasetest.Leased(t, "/bin/true")
		l := launch(tty, program)
		l.Events = func(e ptyio.Event) { t.Errorf("event %T", e) }
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if _, err := spawner.Spawn(ctx, l); !errors.Is(err, messages.ErrCancelled) {
			t.Error(err)
		}
		l.Argv[0], l.Env[0] = "another", "PATH=" // Spawn no longer uses them
		giveBack()
	})
}

func TestAForkThatHangsIsGivenUp(t *testing.T) {
	t.Run("it waits", func(t *testing.T) { hangingFork(t, ``) })
	t.Run("it is stopped", func(t *testing.T) {
		hangingFork(t, `for child in $(cat /proc/$PPID/task/*/children); do [ $child = $$ ] || kill -STOP $child; done; `)
	})
}

// hangingFork starts a program that the kernel cannot execute yet, beside a command that ends meanwhile.
func hangingFork(t *testing.T, meanwhile string) {
	spawner, lost := lossyAndHasty(t)
	token := newToken()
	_, sleeping := run(t, spawner, bash(false, `(sleep `+token+` &); sleep 0.1; `+meanwhile+`exit 3`))
	interpreter, _ := leasetest.Leased(t, "/bin/sh")
	script := write(t, 0o755, "#!"+interpreter+"\nexit 0\n")
	l := launch(false, script)
	l.Events = func(e ptyio.Event) { t.Errorf("event %T", e) }
	_, err := spawner.Spawn(context.Background(), l)
	if failure, ok := errors.AsType[*messages.Error](err); !ok || failure.Code != messages.ErrSpawnFailed || failure.Subject != script {
		t.Errorf("%v", err)
	}
	if status := awaitEvent[ptyio.Exited](t, sleeping).Status; status != messages.StatusExited(3) {
		t.Errorf("status %v", status)
	}
	sleeping.awaitEnd(t)
	noneLeft(t, token)
	_, other := run(t, spawner, launch(false, "true"))
	other.awaitEnd(t)
	if len(lost) > 0 {
		t.Errorf("the warden was given up: %+v", <-lost)
	}
}

func TestABirthThatHangsKeepsNobodyElseWaiting(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		t.Parallel() // it waits most of the time
		_, sleeping := run(t, spawner, bash(tty, "exit 3"))
		interpreter, giveBack, awaited := leasetest.Watched(t, "/bin/sh")
		var hanging [3]*recorder
		failed := make(chan error, len(hanging))
		script := write(t, 0o755, "#!"+interpreter+"\nexit 0\n")
		for i := range hanging {
			hanging[i] = newRecorder()
			l := launch(tty, script)
			l.Events = hanging[i].receive
			go func() { _, err := spawner.Spawn(context.Background(), l); failed <- err }()
		}
		eventually(t, "a birth hangs", awaited)
		sleeping.awaitEnd(t) // this needs a search of all children
		_, other := run(t, spawner, launch(tty, "true"))
		other.awaitEnd(t) // its output ends, too, although others may hold it open
		if len(failed) > 0 {
			t.Fatalf("the births do not hang any more: %v", <-failed)
		}
		giveBack()
		for _, record := range hanging {
			if err := receive(t, "the start", failed); err != nil {
				t.Fatal(err)
			}
			record.awaitEnd(t)
		}
	})
}

// No thread of the warden waits for a birth: when a machine is busy, many births take long, and a thread never ends.
func TestBirthsThatHangOccupyNoThreads(t *testing.T) {
	t.Parallel() // it waits most of the time
	spawner := newSpawner(t, sandbox.Options{})
	child, _ := run(t, spawner, launch(false, "sleep", "1h"))
	warden := wardenAbove(child.PID())
	threads := func() int {
		entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", warden))
		return len(entries)
	}
	before := threads()
	const many = 24
	interpreter, giveBack := leasetest.Leased(t, "/bin/sh")
	script := write(t, 0o755, "#!"+interpreter+"\nexit 0\n")
	started := make(chan error, many)
	var records [many]*recorder
	for i := range records {
		records[i] = newRecorder()
		l := launch(false, script)
		l.Events = records[i].receive
		go func() { _, err := spawner.Spawn(context.Background(), l); started <- err }()
	}
	eventually(t, "all births hang", func() bool { return len(childrenOf(t, warden)) == many+1 })
	time.Sleep(50 * time.Millisecond) // let the births take longer than usual; with less time the test shows less
	if now := threads(); now >= before+many/2 {
		t.Errorf("%d threads, and %d births that hang: %d threads", before, many, now)
	}
	giveBack()
	for _, record := range records {
		if err := receive(t, "the start", started); err != nil {
			t.Fatal(err)
		}
		record.awaitEnd(t)
	}
	child.EndTree(0)
}

// hangingLaunch is a launch that the kernel cannot execute. A warden has begun with it when it is awaited.
func hangingLaunch(t *testing.T) (l ptyio.Launch, awaited func() bool) {
	t.Helper()
	interpreter, _, awaited := leasetest.Watched(t, "/bin/sh")
	l = launch(false, write(t, 0o755, "#!"+interpreter+"\nexit 0\n"))
	l.Events = func(e ptyio.Event) { t.Errorf("event %T", e) }
	return l, awaited
}

func TestForksThatHangOneAfterTheOtherAllFailAndKeepNoAnswerBack(t *testing.T) {
	spawner, _ := lossyAndHasty(t)
	token := newToken()
	between, record := launch(false, "sleep", token), newRecorder()
	between.Events = record.receive
	var failed [2]chan error
	started := make(chan ptyio.Child, 1)
	for i := range failed {
		failed[i] = make(chan error, 1)
		hanging, awaited := hangingLaunch(t)
		go func() { _, err := spawner.Spawn(context.Background(), hanging); failed[i] <- err }()
		eventually(t, "the fork hangs", awaited)
		if i == 0 {
			go func() { child, _ := spawner.Spawn(context.Background(), between); started <- child }()
			eventually(t, "the command between runs", func() bool { return len(sleepers(token)) == 1 })
		}
	}
	child := receive(t, "the start between", started)
	if len(failed[1]) > 0 {
		t.Error("the start between was answered after the fork behind it")
	}
	child.EndTree(0)
	for _, c := range failed {
		if err := receive(t, "the failure", c); !errors.Is(err, messages.ErrSpawnFailed) {
			t.Errorf("error %v", err)
		}
	}
	record.awaitEnd(t)
}

func TestAbandoningAForkThatHangsLeavesNothing(t *testing.T) {
	spawner, _ := lossyAndHasty(t)
	child, record := run(t, spawner, launch(false, "cat"))
	warden := wardenAbove(child.PID())
	interpreter, _ := leasetest.Leased(t, "/bin/sh")
	l := launch(false, write(t, 0o755, "#!"+interpreter+"\nexit 0\n"))
	l.Events = func(e ptyio.Event) { t.Errorf("event %T", e) }
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	_, err := spawner.Spawn(ctx, l)
	if !errors.Is(err, messages.ErrCancelled) {
		t.Errorf("%v", err)
	}
	if left := childrenOf(t, warden); len(left) != 1 {
		t.Errorf("besides %d the warden has a child: %v", child.PID(), left)
	}
	child.EndTree(0)
	record.awaitEnd(t)
}

func TestHangsCostNobodyElseAnything(t *testing.T) {
	spawner, lost := lossyAndHasty(t)
	child, record := run(t, spawner, launch(false, "cat"))
	failed := make(chan error, 3)
	for range cap(failed) {
		hanging, awaited := hangingLaunch(t)
		go func() { _, err := spawner.Spawn(context.Background(), hanging); failed <- err }()
		eventually(t, "the fork hangs", awaited)
	}
	large := launch(false, append([]string{"true"}, slices.Repeat([]string{strings.Repeat("x", 100<<10)}, 18)...)...)
	largeRecord := newRecorder()
	large.Events = largeRecord.receive
	started := make(chan error, 1)
	go func() { _, err := spawner.Spawn(context.Background(), large); started <- err }()
	for range cap(failed) {
		if err := receive(t, "the failure", failed); !errors.Is(err, messages.ErrSpawnFailed) {
			t.Errorf("error %v", err)
		}
	}
	if err := receive(t, "the large start", started); err != nil {
		t.Errorf("the large start: %v", err)
	}
	largeRecord.awaitEnd(t)
	if record.has(isExited) || len(lost) > 0 {
		t.Errorf("another command was lost: %v", record)
	}
	child.EndTree(0)
	record.awaitEnd(t)
}

func TestTheHostsDeathIsSeenWhileAForkHangs(t *testing.T) {
	t.Parallel() // it waits most of the time
	token := newToken()
	interpreter, _ := leasetest.Leased(t, "/bin/sh")
	script := write(t, 0o755, "#!"+interpreter+"\nexit 0\n")
	reaper, says := startHost(t, "reaper", "OF=hanging", "TOKEN="+token, "HANGING="+script)
	host := 0
	if says.Scan() {
		host, _ = strconv.Atoi(says.Text())
	}
	warden := 0
	eventually(t, "the daemon is up and a fork hangs", func() bool {
		up := sleepers(token)
		if len(up) != 1 {
			return false
		}
		warden = wardenAbove(up[0].pid)
		return len(childrenOf(t, warden)) == 2
	})
	_ = syscall.Kill(host, syscall.SIGKILL)
	var ended []string
	for says.Scan() {
		ended = append(ended, says.Text())
	}
	_ = reaper.Wait()
	if !slices.Contains(ended, fmt.Sprintf("%d exited", warden)) { // otherwise the kernel's alarm has killed it
		t.Errorf("the warden %d: %q", warden, ended)
	}
	noneLeft(t, token)
}

func TestAHangingForkDoesNotHangClose(t *testing.T) {
	spawner, err := sandbox.New(hasty(sandbox.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	_, record := run(t, spawner, launch(false, "cat"))
	l, awaited := hangingLaunch(t)
	hanging := newRecorder()
	l.Events = hanging.receive
	failed := make(chan error, 1)
	go func() { _, err := spawner.Spawn(context.Background(), l); failed <- err }()
	eventually(t, "the fork hangs", awaited)
	_ = spawner.Close()
	if err := receive(t, "the start", failed); err == nil { // a child that was killed before its execution can pass for started
		hanging.awaitEnd(t)
	}
	record.awaitEnd(t)
}

// childrenOf lists the children of a warden.
func childrenOf(t *testing.T, pid int) (children []string) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		text, _ := os.ReadFile(list) // a thread that has ended has no such file
		children = append(children, strings.Fields(string(text))...)
	}
	return children
}
