//go:build linux

package sandbox_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
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
)

// isolating returns a spawner and an enclosure that isolates commands. The test is skipped if that is not possible here.
func isolating(t testing.TB, c ptyio.Confinement) (ptyio.Spawner, ptyio.Enclosure) {
	t.Helper()
	spawner := newSpawner(t, sandbox.Options{})
	c.Least = messages.AssuranceIsolated
	return spawner, enclose(t, spawner, c)
}

// isolatedBoth runs a test on pipes and on a terminal.
func isolatedBoth(t *testing.T, test func(t *testing.T, tty bool)) {
	for _, tty := range []bool{false, true} {
		t.Run(streamsName(tty), func(t *testing.T) { test(t, tty) })
	}
}

func TestTheStrongestIsUsedAlsoWhereLessWouldDo(t *testing.T) {
	spawner, _ := isolating(t, workspace(t.TempDir()))
	e := enclose(t, spawner, workspace(t.TempDir())) // it accepts less
	l := launch(false, "true")
	l.Sandbox = e
	predicted, err := spawner.Can(l)
	_, r := run(t, spawner, l)
	r.awaitEnd(t)
	told := awaitEvent[ptyio.Spawned](t, r).Enforced
	if err != nil || told == nil || told.String() != predicted.String() || told.Level != messages.AssuranceIsolated || told.Mechanisms[0] != "namespaces" {
		t.Errorf("%v, %v was predicted, and %v told", err, predicted, told)
	}
}

// A command may use one listed socket. If the kernel cannot tell sockets apart, it can use others as well, and then the
// record says so.
func TestSocketsThatAreNotListedAreToldIfTheyCanBeReached(t *testing.T) {
	dir := t.TempDir()
	listed, other := filepath.Join(dir, "listed"), filepath.Join(dir, "other")
	for _, path := range []string{listed, other} {
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
	}
	c := workspace(t.TempDir())
	c.Policy.Sockets = []string{listed}
	spawner, e := isolating(t, c)
	l := launch(false, "true")
	l.Sandbox = e
	predicted, err := spawner.Can(l)
	if err != nil {
		t.Fatal(err)
	}
	tells := func(e messages.Enforcement) bool {
		return slices.ContainsFunc(e.Missing, func(m messages.Missing) bool { return strings.Contains(m.What, "not listed") })
	}
	const connect = `python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' "$1" 2>/dev/null && echo reached`
	if said(t, spawner, e, false, connect, other) == "reached" && !tells(predicted) {
		t.Errorf("a socket was reached that is not listed, and the record says %v", predicted)
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Log("skipped without python3: whether it is reached")
	}
	without, err := spawner.Can(ptyio.Launch{Sandbox: enclose(t, spawner, workspace(t.TempDir()))})
	if err != nil || tells(without) {
		t.Errorf("no socket is listed, and the record says %v, %v", without, err)
	}
}

func TestAbstractSocketsAreToldWhereLandlockDoesNotKeepThem(t *testing.T) {
	listed := filepath.Join(t.TempDir(), "listed")
	listener, err := net.Listen("unix", listed)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	for _, test := range []struct {
		abi           int
		network, told bool
	}{{5, true, true}, {5, false, false}, {6, true, false}} {
		c := workspace(t.TempDir())
		c.Policy.Sockets, c.Policy.NetworkAccess = []string{listed}, test.network
		isolating(t, c) // or skip
		restore := sandbox.WithLandlock(test.abi)
		_, e := isolating(t, c)
		enforced, err := newSpawner(t, sandbox.Options{}).Can(ptyio.Launch{Sandbox: e})
		restore()
		if err != nil || strings.Contains(enforced.String(), "abstract") != test.told {
			t.Errorf("with version %d of Landlock, and the network %v, the record says %v, %v", test.abi, test.network, enforced, err)
		}
	}
}

