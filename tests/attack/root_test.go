//go:build linux

package attack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// rootDoors are attempts on files and rights that matter for a host that runs as root.
func rootDoors() []attack {
	var list []attack
	for _, path := range []string{"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/overcommit_memory",
		"/proc/sys/kernel/modprobe", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled",
		"/proc/sys/fs/binfmt_misc/register", "/proc/sys/kernel/sysrq", "/proc/irq/default_smp_affinity", "/sys/power/state", "/proc/timer_list"} {
		list = append(list, attack{name: "root: open for writing " + path, who: onlyRoot, act: func(places) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_ = f.Close()
			}
			return err
		}})
	}
	for name, device := range map[string]uint64{"memory": unix.Mkdev(1, 1), "ports": unix.Mkdev(1, 4), "kernel messages": unix.Mkdev(1, 11),
		"disk": unix.Mkdev(254, 0), "loop": unix.Mkdev(7, 0), "fuse": unix.Mkdev(10, 229), "tun": unix.Mkdev(10, 200)} {
		kind := uint32(unix.S_IFCHR)
		if name == "disk" || name == "loop" {
			kind = unix.S_IFBLK
		}
		list = append(list, attack{name: "root: make a device, " + name, who: onlyRoot, act: func(p places) error {
			return unix.Mknod(p.Work+"/device", kind|0o600, int(device))
		}, won: func(s *scene) bool { _, err := os.Lstat(s.Work + "/device"); return err == nil }})
	}
	for _, pattern := range []string{"/dev/mem", "/dev/port", "/dev/kmsg", "/dev/loop-control", "/dev/fuse", "/dev/net/tun", "/dev/kvm", "/dev/vd?", "/dev/sd?"} {
		list = append(list, attack{name: "root: open a device for writing, " + pattern, who: onlyRoot, act: func(places) error {
			found, _ := filepath.Glob(pattern)
			if len(found) == 0 {
				return fmt.Errorf("there is no %s", pattern)
			}
			f, err := os.OpenFile(found[0], os.O_WRONLY, 0)
			if err == nil {
				_ = f.Close()
			}
			return err
		}})
	}
	list = append(list,
		attack{name: "root: leave a set-uid program", who: onlyRoot, act: func(p places) error {
			if err := os.WriteFile(p.Work+"/su", []byte("#!/bin/sh\n"), 0o755); err != nil {
				return err
			}
			return unix.Chmod(p.Work+"/su", unix.S_ISUID|0o755)
		}, won: setUID("su")},
		attack{name: "root: make a set-uid program", who: onlyRoot, act: func(p places) error {
			unix.Umask(0)
			_, err := unix.Open(p.Work+"/su", unix.O_CREAT|unix.O_WRONLY, unix.S_ISUID|unix.S_ISGID|0o755)
			return err
		}, won: setUID("su")},
		attack{name: "root: make a set-gid program by mknod", who: onlyRoot, act: func(p places) error {
			unix.Umask(0)
			return unix.Mknod(p.Work+"/su", unix.S_IFREG|unix.S_ISGID|unix.S_ISUID|0o755, 0)
		}, won: setUID("su")},
		attack{name: "root: capabilities for a file", who: onlyRoot, act: func(p places) error {
			data := []byte{0, 0, 0, 2, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
			return unix.Setxattr(p.Work+"/file", "security.capability", data, 0)
		}, won: func(s *scene) bool {
			n, err := unix.Getxattr(s.Work+"/file", "security.capability", make([]byte, 64))
			return err == nil && n > 0
		}},
		attack{name: "root: become another user", who: onlyRoot, act: func(places) error {
			return call(unix.SYS_SETRESUID, 65534, 65534, 65534)
		}},
		attack{name: "root: join a group", who: onlyRoot, act: func(places) error {
			return unix.Setgroups([]int{4711})
		}},
		attack{name: "root: a control group", who: onlyRoot, act: func(p places) error {
			dir := controlGroups()
			if dir == "" {
				return fmt.Errorf("there are no control groups")
			}
			err := os.Mkdir(dir+"/"+p.name(), 0o755)
			return err
		}, won: func(s *scene) bool { dir := controlGroups(); return dir != "" && os.Remove(dir+"/"+s.name()) == nil }},
		attack{name: "root: leave the control group", who: onlyRoot, unsafe: true, act: func(places) error {
			return os.WriteFile(controlGroups()+"/cgroup.procs", []byte("0"), 0)
		}},
		attack{name: "user: become root by a set-uid program", who: onlyUser, act: func(places) error {
			for _, program := range []string{"/usr/bin/su", "/bin/su", "/usr/bin/mount", "/usr/bin/passwd"} {
				if info, err := os.Stat(program); err != nil || info.Mode()&os.ModeSetuid == 0 {
					continue
				}
				text, err := exec.Command(program, "--version").CombinedOutput()
				if err != nil {
					return fmt.Errorf("%s: %s", program, text)
				}
				if v, _ := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); v == 1 {
					return errHeld // it ran, but without its rights
				}
				return nil
			}
			return fmt.Errorf("there is no set-uid program")
		}},
	)
	return list
}

func setUID(name string) func(*scene) bool {
	return func(s *scene) bool {
		info, err := os.Stat(s.Work + "/" + name)
		return err == nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0
	}
}

// controlGroups returns a directory in which control groups can be made; empty if there is none.
func controlGroups() string {
	text, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.SplitSeq(string(text), "\n") {
		if fields := strings.Fields(line); len(fields) > 2 && (fields[2] == "cgroup2" || fields[2] == "cgroup" && strings.Contains(fields[3], "pids")) {
			return fields[1]
		}
	}
	return ""
}
