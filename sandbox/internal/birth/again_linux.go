package birth

import (
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Again is argv[0] of a second execution. argv[1] is the number of a descriptor: the script, a sealed memfd.
const Again = "execbus-newborn"

// takingOver names the work of the second execution before the first step.
const takingOver = "execute this program again"

var mayExecuteAgain atomic.Bool

// ExecuteAgain allows this program to be executed again where the kernel refuses the clone. Do not call it where this code is
// a library inside another program, or where the executable grants privileges.
func ExecuteAgain() { mayExecuteAgain.Store(strconv.IntSize == 64) } // the kernel finds words of that size in a slab

// second is a newborn that executes this program before its own.
type second struct {
	room   []byte // the report; Release unmaps it
	report *report
	over   int // a pipe whose other end the newborn's execution or death closes; Wait closes this one
}

// report is in memory that both processes share.
type report struct {
	at    int64 // the index of the current step
	errno uint64
}

// notBegun is the index of all steps before the first one. These reset signals.
const notBegun = -1 << 32

// script heads the sealed memfd. After it come the positions of the addresses, the descriptors that an execution closes, and
// the slab, laid out for address zero.
type script struct{ magic, addresses, closing, first uint64 }

const (
	scriptMagic = 0x65786563_62757301
	scriptWords = int(unsafe.Sizeof(script{}) / wordSize)
	scriptSeals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
)

// The descriptors that follow that of the script.
const (
	reportBehind = 1 + iota
	overBehind
	allBehind
)

// simple reports whether all steps have a plain form.
func simple(steps []Step) bool {
	return !slices.ContainsFunc(steps, func(s Step) bool { return s.plain == nil })
}

// executeAgain executes this program again; that execution makes the steps.
func (n *Newborn) executeAgain(steps []Step) error {
	files, closing := inherited(steps)
	a := &second{over: -1}
	var theirs [allBehind]int
	err := a.open(&theirs, n.steps, closing)
	if err == nil {
		argv := []string{Again, strconv.Itoa(len(files))}
		for _, fd := range theirs {
			files = append(files, uintptr(fd))
		}
		n.PID, err = syscall.ForkExec("/proc/self/exe", argv, &syscall.ProcAttr{Env: syscall.Environ(), Files: files,
			Sys: &syscall.SysProcAttr{PidFD: &n.PIDFD}})
	}
	for _, fd := range theirs {
		_ = unix.Close(fd)
	}
	if err != nil {
		a.close()
		a.release()
		errno, _ := err.(syscall.Errno)
		return &Error{Step: takingOver, Index: -1, Errno: errno}
	}
	n.second, n.patient = a, time.Now() // a second execution takes too long to hold up the scheduler
	return nil
}

// open creates the memory and the pipe that the two processes share.
func (a *second) open(theirs *[allBehind]int, m made, closing []uint64) (err error) {
	*theirs = [allBehind]int{-1, -1, -1}
	if theirs[0], err = sealed(scriptOf(m, closing)); err != nil {
		return err
	}
	if theirs[reportBehind], err = unix.MemfdCreate(Again, unix.MFD_CLOEXEC); err != nil {
		return err
	}
	size := int(unsafe.Sizeof(report{}))
	if err = unix.Ftruncate(theirs[reportBehind], int64(size)); err != nil {
		return err
	}
	if a.room, err = unix.Mmap(theirs[reportBehind], 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return err
	}
	a.report = (*report)(unsafe.Pointer(unsafe.SliceData(a.room)))
	a.report.at = notBegun
	var pipe [2]int
	if err = unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	a.over, theirs[overBehind] = pipe[0], pipe[1]
	return nil
}

// scriptOf returns the newborn's script. It lays out the same steps for two bases: any word that differs is an address.
func scriptOf(m made, closing []uint64) []uint64 {
	here, there := layAt(0, m), layAt(wordSize, m)
	var addresses []uint64
	for i, word := range here.words {
		if word != there.words[i] {
			addresses = append(addresses, uint64(i))
		}
	}
	return slices.Concat([]uint64{scriptMagic, uint64(len(addresses)), uint64(len(closing)), here.first}, addresses, closing, here.words)
}

// layAt makes a slab for memory at another address.
func layAt(base uint64, m made) *slab {
	s := newSlab(make([]uint64, slabSize(m, allSignals)/wordSize), base)
	s.header().at = s.resets(allSignals)
	s.first = s.lay(m.steps)
	return s
}

// sealed makes a file that nobody can change.
func sealed(words []uint64) (fd int, err error) {
	fd, err = unix.MemfdCreate(Again, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, err
	}
	for left := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*wordSize); len(left) > 0 && err == nil; {
		var wrote int
		wrote, err = unix.Write(fd, left)
		left = left[max(wrote, 0):]
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, scriptSeals)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// inherited returns the descriptors of a second execution, by their numbers: those that a step uses, and those that are not
// close-on-exec. The former are closed when the newborn executes its program. No step uses a higher number.
func inherited(steps []Step) (files []uintptr, closing []uint64) {
	used, last := map[int]bool{}, 2
	for _, s := range steps {
		from, to := s.call.descriptors()
		if _, err := unix.FcntlInt(uintptr(from), unix.F_GETFD, 0); err == nil {
			used[from], last = true, max(last, from)
		}
		last = max(last, to)
	}
	for leaks(last+1) || leaks(last+reportBehind+1) || leaks(last+overBehind+1) {
		last++ // the script and the other two need numbers that nothing leaks into
	}
	for fd := range last + 1 {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		switch closes := flags&unix.FD_CLOEXEC != 0; {
		case err != nil || closes && !used[fd]:
			files = append(files, ^uintptr(0))
		case closes:
			closing = append(closing, uint64(fd))
			fallthrough
		default:
			files = append(files, uintptr(fd))
		}
	}
	return files, closing
}

// descriptors returns the descriptor that a call uses and the one that it changes; -1 is none.
func (c call) descriptors() (from, to int) {
	at := func(i int) int {
		if n, is := c.args[i].(number); is && n <= math.MaxInt32 {
			return int(n)
		}
		return -1
	}
	switch c.number {
	case unix.SYS_DUP3:
		return at(0), at(1)
	case unix.SYS_CLOSE:
		return -1, at(0)
	case unix.SYS_FCNTL, unix.SYS_IOCTL, unix.SYS_WRITE, unix.SYS_FCHDIR, unix.SYS_EXECVEAT, unix.SYS_LANDLOCK_RESTRICT_SELF:
		return at(0), -1
	}
	return -1, -1
}

// await waits for the end of the pipe.
func (a *second) await(until time.Time) (over bool) {
	for {
		left := max(time.Until(until), 0)
		fds := []unix.PollFd{{Fd: int32(a.over)}} // POLLHUP is always reported
		if count, err := unix.Poll(fds, int((left+time.Millisecond-1)/time.Millisecond)); err == nil {
			return count > 0
		}
	}
}

func (a *second) now() int { return int(atomic.LoadInt64(&a.report.at)) }

// outcome is called when the newborn has closed its end of the pipe. A newborn that dies while executing counts as executed.
func (a *second) outcome(n *Newborn) error {
	at, errno := a.now(), unix.Errno(load(&a.report.errno))
	a.close()
	executes := len(n.steps.steps) - 2
	if at == executes && errno == 0 {
		return nil
	}
	if at == notBegun {
		errno = unix.EPROTO // it ended before its first step
	}
	for unix.Waitid(unix.P_PID, n.PID, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	return &Error{Step: a.title(n.steps), Index: n.steps.index(at), Errno: errno}
}

func (a *second) title(m made) string {
	at := a.now()
	if at == notBegun {
		return takingOver
	}
	return m.name(at)
}

func (a *second) close() {
	if a.over >= 0 {
		_ = unix.Close(a.over)
	}
}

func (a *second) release() {
	if a.room != nil {
		_ = unix.Munmap(a.room)
	}
}
