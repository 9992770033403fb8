//go:build linux

package hostile_test

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// roleVariable makes this binary one of the programs below. The arguments are the token and those of the program.
const roleVariable = "EXECBUS_HOSTILE_ROLE"

func play(role string) {
	roles := map[string]func(){
		"flood": flood, "junk": junk, "comet": comet, "bomb": bomb, "hydra": hydra, "shed": shed,
		"vhangup": hangUp, "notty": giveUpTerminal, "exclusive": exclusive, "sleep": func() { select {} },
		"host": beHost, "poor": bePoor, "poor warden": bePoorWarden, "few terminals": haveFewTerminals, "full disk": haveFullDisk,
	}
	act, known := roles[role]
	if !known {
		fmt.Fprintln(os.Stderr, "unknown role", role)
		os.Exit(97)
	}
	act()
}

func argument(i int) int {
	n, err := strconv.Atoi(os.Args[i])
	must(err)
	return n
}

// flood writes so many bytes.
func flood() {
	left := argument(2)
	block := []byte(strings.Repeat("0123456789abcdef", 4<<10))
	for left > 0 {
		n, err := os.Stdout.Write(block[:min(left, len(block))])
		must(err)
		left -= n
	}
}

// junkKinds are outputs that are hard to cut or to show.
var junkKinds = map[string]func() []byte{
	"invalid UTF-8":   func() []byte { return []byte(strings.Repeat("\xff\xfe\xc0\xaf\xed\xa0\x80\xf5ok\x80", 3000)) },
	"NUL bytes":       func() []byte { return []byte(strings.Repeat("\x00a\x00\x00", 10_000)) },
	"10 MiB line":     func() []byte { return []byte(strings.Repeat("x", 10<<20)) },
	"wide characters": func() []byte { return []byte(strings.Repeat("aé€😀", 20_000)) },
	"all bytes": func() []byte {
		all := make([]byte, 256*512)
		for i := range all {
			all[i] = byte(i)
		}
		return all
	},
	"cut character at the end": func() []byte { return []byte("good\xf0\x9f\x98") },
	"terminal commands": func() []byte {
		return []byte(strings.Repeat("\x1b[2J\x1b]0;title\x07\x1bc\x9b6n\x05\x0e\x1b[?1049h", 500))
	},
}

func junk() {
	w := bufio.NewWriterSize(os.Stdout, 777) // an odd size cuts characters
	_, err := w.Write(junkKinds[os.Args[2]]())
	must(err)
	must(w.Flush())
}

// The programs below fork without exec, as C programs do, and as fast as the kernel can. From the fork to its end the child
// must not allocate, grow its stack or enter the scheduler: it has only one thread, and makes only system calls. The number
// of forks is bounded in each of them.

//go:norace
//go:nosplit
func fork() uintptr {
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		quit(96)
	}
	return pid
}

//go:norace
//go:nosplit
func quit(code uintptr) { _, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, code, 0, 0) }

//go:norace
//go:nosplit
func nap(t *unix.Timespec) {
	rest := *t
	_, _, _ = syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&rest)), 0, 0)
}

// ignore makes a program ignore the signals that ask it to end.
func ignore() { signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT) }

// comet forks its successor into a session of its own and exits, again and again.
//
//go:norace
func comet() {
	ignore()
	left := argument(2)
	fmt.Println("up")
	_, _ = os.Stdin.Read(make([]byte, 1))
	for ; left > 0; left-- {
		if fork() != 0 {
			quit(0)
		}
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
	}
	quit(0)
}

// bomb doubles itself: 2 to the power of its argument processes in all, which then sleep.
//
//go:norace
func bomb() {
	generations := min(argument(2), 7)
	long := unix.Timespec{Sec: 1000}
	for range generations {
		fork()
	}
	for { // a signal to the first one's Go runtime ends a nap
		nap(&long)
	}
}

// hydra is two processes that watch each other; when one dies the other grows a new one, in a session of its own. They
// count their forks in memory that they share.
//
//go:norace
func hydra() {
	ignore()
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	must(err)
	left := &page[0]
	*left = byte(argument(2))
	fmt.Println("up")
	short := unix.Timespec{Nsec: 200_000}
	for *left > 0 {
		*left--
		if fork() != 0 { // the parent waits for the death of the child
			for {
				pid, _, errno := syscall.RawSyscall6(syscall.SYS_WAIT4, ^uintptr(0), 0, 0, 0, 0, 0)
				if pid != 0 && errno != syscall.EINTR {
					break
				}
			}
			continue
		}
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
		parent, _, _ := syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0)
		for { // the child waits for the death of the parent
			nap(&short)
			if now, _, _ := syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0); now != parent {
				break
			}
		}
	}
	for {
		nap(&short)
	}
}

// shed lowers one or both of the limits that mark a tree for the warden, and leaves a daemon behind.
func shed() {
	const rttime = 15 // RLIMIT_RTTIME, which package unix does not name
	must(unix.Prlimit(0, rttime, &unix.Rlimit{Cur: 1 << 30, Max: 1 << 30}, nil))
	if os.Args[2] == "all" {
		must(unix.Prlimit(0, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: 1 << 30, Max: 1 << 30}, nil))
	}
	_, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "sleep $1 & exit", "sh", os.Args[1]}, &syscall.ProcAttr{
		Env: []string{"PATH=/usr/bin:/bin"}, Sys: &syscall.SysProcAttr{Setsid: true}})
	must(err)
	fmt.Println("up")
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(3)
}

// hangUp hangs up its own terminal and keeps running. It needs CAP_SYS_TTY_CONFIG.
func hangUp() {
	ignore()
	fmt.Println("up")
	_, _, errno := syscall.Syscall(syscall.SYS_VHANGUP, 0, 0, 0)
	if errno != 0 {
		os.Exit(4)
	}
	if _, err := os.Stdout.WriteString("nobody sees this"); err == nil {
		os.Exit(5)
	}
	os.Exit(3)
}

// giveUpTerminal detaches its session from the terminal.
func giveUpTerminal() {
	ignore()
	must(unix.IoctlSetInt(0, unix.TIOCNOTTY, 0))
	fmt.Println("still here")
	os.Exit(3)
}

// exclusive stops others from opening the terminal.
func exclusive() {
	must(unix.IoctlSetInt(0, unix.TIOCEXCL, 0))
	fmt.Println("mine")
	os.Exit(3)
}
