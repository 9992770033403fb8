package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// wardenName is the name that the kernel has for a warden.
const wardenName = "execbus-warden"

// markVariable is in the environment of every command, with this run's nonce.
const markVariable = "EXECBUS_SOAK"

// initPIDNamespace is the inode number of the first pid namespace.
const initPIDNamespace = "pid:[4026531836]"

// proc is one line of the kernel's list of processes.
type proc struct {
	pid, ppid, threads int
	name               string
	state              byte
	start              uint64 // in ticks since the boot
	pages              int64  // resident
}

func (p proc) dead() bool { return p.state == 'Z' || p.state == 'X' }

// readProc reads /proc/PID/stat.
func readProc(pid int) (proc, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return proc{}, err
	}
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return proc{}, errors.New("unreadable /proc/PID/stat")
	}
	fields := strings.Fields(string(text[end+1:])) // the fields from the third one on, the state
	if len(fields) < 22 {
		return proc{}, errors.New("/proc/PID/stat is too short")
	}
	p := proc{pid: pid, name: string(text[open+1 : end]), state: fields[0][0]}
	p.ppid, _ = strconv.Atoi(fields[1])
	p.threads, _ = strconv.Atoi(fields[17])
	p.start, _ = strconv.ParseUint(fields[19], 10, 64)
	p.pages, _ = strconv.ParseInt(fields[21], 10, 64)
	return p, nil
}

func allProcs() []proc {
	var all []proc
	for _, name := range entries("/proc") {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, err := readProc(pid); err == nil {
				all = append(all, p)
			}
		}
	}
	return all
}

// childOf returns a living child of a process, or 0.
func childOf(pid int) int {
	for _, p := range allProcs() {
		if p.ppid == pid && !p.dead() {
			return p.pid
		}
	}
	return 0
}

func entries(dir string) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	return names
}

// watcher counts the processes, descriptors and terminals of this run.
type watcher struct {
	self       int
	mark       []byte
	began      uint64 // when this process began
	systemWide bool   // all terminals of the kernel can be counted
}

func newWatcher(nonce string) (*watcher, error) {
	me, err := readProc(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("read /proc, which only Linux has: %w", err)
	}
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	return &watcher{self: me.pid, mark: []byte(markVariable + "=" + nonce), began: me.start,
		systemWide: os.Geteuid() == 0 && namespace == initPIDNamespace}, nil
}

// census is what the kernel knows about this run at one moment.
type census struct {
	host, warden proc // warden.pid is 0 if there is none
	descendants  []proc
	zombies      []proc
	descriptors  int64
	wardenFDs    int64
	ptys         int64
	systemPTYs   int64
}

func (w *watcher) take() census {
	all := allProcs()
	var c census
	children := map[int][]proc{}
	for _, p := range all {
		children[p.ppid] = append(children[p.ppid], p)
		if p.pid == w.self {
			c.host = p
		}
	}
	ours := map[int]bool{w.self: true}
	for _, p := range children[w.self] {
		if p.name == wardenName && !p.dead() && p.start >= c.warden.start {
			c.warden = p
		}
	}
	for _, parent := range []int{w.self, c.warden.pid} {
		c.zombies = append(c.zombies, slices.DeleteFunc(slices.Clone(children[parent]), func(p proc) bool { return !p.dead() })...)
	}
	var visit func(pid int)
	visit = func(pid int) {
		for _, p := range children[pid] {
			w.meet(&c, ours, p)
			visit(p.pid)
		}
	}
	visit(w.self)
	for _, p := range all { // processes that have lost their parents
		if !ours[p.pid] && p.start >= w.began && w.marked(p.pid) {
			w.meet(&c, ours, p)
		}
	}
	c.descriptors = int64(len(entries("/proc/self/fd"))) - 1 // without the descriptor of the listing
	if c.warden.pid != 0 {
		kept := slices.DeleteFunc(targets(c.warden.pid), func(target string) bool { return strings.HasSuffix(target, "/children") })
		c.wardenFDs = int64(len(kept))
	}
	c.ptys, c.systemPTYs = w.terminals(all, ours)
	return c
}

// meet counts a process of this run.
func (w *watcher) meet(c *census, ours map[int]bool, p proc) {
	ours[p.pid] = true
	if p.pid != c.warden.pid && !p.dead() {
		c.descendants = append(c.descendants, p)
	}
}

func (w *watcher) marked(pid int) bool {
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && slices.ContainsFunc(bytes.Split(environment, []byte{0}), func(v []byte) bool { return bytes.Equal(v, w.mark) })
}

// terminals counts the terminals that we use. If others came and went meanwhile, it counts again.
func (w *watcher) terminals(all []proc, ours map[int]bool) (inUse, total int64) {
	for range maxLooks {
		total = readNumber("/proc/sys/kernel/pty/nr")
		inUse = w.held(all, ours)
		if !w.systemWide {
			break
		}
		inUse = max(total-inUse, 0)
		if total == readNumber("/proc/sys/kernel/pty/nr") {
			break
		}
	}
	return inUse, total
}

// maxLooks bounds the attempts to count terminals while they change.
const maxLooks = 5

// held counts the terminals whose masters or slaves we hold. If the system's can be counted, it counts those that others
// hold.
func (w *watcher) held(all []proc, ours map[int]bool) int64 {
	found := map[string]bool{} // by index
	for _, p := range all {
		if ours[p.pid] == w.systemWide {
			continue
		}
		dir := fmt.Sprintf("/proc/%d/", p.pid)
		for _, fd := range entries(dir + "fd") {
			target, _ := os.Readlink(dir + "fd/" + fd)
			index, slave := strings.CutPrefix(strings.TrimSuffix(target, " (deleted)"), "/dev/pts/")
			switch {
			case target == "/dev/ptmx" || index == "ptmx":
				index = masterIndex(dir + "fdinfo/" + fd)
			case !slave:
				continue
			}
			if index != "" {
				found[index] = true
			}
		}
	}
	return int64(len(found))
}

// masterIndex reads the number of a master's terminal.
func masterIndex(path string) string {
	text, _ := os.ReadFile(path)
	_, rest, _ := strings.Cut(string(text), "tty-index:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

func readNumber(path string) int64 {
	text, _ := os.ReadFile(path)
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n
}
