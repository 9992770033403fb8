//go:build linux

package sandbox_test

import (
	"bufio"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/sandbox/internal/leasetest"
	"github.com/execbus/execbus/tests/proc"
)

// startHost starts this test binary as a host in one of the roles of helper_test.go.
func startHost(t *testing.T, role string, env ...string) (host *exec.Cmd, says *bufio.Scanner) {
	t.Helper()
	host = exec.Command(self(t))
	host.Env = environment(append(env, roleVariable+"="+role)...)
	host.Stderr = os.Stderr
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Process.Kill(); _ = host.Wait() })
	return host, bufio.NewScanner(out)
}

func TestTheHostsDeathIsSeenThoughACopyOfItHoldsTheSocket(t *testing.T) {
	token, holder := newToken(), newToken()
	host, says := startHost(t, "copied", "TOKEN="+token, "HOLDER="+holder)
	if says.Scan(); says.Text() == "sockets 0" || says.Text() == "" {
		t.Fatalf("the host says %q", says.Text())
	}
	defer func() { _ = syscall.Kill(sleepers(holder)[0].pid, syscall.SIGKILL) }()
	eventually(t, "the daemon and the holder are up", func() bool { return shapes[5].up(token) && len(sleepers(holder)) == 1 })
	_ = host.Process.Kill()
	noneLeft(t, token)
	if len(sleepers(holder)) != 1 {
		t.Error("who holds the socket is gone, and the test shows nothing")
	}
}

