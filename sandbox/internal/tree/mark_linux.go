package tree

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/procs"
)

// Mark is the number of a tree among those of its warden, from 1 on. Zero means unmarked.
//
// The processes of tree n are known by two hard limits, which every descendant inherits: RLIMIT_RTTIME, which falls with n,
// and RLIMIT_LOCKS, which rises with n. A process can lower its hard limits and those of others, but raising one takes
// CAP_SYS_RESOURCE. So the number in the first limit is never too low, and the number in the second is never too high. If they
// agree, that is the tree; otherwise the tree is one of those from the second number to the first.
//
// Neither limits anything. The kernel has not looked at RLIMIT_LOCKS since 2.4, and RLIMIT_RTTIME counts the processor time
// under a real-time scheduler without a blocking call; the lowest soft limit is six days.
type Mark uint64

// The bits of such a limit, high to low: a zero sign bit (so that no tool reads the limit as negative or infinite), a random number
// of the warden, the tree's number, and room for a warden that runs inside that tree.
const (
	wardenBits = 24
	treeBits   = 26 // 67 million trees for each warden
	nestedBits = 13 // 8,189 trees for a warden inside a tree
	smallest   = 1 << (treeBits + nestedBits)
	nestedMask = 1<<nestedBits - 1
)

// Marks are the marks of one warden: the limits of a tree with the number zero. Two wardens inside the same tree of a third one
// share these hard limits. They differ in the soft limits, which each sets to a nonce of its own.
type Marks struct{ Time, Locks, Nonce uint64 }

// none reports whether there are no marks.
func (m Marks) none() bool { return m.Nonce == 0 }

// stride is the distance between two trees. A warden that is not nested leaves room: its low bits are all ones.
func (m Marks) stride() uint64 {
	if m.Time&nestedMask == nestedMask {
		return 1 << nestedBits
	}
	return 1
}

// most returns the highest number of a tree.
func (m Marks) most() uint64 {
	if m.stride() == 1 {
		return 1<<nestedBits - 3
	}
	return 1<<treeBits - 1
}

// steps returns the steps that give a child the limits of a tree. They fail if another process has lowered the warden's limits.
// The child's limits are then at least as low, and give no other tree's number.
func (m Marks) steps(tree Mark, secret birth.Secret) []birth.Step {
	n := uint64(tree) * m.stride()
	return []birth.Step{
		birth.Try(birth.Rlimit(unix.RLIMIT_RTTIME, m.Nonce, m.Time-n).Showing(secret)),
		birth.Try(birth.Rlimit(unix.RLIMIT_LOCKS, m.Nonce, m.Locks+n).Showing(secret)),
	}
}

// span is what the limits of a process say about its tree: a number from first to last, both included.
type span struct{ first, last Mark }

// anywhere is the span of limits that no warden here has given: they were raised by a process with the right to do so, or
// belong to a tree without a mark.
var anywhere = span{0, math.MaxUint64}

func (s span) certain() bool { return s.first == s.last }

func (s span) has(m Mark) bool { return s.first <= m && m <= s.last }

// span returns the span of a process with these limits. The process may run inside a tree that is nested in ours.
func (m Marks) span(l limits) span {
	stride := m.stride()
	if m.none() || l.time.hard > m.Time || l.locks.hard > m.Locks+m.most()*stride {
		return anywhere
	}
	var s span
	s.last = Mark((m.Time - l.time.hard) / stride)
	if l.locks.hard > m.Locks {
		s.first = Mark((l.locks.hard - m.Locks + stride - 1) / stride)
	}
	if s.first > s.last {
		return anywhere
	}
	return s
}

// gave reports whether at least one of the limits was given here.
func (m Marks) gave(l limits) bool {
	room, reach := m.stride()-1, m.most()*m.stride()
	return !m.none() &&
		(l.time.soft == m.Nonce && l.time.hard <= m.Time && l.time.hard >= m.Time-reach-room ||
			l.locks.soft == m.Nonce && l.locks.hard <= m.Locks+reach && l.locks.hard >= m.Locks-room)
}

