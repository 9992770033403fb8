//go:build linux

package attack

import (
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// let reports whether a call got past the kernel's check for rights. Any error but these comes after that check.
func let(err error) error {
	switch err {
	case nil, unix.EINVAL, unix.EFAULT, unix.ENOENT, unix.EBADF, unix.ESRCH, unix.EEXIST, unix.E2BIG, unix.ENOKEY, unix.EOPNOTSUPP, unix.EBUSY:
		return nil
	}
	return err
}

func call(number uintptr, args ...uintptr) error {
	var all [6]uintptr
	copy(all[:], args)
	return asError(unix.RawSyscall6(number, all[0], all[1], all[2], all[3], all[4], all[5]))
}

// kernelDoors are system calls and files that lead deep into the kernel.
func kernelDoors() []attack {
	zero := make([]byte, 256)
	address := uintptr(unsafe.Pointer(&zero[0]))
	acts := map[string]func(places) error{
		"session keyring": func(places) error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true); return err },
		"add a key": func(places) error {
			_, err := unix.AddKey("user", "execbus-attack", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
			return err
		},
		"request a key": func(places) error { _, err := unix.RequestKey("user", "execbus-attack", "", 0); return let(err) },
		"io_uring":      func(places) error { return let(call(unix.SYS_IO_URING_SETUP, 4, address)) },
		"io_uring register": func(places) error {
			return let(call(unix.SYS_IO_URING_REGISTER, ^uintptr(0), 0, 0, 0))
		},
		"bpf map":          func(places) error { return bpf(0, []uint32{2, 4, 4, 1}) },
		"bpf program":      func(places) error { return bpf(5, []uint32{1, 1}) },
		"perf":             func(places) error { return perf() },
		"userfaultfd":      func(places) error { return call(unix.SYS_USERFAULTFD, 1) },
		"ptrace itself":    func(places) error { return call(unix.SYS_PTRACE, 0) },
		"kexec":            func(places) error { return let(call(unix.SYS_KEXEC_LOAD, 0, 1<<40, 0, 0)) },
		"module":           func(places) error { return let(call(unix.SYS_INIT_MODULE, address, 0, address)) },
		"module by file":   func(places) error { return let(call(unix.SYS_FINIT_MODULE, ^uintptr(0), address, 0)) },
		"remove a module":  func(places) error { return let(call(unix.SYS_DELETE_MODULE, address, 0x800)) },
		"reboot":           func(places) error { return let(call(unix.SYS_REBOOT, 0, 0, 0)) }, // without the magic numbers it does nothing
		"swap on":          func(places) error { return let(unixSwapon()) },
		"kernel log":       func(places) error { return let(call(unix.SYS_SYSLOG, 10, 0, 0)) },
		"quota":            func(places) error { return let(call(unix.SYS_QUOTACTL, 0x80000100, 0, 0, 0)) },
		"set the clock":    func(places) error { return let(call(unix.SYS_CLOCK_SETTIME, 0, 0)) },
		"set the time":     func(places) error { return let(call(unix.SYS_SETTIMEOFDAY, 1, 0)) },
		"adjust the clock": func(places) error { return adjust() },
		"host name":        func(places) error { return let(call(unix.SYS_SETHOSTNAME, 1, 3)) },
		"domain name":      func(places) error { return let(call(unix.SYS_SETDOMAINNAME, 1, 3)) },
		"hang up":          func(places) error { return call(unix.SYS_VHANGUP) },
		"watch everything": func(places) error { _, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT, unix.O_RDONLY); return err },
		"open by handle":   func(places) error { return let(call(unix.SYS_OPEN_BY_HANDLE_AT, ^uintptr(0), address, 0)) },
		"forge a mark": func(places) error {
			return unix.Setrlimit(unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: 1 << 40, Max: 1 << 40})
		},
		"forge a mark by prlimit": func(places) error {
			return unix.Prlimit(0, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: 1 << 40, Max: 1 << 40}, nil)
		},
		"gain a capability": func(places) error {
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			data := [2]unix.CapUserData{{Effective: 1 << unix.CAP_SYS_ADMIN, Permitted: 1 << unix.CAP_SYS_ADMIN}}
			return unix.Capset(&header, &data[0])
		},
		"have capabilities": func(places) error { return status("CapEff:", "0000000000000000") },
		"have some to gain": func(places) error { return status("CapBnd:", "0000000000000000") },
		"gain rights by execution": func(places) error {
			if v, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || v == 1 {
				return fmt.Errorf("no_new_privs is %d, %v", v, err)
			}
			return nil
		},
		"be without a filter":  func(places) error { return status("Seccomp:", "2") },
		"a 32-bit system call": func(places) error { return legacyCall() },
		"an x32 system call":   func(places) error { return call(0x40000000|39, 0) },
		"keep a descriptor":    keptDescriptors,
	}
	for name, flag := range map[string]int{"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID,
		"network": unix.CLONE_NEWNET, "ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP} {
		acts["unshare "+name] = func(places) error { return unix.Unshare(flag) }
		acts["clone user and "+name] = func(places) error { return cloned(uintptr(flag | unix.CLONE_NEWUSER)) }
		acts["clone "+name] = func(places) error { return cloned(uintptr(flag)) }
		acts["clone3 "+name] = func(places) error {
			args := [11]uint64{0: uint64(flag), 4: uint64(unix.SIGCHLD)}
			return waited(born(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args)))
		}
		acts["enter pid 1's "+name] = func(places) error {
			file := map[string]string{"mount": "mnt", "network": "net"}[name]
			if file == "" {
				file = name
			}
			fd, err := unix.Open("/proc/1/ns/"+file, unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			return unix.Setns(fd, 0)
		}
	}
	var list []attack
	for name, act := range acts {
		a := attack{name: "kernel: " + name, act: act}
		switch name {
		case "have some to gain": // emptying the set takes rights; for ordinary users no_new_privs makes the set useless
			a.who = onlyRoot
		case "hang up", "watch everything", "kernel log", "adjust the clock":
			a.unsafe = true
		}
		list = append(list, a)
	}
	return append(list, sharedMemory()...)
}