// The warden has more to say than the socket holds, and who has the socket reads nothing.
func TestTheHostsDeathIsSeenByAWardenThatNobodyReads(t *testing.T) {
	token, holder := newToken(), newToken()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	const readers = 400
	host, says := startHost(t, "copied", "TOKEN="+token, "HOLDER="+holder, "FIFO="+fifo, "READERS="+strconv.Itoa(readers))
	if says.Scan(); says.Text() == "sockets 0" || says.Text() == "" {
		t.Fatalf("the host says %q", says.Text())
	}
	defer func() { _ = syscall.Kill(sleepers(holder)[0].pid, syscall.SIGKILL) }()
	eventually(t, "the daemon and the holder are up", func() bool { return shapes[5].up(token) && len(sleepers(holder)) == 1 })
	warden := wardenAbove(sleepers(token)[0].pid)
	_ = host.Process.Signal(syscall.SIGSTOP)
	eventually(t, "the host is stopped", func() bool { p, _ := look(host.Process.Pid); return p.state == 'T' })
	eventually(t, "all readers have exited", func() bool {
		if end, err := os.OpenFile(fifo, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil { // again and again: some may not have opened it yet
			_ = end.Close()
		}
		living, _ := children(warden)
		return living < 3
	})
	eventually(t, "the warden waits", func() bool { p, _ := look(warden); return p.state == 'S' })
	if _, dead := children(warden); dead == 0 {
		t.Log("the socket has room for everything: this shows nothing")
	}
	_ = host.Process.Kill()
	noneLeft(t, token)
	if len(sleepers(holder)) != 1 {
		t.Error("who holds the socket is gone, and the test shows nothing")
	}
}

// killTogether kills a host and its warden, which has no time to do anything.
func killTogether(t *testing.T, host *exec.Cmd, token string) {
	t.Helper()
	eventually(t, "the daemon is up", func() bool { return shapes[5].up(token) })
	warden := wardenAbove(sleepers(token)[0].pid)
	if err := syscall.Kill(warden, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = host.Process.Kill()
}

// stoppedHost is a host that does not notice its warden's death.
func stoppedHost(t *testing.T, state, token string) *exec.Cmd {
	t.Helper()
	host, _ := startHost(t, "host", "SHAPE=5", "TTY=pipes", "TOKEN="+token, "STATE="+state)
	eventually(t, "the daemon is up", func() bool { return shapes[5].up(token) })
	if err := host.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the host is stopped", func() bool { p, _ := look(host.Process.Pid); return p.state == 'T' })
	return host
}

func entries(t *testing.T, state string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(state, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestWhatHostAndWardenLeaveByACommonDeathIsEndedByTheNext(t *testing.T) {
	state, token := filepath.Join(t.TempDir(), "state"), newToken()
	host := stoppedHost(t, state, token)
	killTogether(t, host, token)
	_ = host.Wait()
	if len(sleepers(token)) != 1 || len(entries(t, state)) != 1 {
		t.Fatalf("the daemon does not live: %v, %v", observe(token), entries(t, state))
	}
	elsewhere := newSpawner(t, sandbox.Options{StateDir: t.TempDir()})
	_, record := run(t, elsewhere, launch(false, "true"))
	record.awaitEnd(t)
	if len(sleepers(token)) != 1 {
		t.Error("a spawner with another directory ended it")
	}
	recovered := make(chan messages.TreeReport, 1)
	spawner, err := sandbox.New(sandbox.Options{StateDir: state, Recovered: func(r messages.TreeReport) { recovered <- r }})
	if err != nil {
		t.Fatal(err)
	}
	noneLeft(t, token)
	if report := receive(t, "the report", recovered); report.Ended < 1 || len(report.Survivors) > 0 {
		t.Errorf("%+v", report)
	}
	if err := spawner.Close(); err != nil || len(entries(t, state)) > 0 {
		t.Errorf("%v, left are %v", err, entries(t, state))
	}
}

func TestNothingOfALivingHostIsEnded(t *testing.T) {
	state, token := t.TempDir(), newToken()
	host := stoppedHost(t, state, token)
	unlocked := filepath.Join(state, "warden-copy") // this has the effect of a file system without locks
	text, err := os.ReadFile(entries(t, state)[0])
	if err == nil {
		err = os.WriteFile(unlocked, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	spawner, err := sandbox.New(sandbox.Options{StateDir: state, Recovered: func(r messages.TreeReport) { t.Errorf("%+v", r) }})
	if err != nil {
		t.Fatal(err)
	}
	_ = spawner.Close()
	if len(sleepers(token)) != 1 || len(entries(t, state)) != 2 {
		t.Errorf("%v, %v", observe(token), entries(t, state))
	}
	killTogether(t, host, token)
	_ = host.Wait()
	newSpawner(t, sandbox.Options{StateDir: state})
	noneLeft(t, token)
}

func TestAnEntryFromAnotherBootIsForgotten(t *testing.T) {
	state, token := t.TempDir(), newToken()
	host := stoppedHost(t, state, token)
	text, err := os.ReadFile(entries(t, state)[0])
	if err != nil {
		t.Fatal(err)
	}
	killTogether(t, host, token)
	_ = host.Wait()
	lines := strings.Split(string(text), "\n")
	lines[1] = "boot another"
	if err := os.WriteFile(entries(t, state)[0], []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	spawner, err := sandbox.New(sandbox.Options{StateDir: state, Recovered: func(r messages.TreeReport) { t.Errorf("%+v", r) }})
	if err != nil {
		t.Fatal(err)
	}
	_ = spawner.Close()
	if left := sleepers(token); len(left) != 1 || len(entries(t, state)) > 0 {
		t.Errorf("%v, %v", left, entries(t, state))
	} else {
		_ = syscall.Kill(left[0].pid, syscall.SIGKILL)
	}
}

func TestAStateDirectoryThatOthersCanWriteToIsRefused(t *testing.T) {
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{open, "relative", os.DevNull} {
		if _, err := sandbox.New(sandbox.Options{StateDir: dir}); err == nil || !strings.Contains(err.Error(), "StateDir") {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestLeadersDieWithTheirWardenByTheKernel(t *testing.T) {
	token := newToken()
	host := stoppedHost(t, "", token) // it ends nothing, and holds the leader's input open
	daemon := sleepers(token)[0].pid
	leaders := func() (left []seenProcess) {
		for _, p := range observe(token) {
			if p.pid != daemon && p.pid != host.Process.Pid {
				left = append(left, p)
			}
		}
		return left
	}
	if len(leaders()) != 1 {
		t.Fatalf("leaders %v", leaders())
	}
	if err := syscall.Kill(wardenAbove(daemon), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the leader is dead", func() bool { return len(leaders()) == 0 })
	_ = host.Process.Signal(syscall.SIGCONT)
	noneLeft(t, token) // the host searches
}

func TestAWardenHasASessionOfItsOwn(t *testing.T) {
	child, _ := run(t, newSpawner(t, sandbox.Options{}), launch(false, "cat"))
	warden := wardenAbove(child.PID())
	if session, err := unix.Getsid(warden); err != nil || session != warden {
		t.Errorf("warden %d is in session %d, %v", warden, session, err)
	}
}

func TestStraysAreEndedWithTheSpawner(t *testing.T) {
	spawner, err := sandbox.New(sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	token := newToken()
	_, other := run(t, spawner, launch(false, "cat"))
	_, record := run(t, spawner, shed(token))
	if report := record.awaitEnd(t); len(report.Survivors) == 0 || report.Airtight {
		t.Errorf("%+v", report)
	}
	if err := spawner.Close(); err != nil {
		t.Error(err)
	}
	other.awaitEnd(t)
	if left := observe(token); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSignalsThatTheHostIgnoresAreNotIgnoredByCommands(t *testing.T) {
	out := says(t, []string{self(t)}, "IGNORES=1", "SCRIPT=exec grep SigIgn /proc/self/status")
	if !strings.Contains(out, `SigIgn:\t0000000000000000`) {
		t.Errorf("it says %s", out)
	}
}

func TestAWardenKeepsNoDescriptorThatTheHostHasLeaked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leaked")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	leaked, err := unix.Dup(int(file.Fd())) // not closed on exec
	if err != nil {
		t.Fatal(err)
	}
	child, _ := run(t, newSpawner(t, sandbox.Options{}), launch(false, "cat"))
	_, _ = unix.Close(leaked), file.Close()
	for _, fd := range proc.Descriptors(wardenAbove(child.PID())) {
		if strings.Contains(fd, path) {
			t.Errorf("the warden has %s", fd)
		}
	}
}

// die starts a host, with a birth that hangs if hanging is set. It kills the host after a while, and returns how long the
// last of its processes lived on.
func die(t *testing.T, round int, hanging string, after time.Duration) time.Duration {
	token := newToken()
	host := exec.Command(self(t))
	host.Env = environment(roleVariable+"=host", "SHAPE="+strconv.Itoa(round%len(shapes)), "TTY="+streamsName(round%3 == 0), "TOKEN="+token,
		"HANGING="+hanging)
	if err := host.Start(); err != nil {
		t.Error(err)
		return 0
	}
	time.Sleep(after)
	_ = host.Process.Kill()
	begin := time.Now()
	_ = host.Wait()
	for {
		alive, inherited := observe(token), inheritors("TOKEN="+token)
		took := time.Since(begin)
		if len(alive)+len(inherited) == 0 {
			return took
		}
		if took > patience {
			t.Errorf("%s, killed after %v: %v and %v live on", shapes[round%len(shapes)].name, after, alive, inherited)
			return took
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// inheritors returns the processes with a variable in their environment. Wardens and children have the environment of the
// host.
func inheritors(variable string) (pids []string) {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		text, err := os.ReadFile("/proc/" + entry.Name() + "/environ")
		if err == nil && strings.Contains("\x00"+string(text), "\x00"+variable+"\x00") {
			pids = append(pids, entry.Name())
		}
	}
	return pids
}

func TestHostsMayDieAtAnyMoment(t *testing.T) {
	t.Parallel() // it waits most of the time
	rounds := 20
	if *full {
		rounds = 1000
		for range 2 * runtime.NumCPU() {
			load := exec.Command("sh", "-c", "while :; do /bin/true; for i in 1 2 3 4 5 6 7 8; do :; done; done")
			if err := load.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = load.Process.Kill(); _ = load.Wait() }()
		}
	}
	var slowest time.Duration
	for batch := 0; batch < rounds; batch += 20 {
		t.Run("", func(t *testing.T) { // the kernel ends a lease after some time
			interpreter, _ := leasetest.Leased(t, "/bin/sh")
			script := write(t, 0o755, "#!"+interpreter+"\nexit 0\n")
			ends := make(chan time.Duration)
			for worker := range 4 {
				go func() {
					for i := batch + worker; i < batch+20; i += 4 {
						ends <- die(t, i/2, []string{"", script}[i%2], time.Duration(rand.IntN(200))*time.Millisecond) // any moment is a good one
					}
				}()
			}
			for range 20 {
				slowest = max(slowest, <-ends)
			}
		})
	}
	t.Logf("%d hosts died; the slowest end took %v", rounds, slowest)
}

func TestAWardenThatNeverActsIsEndedByTheNextSpawner(t *testing.T) {
	t.Parallel() // it waits most of the time
	state, token := t.TempDir(), newToken()
	host, _ := startHost(t, "host", "SHAPE=5", "TTY=pipes", "TOKEN="+token, "STATE="+state, "PATIENT=1", // it does not end the warden itself
		"SCRIPT=(setsid sleep "+token+" </dev/null >/dev/null 2>&1 &) ; trap '' TERM HUP PIPE; while :; do kill -STOP $PPID; done")
	eventually(t, "the daemon is up, and the warden is stopped", func() bool {
		found := sleepers(token)
		if len(found) != 1 {
			return false
		}
		p, _ := look(found[0].parent)
		return p.isWarden() && p.state == 'T'
	})
	warden := wardenAbove(sleepers(token)[0].pid)
	_ = host.Process.Kill()
	_ = host.Wait()
	newSpawner(t, hasty(sandbox.Options{StateDir: state}))
	noneLeft(t, token)
	eventually(t, "the warden is gone", func() bool { _, alive := look(warden); return !alive })
}
