package birth

import (
	"math"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Namespaced is a launch in namespaces. It takes three processes, of which only the last executes anything:
//
//   - the go-between is a copy of this process. It makes the steps of Join, bears the first, as our child, and ends;
//   - the first is process 1 of the new namespaces. It makes the steps of First, starts the command, and then closes all
//     descriptors, gives up its memory and its capabilities, and reaps;
//   - the command makes the steps of Command, the last of which executes its program.
//
// The first process lives until its last child is gone, and when it dies the kernel kills all others of its namespace.
type Namespaced struct {
	Join       []Step
	Namespaces uintptr // CLONE_NEW flags; CLONE_NEWPID is added
	First      []Step
	Command    []Step
	// Report is a descriptor of the first process, to which it writes a Record when the command has ended.
	Report int
	// Opened, if not nil, has in its first word a descriptor of ours that the steps of Join have opened. BeginNamespaced closes it if it
	// fails.
	Opened *Memory
}

// Record is the message in Namespaced.Report: the wait status of the command.
type Record struct {
	PID    uint64 // in the namespace
	Status uint64 // as wait4 gives it
}

// commandPID is the pid of process 1's first child in a new pid namespace.
const commandPID = 2

// processes are the three processes in their launch block.
type processes struct {
	between, first, command *header
	names                   struct{ between, first, tail, command []Step }
	at                      struct{ between, first, tail, command uint64 } // where the steps begin
	ack                     *uint32
	room                    []byte
}

// BeginNamespaced starts such a launch on this thread, and returns when the first process has been born. Its child is that process.
// Release must follow Wait.
func BeginNamespaced(f Namespaced) (*Child, error) {
	if len(f.Command) == 0 {
		return nil, &Error{Step: "execve", Errno: unix.EINVAL}
	}
	n := &Child{PIDFD: -1}
	born := NewMemory(0, 0) // pid and pidfd
	s, err := n.layNamespaced(f, born)
	if err != nil {
		return nil, &Error{Step: "memory", Errno: err.(unix.Errno)}
	}
	h := n.inner.between
	syscall.ForkLock.Lock()
	between, errno := clone(h)
	syscall.ForkLock.Unlock()
	if errno != 0 {
		n.Release()
		return nil, &Error{Step: "clone", Errno: unix.Errno(errno)}
	}
	bury(int(between))
	place := s.known[born] / wordSize
	n.PID, n.PIDFD = int(s.words[place]), int(int32(s.words[place+1]))
	if failed := unix.Errno(h.errno); failed != 0 || n.PID == 0 {
		names := n.inner.names.between
		at := min(index(h, n.inner.at.between), len(names)-1)
		if f.Opened != nil {
			_ = unix.Close(int(int64(n.Word(f.Opened, 0)))) // or there is none
		}
		n.Release()
		return nil, &Error{Step: names[at].title(), Index: at, Errno: failed}
	}
	return n, nil
}

// layNamespaced lays out the steps of the three processes. The memory that the first process always needs comes first.
func (n *Child) layNamespaced(f Namespaced, born *Memory) (*block, error) {
	r := &processes{}
	ack, record := NewMemory(0), NewMemory(0, 0)
	r.names.between = slices.Concat(f.Join, []Step{fork("clone"+flags(f.Namespaces|unix.CLONE_NEWPID), unix.CLONE_PARENT|unix.CLONE_VM|
		unix.CLONE_PIDFD|unix.CLONE_NEWPID|f.Namespaces, born.At(wordSize), nil).Keep(born, 0), exit})
	n.steps = complete(f.Command)
	r.names.command = n.steps.steps
	r.names.first = slices.Clone(f.First)

	known := map[*Memory]int{}
	small := int(unsafe.Sizeof(header{})) + 2*smallHeader + sizeOf(tail(f.Report, ack, record, 0, 0), known)
	size := small + resetSize + sizeOf(r.names.between, known) + sizeOf(r.names.first, known) + sizeOf(r.names.command, known) +
		3*stepSize // the birth of the command, the way to the tail, and room for what ends in between
	page := os.Getpagesize()
	room, err := unix.Mmap(-1, 0, (size+page-1)&^(page-1), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	s := newBlock(unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(room))), len(room)/wordSize))
	r.room, n.block, n.inner = room, s, r
	r.between, r.first, r.command = s.header(), s.another(), s.another()
	alive := s.address(int(unsafe.Offsetof(header{}.alive)))
	for _, h := range []*header{r.first, r.command} {
		h.wake = alive
	}
	r.between.flags = unix.CLONE_FILES | uint64(unix.SIGCHLD)

	r.names.tail = tail(f.Report, ack, record, s.address(0), s.address(page))
	r.at.tail = s.lay(r.names.tail)
	s.words[(r.at.tail-s.address(0))/wordSize+uint64(len(r.names.tail)-1)*stepWords+8] = r.at.tail + uint64(len(r.names.tail)-3)*stepSize
	r.ack = (*uint32)(unsafe.Pointer(&s.words[s.known[ack]/wordSize]))

	r.at.command = s.resets()
	s.lay(r.names.command)
	r.command.at, r.at.command = r.at.command, r.at.command+resetSize

	onward := goOn
	onward.call.want = r.at.tail
	r.names.first = append(r.names.first, fork("clone", unix.CLONE_VM|unix.CLONE_VFORK|unix.CLONE_CHILD_CLEARTID, nil,
		number(alive)).to(s, r.command), onward)
	r.at.first = s.lay(r.names.first)
	r.first.at = r.at.first

	last := &r.names.between[len(r.names.between)-2]
	*last = last.to(s, r.first)
	r.at.between = s.lay(r.names.between)
	r.between.at = r.at.between
	return s, nil
}

