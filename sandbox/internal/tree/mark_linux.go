package tree

import (
	"bytes"
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
	nestedBits = 13 // 8,190 trees for a warden inside a tree
	smallest   = 1 << (treeBits + nestedBits)
)

// Marks is the range of all marks of one warden. Wardens that run beside each other inside one tree of a third share a
// range; they are told apart by the soft limit, which each sets to a nonce of its own.
type Marks struct{ Low, High, Nonce Mark }

func (m Marks) contains(mark, soft Mark) bool {
	return m.Nonce != 0 && soft == m.Nonce && mark >= m.Low && mark <= m.High
}

// Marker hands out the marks of one warden. It is used from one goroutine.
type Marker struct {
	all          Marks
	next, stride Mark
}

// NewMarker draws a warden's number. Inside the tree of another warden the marks count down from that tree's.
func NewMarker() *Marker {
	var now unix.Rlimit
	var random [16]byte
	if err := unix.Prlimit(0, unix.RLIMIT_RTTIME, nil, &now); err != nil {
		return &Marker{}
	}
	if n, err := unix.Getrandom(random[:], 0); n < len(random) || err != nil { // crypto/rand has initialisers
		return &Marker{}
	}
	nonce := smallest | Mark(binary.LittleEndian.Uint64(random[:]))&(smallest-1)
	return newMarker(now.Max, Mark(binary.LittleEndian.Uint32(random[8:])), nonce)
}

// newMarker makes the marker of a process with the given hard limit. The lowest value of the range is never given to a
// tree: it is the limit of those that are started when all others are used up.
func newMarker(limit uint64, random, nonce Mark) *Marker {
	if limit == unix.RLIM_INFINITY {
		number := random>>(32-wardenBits) | 1<<(wardenBits-1) // so that the nonce is always lower
		low := number<<(treeBits+nestedBits) | (1<<nestedBits - 1)
		high := low | (1<<treeBits-1)<<nestedBits
		return &Marker{all: Marks{low, high, nonce}, next: high, stride: 1 << nestedBits}
	}
	outer := Mark(limit)
	if outer < 2*smallest || !outer.outer() {
		// An administrator's real limit, or the mark of a tree that is nested already: everything we start keeps it.
		return &Marker{}
	}
	return &Marker{all: Marks{outer - (1<<nestedBits - 1), outer - 1, nonce}, next: outer - 1, stride: 1}
}

// Marks is the range of what Next returns.
func (m *Marker) Marks() Marks { return m.all }

// Next lowers this process's own limit to a new mark, so that the next fork inherits it. Zero is returned when the marks
// are used up or the kernel has no such limit; a tree without a mark loses its orphans to the strays.
func (m *Marker) Next() Mark {
	if m.stride == 0 || m.next < m.all.Low {
		return 0
	}
	limit := unix.Rlimit{Cur: uint64(m.all.Nonce), Max: uint64(m.next)}
	if err := unix.Prlimit(0, unix.RLIMIT_RTTIME, &limit, nil); err != nil {
		return 0
	}
	return m.advance()
}

func (m *Marker) advance() Mark {
	mark := m.next
	m.next -= m.stride
	if mark == m.all.Low {
		return 0
	}
	return mark
}

// Same reports whether a process with limit other belongs to the tree marked m, or to a tree nested in it.
func (m Mark) Same(other Mark) bool {
	return m != 0 && (other == m || m.outer() && other>>nestedBits == m>>nestedBits)
}

// outer reports whether m was given by a warden that is not nested: its low bits are all ones.
func (m Mark) outer() bool { return m&(1<<nestedBits-1) == 1<<nestedBits-1 }

// markOf reads the mark of a process, and the soft limit beside it. The file is readable whatever the process's user.
func markOf(pid int) (mark, soft Mark) {
	var room [2048]byte
	text, err := readFile("/proc/"+strconv.Itoa(pid)+"/limits", room[:])
	if err != nil {
		return 0, 0
	}
	_, rest, found := bytes.Cut(text, []byte("\nMax realtime timeout"))
	if !found {
		return 0, 0
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	fields := bytes.Fields(line) // soft, hard, unit
	if len(fields) < 2 {
		return 0, 0
	}
	return limit(fields[1]), limit(fields[0])
}

// limit is zero for "unlimited".
func limit(field []byte) Mark {
	value, err := strconv.ParseUint(string(field), 10, 64)
	if err != nil {
		return 0
	}
	return Mark(value)
}
