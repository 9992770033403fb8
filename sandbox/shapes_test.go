//go:build linux

package sandbox_test

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// shape is a way in which programs start programs. $1 of a script is the argument for its sleep.
type shape struct {
	name   string
	script string
	waits  bool // the leader waits for input and then exits; other leaders have to be killed
	orphan bool // the warden becomes the sleeper's parent
	role   string
}

var shapes = []shape{
	{name: "plain child", script: `sleep $1; true`},
	{name: "& job", script: `sleep $1 & read x`, waits: true},
	{name: "nohup", script: `nohup sleep $1 >/dev/null 2>&1 & read x`, waits: true},
	{name: "setsid", script: `setsid sleep $1 & read x`, waits: true},
	{name: "double fork", script: `(setsid sleep $1 </dev/null >/dev/null 2>&1 &); read x`, waits: true, orphan: true},
	{name: "double fork, env -i", script: `(env -i setsid sleep $1 </dev/null >/dev/null 2>&1 &); read x`, waits: true, orphan: true},
	{name: "process substitution", script: `cat <(exec sleep $1)`},
	{name: "three-level wrapper", script: `bash -c 'bash -c "bash -c \"sleep $1; true\"; true"; true'; true`},
	{name: "ignores TERM and HUP", script: `trap "" TERM HUP; sleep $1; true`},
	{name: "own PTY", role: "own-pty"},
}

func (s shape) launch(tty bool, token string) ptyio.Launch {
	if s.role != "" {
		l := launch(tty, "/proc/self/exe", token)
		l.Env = environment(roleVariable+"="+s.role, "TOKEN="+token)
		return l
	}
	return bash(tty, strings.ReplaceAll(s.script, "$1", token))
}

func (s shape) up(token string) bool {
	if s.orphan {
		return len(orphans(token)) > 0
	}
	return len(sleepers(token)) > 0
}

// ending is a way to end a tree. It returns when the end has begun.
type ending struct {
	name string
	host syscall.Signal // sent to a host of its own; otherwise this process is the host, and:
	end  func(shape, ptyio.Child)
}

var endings = []ending{
	{name: "ended by us", end: func(_ shape, child ptyio.Child) { child.EndTree(300 * time.Millisecond) }},
	{name: "leader exit", end: func(s shape, child ptyio.Child) {
		if s.waits {
			child.Write([]byte("\n"), time.Time{}, func(ptyio.Taken, error) {})
		} else {
			_ = syscall.Kill(child.PID(), syscall.SIGKILL)
		}
	}},
	{name: "host SIGTERM", host: syscall.SIGTERM},
	{name: "host SIGKILL", host: syscall.SIGKILL},
}

// cell has the results of one shape with one ending.
type cell struct {
	runs    int
	slowest time.Duration
}

func TestNothingIsLeftOfAnyShapeHoweverItEnds(t *testing.T) {
	runs := 1
	if *full {
		runs = 20
	}
	spawner := newSpawner(t, sandbox.Options{})
	var mu sync.Mutex
	table := map[string]*cell{}
	t.Run("cells", func(t *testing.T) {
		gate := make(chan struct{}, 6)
		for index, s := range shapes {
			for _, e := range endings {
				for _, tty := range []bool{false, true} {
					c := &cell{}
					table[s.name+e.name+streamsName(tty)] = c
					t.Run(fmt.Sprintf("%s/%s/%s", s.name, e.name, streamsName(tty)), func(t *testing.T) {
						t.Parallel()
						for range runs {
							gate <- struct{}{}
							took := runCell(t, spawner, index, e, tty)
							<-gate
							mu.Lock()
							c.runs++
							c.slowest = max(c.slowest, took)
							mu.Unlock()
						}
					})
				}
			}
		}
	})
	printTable(t, table)
}

// runCell starts one shape, ends it, and returns how long the last of its processes lived on.
func runCell(t *testing.T, spawner ptyio.Spawner, index int, e ending, tty bool) time.Duration {
	s, token := shapes[index], newToken()
	if e.host == 0 {
		child, record := run(t, spawner, s.launch(tty, token))
		eventually(t, s.name+" is up", func() bool { return s.up(token) })
		begin := time.Now()
		e.end(s, child)
		if report := record.awaitEnd(t); len(report.Survivors) > 0 || !report.Airtight || e.name == "ended by us" && report.Ended == 0 {
			t.Errorf("report %+v", report)
		}
		if left := observe(token); len(left) > 0 {
			t.Errorf("TreeEnded was reported, but %v", left)
		}
		return time.Since(begin)
	}
	host := exec.Command(self(t))
	host.Env = environment(roleVariable+"=host", "SHAPE="+strconv.Itoa(index), "TTY="+streamsName(tty), "TOKEN="+token)
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = host.Wait() }()
	eventually(t, s.name+" is up", func() bool { return s.up(token) })
	warden := wardenAbove(sleepers(token)[0].pid)
	if warden == 0 {
		t.Error("there is no warden above it")
	}
	begin := time.Now()
	_ = host.Process.Signal(e.host)
	noneLeft(t, token)
	took := time.Since(begin)
	eventually(t, "the warden ends", func() bool { _, alive := look(warden); return !alive })
	return took
}

func printTable(t *testing.T, table map[string]*cell) {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%-22s", "runs/slowest")
	for _, e := range endings {
		fmt.Fprintf(&text, "| %-28s", e.name+" (pipes, pty)")
	}
	for _, s := range shapes {
		fmt.Fprintf(&text, "\n%-22s", s.name)
		for _, e := range endings {
			pipes, terminal := table[s.name+e.name+"pipes"], table[s.name+e.name+"pty"]
			fmt.Fprintf(&text, "| %2d/%4dms  %2d/%4dms        ", pipes.runs, pipes.slowest.Milliseconds(),
				terminal.runs, terminal.slowest.Milliseconds())
		}
	}
	t.Log(text.String())
}

func TestEndingOneTreeLeavesTheDaemonsOfAnotherAlone(t *testing.T) {
	spawner := newSpawner(t, sandbox.Options{})
	daemon := shapes[5]
	const trees = 6
	var tokens []string
	var all []ptyio.Child
	var records []*recorder
	for i := range trees {
		token := newToken()
		child, record := run(t, spawner, daemon.launch(i%2 == 0, token))
		tokens, all, records = append(tokens, token), append(all, child), append(records, record)
	}
	for _, token := range tokens {
		eventually(t, "the daemon is up", func() bool { return daemon.up(token) })
	}
	for i := range trees {
		all[i].EndTree(100 * time.Millisecond)
		if report := records[i].awaitEnd(t); report.Ended != 1 || !report.Airtight || len(report.Survivors) > 0 {
			t.Errorf("tree %d: %+v", i, report)
		}
		for j, token := range tokens {
			if alive := len(sleepers(token)) == 1; alive != (j > i) {
				t.Errorf("after the end of tree %d the daemon of tree %d lives: %v", i, j, alive)
			}
		}
	}
}
