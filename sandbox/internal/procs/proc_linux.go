package procs

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Process is the content of /proc/PID/stat.
type Process struct {
	PID, PPID, Group, Session int
	Terminal                  int    // the device number of its controlling terminal; 0 if it has none
	Foreground                int    // the foreground group of that terminal
	Start                     uint64 // clock ticks after boot: with the pid it identifies the process
	State                     byte
	Threads                   int
	Name                      string
	Hidden                    error // why /proc does not show it, though it exists: it is another user's, under hidepid, or see scarce
}

// Dead reports whether nothing of the process runs any more. A process whose first thread ended looks like a zombie
// while its other threads run.
func (p Process) Dead() bool { return (p.State == 'Z' || p.State == 'X') && p.Threads <= 1 }

// Dying reports whether a process that was killed only needs a processor to end: it runs, or other threads of it are left.
func (p Process) Dying() bool { return p.State == 'R' || p.State == 'Z' && p.Threads > 1 }

func (p Process) Stopped() bool { return p.State == 'T' }

// Identity distinguishes a process from a later one with the same pid.
type Identity struct {
	PID   int
	Start uint64
}

func (p Process) ID() Identity { return Identity{p.PID, p.Start} }

// ticks is how many clock ticks /proc counts in a second (USER_HZ); it is the same on every architecture Go knows.
const ticks = 100

// BootTicks returns the time in the unit of process.start.
func BootTicks() uint64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0
	}
	return uint64(now.Nano()) / (1e9 / ticks)
}

// ReadFile reads a small proc file without the poller registration that os.ReadFile pays for.
func ReadFile(path string, buf []byte) (text []byte, err error) {
	text, err = readOnce(path, buf)
	err = Spare.use(err, func() error {
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
	return ReadWhole(fd, buf)
}

// shortRead is a number of bytes of which a read of a proc file returns fewer only at the end of the file: the kernel collects lines in
// a page, or more.
const shortRead = 2048

// ReadWhole reads an open proc file from its beginning.
func ReadWhole(fd int, buf []byte) ([]byte, error) {
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
		room := len(buf) - n
		if n += m; m == 0 || m < room && room <= shortRead {
			return buf[:n], nil
		}
	}
}

var errMalformed = errors.New("malformed proc file")

// Read reads /proc/PID/stat.
func Read(pid int) (Process, error) { return readProcessBy(ReadFile, pid) }

// readProcessBy reads it with readFile or readOnce. The name is in parentheses and may itself contain any byte.
func readProcessBy(read func(path string, buf []byte) ([]byte, error), pid int) (Process, error) {
	var room [512]byte
	text, err := read("/proc/"+strconv.Itoa(pid)+"/stat", room[:])
	if err != nil {
		return Process{}, err
	}
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return Process{}, errMalformed
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) < 20 {
		return Process{}, errMalformed
	}
	p := Process{PID: pid, State: fields[0][0], Name: string(text[open+1 : end])}
	for i, target := range []*int{&p.PPID, &p.Group, &p.Session, &p.Terminal, &p.Foreground} {
		if *target, err = strconv.Atoi(string(fields[1+i])); err != nil {
			return Process{}, errMalformed
		}
	}
	if p.Threads, err = strconv.Atoi(string(fields[17])); err != nil {
		return Process{}, errMalformed
	}
	if p.Start, err = strconv.ParseUint(string(fields[19]), 10, 64); err != nil {
		return Process{}, errMalformed
	}
	return p, nil
}

// Exists reports whether there is a process with this number, even if /proc hides it.
func Exists(pid int) bool { return unix.Kill(pid, 0) != unix.ESRCH }

// Unseen stands for a process about which nothing can be known.
func Unseen(pid int, why error) Process {
	return Process{PID: pid, Name: "?", State: '?', Hidden: why}
}

// Gone reports whether an error from /proc means that the process does not exist any more.
func Gone(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) }

// Children lists the pids of pid's children, zombies included. The kernel may skip one while a sibling is being reaped;
// only this process reaps its own. It needs CONFIG_PROC_CHILDREN; without it, all of /proc is read.
func Children(pid int) ([]int, error) {
	base := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := readNames(base)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, thread := range threads {
		if pids, err = childrenOfThread(pid, base+"/"+thread, pids); err != nil && !Gone(err) {
			return nil, err
		}
	}
	return pids, nil
}

