//go:build linux

package attack

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

const ownAttributes = "Landlock has no right for mode, times and attributes, and a filter cannot tell the files outside the roots from those inside"

// attributes are attempts to change the metadata of a file outside, not its content. Landlock does not control that.
func attributes() []attack {
	at := func(p places) string { return outFile(p) }
	mode := func(s *scene) bool { info, _ := os.Stat(s.Out + "/file"); return info.Mode().Perm() != 0o644 }
	times := func(s *scene) bool { info, _ := os.Stat(s.Out + "/file"); return info.ModTime().Unix() == 1 }
	owner := func(s *scene) bool {
		var stat unix.Stat_t
		must(s, unix.Stat(s.Out+"/file", &stat))
		return stat.Uid == 4711 || stat.Gid == 4711
	}
	extended := func(s *scene) bool {
		n, err := unix.Getxattr(s.Out+"/file", "user.owned", make([]byte, 8))
		return err == nil && n > 0
	}
	list := []attack{
		{name: "attribute: chmod", act: func(p places) error { return unix.Chmod(at(p), 0o600) }, won: mode},
		{name: "attribute: fchmod", act: func(p places) error {
			return withReadOnly(p, func(fd int) error { return unix.Fchmod(fd, 0o600) })
		}, won: mode},
		{name: "attribute: fchmodat", act: func(p places) error { return unix.Fchmodat(unix.AT_FDCWD, at(p), 0o600, 0) }, won: mode},
		{name: "attribute: fchmodat2", act: func(p places) error { return fchmodat2(at(p), 0o600) }, won: mode},
		{name: "attribute: times", act: func(p places) error { return unix.Utimes(at(p), []unix.Timeval{{Sec: 1}, {Sec: 1}}) }, won: times},
		{name: "attribute: times of a descriptor", act: func(p places) error {
			return withReadOnly(p, func(fd int) error { return unix.Futimes(fd, []unix.Timeval{{Sec: 1}, {Sec: 1}}) })
		}, won: times},
		{name: "attribute: times without following", act: func(p places) error {
			return unix.UtimesNanoAt(unix.AT_FDCWD, at(p), []unix.Timespec{{Sec: 1}, {Sec: 1}}, unix.AT_SYMLINK_NOFOLLOW)
		}, won: times},
		{name: "attribute: chown", who: onlyRoot, act: func(p places) error { return unix.Chown(at(p), 4711, 4711) }, won: owner},
		{name: "attribute: lchown", who: onlyRoot, act: func(p places) error { return unix.Lchown(at(p), 4711, 4711) }, won: owner},
		{name: "attribute: fchown", who: onlyRoot, act: func(p places) error {
			return withReadOnly(p, func(fd int) error { return unix.Fchown(fd, 4711, 4711) })
		}, won: owner},
		{name: "attribute: extended", act: func(p places) error { return unix.Setxattr(at(p), "user.owned", []byte("x"), 0) }, won: extended},
		{name: "attribute: extended, of a descriptor", act: func(p places) error {
			return withReadOnly(p, func(fd int) error { return unix.Fsetxattr(fd, "user.owned", []byte("x"), 0) })
		}, won: extended},
		{name: "attribute: flags", act: func(p places) error {
			return withReadOnly(p, func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, notDumped) })
		}, won: flagged},
	}
	for i := range list {
		if list[i].who != onlyRoot && list[i].name != "attribute: flags" { // only a privileged process changes an owner, and flags have a rule of their own
			list[i].except = ownAttributes
		}
		// Under a policy without writable files, the filter for system calls stops all attacks.
		closed := list[i]
		closed.except, closed.name = "", "read-only, outside: "+closed.name
		closed.policy = func(p *messages.SandboxPolicy) { *p = messages.SandboxPolicy{Type: messages.SandboxReadOnly} }
		list = append(list, closed)
	}
	return list
}

// notDumped is a harmless flag of a file.
const notDumped = 0x40

func flagged(s *scene) bool {
	f, err := os.Open(s.Out + "/file")
	must(s, err)
	defer f.Close()
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	return err == nil && flags&notDumped != 0
}
