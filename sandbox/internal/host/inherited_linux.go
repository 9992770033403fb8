package host

import (
	"bytes"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Commands start with the current state of this process, which they inherit through the warden. So a warden that differs
// from this process takes no further start. The state of the main thread counts, because for the kernel it is the process.

// restInterval is how often, at most, the state that gives no rights is read again.
const restInterval = time.Second

// namespaces are those in /proc/self/ns that a process with several threads, as every Go program is, can change for itself
// or for its children. The kernel does not let such a process change its user namespace.
var namespaces = [...]string{"mnt", "net", "pid_for_children", "uts", "ipc", "cgroup"}

// inherited is the state of this process that commands inherit.
type inherited struct {
	rights string // users, groups, capabilities, no_new_privs, the number of seccomp filters, root directory, namespaces
	rest   string // umask, affinity, limits, cgroup, niceness, OOM score
}

// stateReader reads the state of this process. Its files stay open, because it is used at each start.
type stateReader struct {
	asked  atomic.Uint64 // the starts that have asked, which wait for the lock of the rest
	status int           // /proc/self/status, or -1
	spaces int           // /proc/self/ns, or -1
	room   []byte
	found  inherited
	served uint64    // how many starts had asked when found began to be read
	at     time.Time // when found.rest was read
}

func newStateReader() *stateReader {
	r := &stateReader{status: -1, spaces: -1, room: make([]byte, 4096)}
	if fd, err := unix.Open("/proc/self/status", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		r.status = fd
	}
	if fd, err := unix.Open("/proc/self/ns", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		r.spaces = fd
	}
	return r
}

func (r *stateReader) close() {
	_ = unix.Close(r.status)
	_ = unix.Close(r.spaces)
	r.status, r.spaces = -1, -1
}

// ask numbers a start, which then waits for its turn. It may be called without the lock.
func (r *stateReader) ask() (number uint64) { return r.asked.Add(1) }

// since returns the state as it was read after a start had asked: of 64 that wait for each other, one reads it for many.
func (r *stateReader) since(number uint64, stale bool) inherited {
	if stale || r.served < number {
		r.served = r.asked.Load()
		return r.read(stale)
	}
	return r.found
}

// read returns the rights of this moment, and the rest, which may be as old as restInterval unless it is stale.
func (r *stateReader) read(stale bool) inherited {
	n, _ := unix.Pread(r.status, r.room, 0)
	for n == len(r.room) { // this user is in many groups
		r.room = make([]byte, 2*n)
		n, _ = unix.Pread(r.status, r.room, 0)
	}
	status := r.room[:max(n, 0)]
	var text [2048]byte
	rights := append(text[:0], between(status, "\nUid:", "\nFDSize:")...)
	rights = append(rights, between(status, "\nGroups:", "\n")...)
	rights = append(rights, between(status, "\nCapInh:", "\nSpeculation")...)
	var root unix.Stat_t
	if unix.Stat("/", &root) == nil {
		rights = strconv.AppendUint(append(rights, " / "...), root.Dev, 10)
		rights = strconv.AppendUint(append(rights, ' '), root.Ino, 10)
	}
	for _, name := range namespaces { // their links identify them, at a third of the cost of a stat
		var link [64]byte
		n, _ := unix.Readlinkat(r.spaces, name, link[:])
		rights = append(append(rights, ' '), link[:max(n, 0)]...)
	}
	r.found.rights = string(rights)
	if stale || time.Since(r.at) >= restInterval {
		r.found.rest, r.at = readRest(status), time.Now()
	}
	return r.found
}

// between returns the text between the first from and the next to.
func between(text []byte, from, to string) []byte {
	_, rest, found := bytes.Cut(text, []byte(from))
	if !found {
		return nil
	}
	part, _, _ := bytes.Cut(rest, []byte(to))
	return part
}

// readRest returns the state that commands inherit and that gives no rights. It must be the same for every thread that reads it.
// So it leaves out the timer slack, which only an ordinary user's main thread may read.
func readRest(status []byte) string {
	rest := bytes.Join([][]byte{between(status, "\nUmask:", "\n"), between(status, "\nCpus_allowed:", "\n"),
		between(status, "\nMems_allowed:", "\n")}, []byte(" "))
	for _, name := range []string{"limits", "cgroup", "oom_score_adj"} {
		text, _ := os.ReadFile("/proc/self/" + name)
		rest = append(append(rest, ' '), text...)
	}
	nice, _ := syscall.Getpriority(syscall.PRIO_PROCESS, os.Getpid())
	return strconv.Itoa(nice) + string(rest)
}
