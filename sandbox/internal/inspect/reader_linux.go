package inspect

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/procs"
)

// maxThreads bounds the threads of one member that are looked at, and maxListed the descriptors of one call.
const (
	maxThreads = 256
	maxListed  = 1024
)

// supported reports whether the kernel says in which call a thread sleeps.
var supported = sync.OnceValue(func() bool {
	var room [256]byte
	_, err := procs.ReadFile("/proc/self/syscall", room[:])
	return err == nil
})

// Readers looks for the readers of one tree. It remembers for how long its members had run when nobody was found who certainly reads: as long
// as none has run since, nothing has changed, and a look is one system call for each. It is not safe for concurrent use.
type Readers struct {
	Tree   Tree
	file   ptyio.InputFile
	asleep []sleeper     // all members of the tree; empty if they cannot be remembered
	guess  *ptyio.Reader // what was found
	shared []int         // the orphans among which the look was; nil if there was no need for them
	late   chan struct{} // closed when the look that was given up has returned; nil if there is none
}

// sleeper is a member all of whose threads slept in calls, and for how long it had run before they were looked at.
type sleeper struct {
	pid int
	ran unix.Timespec
}

// maxSleepers bounds the members that are remembered.
const maxSleepers = 64

// patience bounds a look. A page of a member's memory may wait for a program, by userfaultfd or FUSE, for as long as that program likes.
// A look that is given up keeps a goroutine and a thread until the page comes or the member ends. Tests replace it.
var patience = time.Second

// errLate is the error of a look that is given up, and of those after it until it has returned.
var errLate = errors.New("the memory of one of them cannot be read: it waits for another program")

// errHidden is the error if nobody was found, and a member that the system does not show may be the one.
var errHidden = errors.New("the system hides some of them from this user")

// shown is an error of a process that exists.
func shown(err error) error {
	if procs.Gone(err) {
		return errHidden
	}
	return err
}

// Look finds a member that sleeps until it can read a file. Nil means that none was found. It takes no longer than patience.
func (r *Readers) Look(file ptyio.InputFile) (*ptyio.Reader, error) {
	if !supported() {
		return nil, errors.ErrUnsupported
	}
	if file == r.file && r.unchanged() {
		return r.guess, nil
	}
	return r.lookAgain(file)
}

// lookAgain looks at all members, in a goroutine that may be given up. It is apart from Look, which needs much less of a stack.
func (r *Readers) lookAgain(file ptyio.InputFile) (*ptyio.Reader, error) {
	select {
	case <-r.late:
		r.late = nil
	default:
		if r.late != nil {
			return nil, errLate
		}
	}
	next, done := Readers{Tree: r.Tree, file: file}, make(chan struct{}) // r is not changed by a look that is given up
	var found *ptyio.Reader
	var err error
	go func() {
		defer close(done)
		found, err = next.look(file)
	}()
	bound := time.NewTimer(patience)
	defer bound.Stop()
	select {
	case <-done:
		*r = next
		return found, err
	case <-bound.C:
		r.asleep, r.late = nil, done
		return nil, errLate
	}
}

// look looks at all members.
func (r *Readers) look(file ptyio.InputFile) (*ptyio.Reader, error) {
	var certain, guess *ptyio.Reader
	var sleepers []sleeper
	var hidden error
	all := true
	shared, err := r.Tree.each(func(p procs.Process) bool {
		m := member{Process: p, file: file, session: r.Tree.Leader}
		reader, asleep := m.reader()
		if all = all && asleep != nil && len(sleepers) < maxSleepers; all {
			sleepers = append(sleepers, *asleep)
		}
		switch {
		case reader == nil:
			hidden = cmp.Or(hidden, m.hidden)
		case !reader.Hidden && !reader.Watches:
			certain = reader
		case guess == nil || guess.Hidden && reader.Watches:
			guess = reader
		}
		return certain == nil
	})
	switch {
	case certain != nil:
		return certain, nil
	case guess == nil && cmp.Or(err, hidden) != nil:
		return nil, cmp.Or(err, hidden)
	case all && err == nil:
		r.asleep, r.guess, r.shared = sleepers, guess, shared
	}
	return guess, err
}

// unchanged reports whether all members have slept since the last look. Only one that runs makes another, opens a file, or leaves an orphan.
func (r *Readers) unchanged() bool {
	for _, s := range r.asleep {
		if now, err := ranFor(s.pid); err != nil || now != s.ran {
			return false
		}
	}
	return len(r.asleep) > 0 && (r.shared == nil || slices.Equal(r.shared, r.Tree.Orphans()))
}

