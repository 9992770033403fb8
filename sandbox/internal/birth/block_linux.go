package birth

import (
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth/nofile"
)

// call is a system call with its arguments.
type call struct {
	number uintptr
	args   []operand
	rule   rule
	want   uint64 // for mustBe
	// numbered says that the arguments, all numbers, are part of the call's title.
	numbered bool
	// unshares says that the child shares its parent's descriptors until it has made this call.
	unshares bool
	// result is where the result is kept; nil if no step needs it.
	result *Memory
	index  int
}

// title returns the name of a step, with its arguments if the name alone says little.
func (s Step) title() string {
	title := s.Name
	if s.call.numbered {
		for _, arg := range s.call.args {
			title += " " + strconv.Itoa(int(arg.(number)))
		}
	}
	return title
}

// rule says what a result means.
type rule uint64

const (
	mustSucceed rule = iota
	mayFail
	mustBe // the result is want, or the step fails with ESRCH
	goesOn // with the step whose address is want
	orSkip // the next one, where the result is no error and not want
	forks  // the child goes on in a script of its own, whose header want is
)

// header is the part that the assembly knows. Steps follow it. Each is laid out as the call's number, six arguments, the rule,
// want, the address for the result, and a bit for each argument that is the address of the value to pass.
type header struct {
	block uint64 // all signals
	mask  uint64 // the signals that were blocked before
	flags uint64
	stack uint64
	at    uint64 // the address of the current step
	errno uint64
	pidfd uint64
	alive uint64          // the kernel clears the first half when the child no longer needs the launch block
	wake  uint64          // a word that a failing step also clears, to wake waiters; zero if the kernel does that
	none  uint64          // the results that nobody needs
	zeros [4]uint64       // no signals, and the action of a signal that nobody handles
	room  [stackSize]byte // the stack; nothing uses it, because the loop only makes system calls
}

const (
	wordSize  = 8
	stepWords = 11
	stepSize  = stepWords * wordSize
	stackSize = 512
)

// block is a launch block: one piece of memory with everything that a child reads and writes: header, steps, and the targets of their
// arguments. It holds no Go pointers.
type block struct {
	words []uint64
	free  int // in bytes
	known map[*Memory]int
	none  uint64 // the address for results that nobody needs
	first uint64 // the address of the first step that resets no signal
}

// operand is an argument of a system call.
type operand interface {
	size(known map[*Memory]int) int
	put(s *block) uint64
}

type (
	number  uintptr           // itself
	text    string            // the address of the string with a zero behind it
	list    []string          // the address of the addresses of such strings, and a zero behind them
	values  []uint64          // the address of a copy
	program []unix.SockFilter // the address of a sock_fprog
)

func (n number) size(map[*Memory]int) int { return 0 }
func (n number) put(s *block) uint64      { return uint64(n) }

func (t text) size(map[*Memory]int) int { return rounded(len(t) + 1) }

func (t text) put(s *block) uint64 {
	at, room := s.take(t.size(nil))
	copy(room, t)
	return at
}

func (l list) size(map[*Memory]int) int {
	size := (len(l) + 1) * wordSize
	for _, entry := range l {
		size += text(entry).size(nil)
	}
	return size
}

func (l list) put(s *block) uint64 {
	first := s.free / wordSize
	at, _ := s.take((len(l) + 1) * wordSize)
	for i, entry := range l {
		s.words[first+i] = text(entry).put(s)
	}
	return at
}

func (v values) size(map[*Memory]int) int { return len(v) * wordSize }

func (v values) put(s *block) uint64 {
	first := s.free / wordSize
	at, _ := s.take(v.size(nil))
	copy(s.words[first:], v)
	return at
}

func (p program) size(map[*Memory]int) int { return 2*wordSize + len(p)*wordSize }

func (p program) put(s *block) uint64 {
	first := s.free / wordSize
	at, _ := s.take(2 * wordSize)
	filter, room := s.take(len(p) * wordSize)
	copy(room, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(p))), len(room)))
	head := (*unix.SockFprog)(unsafe.Pointer(&s.words[first]))
	head.Len = uint16(len(p))
	s.words[first+1] = filter
	return at
}

func rounded(size int) int { return (size + wordSize - 1) &^ (wordSize - 1) }

// take hands out zeroed room.
func (s *block) take(size int) (at uint64, room []byte) {
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&s.words[0])), len(s.words)*wordSize)
	room = bytes[s.free : s.free+size]
	at = s.address(s.free)
	s.free += size
	return at, room
}

func (s *block) address(offset int) uint64 {
	return uint64(uintptr(unsafe.Pointer(&s.words[0]))) + uint64(offset)
}

func (s *block) header() *header { return (*header)(unsafe.Pointer(&s.words[0])) }