// smallHeader is the size of the part of a header that a process needs if clone did not begin it.
const smallHeader = int(unsafe.Offsetof(header{}.zeros))

// another makes room for one more header.
func (s *block) another() *header {
	h := (*header)(unsafe.Pointer(&s.words[s.free/wordSize]))
	s.take(smallHeader)
	return h
}

var goOn = Step{Name: "go on", call: call{number: unix.SYS_GETPID, rule: goesOn}}

// fork is a clone whose child continues elsewhere. Both share a stack that neither uses.
func fork(name string, flags uintptr, parent, child Operand) Step {
	s := Call(name, unix.SYS_CLONE, append([]Operand{number(flags | uintptr(unix.SIGCHLD)), number(0)}, identities(parent, child)...)...)
	s.call.rule = forks
	return s
}

// identities returns the last arguments of clone: where the kernel writes for the parent and for the child.
func identities(parent, child Operand) []Operand {
	if parent == nil {
		parent = number(0)
	}
	if child == nil {
		child = number(0)
	}
	if runtime.GOARCH == "arm64" {
		return []Operand{parent, number(0), child}
	}
	return []Operand{parent, child, number(0)}
}

func (s Step) to(at *block, child *header) Step {
	s.call.want = at.address(int(uintptr(unsafe.Pointer(child)) - uintptr(unsafe.Pointer(&at.words[0]))))
	return s
}

// flags names new namespaces in the customary order, to follow the name of a clone.
func flags(namespaces uintptr) (names string) {
	for _, ns := range []struct {
		flag uintptr
		name string
	}{{unix.CLONE_NEWUSER, "user"}, {unix.CLONE_NEWNS, "mount"}, {unix.CLONE_NEWPID, "pid"}, {unix.CLONE_NEWIPC, "ipc"},
		{unix.CLONE_NEWUTS, "uts"}, {unix.CLONE_NEWNET, "net"}} {
		if namespaces&ns.flag != 0 {
			names += " " + ns.name
		}
	}
	if names != "" {
		names += " namespaces"
	}
	return names
}

