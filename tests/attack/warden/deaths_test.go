//go:build linux

package warden

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/tests/proc"
)

var soak = flag.Bool("soak", false, "let 30 hosts die in each way at each level instead of 3")

// ofHosts are the commands of a host that dies. $1 is the time for which they sleep; the test finds them by it.
var ofHosts = []string{
	`(setsid sleep $1 </dev/null >/dev/null 2>&1 &); sleep $1; true`,
	`trap "" TERM HUP; sleep $1 & sleep $1; true`,
	`(sleep $1 &); kill -STOP $$`,
}

// runtimeAt returns a runtime whose commands get one level.
func runtimeAt(level messages.Assurance, state string) (*execbus.Runtime, error) {
	spawner, err := sandbox.New(sandbox.Options{StateDir: state, WithoutNamespaces: level == messages.AssuranceConfined})
	if err != nil {
		return nil, err
	}
	return execbus.Start(execbus.Options{Spawner: spawner})
}

// sessionAt returns a session in a directory at a level. Its commands have a control group if the machine allows one.
func sessionAt(rt *execbus.Runtime, level messages.Assurance, dir string) (*execbus.Session, error) {
	options := execbus.SessionOptions{Dir: dir, LeastAssurance: level, Limits: messages.Limits{MemoryBytes: 1 << 30}}
	if level != messages.AssuranceNone {
		options.Sandbox = &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true, ExcludeTmpdirEnvVar: true}
	}
	return rt.OpenSession(options)
}

// beHost starts commands and waits to be killed. If the test names a program that cannot be opened, beHost starts that, too.
func beHost(level messages.Assurance, dir, state, token, hanging string) {
	rt, err := runtimeAt(level, state)
	check(err)
	session, err := sessionAt(rt, level, dir)
	check(err)
	for i, script := range ofHosts {
		_, err := session.Start(context.Background(), messages.ExecCommand{Argv: []string{"bash", "-c", script, "bash", token}, TTY: i%2 == 0})
		check(err)
	}
	if hanging != "" {
		go func() {
			_, _ = session.Start(context.Background(), messages.ExecCommand{Argv: []string{hanging, token}})
		}()
	}
	fmt.Println("up")
	select {}
}

func check(err error) {
	if err != nil {
		fmt.Println("BROKEN", err)
		os.Exit(1)
	}
}

// death is a way in which a host dies.
type death struct {
	name    string
	both    bool // its warden dies with it, and so cannot clean up
	hanging bool // while the fork of a command hangs
}

// A host may die in any way and at any moment. Nothing of it is left, at the latest once the next host has begun.
func TestHostsThatDie(t *testing.T) {
	rounds := 3
	if *soak {
		rounds = 30
	}
	for _, level := range []messages.Assurance{messages.AssuranceNone, messages.AssuranceConfined, messages.AssuranceIsolated} {
		for _, way := range []death{{name: "host"}, {name: "host and warden", both: true}, {name: "host while a fork hangs", hanging: true}} {
			t.Run(string(level)+"/"+way.name, func(t *testing.T) {
				t.Parallel() // it waits most of the time
				if level != messages.AssuranceNone && !sandbox.Probe().Level.AtLeast(level) {
					t.Skipf("skipped: there is no more than %s here", sandbox.Probe().Level)
				}
				for range rounds {
					dies(t, level, way)
				}
			})
		}
	}
}