// Marker gives the marks of one warden. It is used from one goroutine.
type Marker struct {
	all  Marks
	last Mark
}

// NewMarker chooses a warden's random numbers. Inside a tree of another warden, its marks lie within the room of that tree.
func NewMarker() *Marker {
	var now limits
	var random [24]byte
	for resource, into := range map[int]*pair{unix.RLIMIT_RTTIME: &now.time, unix.RLIMIT_LOCKS: &now.locks} {
		var limit unix.Rlimit
		if err := unix.Prlimit(0, resource, nil, &limit); err != nil {
			return &Marker{}
		}
		*into = pair{limit.Cur, limit.Max}
	}
	if n, err := unix.Getrandom(random[:], 0); n < len(random) || err != nil { // crypto/rand has initialisers
		return &Marker{}
	}
	return newMarker(now, binary.LittleEndian.Uint64(random[:]), binary.LittleEndian.Uint64(random[8:]), binary.LittleEndian.Uint64(random[16:]))
}

// newMarker makes the marker of a process with the given limits.
func newMarker(now limits, time, locks, nonce uint64) *Marker {
	m := Marks{Nonce: smallest | nonce&(smallest-1)}
	unlimited := uint64(unix.RLIM_INFINITY)
	switch {
	case now.time.hard == unlimited && now.locks.hard == unlimited:
		m.Time = number(time) | (1<<treeBits-1)<<nestedBits | nestedMask
		m.Locks = number(locks) | nestedMask
	case outer(now.time.hard) && outer(now.locks.hard):
		m.Time, m.Locks = now.time.hard-1, now.locks.hard-nestedMask
	default:
		// This is an administrator's real limit, or a tree that is already nested. Everything that this process starts keeps it.
		return &Marker{}
	}
	return &Marker{all: m}
}

// number makes the upper bits of a random number. The first is set, so that the nonce is always lower.
func number(random uint64) uint64 {
	return (random>>(64-wardenBits) | 1<<(wardenBits-1)) << (treeBits + nestedBits)
}

// outer reports whether a limit was given by a warden that is not nested.
func outer(hard uint64) bool {
	return hard >= 2*smallest && hard <= math.MaxInt64 && hard&nestedMask == nestedMask
}

// Marks returns the marks that Next gives.
func (m *Marker) Marks() Marks { return m.all }

// Next returns the mark of a new tree: zero if the marks are used up, or if there are none. Orphans of a tree without a mark
// are strays.
func (m *Marker) Next() Mark {
	if m.all.none() || uint64(m.last) == m.all.most() {
		return 0
	}
	m.last++
	return m.last
}

// steps give a child the limits of a tree.
func (m *Marker) steps(tree Mark, secret birth.Secret) []birth.Step {
	if tree == 0 {
		return nil
	}
	return m.all.steps(tree, secret)
}

// pair is a limit, soft and hard.
type pair struct{ soft, hard uint64 }

// limits are the two limits of which marks consist.
type limits struct{ time, locks pair }

// limitsOf reads the limits of a process. The file is readable even if the process belongs to another user.
func limitsOf(pid int) (l limits, err error) {
	var room [2048]byte
	text, err := procs.ReadFile("/proc/"+strconv.Itoa(pid)+"/limits", room[:])
	if err != nil {
		return limits{}, err
	}
	return limits{time: limitIn(text, "\nMax realtime timeout"), locks: limitIn(text, "\nMax file locks")}, nil
}

// limitIn finds a limit in the text. A missing line means no limit.
func limitIn(text []byte, title string) pair {
	_, rest, _ := bytes.Cut(text, []byte(title))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	fields := bytes.Fields(line) // soft, hard, unit
	if len(fields) < 2 {
		return pair{unix.RLIM_INFINITY, unix.RLIM_INFINITY}
	}
	return pair{limit(fields[0]), limit(fields[1])}
}

func limit(field []byte) uint64 {
	value, err := strconv.ParseUint(string(field), 10, 64)
	if err != nil { // "unlimited"
		return unix.RLIM_INFINITY
	}
	return value
}
