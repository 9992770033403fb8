package sandbox

import (
	"bytes"
	"os"
	"strconv"
	"sync"
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

// rights is the state that gives rights.
type rights struct {
	credentials string // users, groups, capabilities, no_new_privs and the number of seccomp filters
	root        [2]uint64
	namespaces  [len(namespaces)]string
}

// mirror reads the state of this process. Its files stay open, because it is used at each start.
type mirror struct {
	begun atomic.Uint64 // the number of looks; changed under mu
	// mu separates the users of the buffers. A look takes microseconds.
	mu     sync.Mutex
	status int // /proc/self/status, or -1
	spaces int // /proc/self/ns, or -1
	text   [4096]byte
	some   [1024]byte
	root   unix.Stat_t
	now    rights // the result of the last look
	rest   string
	read   time.Time // when rest was read; zero forces another read
}

func newMirror() *mirror {
	m := &mirror{status: -1, spaces: -1}
	if fd, err := unix.Open("/proc/self/status", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		m.status = fd
	}
	if fd, err := unix.Open("/proc/self/ns", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		m.spaces = fd
	}
	return m
}

func (m *mirror) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = unix.Close(m.status)
	_ = unix.Close(m.spaces)
	m.status, m.spaces = -1, -1
}

// look returns the rights, and the rest, which may be as old as restInterval. before is how many looks had begun when the
// caller was asked: a look that began later is new enough, so starts at the same time share one.
func (m *mirror) look(before uint64) (now rights, rest string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begun.Load() <= before {
		m.begun.Add(1)
		m.again()
	}
	return m.now, m.rest
}

// again reads the rights. Nearly always nothing has changed, and then it allocates no memory.
func (m *mirror) again() {
	n, _ := unix.Pread(m.status, m.text[:], 0)
	text := m.text[:max(n, 0)]
	some := append(m.some[:0], between(text, "\nUid:", "\nFDSize:")...)
	some = append(some, between(text, "\nGroups:", "\n")...)
	some = append(some, between(text, "\nCapInh:", "\nSpeculation")...)
	same := string(some) == m.now.credentials && m.begun.Load() > 1
	if !same {
		m.now.credentials = string(some)
	}
	m.now.root = [2]uint64{}
	if unix.Stat("/", &m.root) == nil {
		m.now.root = [2]uint64{m.root.Dev, m.root.Ino}
	}
	if !same || canMove(text) {
		m.lookAtNamespaces()
	}
	if m.read.IsZero() || time.Since(m.read) >= restInterval {
		m.rest, m.read = readRest(text), time.Now()
	}
}

// lookAtNamespaces reads the links of the namespaces. They identify the namespaces at a third of the cost of a stat.
func (m *mirror) lookAtNamespaces() {
	for i, name := range namespaces {
		n, _ := unix.Readlinkat(m.spaces, name, m.some[:])
		if link := m.some[:max(n, 0)]; string(link) != m.now.namespaces[i] {
			m.now.namespaces[i] = string(link)
		}
	}
}

// canMove reports whether a process with these credentials can enter other namespaces. A process that has lost this right
// never regains it.
func canMove(status []byte) bool {
	permitted, err := strconv.ParseUint(string(between(status, "\nCapPrm:\t", "\n")), 16, 64)
	return err != nil || permitted&(1<<unix.CAP_SYS_ADMIN) != 0
}

// refresh makes the next look read the rest.
func (m *mirror) refresh() {
	m.mu.Lock()
	m.read = time.Time{}
	m.mu.Unlock()
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

// readRest returns the state that commands inherit and that gives no rights: umask, affinity, limits, cgroup, niceness, OOM
// score. It must be the same for every thread that reads it. So it leaves out the timer slack, which only an ordinary user's
// main thread may read.
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