func TestAnIsolatedCommandCannotChangeWhatIsProtected(t *testing.T) {
	isolatedBoth(t, func(t *testing.T, tty bool) {
		dir := t.TempDir()
		for _, name := range []string{".git/hooks", "sub/nested/.git", "secret"} {
			if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		c := workspace(dir)
		c.Policy.DeniedReads = []string{filepath.Join(dir, "secret")}
		spawner, e := isolating(t, c)
		got := said(t, spawner, e, tty, `exec 2>&1; cd "$1"; echo in >file && cat file
			for path in .git/hooks/x .git/config sub/nested/.git/config .agents/x .codex/x; do echo out >$path; done 2>/dev/null
			mv .git other; rm -rf .git sub/nested/.git .codex; mkdir -p .codex/x; ls secret; ls -1d .git .codex sub/nested/.git`, dir)
		if !strings.HasPrefix(got, "in\n") || !strings.HasSuffix(got, ".codex\n.git\nsub/nested/.git") || !strings.Contains(got, "'secret': Permission denied") {
			t.Error(got)
		}
		for path, want := range map[string]bool{".git/hooks": true, ".git/hooks/x": false, "other": false, "sub/nested/.git/config": false} {
			if _, err := os.Lstat(filepath.Join(dir, path)); (err == nil) != want {
				t.Errorf("%s: %v", path, err)
			}
		}
		e.Release()
		eventually(t, "the placeholders are gone", func() bool {
			_, agents := os.Lstat(filepath.Join(dir, ".agents"))
			_, codex := os.Lstat(filepath.Join(dir, ".codex"))
			return agents != nil && codex != nil
		})
	})
}

func TestAnIsolatedCommandSeesItsOwnProcessesOnly(t *testing.T) {
	isolatedBoth(t, func(t *testing.T, tty bool) {
		spawner, e := isolating(t, workspace(t.TempDir()))
		got := said(t, spawner, e, tty, `kill -9 1; kill -0 1; echo $$; ls -d /proc/[0-9]* | wc -l; cat /proc/1/environ; kill -0 `+strconv.Itoa(os.Getpid()))
		if !strings.Contains(got, "\n2\n") && !strings.HasPrefix(got, "2\n") || strings.Count(got, "No such file") != 1 || strings.Count(got, "No such process") != 1 {
			t.Error(got)
		}
	})
}

func TestIsolatedCommandsServeEachOther(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3 here")
	}
	spawner, e := isolating(t, workspace(t.TempDir()))
	l := launch(false, "python3", "-c", `
import socket
s = socket.create_server(("127.0.0.1", 3456))
print("ready", flush=True)
s.accept()[0].sendall(b"answer")`)
	l.Sandbox = e
	server, r := run(t, spawner, l)
	r.awaitOutput(t, "ready")
	got := said(t, spawner, e, false, `python3 -c '
import socket
print(socket.create_connection(("127.0.0.1", 3456)).recv(9))'; echo $EXECBUS_SANDBOX_NETWORK_DISABLED`)
	if got != "b'answer'\n1" {
		t.Error(got)
	}
	server.EndTree(0)
	r.awaitEnd(t)
}

func TestJobControlWorksInIsolation(t *testing.T) {
	spawner, e := isolating(t, workspace(t.TempDir()))
	l := launch(true, "bash", "--norc", "-i")
	l.Env = append(l.Env, `PS1=[\#]`) // the number of the next command
	l.Sandbox = e
	child, r := run(t, spawner, l)
	say := func(text, answer string) {
		t.Helper()
		child.Write([]byte(text), time.Time{}, func(ptyio.Taken, error) {})
		r.awaitOutput(t, answer)
	}
	say("echo re''ady; tty </dev/tty\n", "ready")
	say("sleep 1000\n", "sleep 1000")
	eventually(t, "sleep has the terminal", func() bool { return strings.Contains(observeForeground(child), "sleep") })
	say("\x1a", "Stopped")
	say("bg; jobs -r | sed s/Run/Is/\n", "Isning")
	say("fg\n", "sleep 1000 &")
	eventually(t, "sleep has the terminal again", func() bool { return strings.Contains(observeForeground(child), "sleep") })
	say("\x03", "[5]") // an interrupted shell may throw away what was typed before its prompt
	say("echo status $?\n", "status 130")
	if err := child.Resize(messages.Size{Rows: 17, Cols: 51}); err != nil {
		t.Fatal(err)
	}
	say("stty size\n", "17 51")
	say("exit 7\n", "exit")
	if exited := awaitEvent[ptyio.Exited](t, r); exited.Status != messages.StatusExited(7) {
		t.Errorf("%v", exited)
	}
	if report := r.awaitEnd(t); !report.Airtight || report.Ended != 0 {
		t.Errorf("%+v", report)
	}
}

// observeForeground returns the name of the process in the foreground of a child's terminal.
func observeForeground(child ptyio.Child) string {
	text, err := exec.Command("ps", "-o", "stat=,comm=", "--sid", strconv.Itoa(child.PID())).Output()
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if stat, name, _ := strings.Cut(strings.TrimSpace(line), " "); strings.Contains(stat, "+") {
			return name
		}
	}
	return ""
}