// tail returns the first process's steps after it has borne the command. It waits for our acknowledgement, because from then on
// an ended command is reaped. It gives back all memory but one page of the launch block and the code. The last three steps loop.
func tail(report int, ack, record *Memory, block, end uint64) []Step {
	code := codePages()
	steps := []Step{
		CloseRange(uint(report+1), math.MaxUint32),
		System("capabilities", unix.SYS_CAPSET).with(Words(unix.LINUX_CAPABILITY_VERSION_3), Words(0, 0, 0)),
		Call("wait for leave", unix.SYS_FUTEX, ack.At(0), number(0), number(0), number(0)).MayFail(),
	}
	if report > 0 {
		steps = append(steps, CloseRange(0, uint(report-1)))
	}
	low, high := span{code[0], code[1]}, span{uintptr(block), uintptr(end)}
	if high.first < low.first {
		low, high = high, low
	}
	for _, hole := range []span{{0, low.first}, {low.end, high.first}} {
		steps = append(steps, System("give memory back", unix.SYS_MUNMAP, hole.first, hole.end-hole.first).MayFail())
	}
	for _, bits := range []int{56, 52, 48, 47, 42, 39} { // the kernel refuses a range beyond its address space
		top := uintptr(1)<<bits - uintptr(os.Getpagesize())
		if top > high.end {
			steps = append(steps, System("give memory back", unix.SYS_MUNMAP, high.end, top-high.end).MayFail())
		}
	}
	reaped := Call("reap", unix.SYS_WAIT4, number(-1&math.MaxUint32), record.At(wordSize), number(unix.WALL), number(0)).Keep(record, 0)
	reaped.call.rule, reaped.call.want = orSkip, commandPID
	return append(steps, reaped, Call("report", unix.SYS_WRITE, number(report), record.At(0), number(2*wordSize)).MayFail(), goOn)
}

type span struct{ first, end uintptr }

func (s Step) with(args ...Operand) Step {
	s.call.args = args
	return s
}

// codePages returns the range of pages that hold the code children run.
func codePages() [2]uintptr {
	const longest = 1 << 10
	page := uintptr(os.Getpagesize())
	at := code()
	return [2]uintptr{at &^ (page - 1), (at + longest + page - 1) &^ (page - 1)}
}

// index returns the index of a process's current step among those that begin at first.
func index(h *header, first uint64) int { return int(int64(load(&h.at))-int64(first)) / stepSize }

// namespacedStep returns the steps of the process that has got furthest, and its current step.
func (n *Child) namespacedStep() (names []Step, at int) {
	r := n.inner
	if r.reachedCommand() {
		return r.names.command, min(max(index(r.command, r.at.command), 0), len(r.names.command)-1)
	}
	return r.names.first, min(max(index(r.first, r.at.first), 0), len(r.names.first)-1)
}

// reachedCommand reports whether the first process has reached the command's birth.
func (r *processes) reachedCommand() bool {
	at := index(r.first, r.at.first)
	return at < 0 || at >= len(r.names.first)-2
}

// namespacedOutcome is called when the command has executed its program, or one of the processes has failed.
func (n *Child) namespacedOutcome() error {
	r := n.inner
	failed := unix.Errno(load(&r.first.errno)) | unix.Errno(load(&r.command.errno))
	names, at := n.namespacedStep()
	const executes = 2 // the last step but one
	if failed == 0 && r.reachedCommand() && at >= len(names)-executes && !n.Died() {
		return nil
	}
	_ = n.Kill()
	for waitFor(n.PIDFD, unix.WEXITED|unix.WNOWAIT|unix.WALL) == unix.EINTR {
	}
	return &Error{Step: names[at].title(), Index: at, Errno: failed}
}

// Release lets the first process of the namespaces go on to reap, and gives back the memory of the birth. Only Kill and Reap may
// follow.
func (n *Child) Release() {
	if n.inner == nil {
		n.block = nil
		return
	}
	const wake = 1 // FUTEX_WAKE
	atomic.StoreUint32(n.inner.ack, 1)
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(n.inner.ack)), wake, 1, 0, 0, 0)
	room := n.inner.room
	n.inner, n.block = nil, nil
	_ = unix.Munmap(room)
}

func bury(pid int) {
	for {
		if _, err := syscall.Wait4(pid, nil, syscall.WALL, nil); err != syscall.EINTR {
			return
		}
	}
}
