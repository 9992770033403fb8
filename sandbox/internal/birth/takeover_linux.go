package birth

import (
	"errors"
	"os"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth/nofile"
)

// init takes over a second execution, on the main thread.
func init() {
	if len(os.Args) == 0 || os.Args[0] != Again {
		return
	}
	err := takeOver()
	_, _ = os.Stderr.WriteString(Again + ": not started by execbus: " + err.Error() + "\n")
	os.Exit(127)
}

// performer makes the steps of a script one by one.
type performer struct {
	words  []uint64 // the slab
	base   uint64   // its address
	first  uint64   // the address of the first step that resets no signal
	over   uint64   // the descriptor that stays open until the execution
	report *report
}

// takeOver returns only if there is no script for us.
func takeOver() error {
	if Privileged() {
		return errors.New("this executable gives rights")
	}
	fd, err := strconv.Atoi(os.Args[len(os.Args)-1])
	if err != nil {
		return errors.New("there is no script")
	}
	if have, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil || have&scriptSeals != scriptSeals {
		return errors.New("the script is not sealed")
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Size < int64(unsafe.Sizeof(script{})) {
		return errors.New("the script is empty")
	}
	text, err := unix.Mmap(fd, 0, int(stat.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(text))), len(text)/wordSize)
	head := (*script)(unsafe.Pointer(&words[0]))
	if head.magic != scriptMagic {
		return errors.New("the script is not one of ours")
	}
	room, err := unix.Mmap(fd+reportBehind, 0, int(unsafe.Sizeof(report{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	p := performer{over: uint64(fd + overBehind), report: (*report)(unsafe.Pointer(unsafe.SliceData(room)))}
	_ = unix.Close(fd)
	_ = unix.Close(fd + reportBehind)
	unix.CloseOnExec(fd + overBehind)
	p.perform(head, words[scriptWords:])
	return nil
}

// perform does not return.
func (p *performer) perform(head *script, rest []uint64) {
	addresses, closing := rest[:head.addresses], rest[head.addresses:][:head.closing]
	p.words = rest[head.addresses+head.closing:]
	p.base = uint64(uintptr(unsafe.Pointer(&p.words[0])))
	p.first = p.base + head.first
	for _, at := range addresses {
		p.words[at] += p.base
	}
	for _, fd := range closing {
		unix.CloseOnExec(int(fd))
	}
	if was := nofile.First; was.Hard != 0 { // Go has raised it in this process, too
		_ = unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: was.Soft, Max: was.Hard}, nil)
	}
	block := ^uint64(0)
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&block)), 0, wordSize, 0, 0)
	for at := (*header)(unsafe.Pointer(&p.words[0])).at; ; at += stepSize {
		atomic.StoreInt64(&p.report.at, int64(at-p.first)/stepSize)
		step := p.words[(at-p.base)/wordSize:][:stepWords]
		result, errno := p.make(step)
		*p.word(step[9]) = result
		switch rule(step[7]) {
		case mayFail:
			continue
		case mustBe:
			if result != step[8] {
				errno = unix.ESRCH
			}
		}
		if errno != 0 {
			p.report.errno = uint64(errno)
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 253, 0, 0)
		}
	}
}

// make makes one call.
func (p *performer) make(step []uint64) (result uint64, errno unix.Errno) {
	var args [6]uint64
	for i := range args {
		args[i] = step[1+i]
		if step[10]&(1<<i) != 0 {
			args[i] = *p.word(args[i])
		}
	}
	if step[0] == unix.SYS_CLOSE_RANGE && args[0] <= p.over && p.over < args[1] { // skip the pipe that shows that we live
		if args[0] < p.over {
			if result, errno = system(step[0], [6]uint64{args[0], p.over - 1, args[2]}); errno != 0 {
				return result, errno
			}
		}
		args[0] = p.over + 1
	}
	return system(step[0], args)
}

// word returns the word at an address.
func (p *performer) word(address uint64) *uint64 { return &p.words[(address-p.base)/wordSize] }

func system(call uint64, a [6]uint64) (uint64, unix.Errno) {
	result, _, errno := unix.RawSyscall6(uintptr(call), uintptr(a[0]), uintptr(a[1]), uintptr(a[2]), uintptr(a[3]), uintptr(a[4]), uintptr(a[5]))
	return uint64(result), errno
}

// Privileged reports whether this process has privileges from its executable. Its caller must not tell it what to do then.
func Privileged() bool {
	const secure = 23 // AT_SECURE
	vector, err := unix.Auxv()
	if err != nil {
		return true
	}
	for _, entry := range vector {
		if entry[0] == secure {
			return entry[1] != 0
		}
	}
	return os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid()
}