func TestTheEndOfAnIsolatedTreeIsAirtight(t *testing.T) {
	isolatedBoth(t, func(t *testing.T, tty bool) {
		spawner, e := isolating(t, workspace(t.TempDir()))
		token := newToken()
		l := bash(tty, `for i in 1 2 3; do (setsid setsid sleep "$1" &) ; done; echo ready; exec sleep "$1"`, token)
		l.Sandbox = e
		child, r := run(t, spawner, l)
		r.awaitOutput(t, "ready")
		eventually(t, "all are up", func() bool { return len(sleepers(token)) == 4 })
		child.EndTree(0)
		if report := r.awaitEnd(t); !report.Airtight || report.Ended != 3 || len(report.Survivors) > 0 {
			t.Errorf("%+v", report)
		}
		noneLeft(t, token)
		if exited := awaitEvent[ptyio.Exited](t, r); exited.Status != messages.StatusSignaled(syscall.SIGKILL) {
			t.Errorf("%v", exited)
		}
	})
}

// beIsolated is a running host whose isolated command has a placeholder.
func beIsolated() {
	spawner, err := sandbox.New(sandbox.Options{})
	must(err)
	c := workspace(os.Getenv("ROOT"))
	c.Least = messages.AssuranceIsolated
	e, err := spawner.Enclose(context.Background(), c)
	must(err)
	l := launch(false, "sleep", os.Getenv("TOKEN"))
	l.Sandbox, l.Events = e, func(ptyio.Event) {}
	_, err = spawner.Spawn(context.Background(), l)
	if err != nil {
		fmt.Println(err)
	}
	must(err)
	fmt.Println("up")
	select {}
}

func TestAHostsDeathLeavesNothingIsolated(t *testing.T) {
	isolating(t, workspace(t.TempDir()))
	for _, test := range []struct {
		name   string
		warden bool // the warden dies, too, and has no time to do anything
	}{{"host", false}, {"host and warden", true}} {
		t.Run(test.name, func(t *testing.T) {
			root, token := t.TempDir(), newToken()
			host, says := startHost(t, "isolated", "ROOT="+root, "TOKEN="+token)
			if says.Scan(); says.Text() != "up" {
				t.Fatalf("the host says %q", says.Text())
			}
			eventually(t, "the command is up", func() bool { return len(sleepers(token)) == 1 })
			git := filepath.Join(root, ".git")
			if _, err := os.Lstat(git); err != nil {
				t.Fatal(err)
			}
			if test.warden {
				_ = host.Process.Signal(syscall.SIGSTOP)
				if err := syscall.Kill(wardenAbove(sleepers(token)[0].pid), syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			_ = host.Process.Kill()
			noneLeft(t, token)
			if test.warden {
				spawner, e := isolating(t, workspace(root)) // the next one
				if got := said(t, spawner, e, false, `mkdir "$1/.git/x" || echo safe`, root); !strings.HasSuffix(got, "safe") {
					t.Error(got)
				}
				e.Release()
			}
			eventually(t, "the placeholder is gone", func() bool { _, err := os.Lstat(git); return errors.Is(err, os.ErrNotExist) })
		})
	}
}

// beRefused is a host whose kernel makes no user namespaces. It prints what would be enforced.
func beRefused() {
	spawner, err := sandbox.New(sandbox.Options{})
	must(err)
	e, err := spawner.Enclose(context.Background(), workspace("/tmp"))
	must(err)
	enforced, err := spawner.Can(ptyio.Launch{Sandbox: e})
	fmt.Println(enforced.Level, err)
	for _, missing := range enforced.Missing {
		fmt.Println(missing, missing.Step, missing.Errno)
	}
}

func TestWhereNamespacesAreRefusedTheStepIsNamed(t *testing.T) {
	isolating(t, workspace(t.TempDir()))
	command := exec.Command("unshare", "-Ur", "sh", "-c", `echo 0 >/proc/sys/user/max_user_namespaces && exec "$0"`, self(t))
	command.Env = append(os.Environ(), roleVariable+"=refused")
	text, err := command.CombinedOutput()
	if err != nil {
		t.Skipf("no namespace to refuse them in: %v: %s", err, text)
	}
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	lines.Scan()
	if lines.Text() != "confined <nil>" || !strings.Contains(string(text), "the kernel refuses a step of it: clone user net namespaces: no space left on device) clone user net namespaces "+
		strconv.Itoa(int(syscall.ENOSPC))) {
		t.Errorf("%s", text)
	}
}

func TestAnIsolatedCommandHasItsLimits(t *testing.T) {
	spawner, e := isolating(t, workspace(t.TempDir()))
	l := bash(false, "ulimit -n; cat /proc/self/cgroup")
	l.Sandbox, l.Limits = e, messages.Limits{OpenFiles: 77, CPUTime: time.Minute}
	if _, err := spawner.Can(l); err != nil {
		t.Skipf("skipped: %v", err)
	}
	_, r := run(t, spawner, l)
	if r.awaitEnd(t); !strings.HasPrefix(r.output.String(), "77\n") {
		t.Error(r)
	}
}