func bpf(command uintptr, attributes []uint32) error {
	buffer := make([]uint32, 36)
	copy(buffer, attributes)
	return let(call(unix.SYS_BPF, command, uintptr(unsafe.Pointer(&buffer[0])), 144))
}

func perf() error {
	attributes := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK}
	attributes.Size = uint32(unsafe.Sizeof(attributes))
	_, err := unix.PerfEventOpen(&attributes, 0, -1, -1, 0)
	return err
}

func adjust() error {
	change := unix.Timex{Modes: 0x8000} // this mode does not exist, but the kernel checks the rights first
	_, err := unix.Adjtimex(&change)
	return let(err)
}

func unixSwapon() error {
	name, _ := unix.BytePtrFromString("/nowhere")
	return call(unix.SYS_SWAPON, uintptr(unsafe.Pointer(name)), 0)
}

// status wins if a line of this process's status has another value than it should.
func status(key, want string) error {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if value, found := strings.CutPrefix(line, key); found {
			if value = strings.TrimSpace(value); value == want {
				return fmt.Errorf("%s %s", key, value)
			}
			return nil
		}
	}
	return fmt.Errorf("there is no %s", key)
}

// keptDescriptors wins if there are other descriptors than the first three. Those that Go's runtime opens do not count.
func keptDescriptors(places) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		var fd int
		if _, err := fmt.Sscan(entry.Name(), &fd); err != nil || fd <= 2 {
			continue
		}
		target, err := os.Readlink("/proc/self/fd/" + entry.Name())
		if err != nil || strings.HasPrefix(target, "anon_inode:[event") || strings.HasPrefix(target, "/proc/") || strings.HasPrefix(target, "/sys/") {
			continue
		}
		fmt.Println("kept", target)
		return nil
	}
	return errHeld
}

// cloned makes a child in a new namespace, which ends at once.
func cloned(flags uintptr) error {
	return waited(born(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0))
}

// born makes a child, which ends at once. Only one thread comes along, so the child must not reach Go's scheduler: it calls nothing
// that could be preempted.
//
//go:nosplit
//go:norace
//go:uintptrescapes
func born(call, first, second uintptr) (pid uintptr, errno unix.Errno) {
	pid, _, errno = unix.RawSyscall6(call, first, second, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		for {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	return pid, errno
}

func waited(pid uintptr, errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	_, err := unix.Wait4(int(pid), nil, 0, nil)
	return err
}

// sharedMemory are attempts on shared objects that no file system names.
func sharedMemory() []attack {
	return []attack{
		{name: "shared: a segment of somebody else", setup: func(s *scene) {
			id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
			must(s, err)
			s.Shared = id
			s.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
		}, act: func(p places) error { _, err := unix.SysvShmAttach(p.Shared, 0, 0); return err }},
		{name: "shared: a file of everybody", act: func(p places) error {
			return os.WriteFile("/dev/shm/"+p.name(), nil, 0o644)
		}, won: func(s *scene) bool { return os.Remove("/dev/shm/"+s.name()) == nil }},
		{name: "shared: a queue of everybody", act: func(p places) error {
			name, _ := unix.BytePtrFromString(p.name())
			return call(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_RDWR, 0o600, 0)
		}, won: func(s *scene) bool {
			name, _ := unix.BytePtrFromString(s.name())
			return call(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name))) == nil
		}},
	}
}