// ChildrenOfThread lists those of one thread.
func ChildrenOfThread(pid, thread int) ([]int, error) {
	return childrenOfThread(pid, "/proc/"+strconv.Itoa(pid)+"/task/"+strconv.Itoa(thread), nil)
}

// Threads lists the threads of a process, by the names of their directories in /proc/PID/task.
func Threads(pid int) []string {
	threads, _ := readNames("/proc/" + strconv.Itoa(pid) + "/task")
	return threads
}

func childrenOfThread(pid int, base string, pids []int) ([]int, error) {
	var room [1024]byte
	text, err := ReadFile(base+"/children", room[:])
	if err != nil {
		if errors.Is(err, unix.ENOENT) && !HasChildrenFiles() {
			return ChildrenByScan(pid), nil
		}
		return pids, err
	}
	return AppendPIDs(pids, text), nil
}

func AppendPIDs(pids []int, text []byte) []int {
	for _, field := range bytes.Fields(text) {
		if child, err := strconv.Atoi(string(field)); err == nil {
			pids = append(pids, child)
		}
	}
	return pids
}

var HasChildrenFiles = sync.OnceValue(func() bool {
	pid := strconv.Itoa(os.Getpid())
	return unix.Access("/proc/"+pid+"/task/"+pid+"/children", unix.F_OK) != unix.ENOENT
})

func ChildrenByScan(parent int) []int {
	var pids []int
	for _, p := range All() {
		if p.PPID == parent {
			pids = append(pids, p.PID)
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
	return names, Spare.use(once(), once)
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

// All reads every process this one can see.
func All() (found []Process) {
	pids, _ := allPIDs()
	for _, pid := range pids {
		if p, err := Read(pid); err == nil {
			found = append(found, p)
		}
	}
	return found
}

// Sessions are all processes, of which only the session is known. It is negative where the kernel does not say.
type Sessions struct {
	All []Process
	Err error
}

// AllSessions finds the session of every process. The system call costs a hundredth of reading a file.
func AllSessions() (found Sessions) {
	var pids []int
	pids, found.Err = allPIDs()
	for _, pid := range pids {
		if session, err := unix.Getsid(pid); err != unix.ESRCH {
			found.All = append(found.All, Process{PID: pid, Session: session})
		}
	}
	return found
}

// Term is what a process does with SIGTERM. Shells block it for a moment when they fork.
type Term struct{ Blocked, Ignored, Caught bool }

func TermOf(pid int) Term {
	var room [2048]byte
	text, err := ReadFile("/proc/"+strconv.Itoa(pid)+"/status", room[:])
	if err != nil {
		return Term{}
	}
	in := func(set string) bool {
		_, rest, _ := bytes.Cut(text, []byte(set))
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		mask, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 64)
		return err == nil && mask&(1<<(unix.SIGTERM-1)) != 0
	}
	return Term{in("\nSigBlk:"), in("\nSigIgn:"), in("\nSigCgt:")}
}

// Begun returns when a living process began, in clock ticks after boot.
func Begun(pid int) (uint64, error) {
	p, err := Read(pid)
	if err == nil && p.Dead() {
		err = unix.ESRCH
	}
	return p.Start, err
}

// Kill kills the process with this pid only if it began at this time.
func Kill(pid int, begun uint64) error { return Send(Process{PID: pid, Start: begun}, unix.SIGKILL) }

// Foreign reports whether /proc is missing, or belongs to another pid namespace, so that its numbers mean other processes.
func Foreign() bool {
	self, err := os.Readlink("/proc/self")
	return err != nil || self != strconv.Itoa(os.Getpid())
}

// LastPID returns the pid that the kernel has given out last, the end of a line such as 0.31 0.20 0.14 1/187 22104; zero if it does
// not say.
func LastPID() int {
	var room [128]byte
	text, _ := ReadFile("/proc/loadavg", room[:])
	text = bytes.TrimSpace(text)
	last, _ := strconv.Atoi(string(text[bytes.LastIndexByte(text, ' ')+1:]))
	return last
}