// ranFor tells for how long all threads of a process have run, those that have ended included, by its clock, which a pid and two bits name:
// clock_getcpuclockid(3). A thread that has slept for the whole time adds nothing to it, one that has run adds nanoseconds.
func ranFor(pid int) (ran unix.Timespec, err error) {
	const scheduled = 2 // CPUCLOCK_SCHED
	err = unix.ClockGettime(int32(^pid)<<3|scheduled, &ran)
	return ran, err
}

// member is a process that is looked at.
type member struct {
	procs.Process
	file    ptyio.InputFile
	session int   // of the tree
	hidden  error // why it is not known whether it reads the file; nil if it is
}

// reader looks at each thread. A process that a signal has stopped reads nothing, whatever its call says. asleep is nil unless all its threads
// were seen to sleep in calls.
func (m *member) reader() (found *ptyio.Reader, asleep *sleeper) {
	switch {
	case m.Hidden != nil:
		m.hidden = shown(m.Hidden)
		return nil, nil
	case m.State == 'T' || m.State == 't' || m.Threads == 1 && m.State != 'S':
		return nil, nil
	}
	ran, failed := ranFor(m.PID)
	threads, seen := m.threads(), 0
	for _, thread := range threads {
		path := thread + "/syscall"
		call, err := readCall(path)
		switch {
		case errors.Is(err, fs.ErrPermission):
			return m.guess(), nil
		case err != nil:
			continue
		}
		seen++
		if w := m.waits(call); w.reads {
			found = &ptyio.Reader{PID: m.PID, Program: m.Name, Watches: w.watches, Only: w.only && m.Threads == 1, Still: func() bool {
				now, err := readCall(path)
				return err == nil && bytes.Equal(now.text, call.text) && m.asleep()
			}}
			break
		}
	}
	if found == nil && m.hidden != nil {
		return m.guess(), nil
	}
	if failed != nil || seen < len(threads) || !slices.Equal(threads, m.threads()) { // one may have begun meanwhile
		return found, nil
	}
	return found, &sleeper{m.PID, ran}
}

// guess is for a member that cannot be looked at: it may read the terminal if it sleeps in the foreground, and a pipe if it sleeps.
func (m *member) guess() *ptyio.Reader {
	if m.State != 'S' || m.file.Device != 0 && (!m.controls() || m.Group != m.Foreground) {
		m.hidden = nil
		return nil
	}
	if m.hidden = errHidden; m.file.Device == 0 {
		return nil
	}
	return &ptyio.Reader{PID: m.PID, Program: m.Name, Hidden: true, Still: m.asleep}
}

// asleep reports whether it is still the same process, and sleeps. One that was stopped seems to be in the same call.
func (m *member) asleep() bool {
	now, err := procs.Read(m.PID)
	return err == nil && now.Start == m.Start && (now.State == 'S' || m.Threads > 1 && now.State != 'T' && now.State != 't')
}

// controls reports whether the file is the controlling terminal of the member. Another session may have a terminal of the
// same number in a file system of its own.
func (m *member) controls() bool {
	return m.file.Device != 0 && uint64(uint32(m.Terminal)) == m.file.Device && m.Session == m.session
}

// threads are the directories of its threads.
func (m *member) threads() []string {
	base := "/proc/" + strconv.Itoa(m.PID)
	var task unix.Stat_t
	if m.Threads == 1 && unix.Stat(base+"/task", &task) == nil && task.Nlink == 3 { // itself, its parent, and the thread
		return []string{base}
	}
	threads := procs.Threads(m.PID)
	paths := make([]string, 0, min(len(threads), maxThreads))
	for _, thread := range threads[:min(len(threads), maxThreads)] {
		paths = append(paths, base+"/task/"+thread)
	}
	return paths
}

func childrenOf(p procs.Process) ([]int, error) {
	if p.Threads == 1 {
		return procs.ChildrenOfThread(p.PID, p.PID)
	}
	return procs.Children(p.PID)
}

// call is the system call in which a thread sleeps.
type call struct {
	text      []byte
	number    uint64
	arguments [6]uint64
}

var errRuns = errors.New("the thread runs")

// readCall reads the number, the arguments, the stack pointer and the program counter of a thread that sleeps.
func readCall(path string) (c call, err error) {
	var room [256]byte
	if c.text, err = procs.ReadFile(path, room[:]); err != nil {
		return c, err
	}
	fields := bytes.Fields(c.text)
	if len(fields) < 7 {
		return c, errRuns
	}
	if c.number, err = strconv.ParseUint(string(fields[0]), 10, 32); err != nil { // -1: it sleeps in no call
		return c, errRuns
	}
	for i := range c.arguments {
		if c.arguments[i], err = strconv.ParseUint(string(fields[1+i]), 0, 64); err != nil {
			return c, errRuns
		}
	}
	return c, nil
}

