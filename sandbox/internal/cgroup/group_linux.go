package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Limits bound a group; zero is no bound.
type Limits struct {
	Processes int // threads count as well
	Memory    int64
	CPU       time.Duration
}

// Limit is one of the Limits.
type Limit int

// The limits.
const (
	None Limit = iota
	Processes
	Memory
	CPU
)

// Enforces reports whether a group can be made that holds a limit.
func Enforces(l Limit) bool {
	controller := map[Limit]string{Processes: pids, Memory: memory, CPU: cpuacct}[l]
	_, there := found().dirs[controller]
	return there
}

// Enforceable reports whether a group can hold any of the limits.
func (l Limits) Enforceable() bool {
	return l.Processes > 0 && Enforces(Processes) || l.Memory > 0 && Enforces(Memory) || l.CPU > 0 && Enforces(CPU)
}

// Group is a group for one tree. Only Reached may be called concurrently.
type Group struct {
	unified bool
	limits  Limits
	dirs    map[string]string // by controller
	join    []*os.File
}

var number atomic.Uint64 // of the groups that this process has made

// Make makes a group for those of the limits that it can enforce.
func Make(limits Limits) (*Group, error) {
	p := found()
	g := &Group{unified: p.unified, limits: limits, dirs: map[string]string{}}
	name := fmt.Sprintf("%s%d", mine(), number.Add(1))
	for controller, wanted := range map[string]bool{pids: limits.Processes > 0, memory: limits.Memory > 0, cpuacct: limits.CPU > 0} {
		if dir, there := p.dirs[controller]; wanted && there {
			g.dirs[controller] = filepath.Join(dir, name)
		}
	}
	if len(g.dirs) == 0 {
		return nil, ErrNone
	}
	if err := g.make(); err != nil {
		g.Remove()
		return nil, err
	}
	return g, nil
}

func (g *Group) make() error {
	for _, dir := range (place{dirs: g.dirs}).all() {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		file, err := os.OpenFile(dir+"/cgroup.procs", os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		g.join = append(g.join, file)
	}
	if g.limits.Processes > 0 {
		if err := g.set(pids, "pids.max", strconv.Itoa(g.limits.Processes)); err != nil {
			return err
		}
	}
	if g.limits.Memory == 0 {
		return nil
	}
	most := strconv.FormatInt(g.limits.Memory, 10)
	if g.unified {
		_ = g.set(memory, "memory.swap.max", "0") // the group may have no such file
		_ = g.set(memory, "memory.oom.group", "1")
		return g.set(memory, "memory.max", most)
	}
	if err := g.set(memory, "memory.limit_in_bytes", most); err != nil {
		return err
	}
	_ = g.set(memory, "memory.memsw.limit_in_bytes", most) // the file exists only if swap is counted
	return nil
}

// set writes a setting if the group has a directory for its controller.
func (g *Group) set(controller, name, value string) error {
	dir, there := g.dirs[controller]
	if !there {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, name), []byte(value), 0)
}

// Holds reports whether the group enforces a limit.
func (g *Group) Holds(l Limit) bool {
	_, there := g.dirs[map[Limit]string{Processes: pids, Memory: memory, CPU: cpuacct}[l]]
	return there
}

// Join returns the files to which a newborn writes "0" to become a member. The group keeps them open.
func (g *Group) Join() []*os.File { return g.join }

// Reached is the limit that the kernel has enforced, or whose count has been reached.
func (g *Group) Reached() Limit {
	switch {
	case g.Holds(Processes) && g.count(pids, "pids.events", "max") > 0:
		return Processes
	case g.Holds(Memory) && g.outOfMemory():
		return Memory
	case g.Holds(CPU) && g.used() >= g.limits.CPU:
		return CPU
	}
	return None
}

func (g *Group) outOfMemory() bool {
	if g.unified {
		return g.count(memory, "memory.events", "oom_kill") > 0
	}
	return g.count(memory, "memory.oom_control", "oom_kill") > 0
}

// used returns the CPU time of all members, including dead ones.
func (g *Group) used() time.Duration {
	if g.unified {
		return time.Duration(g.count(cpuacct, "cpu.stat", "usage_usec")) * time.Microsecond
	}
	text, _ := os.ReadFile(filepath.Join(g.dirs[cpuacct], "cpuacct.usage"))
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return time.Duration(n)
}

// count reads a number from a file of names and numbers.
func (g *Group) count(controller, file, name string) int64 {
	text, _ := os.ReadFile(filepath.Join(g.dirs[controller], file))
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == name {
			n, _ := strconv.ParseInt(value, 10, 64)
			return n
		}
	}
	return 0
}

// removeWait is how long dead members may stay in a group. After that the directory stays, and the next host removes it.
const removeWait = 2 * time.Second

// Remove kills the remaining members and removes the group. It may be called twice.
func (g *Group) Remove() {
	for _, file := range g.join {
		_ = file.Close()
	}
	g.join = nil
	until := time.Now().Add(removeWait)
	for _, dir := range (place{dirs: g.dirs}).all() {
		remove(dir, until)
	}
}

func remove(dir string, until time.Time) {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := unix.Rmdir(dir)
		if err != unix.EBUSY || time.Now().After(until) {
			return
		}
		killAll(dir)
		<-time.After(wait)
	}
}

// killAll kills the members of a group, once.
func killAll(dir string) {
	text, _ := os.ReadFile(dir + "/cgroup.procs")
	for field := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}
