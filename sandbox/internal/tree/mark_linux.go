package tree

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"strconv"

	"golang.org/x/sys/unix"
)

// Mark is the hard RLIMIT_RTTIME of a tree, in microseconds. Zero means unmarked.
//
// The bits of a mark, high to low: a zero sign bit (so that no tool takes it for negative or infinite), the warden's
// random number, the tree's number, and room for a warden that runs inside that tree. Trees are numbered downwards,
// because an unprivileged warden can only lower its own limit before it forks.
type Mark uint64

const (
	wardenBits = 24
	treeBits   = 26 // 67 million trees for each warden
	nestedBits = 13 // 8,192 trees for a warden inside a tree
	smallest   = 1 << (treeBits + nestedBits)
)

// Marker hands out the marks of one warden. It is used from one goroutine.
type Marker struct {
	next, last, stride Mark
}

// NewMarker draws a warden's number. Inside the tree of another warden the marks count down from that tree's.
func NewMarker() *Marker {
	var now unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_RTTIME, nil, &now); err != nil {
		return &Marker{}
	}
	if now.Max != unix.RLIM_INFINITY {
		if now.Max < smallest || !Mark(now.Max).outer() {
			// An administrator's real limit, or the mark of a tree that is nested already: everything we start keeps it.
			return &Marker{}
		}
		return &Marker{next: Mark(now.Max) - 1, last: Mark(now.Max) - (1<<nestedBits - 1), stride: 1}
	}
	var random [4]byte
	if _, err := rand.Read(random[:]); err != nil {
		return &Marker{}
	}
	number := Mark(binary.LittleEndian.Uint32(random[:])>>(32-wardenBits)) | 1
	first := number << (treeBits + nestedBits)
	return &Marker{next: first | (1<<treeBits-1)<<nestedBits | (1<<nestedBits - 1), last: first, stride: 1 << nestedBits}
}

// Next lowers this process's own limit to a new mark, so that the next fork inherits it. Zero is returned when the marks
// are used up or the kernel has no such limit; a tree without a mark loses its orphans to the strays.
func (m *Marker) Next() Mark {
	if m.stride == 0 || m.next <= m.last {
		return 0
	}
	mark := m.next
	limit := unix.Rlimit{Cur: uint64(mark), Max: uint64(mark)}
	if err := unix.Prlimit(0, unix.RLIMIT_RTTIME, &limit, nil); err != nil {
		return 0
	}
	m.next -= m.stride
	return mark
}

// Same reports whether a process with limit other belongs to the tree marked m, or to a tree nested in it.
func (m Mark) Same(other Mark) bool {
	return m != 0 && other == m || m.outer() && other>>nestedBits == m>>nestedBits
}

// outer reports whether m was given by a warden that is not nested: its low bits are all ones.
func (m Mark) outer() bool { return m&(1<<nestedBits-1) == 1<<nestedBits-1 }

// markOf reads the mark of a process; the file is readable whatever the process's user.
func markOf(pid int) Mark {
	var room [2048]byte
	text, err := readFile("/proc/"+strconv.Itoa(pid)+"/limits", room[:])
	if err != nil {
		return 0
	}
	_, rest, found := bytes.Cut(text, []byte("\nMax realtime timeout"))
	if !found {
		return 0
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	fields := bytes.Fields(line) // soft, hard, unit
	if len(fields) < 2 {
		return 0
	}
	hard, err := strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil { // "unlimited"
		return 0
	}
	return Mark(hard)
}