// waiting says what a call waits for: that there is something to read in the file, by epoll, and nothing but that: no other file, and no time.
type waiting struct{ reads, watches, only bool }

// waits says what a call waits for.
func (m *member) waits(c call) waiting {
	a := c.arguments
	switch kinds[c.number] {
	case reading:
		return waiting{reads: m.has(int(int32(a[0]))), only: true}
	case polling:
		return m.polls(a[0], a[1], c.number == sysPoll && int32(a[2]) < 0 || c.number != sysPoll && a[2] == 0)
	case selecting:
		return m.selects(a[0], a[1], a[2] == 0 && a[3] == 0 && a[4] == 0)
	case watching:
		return waiting{reads: m.watches(int(int32(a[0]))), watches: true}
	}
	return waiting{}
}

// kind says how a system call names what it waits for.
type kind int

const (
	reading kind = iota + 1
	polling
	selecting
	watching
)

// has reports whether a descriptor of the member is the file. It asks no file system other than for what the kernel has in memory.
func (m *member) has(fd int) bool {
	var found unix.Statx_t
	path := "/proc/" + strconv.Itoa(m.PID) + "/fd/" + strconv.Itoa(fd)
	if fd < 0 || unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_INO|unix.STATX_TYPE, &found) != nil {
		return false
	}
	if unix.Mkdev(found.Dev_major, found.Dev_minor) == m.file.FileSystem && found.Ino == m.file.Inode {
		return true
	}
	const ttyMajor, ttyMinor = 5, 0 // /dev/tty
	return found.Mode&unix.S_IFMT == unix.S_IFCHR && found.Rdev_major == ttyMajor && found.Rdev_minor == ttyMinor && m.controls()
}

// pollReadNormal is POLLRDNORM, which poll and epoll take for POLLIN.
const pollReadNormal = 0x40

// polls looks through the list of a poll.
func (m *member) polls(list, length uint64, endless bool) (w waiting) {
	const size, events = 8, 4 // of struct pollfd
	entries := m.memory(list, min(length, maxListed)*size)
	w.only = endless && length == 1
	for ; len(entries) >= size && !w.reads; entries = entries[size:] {
		w.reads = binary.NativeEndian.Uint16(entries[events:])&(unix.POLLIN|pollReadNormal) != 0 && m.has(int(int32(binary.NativeEndian.Uint32(entries))))
	}
	return w
}

// selects looks through the first bit set of a select.
func (m *member) selects(length, set uint64, endless bool) (w waiting) {
	if set == 0 {
		return w
	}
	length = min(length, maxListed)
	words := m.memory(set, (length+63)/64*8)
	members := 0
	for fd := range min(length, uint64(len(words))/8*64) {
		at := fd / 64 * 8
		if binary.NativeEndian.Uint64(words[at:at+8])&(1<<(fd%64)) != 0 {
			members++
			w.reads = w.reads || m.has(int(fd))
		}
	}
	w.only = endless && members == 1
	return w
}

// watches looks through what an epoll descriptor watches: lines such as "tfd: 18 events: 19 data: 12 pos:0 ino:4 sdev:1a".
func (m *member) watches(fd int) bool {
	var room [4096]byte
	text, err := procs.ReadFile("/proc/"+strconv.Itoa(m.PID)+"/fdinfo/"+strconv.Itoa(fd), room[:])
	if err != nil {
		return false
	}
	listed := 0
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) < 4 || string(fields[0]) != "tfd:" {
			continue
		}
		if listed++; listed > maxListed {
			return false
		}
		events, err := strconv.ParseUint(string(fields[3]), 16, 64)
		target, failed := strconv.Atoi(string(fields[1]))
		if err == nil && failed == nil && events&(unix.EPOLLIN|pollReadNormal) != 0 && m.has(target) {
			return true
		}
	}
	return false
}

// readMemory may be refused though the rest is shown: filters of older containers do that. Tests replace it.
var readMemory = unix.ProcessVMReadv

// memory reads memory of the member; what cannot be read is empty.
func (m *member) memory(from, length uint64) []byte {
	if length == 0 {
		return nil
	}
	p := make([]byte, length)
	local := []unix.Iovec{{Base: &p[0]}}
	local[0].SetLen(len(p))
	n, err := readMemory(m.PID, local, []unix.RemoteIovec{{Base: uintptr(from), Len: len(p)}}, 0)
	if err != nil {
		if err == unix.EPERM || err == unix.ENOSYS {
			m.hidden = errHidden
		}
		return nil
	}
	return p[:n]
}
