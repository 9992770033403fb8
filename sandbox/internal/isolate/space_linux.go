package isolate

import (
	"cmp"
	"os"
	"path"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/confine"
)

// devices are the nodes that a command gets. They are clones of ours: a user namespace cannot make device nodes.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// kernelFiles reveal the whole machine. Those that exist are covered.
var kernelFiles = []string{"/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/kmsg", "/proc/timer_list", "/proc/latency_stats", "/proc/sched_debug",
	"/proc/sysrq-trigger", "/proc/acpi", "/proc/scsi", "/proc/asound", "/sys/firmware", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/fs/bpf"}

// space is the view of the file system while it is made.
type space struct {
	builder
	plan     *confine.Plan
	taken    map[string]*birth.Memory // clones, by path
	blank    *birth.Memory            // a file system with the sources of covers
	dev, shm *birth.Memory
	proc     *birth.Memory
	ownProc  bool // only that
	tasks    int  // zero is no bound
	fastened map[string]bool
}

func here() birth.Operand { return birth.Number(unix.AT_FDCWD) }

// build makes all mounts. The terminal is the path of the command's, or empty.
func (s *space) build(terminal string) {
	nodes := map[string]*birth.Memory{}
	for _, name := range devices {
		nodes[name] = s.clone("find /dev/"+name, here(), "/dev/"+name)
	}
	if terminal != "" {
		nodes["console"] = s.clone("find the terminal", here(), terminal)
	}
	s.take()
	s.proc = s.newProc()
	attributes := uint64(readOnly | harmless)
	if s.taken["/"] != nil {
		attributes = harmless
	}
	s.set("make the root read-only", here(), "/", attributes, unix.AT_RECURSIVE, unix.MS_PRIVATE)
	s.add(s.proper(attached("mount /proc", s.proc, here(), "/proc")))
	s.blanks()
	s.devices(nodes)
	s.cover(present(kernelFiles))
	s.mountPlan()
}

// take clones the writable paths before everything becomes read-only, and paths inside of what must not be read before that is
// covered. A path that is mounted read-only stays so.
func (s *space) take() {
	s.taken = map[string]*birth.Memory{}
	for _, rule := range s.plan.Rules {
		what, attributes := "writable "+rule.Path, uint64(harmless)
		if rule.Access == confine.Read && s.plan.Access(path.Dir(rule.Path)) == confine.Nothing {
			what, attributes = "readable "+rule.Path, readOnly|harmless
		} else if rule.Access != confine.Write {
			continue
		}
		if rule.Missing() {
			continue
		}
		tree := s.clone(what, s.open(what, rule.Path).Word(0), "")
		s.check(what, tree, rule)
		s.set(what, tree.Word(0), "", attributes, unix.AT_RECURSIVE, unix.MS_PRIVATE)
		s.taken[rule.Path] = tree
	}
}

// newProc makes /proc of the new pid namespace. If the kernel refuses, the old one stays.
func (s *space) newProc() *birth.Memory {
	from := len(s.steps)
	attributes := readOnly | harmless | unix.MOUNT_ATTR_NOEXEC
	if s.tasks > 0 {
		attributes &^= readOnly
	}
	proc := s.fresh("proc", attributes, "hidepid", "ptraceable") // this hides process 1
	if s.tasks > 0 {
		s.bound(proc)
		s.set("make /proc read-only", proc.Word(0), "", readOnly, 0, 0)
	}
	for i := from; i < len(s.steps); i++ {
		s.steps[i] = s.proper(s.steps[i])
	}
	return proc
}

// firstAgain is the number from which on the kernel gives numbers again when it has given all: there is room for fewer processes than
// pid_max only below it.
const firstAgain = 300

// bound bounds the numbers of processes and threads, so that there are always enough for one more than is allowed: then a look
// finds that there are too many.
func (s *space) bound(proc *birth.Memory) {
	text, fd := strconv.Itoa(firstAgain+s.tasks+1), birth.NewMemory(0)
	s.add(birth.Call("open pid_max", unix.SYS_OPENAT, proc.Word(0), birth.Text("sys/kernel/pid_max"), birth.Number(unix.O_WRONLY|unix.O_CLOEXEC)).Keep(fd, 0),
		birth.Call("write pid_max", unix.SYS_WRITE, fd.Word(0), birth.Text(text), birth.Number(len(text))),
		birth.Call("close pid_max", unix.SYS_CLOSE, fd.Word(0)))
}

// proper returns a step for a new /proc. It may fail unless the command must have its own.
func (s *space) proper(step birth.Step) birth.Step {
	if s.ownProc {
		return step
	}
	return step.MayFail()
}

// Names in the file system of covers.
const (
	blankFile      = "file"      // cannot be read
	blankDirectory = "directory" // cannot be listed
	resolvers      = "resolvers" // names the resolver of the commands' network
)

// blanks makes the file system that covers are cloned from. It has to be mounted for that, so it is mounted where /dev will hide
// it.
func (s *space) blanks() {
	s.blank = s.fresh("tmpfs", harmless|unix.MOUNT_ATTR_NOEXEC, "mode", "755", "size", "4k", "nr_inodes", "8")
	s.file(s.blank, blankFile, 0)
	s.directory(s.blank, blankDirectory, 0)
	if s.byName() {
		text, fd := "nameserver 127.0.0.1\n", birth.NewMemory(0)
		s.add(birth.Call("make "+resolvers, unix.SYS_OPENAT, s.blank.Word(0), birth.Text(resolvers), birth.Number(unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC), birth.Number(0o444)).Keep(fd, 0),
			birth.Call("write "+resolvers, unix.SYS_WRITE, fd.Word(0), birth.Text(text), birth.Number(len(text))),
			birth.Call("close "+resolvers, unix.SYS_CLOSE, fd.Word(0)))
	}
	s.attach("mount covers", s.blank, here(), "/dev")
	s.set("make covers read-only", s.blank.Word(0), "", readOnly, 0, 0)
}

// devices makes /dev.
func (s *space) devices(nodes map[string]*birth.Memory) {
	s.dev = s.fresh("tmpfs", harmless|unix.MOUNT_ATTR_NOEXEC, "mode", "755", "size", "64k")
	s.attach("mount /dev", s.dev, here(), "/dev")
	for _, name := range append(devices, "console") {
		if node := nodes[name]; node != nil {
			s.file(s.dev, name, 0o666)
			s.attach("mount /dev/"+name, node, s.dev.Word(0), name)
		}
	}
	for _, link := range []struct{ name, to string }{{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"},
		{"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"}} {
		s.link(s.dev, link.name, link.to)
	}
	s.directory(s.dev, "pts", 0o755)
	s.directory(s.dev, "shm", 0o755)
	pts := s.fresh("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, "newinstance", "", "ptmxmode", "0666", "mode", "620")
	s.attach("mount /dev/pts", pts, s.dev.Word(0), "pts")
	s.shm = s.fresh("tmpfs", harmless, "mode", "1777")
	s.attach("mount /dev/shm", s.shm, s.dev.Word(0), "shm")
	s.set("make /dev read-only", s.dev.Word(0), "", readOnly, 0, 0)
}

// mountPlan mounts the paths of the plan, in its order.
func (s *space) mountPlan() {
	rules := slices.Clone(s.plan.Rules)
	slices.SortStableFunc(rules, func(a, b confine.Rule) int { return cmp.Compare(confine.Depth(a.Path), confine.Depth(b.Path)) })
	for _, rule := range rules {
		if rule.Access != confine.Write {
			s.fasten(path.Dir(rule.Path))
		}
		switch {
		case rule.Path == "/": // here the root was not made read-only
		case rule.Missing(): // Hold has made sure that it may be created, or that something protects it
		case s.taken[rule.Path] != nil:
			what := "mount " + rule.Path
			s.attach(what, s.taken[rule.Path], s.open(what, rule.Path).Word(0), "")
		case rule.Access == confine.Read:
			what := protecting + rule.Path
			at := s.openItself(what, rule.Path)
			tree := s.clone(what, at.Word(0), "")
			s.check(what, tree, rule)
			s.set(what, tree.Word(0), "", readOnly|harmless, unix.AT_RECURSIVE, 0)
			s.attach(what, tree, at.Word(0), "")
		default:
			s.deny(rule)
		}
	}
	if len(s.plan.Sockets) > 0 {
		s.cover(knownSockets(s.plan.Sockets))
	}
	if s.byName() {
		s.coverWith(resolvers, "name the resolver", s.plan.Resolvers)
	}
}

// byName reports whether a resolver answers in the network of the commands, which their programs have to be told.
func (s *space) byName() bool {
	return s.plan.Proxied && !s.plan.Network && len(s.plan.ByName) > 0 && s.plan.Resolvers != "" && s.plan.Access(s.plan.Resolvers) != confine.Nothing
}

// fasten keeps a directory with a protected path, and the directories around it, from being moved away: it makes each of them a
// mount of its own.
func (s *space) fasten(dir string) {
	if s.fastened[dir] || dir == "/" || !Writable(s.plan, dir) {
		return
	}
	s.fasten(path.Dir(dir))
	if s.taken[dir] != nil { // it is one already
		return
	}
	if s.fastened == nil {
		s.fastened = map[string]bool{}
	}
	s.fastened[dir] = true
	what := fastening + dir
	at := s.open(what, dir)
	s.attach(what, s.clone(what, at.Word(0), ""), at.Word(0), "")
}

// Writable reports whether a path can be written under a plan.
func Writable(plan *confine.Plan, path string) bool { return plan.Access(path) == confine.Write }

// covered is a path with what covers it.
type covered struct{ path, blank string }

func (s *space) cover(all []covered) {
	for _, c := range all {
		s.coverWith(c.blank, covering+c.path, c.path)
	}
}

func (s *space) coverWith(blank, what, path string) {
	s.attach(what, s.clone(what, s.blank.Word(0), blank), s.open(what, path).Word(0), "")
}

func blankFor(directory bool) string {
	if directory {
		return blankDirectory
	}
	return blankFile
}

// present returns those of these paths that exist.
func present(paths []string) (there []covered) {
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink == 0 {
			there = append(there, covered{path, blankFor(info.IsDir())})
		}
	}
	return there
}
