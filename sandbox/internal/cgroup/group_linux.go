package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// Enforces reports whether a group can be made that holds a limit.
func Enforces(l messages.Limit) bool {
	_, there := found().dirs[l]
	return there
}

// Group is a group for one tree. Only Reached may be called concurrently. A nil group holds nothing.
type Group struct {
	hierarchy // the directories of the group
	limits    messages.Limits
	join      []*os.File
}

var number atomic.Uint64 // of the groups that this process has made

// Make makes a group for those of the limits that it can enforce; nil if it can enforce none of them.
func Make(limits messages.Limits) (*Group, error) {
	set := slices.DeleteFunc(limits.Set(), func(l messages.Limit) bool { return controllers[l] == "" })
	if len(set) == 0 { // as for nearly all commands
		return nil, nil
	}
	h := found()
	g := &Group{hierarchy: hierarchy{unified: h.unified, dirs: map[messages.Limit]string{}}, limits: limits}
	name := fmt.Sprintf("%s%d", mine(), number.Add(1))
	for _, limit := range set {
		if dir, there := h.dirs[limit]; there {
			g.dirs[limit] = filepath.Join(dir, name)
		}
	}
	if len(g.dirs) == 0 {
		return nil, nil
	}
	if err := g.make(); err != nil {
		g.Remove()
		return nil, err
	}
	return g, nil
}

func (g *Group) make() error {
	for _, dir := range g.all() {
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
		if err := g.set(messages.LimitProcesses, "pids.max", strconv.Itoa(g.limits.Processes)); err != nil {
			return err
		}
	}
	if g.limits.MemoryBytes == 0 {
		return nil
	}
	most := strconv.FormatInt(g.limits.MemoryBytes, 10)
	if g.unified {
		_ = g.set(messages.LimitMemory, "memory.swap.max", "0") // the group may have no such file
		_ = g.set(messages.LimitMemory, "memory.oom.group", "1")
		return g.set(messages.LimitMemory, "memory.max", most)
	}
	if err := g.set(messages.LimitMemory, "memory.limit_in_bytes", most); err != nil {
		return err
	}
	_ = g.set(messages.LimitMemory, "memory.memsw.limit_in_bytes", most) // the file exists only if swap is counted
	return nil
}

// set writes a setting if the group holds the limit.
func (g *Group) set(limit messages.Limit, name, value string) error {
	dir, there := g.dirs[limit]
	if !there {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, name), []byte(value), 0)
}

// Holds reports whether the group enforces a limit.
func (g *Group) Holds(l messages.Limit) bool { return g != nil && g.dirs[l] != "" }

// Join returns the files to which a child writes "0" to become a member. The group keeps them open.
func (g *Group) Join() []*os.File {
	if g == nil {
		return nil
	}
	return g.join
}

// Reached is the limit that the kernel has enforced, or whose count has been reached; empty for none.
func (g *Group) Reached() messages.Limit {
	events := "memory.events"
	if g != nil && !g.unified {
		events = "memory.oom_control"
	}
	switch {
	case g.Holds(messages.LimitProcesses) && g.count(messages.LimitProcesses, "pids.events", "max") > 0:
		return messages.LimitProcesses
	case g.Holds(messages.LimitMemory) && g.count(messages.LimitMemory, events, "oom_kill") > 0:
		return messages.LimitMemory
	case g.Holds(messages.LimitCPUTime) && g.used() >= g.limits.CPUTime:
		return messages.LimitCPUTime
	}
	return ""
}

// used returns the CPU time of all members, including dead ones.
func (g *Group) used() time.Duration {
	if g.unified {
		return time.Duration(g.count(messages.LimitCPUTime, "cpu.stat", "usage_usec")) * time.Microsecond
	}
	text, _ := os.ReadFile(filepath.Join(g.dirs[messages.LimitCPUTime], "cpuacct.usage"))
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return time.Duration(n)
}

// count reads a number from a file of names and numbers.
func (g *Group) count(limit messages.Limit, file, name string) int64 {
	text, _ := os.ReadFile(filepath.Join(g.dirs[limit], file))
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
	if g == nil {
		return
	}
	for _, file := range g.join {
		_ = file.Close()
	}
	g.join = nil
	until := time.Now().Add(removeWait)
	for _, dir := range g.all() {
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
