package birth

import (
	"math"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Files gives the process these descriptors, numbered from 0; -1 leaves a number closed. It closes all others at once: a child
// that hangs later must not hold open a pipe or a terminal whose end somebody waits for. Before Linux 5.9 those that are
// close-on-exec stay open until the execution. Steps that use a descriptor of the parent must come before.
func Files(fds []int) []Step {
	for len(fds) < 3 {
		fds = append(fds[:len(fds):len(fds)], -1)
	}
	if !closesRanges() {
		fds = withLeaks(fds)
	}
	m := moves{from: slices.Clone(fds), readers: make([]int, len(fds)), steps: make([]Step, 0, usualMoves)}
	for i, fd := range m.from {
		if fd != i {
			m.count(fd, 1)
		}
	}
	for i := range m.from {
		m.settle(i)
	}
	for i := range m.from { // only cycles are left
		if m.from[i] >= 0 {
			m.open(i)
		}
	}
	for i := 0; i <= len(fds); i++ {
		first := i
		for i < len(fds) && fds[i] < 0 {
			i++
		}
		m.closeAll(first, i)
	}
	m.steps[0].plain = func(p *plain) { files(withLeaks(fds))(p) }
	return m.steps
}

// FewFiles is Files for a parent that has thousands of descriptors: to copy and close all of them would take longer than the rest
// of a birth. The child shares them until this step, and then copies only those up to the highest that it needs. So the parent
// must not close what a step uses before the execution, and this is of use only where what it keeps for long is Aside.
func FewFiles(fds []int) []Step {
	if !closesRanges() {
		return Files(fds)
	}
	first := 3 // of those that it does not need
	for _, fd := range fds {
		first = max(first, fd+1)
	}
	leave := System("close_range", unix.SYS_CLOSE_RANGE, uintptr(first), math.MaxUint32, unix.CLOSE_RANGE_UNSHARE)
	leave.call.unshares = true
	return append([]Step{leave.or(func(*plain) {})}, Files(fds)...)
}

// Aside moves a descriptor to a high number if there are many, and returns that, or the old one where the limit of open files allows
// no more. Few stay where they are: the first high number makes the kernel enlarge the table of descriptors, and in a process with
// several threads that takes about 10 ms.
func Aside(fd int) int {
	const many, high = 128, 256
	if fd < many || fd >= high {
		return fd
	}
	to, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, high)
	if err != nil {
		return fd
	}
	_ = unix.Close(fd)
	return to
}

// usualMoves is the number of steps that most programs need for their descriptors: they have three, of any number of places.
const usualMoves = 4

// moves puts descriptors into places that may hold others that are still needed.
type moves struct {
	from    []int // by place; -1 when the place is filled
	readers []int // by place: how many others still need its descriptor
	steps   []Step
}

// count changes the number of readers of a descriptor, if it is in a place.
func (m *moves) count(fd, by int) {
	if fd >= 0 && fd < len(m.readers) {
		m.readers[fd] += by
	}
}

// settle fills a place if nobody needs its descriptor any more, and then the place that it was filled from.
func (m *moves) settle(place int) {
	for place < len(m.from) && m.from[place] >= 0 {
		fd := m.from[place]
		if fd == place {
			m.add("keep", mustSucceed, unix.SYS_FCNTL, number(fd), number(unix.F_SETFD), number(0)) // not close-on-exec any more
			m.from[place] = -1
			return
		}
		if m.readers[place] > 0 {
			return
		}
		m.dup(fd, place, 0)
		m.from[place] = -1
		m.count(fd, -1)
		place = fd
	}
}

// open breaks a cycle: it moves the place's descriptor behind all places, where nothing is needed any more.
func (m *moves) open(place int) {
	spare := len(m.from)
	m.dup(place, spare, unix.O_CLOEXEC)
	for i, fd := range m.from {
		if fd == place {
			m.from[i] = spare
		}
	}
	m.readers[place] = 0
	m.settle(place)
}

// closeAll closes the places from first onwards, and everything after the last one.
func (m *moves) closeAll(first, end int) {
	last := end - 1
	if end == len(m.from) {
		last = math.MaxUint32
	}
	if last > first && closesRanges() {
		m.add("close_range", mustSucceed, unix.SYS_CLOSE_RANGE, number(first), number(last), number(0))
		return
	}
	for fd := first; fd < end; fd++ {
		m.add("close", mayFail, unix.SYS_CLOSE, number(fd)) // it may be closed already
	}
}

// closesRanges reports whether the kernel has close_range (Linux 5.9). There may be hundreds of inherited descriptors to close.
var closesRanges = sync.OnceValue(func() bool { return unix.CloseRange(1<<30, 1<<30, 0) == nil })

func (m *moves) dup(from, to, flags int) {
	m.add("dup", mustSucceed, unix.SYS_DUP3, number(from), number(to), number(flags))
}

func (m *moves) add(name string, r rule, call uintptr, args ...operand) {
	s := step(name, call, args...)
	s.call.rule, s.call.numbered, s.plain = r, true, func(*plain) {} // the first carries the plain form for all
	m.steps = append(m.steps, s)
}
