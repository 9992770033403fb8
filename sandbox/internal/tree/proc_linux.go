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
	hidden                   error // why /proc does not show it, though it exists: it is another user's, under hidepid, or see scarce
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
func readFile(path string, buf []byte) (text []byte, err error) {
	text, err = readOnce(path, buf)
	err = spare.use(err, func() error {
		text, err = readOnce(path, buf)
		return err
	})
	return text, err
}

// readOnce is readFile without the reserve.
func readOnce(path string, buf []byte) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readWhole(fd, buf)
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

// readProcess reads /proc/PID/stat.
func readProcess(pid int) (process, error) { return readProcessBy(readFile, pid) }

// readProcessBy reads it with readFile or readOnce. The name is in parentheses and may itself contain any byte.
func readProcessBy(read func(path string, buf []byte) ([]byte, error), pid int) (process, error) {
	var room [512]byte
	text, err := read("/proc/"+strconv.Itoa(pid)+"/stat", room[:])
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
func hiddenProcess(pid int, why error) process {
	return process{pid: pid, name: "?", state: '?', hidden: why}
}

// gone reports whether an error from /proc means that the process does not exist any more.
func gone(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) }

// childrenOf lists the pids of pid's children, zombies included. The kernel may skip one while a sibling is being reaped;
// only this process reaps its own. It needs CONFIG_PROC_CHILDREN; without it, all of /proc is read.
func childrenOf(pid int) ([]int, error) {
	base := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := readNames(base)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, thread := range threads {
		if pids, err = childrenOfThread(pid, base+"/"+thread, pids); err != nil && !gone(err) {
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

// readNames lists the names in a directory.
func readNames(path string) (names []string, err error) {
	once := func() error {
		folder, err := os.Open(path)
		if err != nil {
			return err
		}
		defer folder.Close()
		names, err = folder.Readdirnames(-1)
		return err
	}
	return names, spare.use(once(), once)
}

// allPIDs lists every process this one can see.
func allPIDs() (pids []int, err error) {
	names, err := readNames("/proc")
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// allProcesses reads every process this one can see.
func allProcesses() (found []process) {
	pids, _ := allPIDs()
	for _, pid := range pids {
		if p, err := readProcess(pid); err == nil {
			found = append(found, p)
		}
	}
	return found
}

// sessions are all processes, of which only the session is known. It is negative where the kernel does not say.
type sessions struct {
	all []process
	err error
}

// allSessions finds the session of every process. The system call costs a hundredth of reading a file.
func allSessions() (found sessions) {
	var pids []int
	pids, found.err = allPIDs()
	for _, pid := range pids {
		if session, err := unix.Getsid(pid); err != unix.ESRCH {
			found.all = append(found.all, process{pid: pid, session: session})
		}
	}
	return found
}

// term is what a process does with SIGTERM. Shells block it for a moment when they fork.
type term struct{ blocked, ignored, caught bool }

func termOf(pid int) term {
	var room [2048]byte
	text, err := readFile("/proc/"+strconv.Itoa(pid)+"/status", room[:])
	if err != nil {
		return term{}
	}
	in := func(set string) bool {
		_, rest, _ := bytes.Cut(text, []byte(set))
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		mask, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 64)
		return err == nil && mask&(1<<(unix.SIGTERM-1)) != 0
	}
	return term{in("\nSigBlk:"), in("\nSigIgn:"), in("\nSigCgt:")}
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
