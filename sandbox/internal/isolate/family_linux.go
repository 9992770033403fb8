package isolate

import (
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/confine"
)

// Launch is what an isolated command is started with. Descriptors are those of this process.
type Launch struct {
	Plan  *confine.Plan
	Files []int // the command's, from 0 on; -1 is closed
	// Report is the end of a pipe for birth.Records.
	Report   int
	Terminal string   // the path of its controlling terminal, which is descriptor 0; empty for none
	Network  *Network // where it may not use the host's; nil where it may
	Dir      string
	Program  string // empty for a command that ends at once
	Argv     []string
	Env      []string
	Limits   []birth.Step
	Filter   []unix.SockFilter
	Landlock Landlock
}

// Landlock is the second fence around files, which are rules like those of the mounts. The zero value is none.
type Landlock struct {
	Ruleset []uint64 // landlock_ruleset_attr, as long as the kernel knows it
	// The rights of directories that can be read, of those that can be written, and of a directory of devices.
	Read, Write, Devices uint64
}

// Family is the launch as a list of steps. All but the sockets and the devices of this machine are looked at by the kernel alone.
func Family(l Launch) birth.Family {
	f := birth.Family{Report: max(len(l.Files), 3), Namespaces: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS}
	if l.Network != nil {
		f.Join = l.Network.join()
	}
	s := &space{plan: l.Plan}
	s.descriptors(l.Files, l.Report, f.Report)
	s.identity()
	s.add(birth.DeathSignal(syscall.SIGKILL)[0],
		// A parent that has died in the meantime does not read any more.
		birth.Call("reach the parent", unix.SYS_WRITE, birth.Number(f.Report), birth.Words(0, 0), birth.Number(16)))
	s.build(l.Terminal)
	var domain []birth.Step
	if l.Landlock.Ruleset != nil {
		domain = []birth.Step{birth.Call("landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, s.rules(l.Landlock).Word(0), birth.Number(0))}
	}
	s.add(birth.Prctl("become undumpable", unix.PR_SET_DUMPABLE, 0))
	f.First = s.steps

	f.Command = []birth.Step{birth.Setsid()}
	if l.Terminal != "" {
		f.Command = append(f.Command, birth.ControllingTTY(0))
	}
	if l.Dir != "" {
		f.Command = append(f.Command, birth.Chdir(l.Dir))
	}
	f.Command = slices.Concat(f.Command, l.Limits, birth.DropBounding(0), birth.SetCapabilities(birth.Capabilities{}),
		[]birth.Step{birth.NoNewPrivs()}, domain)
	if l.Filter != nil {
		f.Command = append(f.Command, birth.Seccomp(l.Filter))
	}
	if l.Program == "" {
		f.Command = append(f.Command, birth.System("exit", unix.SYS_EXIT_GROUP, 0))
		return f
	}
	f.Command = append(f.Command, birth.Execve(l.Program, l.Argv, l.Env))
	return f
}

// descriptors keeps the command's and the report, and closes all others: a birth that hangs must not hold open what others wait
// for the end of.
func (b *builder) descriptors(files []int, report, at int) {
	all := slices.Clone(files)
	for len(all) < at {
		all = append(all, -1)
	}
	b.add(birth.Files(append(all, report))...)
	b.add(birth.System("keep the report", unix.SYS_FCNTL, uintptr(at), unix.F_SETFD, unix.FD_CLOEXEC))
}

// identity gives the process in its user namespace the user and the group that it has outside, and no others.
func (b *builder) identity() {
	b.add(birth.Prctl("become dumpable", unix.PR_SET_DUMPABLE, 1)) // to its user belong files of what is dumpable only
	uid, gid := strconv.Itoa(os.Geteuid()), strconv.Itoa(os.Getegid())
	for _, file := range []struct{ name, text string }{
		{"setgroups", "deny"}, {"uid_map", uid + " " + uid + " 1\n"}, {"gid_map", gid + " " + gid + " 1\n"},
	} {
		fd := birth.NewMemory(0)
		b.add(birth.Call("open "+file.name, unix.SYS_OPENAT, here(), birth.Text("/proc/self/"+file.name),
			birth.Number(unix.O_WRONLY|unix.O_CLOEXEC)).Keep(fd, 0),
			birth.Call("write "+file.name, unix.SYS_WRITE, fd.Word(0), birth.Text(file.text), birth.Number(len(file.text))),
			birth.Call("close "+file.name, unix.SYS_CLOSE, fd.Word(0)))
	}
}

// rules makes a Landlock rule set that says what the mounts say.
func (s *space) rules(l Landlock) (ruleset *birth.Memory) {
	ruleset = birth.NewMemory(0)
	s.add(birth.Call("landlock rule set", unix.SYS_LANDLOCK_CREATE_RULESET, birth.Words(l.Ruleset...),
		birth.Number(8*len(l.Ruleset)), birth.Number(0)).Keep(ruleset, 0))
	below := func(what string, rights uint64, path string) {
		rule := birth.NewMemory(rights, 0) // landlock_path_beneath_attr, whose end the kernel does not read
		s.add(birth.Call(what, unix.SYS_OPENAT, here(), birth.Text(path), birth.Number(unix.O_PATH|unix.O_CLOEXEC)).Keep(rule, 1),
			birth.Call(what, unix.SYS_LANDLOCK_ADD_RULE, ruleset.Word(0), birth.Number(unix.LANDLOCK_RULE_PATH_BENEATH), rule.At(0), birth.Number(0)))
	}
	below("landlock: read", l.Read, "/")
	below("landlock: devices", l.Devices, "/dev")
	below("landlock: shared memory", l.Write, "/dev/shm")
	for _, place := range s.plan.Places {
		if place.Access == confine.Write {
			rights := l.Write
			if !place.Directory {
				rights &= forFiles
			}
			below("landlock: "+place.Path, rights, place.Path)
		}
	}
	return ruleset
}

// forFiles are the rights that a rule about a file may give.
const forFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
	unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

// Reports makes the pipe of a launch: the end that is read here, and the descriptor for Launch.Report, which is to be closed when
// the birth has begun.
func Reports() (reports *os.File, report int, err error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, err
	}
	_ = unix.SetNonblock(pipe[0], true) // so that waiting for it takes no thread
	return os.NewFile(uintptr(pipe[0]), "reports"), pipe[1], nil
}