func dies(t *testing.T, level messages.Assurance, way death) {
	t.Helper()
	dir, state, token := t.TempDir(), t.TempDir(), fmt.Sprintf("100000.%09d", rand.IntN(1e9))
	hanging, waited := "", func() bool { return true }
	if way.hanging {
		hanging, waited = unreachable(t)
	}
	self, err := os.Executable()
	must(t, err)
	host := exec.Command(self, roleHost, string(level), dir, state, token, hanging)
	host.Stderr = os.Stderr
	out, err := host.StdoutPipe()
	must(t, err)
	must(t, host.Start())
	said := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		lines.Scan()
		said <- lines.Text()
	}()
	if rand.IntN(3) > 0 { // otherwise it dies while it begins
		if first := <-said; first != "up" {
			t.Errorf("the host says %s", first)
		}
		within(t, "the fork hangs", func() (missing []string) {
			if !waited() {
				missing = []string{hanging}
			}
			return missing
		})
	}
	time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond) // it dies at a random moment
	_ = host.Process.Signal(unix.SIGSTOP)
	family := descendants(host.Process.Pid)
	if way.both {
		for _, warden := range childrenOf(strconv.Itoa(host.Process.Pid)) {
			pid, _ := strconv.Atoi(warden)
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	_ = host.Process.Kill()
	_ = host.Wait()
	if !way.both {
		within(t, "all of the host's processes end", func() []string { return left(family, token) })
	}
	next(t, level, dir, state)
	within(t, "all of the host's processes end", func() []string { return left(family, token) })
	within(t, "its placeholders go", func() []string { return namesIn(dir) })
	within(t, "its control groups go", func() []string {
		found, _ := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/*/execbus-*-%d-*", host.Process.Pid))
		return found
	})
}

// next starts another host with the same directories. It runs one command, and lives until the notes of the first host are dealt
// with.
func next(t *testing.T, level messages.Assurance, dir, state string) {
	t.Helper()
	notes := namesIn(state)
	rt, err := runtimeAt(level, state)
	must(t, err)
	session, err := sessionAt(rt, level, dir)
	must(t, err)
	if result, err := session.Exec(t.Context(), messages.ExecCommand{Argv: []string{"echo", "fine"}}); err != nil || string(result.Output) != "fine\n" {
		t.Errorf("the next host's command: %+v, %v", result, err)
	}
	within(t, "the notes of the dead host go", func() []string {
		return slices.DeleteFunc(namesIn(state), func(name string) bool { return !slices.Contains(notes, name) })
	})
	must(t, rt.Shutdown(context.Background()))
	if notes := namesIn(state); len(notes) > 0 {
		t.Errorf("the next host has left the notes %v", notes)
	}
}

// unreachable makes a script whose interpreter cannot be opened until the test ends. Waited reports whether a process is trying.
func unreachable(t *testing.T) (script string, waited func() bool) {
	t.Helper()
	var interpreter string
	interpreter, script = filepath.Join(t.TempDir(), "sh"), filepath.Join(t.TempDir(), "script")
	must(t, os.WriteFile(interpreter, []byte("#!/bin/sh\n"), 0o755))
	must(t, os.WriteFile(script, []byte("#!"+interpreter+"\n"), 0o755))
	file, err := os.Open(interpreter)
	must(t, err)
	t.Cleanup(func() { _ = file.Close() }) // this ends the lease
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("skipped: no leases here: %v", err)
	}
	return script, func() bool {
		kind, err := unix.FcntlInt(file.Fd(), unix.F_GETLEASE, 0)
		return err == nil && kind != unix.F_WRLCK // the kernel is breaking the lease
	}
}

// process is a process as it was when it was seen.
type process struct {
	pid  int
	seen proc.Process
}

// descendants returns all descendants of a process.
func descendants(pid int) (all []process) {
	for _, child := range childrenOf(strconv.Itoa(pid)) {
		number, _ := strconv.Atoi(child)
		all = append(append(all, process{number, proc.Look(number)}), descendants(number)...)
	}
	return all
}

// left returns those of the processes that are alive, and all other processes with the token.
func left(family []process, token string) (alive []string) {
	for _, p := range family {
		if now := proc.Look(p.pid); p.seen.Alive() && now.Alive() && now.Start == p.seen.Start {
			alive = append(alive, strconv.Itoa(p.pid))
		}
	}
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err == nil && strings.Contains(strings.Join(proc.Arguments(pid), " "), token) && proc.Look(pid).Alive() && !slices.Contains(alive, entry.Name()) {
			alive = append(alive, entry.Name())
		}
	}
	return alive
}

func namesIn(dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return []string{err.Error()}
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// within waits until nothing is left.
func within(t *testing.T, what string, remains func() []string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		left := remains()
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("never happened: %s; left are %v", what, left)
		}
	}
}
