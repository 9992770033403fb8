package isolate

import (
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/executions"
	"github.com/execbus/execbus/sandbox/internal/seccomp"
)

// Launch describes the start of an isolated command. Descriptors are those of this process.
type Launch struct {
	Plan  *confine.Plan
	Files []int // the command's, from 0 on; -1 is closed
	// Groups are the cgroup.procs files of the control groups that all processes of the launch join.
	Groups []int
	// Report is the end of a pipe for birth.Records.
	Report   int
	TTY      bool     // descriptor 0 becomes the controlling terminal
	Terminal string   // its path; empty if it has none
	Network  *Network // nil if the command may use the host's
	Dir      string
	OwnProc  bool   // fail where the kernel refuses a /proc of its own
	Program  string // empty for a command that ends at once
	Argv     []string
	Env      []string
	Limits   []birth.Step
	// Tasks bounds the processes and threads of the namespace; zero is no bound. The kernel lets there be this number and one to
	// 300 more, and refuses further ones. See ProbeTasks.
	Tasks  int
	Filter []unix.SockFilter
	// Executions, if not nil, has the executions of the command and its descendants reported.
	Executions *executions.Filter
}

// KindOf returns the kind of filter for a plan.
func KindOf(p *confine.Plan) seccomp.Kind {
	k := seccomp.Kind{Network: seccomp.Private, Unix: len(p.Sockets) > 0}
	if p.Network {
		k.Network = seccomp.On
	}
	return k
}

// Namespaced returns the launch as a list of steps. It looks only at the sockets and the devices of this machine itself; the kernel
// checks everything else.
func Namespaced(l Launch) birth.Namespaced {
	f := birth.Namespaced{Report: max(len(l.Files), 3), Namespaces: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS}
	for _, group := range l.Groups {
		f.Join = append(f.Join, birth.Join(group))
	}
	if l.Network != nil {
		f.Join = append(f.Join, l.Network.join()...)
	}
	if l.Executions != nil { // the process that joins shares our descriptors, and process 1 does not
		f.Join, f.Opened = append(f.Join, l.Executions.Steps...), l.Executions.Kept
	}
	s := &space{plan: l.Plan, ownProc: l.OwnProc || l.Tasks > 0, tasks: l.Tasks}
	s.descriptors(l.Files, l.Report, f.Report)
	s.identity()
	s.add(birth.DeathSignal(syscall.SIGKILL)[0],
		// A parent that has died in the meantime no longer reads, so the write fails.
		birth.Call("reach the parent", unix.SYS_WRITE, birth.Number(f.Report), birth.Words(0, 0), birth.Number(16)))
	s.build(l.Terminal)
	var domain []birth.Step
	if abi := confine.Kernel().ABI; abi > 0 {
		domain = []birth.Step{birth.Call("landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, s.rules(abi).Word(0), birth.Number(0))}
	}
	s.add(birth.Prctl("become undumpable", unix.PR_SET_DUMPABLE, 0))
	f.First = s.steps

	f.Command = []birth.Step{birth.Setsid()}
	if l.TTY {
		f.Command = append(f.Command, birth.ControllingTTY(0))
	}
	if l.Dir != "" {
		f.Command = append(f.Command, birth.Chdir(l.Dir))
	}
	f.Command = slices.Concat(f.Command, l.Limits, birth.DropBounding(0),
		[]birth.Step{birth.SetCapabilities(birth.Capabilities{}), birth.NoNewPrivs()}, domain)
	if l.Filter != nil {
		f.Command = append(f.Command, birth.Seccomp(l.Filter))
	}
	if l.Program == "" {
		f.Command = append(f.Command, birth.System("exit", unix.SYS_EXIT_GROUP, 0))
		return f
	}
	execute := birth.Execve(l.Program, l.Argv, l.Env)
	if l.Executions != nil {
		execute = execute.Showing(l.Executions.Secret)
	}
	f.Command = append(f.Command, execute)
	return f
}

// descriptors keeps the command's descriptors and the report, and closes all others: a birth that hangs must not hold open a
// pipe or a terminal whose end somebody waits for.
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
	b.add(birth.Prctl("become dumpable", unix.PR_SET_DUMPABLE, 1)) // only then do its files in /proc belong to its user
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

// Reports makes the pipe of a launch: the end to read, and the descriptor for Launch.Report. The caller closes the latter when
// the birth has begun.
func Reports() (reports *os.File, report int, err error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, err
	}
	_ = unix.SetNonblock(pipe[0], true) // so that waiting for it takes no thread
	return os.NewFile(uintptr(pipe[0]), "reports"), pipe[1], nil
}
