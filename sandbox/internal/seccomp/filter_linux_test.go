//go:build amd64 || arm64

package seccomp

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// call is the input of a filter.
type call struct {
	architecture, number uint32
	args                 [6]uint64
}

func native(number uint32, args ...uint64) call {
	c := call{architecture: architecture, number: number}
	copy(c.args[:], args)
	return c
}

// machine interprets a compiled filter. A filter's words have the high byte first here, and so does its input.
func machine(t testing.TB, filter []unix.SockFilter) func(call) uint32 {
	t.Helper()
	program := make([]bpf.Instruction, len(filter))
	for i, f := range filter {
		program[i] = bpf.RawInstruction{Op: f.Code, Jt: f.Jt, Jf: f.Jf, K: f.K}.Disassemble()
		if _, raw := program[i].(bpf.RawInstruction); raw {
			t.Fatalf("instruction %d is unknown: %+v", i, f)
		}
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	return func(c call) uint32 {
		data := make([]byte, dataArguments+8*len(c.args))
		binary.BigEndian.PutUint32(data[dataCall:], c.number)
		binary.BigEndian.PutUint32(data[dataArchitecture:], c.architecture)
		for i, arg := range c.args {
			binary.BigEndian.PutUint32(data[dataArguments+8*i:], uint32(arg))
			binary.BigEndian.PutUint32(data[dataArguments+8*i+4:], uint32(arg>>32))
		}
		result, err := vm.Run(data)
		if err != nil {
			t.Fatal(err)
		}
		return uint32(result)
	}
}

// meant returns what the rules say, without a compiler.
func meant(rules []Rule, c call) uint32 {
	if c.architecture != architecture {
		return unix.SECCOMP_RET_KILL_PROCESS
	}
	if c.number >= firstMissing {
		return unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	}
	for _, rule := range rules {
		if rule.Call == c.number && !slices.ContainsFunc(rule.When, func(when Condition) bool { return !when.holds(c) }) {
			return unix.SECCOMP_RET_ERRNO | uint32(rule.Errno)
		}
	}
	return unix.SECCOMP_RET_ALLOW
}

func (when Condition) holds(c call) bool {
	arg := c.args[when.Arg]
	if when.Pointer {
		return arg != 0
	}
	mask := when.Mask
	if mask == 0 {
		mask = ^uint32(0)
	}
	return (uint32(arg)&mask == when.Want) != when.Not
}

// fit sets the argument so that the condition holds, or does not hold.
func (when Condition) fit(c *call, holds bool) {
	arg := &c.args[when.Arg]
	switch {
	case when.Pointer && holds:
		*arg = 1 << 40 // in the upper half only
	case when.Pointer:
		*arg = 0
	case holds != when.Not:
		*arg = *arg&^uint64(when.bits()) | uint64(when.Want)
	default:
		for value := uint64(1); when.holds(*c) != holds; value = value<<1 | 1 {
			*arg = uint64(when.Want) ^ value&uint64(when.bits())
		}
	}
}

func (when Condition) bits() uint32 {
	if when.Mask == 0 {
		return ^uint32(0)
	}
	return when.Mask
}

// matching makes a call for which all conditions of a rule hold, except the one with number but.
func matching(rule Rule, but int) call {
	c := native(rule.Call)
	for range 8 { // several conditions may concern the same argument
		for i, when := range rule.When {
			when.fit(&c, i != but)
		}
	}
	return c
}

// kinds returns all kinds.
func kinds() (all []Kind) {
	for bits := range 3 << 4 {
		all = append(all, Kind{Network: Network(bits >> 4), Unix: bits&1 != 0, Metadata: bits&2 != 0, Truncate: bits&4 != 0, Shared: bits&8 != 0})
		all = append(all, Kind{Network: Network(bits >> 4), Secret: [2]uint32{uint32(bits), 0xfedcba98}})
	}
	return all
}

func TestTheCompiledFilterSaysWhatTheRulesSay(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	asked := 0
	for _, kind := range kinds() {
		rules := Rules(kind)
		run := machine(t, Filter(kind))
		ask := func(c call) {
			t.Helper()
			asked++
			if got, want := run(c), meant(rules, c); got != want {
				t.Errorf("%+v: %+v: %#x instead of %#x", kind, c, got, want)
			}
		}
		for _, rule := range rules {
			c := matching(rule, -1)
			if got := meant([]Rule{rule}, c); got != unix.SECCOMP_RET_ERRNO|uint32(rule.Errno) {
				t.Fatalf("%s: the test made a call that it is not about: %+v", rule.Name, c)
			}
			ask(c)
			for i, when := range rule.When {
				ask(matching(rule, i))
				upper := c
				if !when.Pointer { // the kernel does not see the upper half, and neither may the filter
					upper.args[when.Arg] |= 0xdeadbeef << 32
				}
				ask(upper)
				if meant(rules, upper) != meant(rules, c) {
					t.Errorf("%s: the upper half changes the answer", rule.Name)
				}
			}
			for range 8 {
				noise := native(rule.Call)
				for i := range noise.args {
					noise.args[i] = random.Uint64() >> (random.UintN(8) * 8)
				}
				ask(noise)
			}
			strange := c
			strange.architecture ^= 1 << 3
			ask(strange)
		}
		for number := range uint32(600) {
			ask(native(number))
			ask(native(firstMissing | number))
		}
		for _, number := range []uint32{firstMissing - 1, firstMissing, 1 << 31, ^uint32(0)} {
			ask(native(number))
		}
	}
	t.Logf("%d calls", asked)
}

func TestAFilterIsSmall(t *testing.T) {
	for _, kind := range kinds() {
		filter := Filter(kind)
		if deepest := depth(filter); len(filter) > 400 || deepest > 48 { // the kernel takes 4,096; prlimit64 has the most rules
			t.Errorf("%+v: %d instructions, at most %d in a row", kind, len(filter), deepest)
		}
	}
}

// depth returns how many instructions one call can run through. Jumps only go forward.
func depth(filter []unix.SockFilter) int {
	most := make([]int, len(filter)+1)
	for i := len(filter) - 1; i >= 0; i-- {
		switch f := filter[i]; {
		case f.Code == unix.BPF_RET|unix.BPF_K:
			most[i] = 1
		case f.Code == unix.BPF_JMP|unix.BPF_JA:
			most[i] = 1 + most[i+1+int(f.K)]
		case f.Code&7 == unix.BPF_JMP:
			most[i] = 1 + max(most[i+1+int(f.Jt)], most[i+1+int(f.Jf)])
		default:
			most[i] = 1 + most[i+1]
		}
	}
	return most[0]
}

func TestWhatAFilterDenies(t *testing.T) {
	const (
		stream  = unix.SOCK_STREAM | unix.SOCK_CLOEXEC
		forking = unix.CLONE_CHILD_CLEARTID | unix.CLONE_CHILD_SETTID | uint64(unix.SIGCHLD)
		thread  = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD
	)
	off, private, on := Kind{Network: Off}, Kind{Network: Private}, Kind{Network: On}
	listed := Kind{Network: On, Unix: true}
	metadata, truncate, shared := Kind{Metadata: true}, Kind{Truncate: true}, Kind{Shared: true}
	for _, test := range []struct {
		name string
		kind Kind
		call call
		want unix.Errno // zero: allowed
	}{
		{"read", off, native(unix.SYS_READ), 0},
		{"fork", off, native(unix.SYS_CLONE, forking), 0},
		{"thread", off, native(unix.SYS_CLONE, thread), 0},
		{"user namespace", off, native(unix.SYS_CLONE, unix.CLONE_NEWUSER|forking), unix.EPERM},
		{"mount namespace", on, native(unix.SYS_CLONE, unix.CLONE_NEWNS|forking), unix.EPERM},
		{"clone3", on, native(unix.SYS_CLONE3, 1), unix.ENOSYS},
		{"unshare files", off, native(unix.SYS_UNSHARE, unix.CLONE_FILES), 0},
		{"unshare users", off, native(unix.SYS_UNSHARE, unix.CLONE_NEWUSER), unix.EPERM},
		{"unshare time", off, native(unix.SYS_UNSHARE, unix.CLONE_NEWTIME), unix.EPERM},
		{"own limits", off, native(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 4096), 0},
		{"own mark is read", off, native(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_RTTIME, 0, 4096), 0},
		{"own mark is set", off, native(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_RTTIME, 4096), unix.EPERM},
		{"own mark is set from above", off, native(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_RTTIME, 1<<40), unix.EPERM},
		{"own second mark is set", off, native(unix.SYS_SETRLIMIT, unix.RLIMIT_LOCKS, 4096), unix.EPERM},
		{"limits of another", off, native(unix.SYS_PRLIMIT64, 1, unix.RLIMIT_NOFILE, 4096), unix.EPERM},
		{"own affinity", off, native(unix.SYS_SCHED_SETAFFINITY, 0, 8, 4096), 0},
		{"affinity of another", off, native(unix.SYS_SCHED_SETAFFINITY, 1, 8, 4096), unix.EPERM},
		{"nice", off, native(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, 5), 0},
		{"nice of a user", off, native(unix.SYS_SETPRIORITY, unix.PRIO_USER, 0, 5), unix.EPERM},
		{"window size", off, native(unix.SYS_IOCTL, 0, unix.TIOCGWINSZ), 0},
		{"typing", off, native(unix.SYS_IOCTL, 0, unix.TIOCSTI), unix.EPERM},
		{"typing in 64 bits", off, native(unix.SYS_IOCTL, 0, 1<<32|unix.TIOCSTI), unix.EPERM},
		{"pasting", off, native(unix.SYS_IOCTL, 0, 1<<63|unix.TIOCLINUX), unix.EPERM},
		{"tcp, off", off, native(unix.SYS_SOCKET, unix.AF_INET, stream), unix.EPERM},
		{"unix, off", off, native(unix.SYS_SOCKET, unix.AF_UNIX, stream), unix.EPERM},
		{"netlink, off", off, native(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW), unix.EPERM},
		{"pair, off", off, native(unix.SYS_SOCKETPAIR, unix.AF_UNIX, stream), 0},
		{"packets, off", off, native(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK), 0},
		{"datagrams, off", off, native(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_DGRAM), unix.EPERM},
		{"raw pair is datagrams", off, native(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_RAW), unix.EPERM},
		{"tipc pair", listed, native(unix.SYS_SOCKETPAIR, unix.AF_TIPC, stream), unix.EPERM},
		{"datagrams, listed", listed, native(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_DGRAM), 0},
		{"tcp, private", private, native(unix.SYS_SOCKET, unix.AF_INET6, stream), 0},
		{"netlink, private", private, native(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW), 0},
		{"audit, private", private, native(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT), unix.EPERM},
		{"unix, private", private, native(unix.SYS_SOCKET, unix.AF_UNIX, stream), unix.EPERM},
		{"tcp, on", on, native(unix.SYS_SOCKET, unix.AF_INET, stream), 0},
		{"unix, on", on, native(unix.SYS_SOCKET, unix.AF_UNIX, stream), unix.EPERM},
		{"unix, listed", listed, native(unix.SYS_SOCKET, unix.AF_UNIX, stream), 0},
		{"vsock, listed", listed, native(unix.SYS_SOCKET, unix.AF_VSOCK, stream), unix.EPERM},
		{"packet, on", on, native(unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW), unix.EPERM},
		{"alg, private", private, native(unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET), unix.EPERM},
		{"chmod, plain", off, native(unix.SYS_FCHMODAT, 0, 4096, 0o755), 0},
		{"set-uid", off, native(unix.SYS_FCHMODAT, 0, 4096, 0o4755), unix.EPERM},
		{"set-gid", off, native(unix.SYS_FCHMODAT2, 0, 4096, 0o2755), unix.EPERM},
		{"open, junk mode", off, native(unix.SYS_OPENAT, 0, 4096, unix.O_RDONLY|unix.O_DIRECTORY, 0o4755), 0},
		{"create", off, native(unix.SYS_OPENAT, 0, 4096, unix.O_CREAT, 0o644), 0},
		{"create set-uid", off, native(unix.SYS_OPENAT, 0, 4096, unix.O_CREAT, 0o4755), unix.EPERM},
		{"temporary set-uid", off, native(unix.SYS_OPENAT, 0, 4096, unix.O_TMPFILE|unix.O_RDWR, 0o4755), unix.EPERM},
		{"openat2", off, native(unix.SYS_OPENAT2), unix.ENOSYS},
		{"chmod", metadata, native(unix.SYS_FCHMODAT, 0, 4096, 0o644), unix.EPERM},
		{"touch", metadata, native(unix.SYS_UTIMENSAT), unix.EPERM},
		{"attributes", metadata, native(unix.SYS_SETXATTR), unix.EPERM},
		{"flags", shared, native(unix.SYS_IOCTL, 3, unix.FS_IOC_SETFLAGS), unix.EPERM},
		{"flags in 64 bits", shared, native(unix.SYS_IOCTL, 3, 1<<40|unix.FS_IOC_SETFLAGS), unix.EPERM},
		{"flags are read", shared, native(unix.SYS_IOCTL, 3, unix.FS_IOC_GETFLAGS), 0},
		{"flags elsewhere", off, native(unix.SYS_IOCTL, 3, unix.FS_IOC_SETFLAGS), 0},
		{"clone a file", shared, native(unix.SYS_IOCTL, 3, unix.FICLONE), 0},
		{"segment", shared, native(unix.SYS_SHMAT, 7), unix.EPERM},
		{"private segment", shared, native(unix.SYS_SHMGET, unix.IPC_PRIVATE, 4096), unix.EPERM},
		{"segment elsewhere", off, native(unix.SYS_SHMAT, 7), 0},
		{"detach", shared, native(unix.SYS_SHMDT), 0},
		{"semaphore", shared, native(unix.SYS_SEMCTL, 7, 0, unix.IPC_RMID), unix.EPERM},
		{"message", shared, native(unix.SYS_MSGRCV, 7), unix.EPERM},
		{"queue", shared, native(unix.SYS_MQ_OPEN, 4096), unix.EPERM},
		{"queue elsewhere", off, native(unix.SYS_MQ_OPEN, 4096), 0},
		{"touch elsewhere", off, native(unix.SYS_UTIMENSAT), 0},
		{"truncate", truncate, native(unix.SYS_TRUNCATE), unix.EPERM},
		{"truncate by reading", truncate, native(unix.SYS_OPENAT, 0, 4096, unix.O_RDONLY|unix.O_TRUNC), unix.EPERM},
		{"truncate by writing", truncate, native(unix.SYS_OPENAT, 0, 4096, unix.O_WRONLY|unix.O_TRUNC), 0},
		{"truncate elsewhere", off, native(unix.SYS_TRUNCATE), 0},
	} {
		want := uint32(unix.SECCOMP_RET_ALLOW)
		if test.want != 0 {
			want = unix.SECCOMP_RET_ERRNO | uint32(test.want)
		}
		if got := machine(t, Filter(test.kind))(test.call); got != want {
			t.Errorf("%s: %#x instead of %#x", test.name, got, want)
		}
	}
}