// made is the caller's list of steps, completed with those that every birth has.
type made struct {
	steps  []Step
	last   int  // the index of the last one in the caller's list
	shares bool // it shares its parent's descriptors until a step gives it its own
}

// complete adds the steps that every birth needs. Signals stay blocked until all steps but the last have been made. If the last
// one executes nothing, the child ends.
func complete(steps []Step) made {
	last := len(steps) - 1
	m := made{steps: make([]Step, 0, len(steps)+4), shares: slices.ContainsFunc(steps, func(s Step) bool { return s.call.unshares })}
	m.steps = append(m.steps, steps[:last]...)
	if limit, lower := lowerFiles(steps); lower {
		m.steps = append(m.steps, limit)
	}
	m.steps = append(m.steps, unblock, steps[last], exit)
	m.last = last
	return m
}

var (
	unblock = Step{Name: "unblock signals", call: call{number: unix.SYS_RT_SIGPROCMASK,
		args: []operand{number(unix.SIG_SETMASK), values{0}, number(0), number(wordSize)}}}
	exit = Step{Name: "exit", call: call{number: unix.SYS_EXIT_GROUP, args: []operand{number(0)}}}
)

// lowerFiles restores the limit of open files that Go has raised, unless somebody has changed it since.
func lowerFiles(steps []Step) (step Step, lower bool) {
	was := nofile.First
	var now unix.Rlimit
	if was.Hard == 0 || unix.Getrlimit(unix.RLIMIT_NOFILE, &now) != nil || now.Max != was.Hard ||
		now.Cur != was.Hard-1 || was.Soft >= now.Cur {
		return Step{}, false
	}
	if slices.ContainsFunc(steps, func(s Step) bool { return s.Name == limitName(unix.RLIMIT_NOFILE) }) {
		return Step{}, false
	}
	return Rlimit(unix.RLIMIT_NOFILE, was.Soft, was.Hard), true
}

// lay makes the launch block of a birth. First of all the child gives all signals their default actions.
func lay(m made) *block {
	size := int(unsafe.Sizeof(header{})) + resetSize + sizeOf(m.steps, map[*Memory]int{})
	s := newBlock(make([]uint64, size/wordSize))
	h := s.header()
	h.flags = unix.CLONE_VM | unix.CLONE_PIDFD | unix.CLONE_CHILD_CLEARTID
	if m.shares {
		h.flags |= unix.CLONE_FILES
	}
	h.at = s.resets()
	s.first = s.lay(m.steps)
	return s
}

func newBlock(words []uint64) *block {
	s := &block{words: words, free: int(unsafe.Sizeof(header{})), known: map[*Memory]int{}}
	h := s.header()
	h.block, h.alive = ^uint64(0), 1
	h.stack = (s.address(int(unsafe.Offsetof(h.room))) + stackSize) &^ 15
	s.none = s.address(int(unsafe.Offsetof(h.none)))
	return s
}

// lastSignal is SIGRTMAX; the C library's own two are among them.
const lastSignal = 64

// resetSize is the room for the steps that give all signals their default actions.
const resetSize = lastSignal * stepSize

// resets lays out such steps. Others must follow.
func (s *block) resets() (at uint64) {
	first := s.free / wordSize
	at, _ = s.take(resetSize)
	zeros := s.address(int(unsafe.Offsetof(header{}.zeros)))
	for i := range lastSignal {
		words := s.words[first+i*stepWords:][:stepWords]
		words[0], words[1], words[2], words[4], words[7], words[9] = unix.SYS_RT_SIGACTION, uint64(i+1), zeros, wordSize, uint64(mayFail), s.none
	}
	return at
}

// sizeOf returns the room for steps and the targets of their arguments. Each memory counts once.
func sizeOf(steps []Step, known map[*Memory]int) int {
	size := len(steps) * stepSize
	for _, step := range steps {
		for _, arg := range step.call.args {
			size += arg.size(known)
		}
		if step.call.result != nil {
			size += location{memory: step.call.result}.size(known)
		}
	}
	return size
}

// lay lays out steps, and returns where they begin.
func (s *block) lay(steps []Step) (at uint64) {
	first := s.free / wordSize
	at, _ = s.take(len(steps) * stepSize)
	for i, step := range steps {
		s.put(s.words[first+i*stepWords:][:stepWords], step.call)
	}
	return at
}

func (s *block) put(words []uint64, c call) {
	words[0], words[7], words[8], words[9] = uint64(c.number), uint64(c.rule), c.want, s.none
	for i, arg := range c.args {
		words[1+i] = arg.put(s)
		if _, value := arg.(content); value {
			words[10] |= 1 << i
		}
	}
	if c.result != nil {
		words[9] = s.place(c.result) + uint64(c.index)*wordSize
	}
}

// now returns the index of the current step, or the last one made, in the list without the signals.
func (s *block) now() int { return (int(load(&s.header().at)) - int(s.first)) / stepSize }
