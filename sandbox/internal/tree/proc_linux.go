package tree

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// process is the content of /proc/PID/stat.
type process struct {
	pid, ppid, pgrp, session int
	start                    uint64 // clock ticks after boot: with the pid it identifies the process
	state                    byte
	threads                  int
	name                     string
	hidden                   bool // it exists, but /proc does not show it: another user's, under hidepid
}

// dead reports whether nothing of the process runs any more. A process whose first thread ended looks like a zombie
// while its other threads run.
func (p process) dead() bool { return (p.state == 'Z' || p.state == 'X') && p.threads <= 1 }

func (p process) stopped() bool { return p.state == 'T' }

// identity distinguishes a process from a later one with the same pid.
type identity struct {
	pid   int
	start uint64
}

func (p process) identity() identity { return identity{p.pid, p.start} }

// ticks is how many clock ticks /proc counts in a second (USER_HZ); it is the same on every architecture Go knows.
const ticks = 100

// bootTicks returns the time in the unit of process.start.
func bootTicks() uint64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0
	}
	return uint64(now.Nano()) / (1e9 / ticks)
}

// readFile reads a small proc file without the poller registration that os.ReadFile pays for.
func readFile(path string, buf []byte) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readWhole(fd, buf)
}

// readLine reads a proc file of one line. Unlike readFile, it needs no second read to find the end.
func readLine(path string, buf []byte) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n, err := unix.Pread(fd, buf, 0)
	for err == unix.EINTR {
		n, err = unix.Pread(fd, buf, 0)
	}
	if err != nil {
		return nil, err
	}
	if n == 0 || buf[n-1] != '\n' {
		return nil, errMalformed
	}
	return buf[:n-1], nil
}

// readWhole reads an open file from its beginning.
func readWhole(fd int, buf []byte) ([]byte, error) {
	n := 0
	for {
		if n == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
		m, err := unix.Pread(fd, buf[n:], int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if m == 0 {
			return buf[:n], nil
		}
		n += m
	}
}

var errMalformed = errors.New("malformed proc file")

// readProcess reads /proc/PID/stat. The name is in parentheses and may itself contain any byte.
func readProcess(pid int) (process, error) {
	var room [512]byte
	text, err := readFile("/proc/"+strconv.Itoa(pid)+"/stat", room[:])
	if err != nil {
		return process{}, err
	}
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return process{}, errMalformed
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) < 20 {
		return process{}, errMalformed
	}
	p := process{pid: pid, state: fields[0][0], name: string(text[open+1 : end])}
	for i, target := range []*int{&p.ppid, &p.pgrp, &p.session} {
		if *target, err = strconv.Atoi(string(fields[1+i])); err != nil {
			return process{}, errMalformed
		}
	}
	if p.threads, err = strconv.Atoi(string(fields[17])); err != nil {
		return process{}, errMalformed
	}
	if p.start, err = strconv.ParseUint(string(fields[19]), 10, 64); err != nil {
		return process{}, errMalformed
	}
	return p, nil
}

// exists reports whether there is a process with this number, even if /proc hides it.
func exists(pid int) bool { return unix.Kill(pid, 0) != unix.ESRCH }

// hiddenProcess stands for a process about which nothing can be known.
func hiddenProcess(pid int) process { return process{pid: pid, name: "?", state: '?', hidden: true} }

// gone reports whether an error from /proc means that the process does not exist any more.
func gone(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) }

// childrenOf lists the pids of pid's children, zombies included. The kernel may skip one while a sibling is being reaped;
// only this process reaps its own. It needs CONFIG_PROC_CHILDREN; without it, all of /proc is read.
func childrenOf(pid int) ([]int, error) {
	base := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := os.ReadDir(base)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, thread := range threads {
		if pids, err = childrenOfThread(pid, base+"/"+thread.Name(), pids); err != nil && !gone(err) {
			return nil, err
		}
	}
	return pids, nil
}

func childrenOfThread(pid int, base string, pids []int) ([]int, error) {
	var room [1024]byte
	text, err := readFile(base+"/children", room[:])
	if err != nil {
		if errors.Is(err, unix.ENOENT) && !hasChildrenFiles() {
			return childrenByScan(pid), nil
		}
		return pids, err
	}
	return appendPIDs(pids, text), nil
}

func appendPIDs(pids []int, text []byte) []int {
	for _, field := range bytes.Fields(text) {
		if child, err := strconv.Atoi(string(field)); err == nil {
			pids = append(pids, child)
		}
	}
	return pids
}

var hasChildrenFiles = sync.OnceValue(func() bool {
	pid := strconv.Itoa(os.Getpid())
	return unix.Access("/proc/"+pid+"/task/"+pid+"/children", unix.F_OK) != unix.ENOENT
})

func childrenByScan(parent int) []int {
	var pids []int
	for _, p := range allProcesses() {
		if p.ppid == parent {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// allPIDs lists every process this one can see.
func allPIDs() (pids []int) {
	folder, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// allProcesses reads every process this one can see.
func allProcesses() (found []process) {
	for _, pid := range allPIDs() {
		if p, err := readProcess(pid); err == nil {
			found = append(found, p)
		}
	}
	return found
}

// allSessions finds the session of every process, and nothing else; it is negative where the kernel does not say. The system call
// costs a hundredth of reading a file.
func allSessions() (found []process) {
	for _, pid := range allPIDs() {
		if session, err := unix.Getsid(pid); err != unix.ESRCH {
			found = append(found, process{pid: pid, session: session})
		}
	}
	return found
}

// ignoresTerm reports whether the process ignores SIGTERM. Blocking it does not count: shells block it for a moment when they
// fork.
func ignoresTerm(pid int) bool {
	var room [2048]byte
	text, err := readFile("/proc/"+strconv.Itoa(pid)+"/status", room[:])
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(text, []byte("\nSigIgn:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	mask, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 64)
	return err == nil && mask&(1<<(unix.SIGTERM-1)) != 0
}

// Begun returns when a living process began, in clock ticks after boot.
func Begun(pid int) (uint64, error) {
	p, err := readProcess(pid)
	if err == nil && p.dead() {
		err = unix.ESRCH
	}
	return p.start, err
}

// Kill kills the process with this pid only if it began at this time.
func Kill(pid int, begun uint64) error { return send(process{pid: pid, start: begun}, unix.SIGKILL) }

// Foreign reports whether /proc is missing, or belongs to another pid namespace, so that its numbers mean other processes.
func Foreign() bool {
	self, err := os.Readlink("/proc/self")
	return err != nil || self != strconv.Itoa(os.Getpid())
}

// Children lists the children of this process that have a name.
func Children(name string) (pids []int) {
	children, _ := childrenOf(os.Getpid())
	for _, pid := range children {
		if p, err := readProcess(pid); err == nil && p.name == name {
			pids = append(pids, pid)
		}
	}
	return pids
}
