//go:build linux

package attack

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The roles of this binary when it is executed again. They are its first argument.
const (
	roleAct  = "attack-act"  // makes one attempt; the other arguments are its name and its places
	roleFill = "attack-fill" // holds some memory
	roleCage = "attack-cage" // runs tests where no namespace can be made
	roleAble = "attack-able" // fails without capabilities
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case roleAct:
			attempt(os.Args[2], os.Args[3])
		case roleFill:
			holdMemory()
		case roleAble:
			beAble()
		case roleCage:
			encage(os.Args[2:])
		}
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // for the processes that this program starts: otherwise each takes a second to exit
	os.Exit(m.Run())
}

// places tell an attempt about the world outside. A thorough attacker would find all of this out.
type places struct {
	Work, Out string // the writable root, and a directory beside it
	Victim    int    // a process of the same user
	Host      int    // the process that embeds execbus
	TCP, UDP  int    // ports on 127.0.0.1 where a process outside listens
	TCP6      int
	Allowed   int    // the port of the host that a policy allows
	Daemon    string // the network and the address of a process outside that does as it is asked
	Abstract  string // the name of an abstract socket, stream; with ".d" datagram
	Terminal  string // the path of another terminal
	Shared    int    // a System V segment
	Queue     string // a POSIX message queue
	Inner     bool   // the attempt is in namespaces of its own
}

// name is for what everybody sees. The attacks without namespaces run meanwhile, and make theirs.
func (p places) name() string { return filepath.Base(filepath.Dir(p.Out)) }

// attempt makes an attempt and reports how it went. It does not return.
func attempt(name, where string) {
	runtime.LockOSThread()
	var p places
	if err := json.Unmarshal([]byte(where), &p); err != nil {
		fmt.Println("BROKEN", err)
		os.Exit(1)
	}
	a := find(name)
	if a == nil {
		fmt.Println("BROKEN there is no", name)
		os.Exit(1)
	}
	if err := a.act(p); err != nil {
		fmt.Println("LOST", err)
		os.Exit(1)
	}
	fmt.Println("WON")
	os.Exit(0)
}

func find(name string) *attack {
	for _, a := range append(attacks(), fine...) {
		if a.name == name {
			return &a
		}
	}
	return nil
}

// errHeld is the error of an attempt whose calls all succeed without an effect.
var errHeld = errors.New("no effect")

// encage forbids new namespaces, as many containers do, and executes a program. It does not return.
func encage(argv []string) {
	runtime.LockOSThread()
	const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	statement := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	jump := func(code uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k}
	}
	load, equal, set, ret := uint16(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS), uint16(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K),
		uint16(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K), uint16(unix.BPF_RET|unix.BPF_K)
	filter := []unix.SockFilter{
		statement(load, 0),
		jump(equal, unix.SYS_CLONE, 2, 0),
		jump(equal, unix.SYS_UNSHARE, 1, 0),
		jump(equal, unix.SYS_CLONE3, 3, 4),
		statement(load, 16),
		jump(set, namespaces, 0, 2),
		statement(ret, 0x50000|uint32(unix.EPERM)),
		statement(ret, 0x50000|uint32(unix.ENOSYS)),
		statement(ret, 0x7fff0000),
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	}
	if err == nil {
		err = syscall.Exec(argv[0], argv, os.Environ())
	}
	fmt.Fprintln(os.Stderr, "no cage:", err)
	os.Exit(97)
}
