//go:build linux

package hosts_test

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// masked hides the parts of /proc and /sys that container runtimes hide, and makes those read-only that they make so.
func masked() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return err
	}
	for _, file := range []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/interrupts"} {
		if err := unix.Mount("/dev/null", file, "", unix.MS_BIND, ""); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	for _, dir := range []string{"/proc/acpi", "/proc/scsi", "/sys/firmware"} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, ""); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	for _, path := range []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", "/sys", "/sys/fs/cgroup"} {
		err := unix.Mount(path, path, "", unix.MS_BIND, "")
		if err == nil {
			err = unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
		}
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}

// bounded leaves the capabilities that container runtimes leave by default.
func bounded() error {
	kept := uint64(1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FSETID | 1<<unix.CAP_FOWNER | 1<<unix.CAP_MKNOD | 1<<unix.CAP_NET_RAW |
		1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETFCAP | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_NET_BIND_SERVICE |
		1<<unix.CAP_SYS_CHROOT | 1<<unix.CAP_KILL | 1<<unix.CAP_AUDIT_WRITE)
	for capability := range uintptr(unix.CAP_LAST_CAP + 1) {
		if kept&(1<<capability) != 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: this kernel does not know it
			return err
		}
	}
	return nil
}

// become makes an ordinary user of this thread.
func become(id uintptr) error {
	for _, call := range [][4]uintptr{{unix.SYS_SETGROUPS}, {unix.SYS_SETRESGID, id, id, id}, {unix.SYS_SETRESUID, id, id, id}} {
		if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
			return errno
		}
	}
	return nil
}

// noNamespaces lets nobody make a user namespace. It runs in one of its own, whose bound it may set.
func noNamespaces() error {
	err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	return errors.Join(err, unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
}

// noMounts is what AppArmor's profiles for containers, and Ubuntu's for user namespaces of ordinary users, do to mounts.
func noMounts() error {
	return filter(true, refusal{unix.SYS_MOUNT, unix.EACCES}, refusal{unix.SYS_MOVE_MOUNT, unix.EACCES})
}

// refusal is a system call with the error that it gets.
type refusal struct {
	call  uint32
	errno unix.Errno
}

// containerFilter refuses what Docker's default profile refuses to a container without CAP_SYS_ADMIN, as far as sandboxes use it.
func containerFilter() error {
	var all []refusal
	for _, call := range []uint32{unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_FSOPEN, unix.SYS_FSCONFIG,
		unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP} {
		all = append(all, refusal{call, unix.EPERM})
	}
	return filter(false, append(all, refusal{unix.SYS_CLONE3, unix.ENOSYS})...)
}

// filter installs a filter that refuses calls. Without namespaces it also refuses clones with new namespaces.
func filter(namespaces bool, all ...refusal) error {
	var program []unix.SockFilter
	load := func(offset uint32) {
		program = append(program, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset})
	}
	give := func(action uint32) {
		program = append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action})
	}
	load(0) // the number of the call
	for _, r := range all {
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: r.call, Jf: 1})
		give(unix.SECCOMP_RET_ERRNO | uint32(r.errno))
	}
	if !namespaces {
		const flags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLONE, Jf: 3})
		load(16) // its first argument
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: flags, Jf: 1})
		give(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	}
	give(unix.SECCOMP_RET_ALLOW)
	if os.Geteuid() != 0 {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	compiled := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&compiled))); errno != 0 {
		return errno
	}
	return nil
}
