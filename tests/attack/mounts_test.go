//go:build linux

package attack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// mounts are attempts to change the mounted file systems. All run in namespaces of their own, so they are safe to try anywhere.
func mounts() []attack {
	acts := map[string]func(places) error{
		"tmpfs over a directory outside": func(p places) error { return unix.Mount("t", p.Out, "tmpfs", 0, "") },
		"tmpfs inside":                   func(p places) error { return unix.Mount("t", p.Work+"/dir", "tmpfs", 0, "") },
		"the root bound to the outside": func(p places) error {
			return unix.Mount(p.Work, p.Out, "", unix.MS_BIND, "")
		},
		"the outside bound to the root": func(p places) error { return unix.Mount(p.Out, p.Work+"/dir", "", unix.MS_BIND, "") },
		"everything bound to the root":  func(p places) error { return unix.Mount("/", p.Work+"/dir", "", unix.MS_BIND|unix.MS_REC, "") },
		"read-only taken back": func(places) error {
			return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "")
		},
		"propagation": func(places) error { return unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, "") },
		"proc":        func(p places) error { return unix.Mount("proc", p.Work+"/dir", "proc", 0, "") },
		"unmount":     func(places) error { return unix.Unmount("/proc", unix.MNT_DETACH) },
		"overlay": func(p places) error {
			for _, dir := range []string{"/upper", "/scratch"} {
				if err := os.Mkdir(p.Work+dir, 0o755); err != nil {
					return err
				}
			}
			return unix.Mount("o", p.Work+"/dir", "overlay", 0, "lowerdir="+p.Out+",upperdir="+p.Work+"/upper,workdir="+p.Work+"/scratch")
		},
		"a new file system": func(places) error { _, err := unix.Fsopen("tmpfs", 0); return err },
		"a copy of a mount": func(p places) error {
			_, err := unix.OpenTree(unix.AT_FDCWD, p.Out, unix.OPEN_TREE_CLONE)
			return err
		},
		"a moved mount": func(p places) error {
			tree, err := unix.OpenTree(unix.AT_FDCWD, p.Work, unix.OPEN_TREE_CLONE)
			if err != nil {
				return err
			}
			return unix.MoveMount(tree, "", unix.AT_FDCWD, p.Work+"/dir", unix.MOVE_MOUNT_F_EMPTY_PATH)
		},
		"an attribute": func(places) error {
			return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
		},
		"another root":            func(p places) error { return unix.Chroot(p.Work) },
		"a root and its old one":  func(p places) error { return unix.PivotRoot(p.Work, p.Work+"/dir") },
		"a file system by handle": func(places) error { _, err := unix.Fspick(unix.AT_FDCWD, "/", 0); return err },
	}
	var list []attack
	for name, act := range acts {
		list = append(list,
			attack{name: "mount: " + name, unsafe: true, act: act},
			attack{name: "mount, in a namespace: " + name, act: func(p places) error {
				if !p.Inner {
					return again("mount, in a namespace: "+name, p)
				}
				return act(p)
			}})
	}
	return list
}

// again makes the attempt in a process that has namespaces of its own, and all rights in them.
func again(name string, p places) error {
	p.Inner = true
	where, err := json.Marshal(p)
	if err != nil {
		return err
	}
	inner := func(flags uintptr) ([]byte, error) {
		cmd := exec.Command("/proc/self/exe", roleAct, name, string(where))
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		if flags&unix.CLONE_NEWUSER != 0 {
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
		}
		return cmd.Output()
	}
	said, err := inner(unix.CLONE_NEWNS | unix.CLONE_NEWUSER)
	if err != nil && os.Geteuid() == 0 {
		if text, err := inner(unix.CLONE_NEWNS); err == nil {
			said = text
		}
	}
	if bytes.HasPrefix(said, []byte("WON")) {
		return nil
	}
	return fmt.Errorf("%w %s", err, said)
}
