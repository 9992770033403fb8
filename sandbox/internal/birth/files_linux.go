package birth

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// Files makes the descriptors the process's own from 0 on; -1 is closed, and so is what is missing up to 2. All others stay
// as they are, but one that is in nobody's way may be overwritten: steps that use a descriptor of the parent come before.
func Files(fds []int) []Step {
	for len(fds) < 3 {
		fds = append(fds[:len(fds):len(fds)], -1)
	}
	m := moves{from: append([]int(nil), fds...), readers: map[int]int{}}
	for i, fd := range m.from {
		if fd >= 0 && fd != i {
			m.readers[fd]++
		}
	}
	for i := range m.from {
		m.settle(i)
	}
	for i := range m.from { // what is left goes round in circles
		if m.from[i] >= 0 {
			m.open(i)
		}
	}
	for i, fd := range fds {
		if fd < 0 {
			closing := System("close "+strconv.Itoa(i), unix.SYS_CLOSE, uintptr(i))
			closing.call.rule = mayFail // it is closed already
			m.steps = append(m.steps, closing)
		}
	}
	m.steps[0].plain = files(fds)
	for i := 1; i < len(m.steps); i++ {
		m.steps[i].plain = func(*plain) {}
	}
	return m.steps
}

// moves puts descriptors into places that may hold others which are still needed.
type moves struct {
	from    []int       // by place; -1 when it has what it shall have
	readers map[int]int // how many places still need what is in one
	steps   []Step
}

// settle fills a place if nobody needs what is there, and then the one that it was filled from.
func (m *moves) settle(place int) {
	for place >= 0 && place < len(m.from) && m.from[place] >= 0 {
		fd := m.from[place]
		if fd == place {
			// Not close-on-exec any more.
			m.steps = append(m.steps, System("keep "+strconv.Itoa(fd), unix.SYS_FCNTL, uintptr(fd), unix.F_SETFD, 0))
			m.from[place] = -1
			return
		}
		if m.readers[place] > 0 {
			return
		}
		m.dup(fd, place, 0)
		m.from[place] = -1
		m.readers[fd]--
		place = fd
	}
}

// open opens a circle: what is in the place goes behind all of them, where nothing is needed any more.
func (m *moves) open(place int) {
	spare := len(m.from)
	m.dup(place, spare, unix.O_CLOEXEC)
	for i, fd := range m.from {
		if fd == place && i != place {
			m.from[i] = spare
		}
	}
	m.readers[spare], m.readers[place] = m.readers[place], 0
	m.settle(place)
}

func (m *moves) dup(from, to int, flags uintptr) {
	name := "descriptor " + strconv.Itoa(from) + " to " + strconv.Itoa(to)
	m.steps = append(m.steps, System(name, unix.SYS_DUP3, uintptr(from), uintptr(to), flags))
}
