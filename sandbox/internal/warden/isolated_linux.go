package warden

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/isolate"
	"github.com/execbus/execbus/sandbox/internal/tree"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// cell holds the resources that the isolated commands of a plan share.
type cell struct {
	network *isolate.Network // nil where they use the host's

	mu    sync.Mutex // guards users, which births and endings touch
	users int

	// work holds one value while file systems are asked, which may not answer. It guards the fields below.
	work chan struct{}
	held *isolate.Placeholders
	over bool // no further command will begin
}

func newCell() *cell { return &cell{work: make(chan struct{}, 1)} }

// enterWait is how long the file systems of protected names may take before a start fails.
const enterWait = 10 * time.Second

// enter counts a command that needs the placeholders. The command counts until leave, even if enter fails. Enter makes the
// placeholders, or looks at them again, and returns the plan with what it has found. After most it fails with ETIMEDOUT. Then one
// goroutine of the cell goes on waiting for the file system, and the starts behind it wait for most, too.
func (c *cell) enter(plan confine.Plan, most time.Duration) (looked, error) {
	c.mu.Lock()
	c.users++
	c.mu.Unlock()
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case c.work <- struct{}{}:
	case <-late.C:
		return looked{}, unix.ETIMEDOUT
	}
	type found struct {
		looked
		err error
	}
	done := make(chan found, 1)
	go func() {
		look, err := c.look(plan)
		<-c.work
		done <- found{look, err}
	}()
	select {
	case f := <-done:
		return f.looked, f.err
	case <-late.C:
		return looked{}, unix.ETIMEDOUT
	}
}

// looked is what a look at the file systems of a plan has found.
type looked struct {
	plan     confine.Plan
	unshared []string // see isolate.Placeholders.Unshared
}

// look makes the placeholders or looks at them again. It is called with work taken.
func (c *cell) look(plan confine.Plan) (l looked, err error) {
	switch {
	case c.over:
		return l, unix.ECANCELED
	case c.held != nil:
		l.plan, err = c.held.Look(plan)
	default:
		c.held, l.plan, err = isolate.Hold(plan)
	}
	if c.held != nil {
		l.unshared = c.held.Unshared()
	}
	return l, err
}

// leaveWait is how long the report of an end may wait for the removal of placeholders, whose file system may not answer.
const leaveWait = time.Second

// leave must be called once after each enter. The last user removes the placeholders.
func (c *cell) leave() {
	c.mu.Lock()
	c.users--
	last := c.users == 0
	c.mu.Unlock()
	if !last {
		return
	}
	tidied := make(chan struct{})
	go func() {
		c.tidy()
		close(tidied)
	}()
	late := time.NewTimer(leaveWait)
	defer late.Stop()
	select {
	case <-tidied:
	case <-late.C:
	}
}

// tidy removes the placeholders if no command needs them.
func (c *cell) tidy() {
	c.work <- struct{}{}
	defer func() { <-c.work }()
	c.mu.Lock()
	needed := c.users > 0
	c.mu.Unlock()
	if !needed && c.held != nil {
		c.held.Release()
		c.held = nil
	}
}

// end removes the placeholders even if starts that wait count as users: none of those starts will begin a command.
func (c *cell) end() {
	c.work <- struct{}{}
	defer func() { <-c.work }()
	c.over = true
	if c.held != nil {
		c.held.Release()
		c.held = nil
	}
}

// enter has a goroutine look at the protected names of an isolated start: their file system may not answer. Enter reports whether
// the start has to wait for that; then the start is handled again later.
func (w *warden) enter(s start) (waits bool) {
	p := w.plans.byID[s.spec.Plan]
	if s.spec.Level != confine.Isolated || p == nil || s.plan != nil {
		return false
	}
	s.leave = p.cell.leave
	go func() {
		look, err := p.cell.enter(p.plan, enterWait)
		s.plan, s.unshared, s.failed = &look.plan, look.unshared, err
		w.proceed(s)
	}()
	return true
}

// isolate begins an isolated leader.
func (w *warden) isolate(s start) {
	p := w.plans.byID[s.spec.Plan]
	switch {
	case p == nil:
		w.refuse(s, &birth.Error{Step: "plan", Errno: unix.EINVAL})
		return
	case s.failed != nil:
		w.refuse(s, protectFailed(s.failed))
		return
	}
	if !p.plan.Network && p.cell.network == nil {
		if err := w.newNetwork(s.spec.Plan, p); err != nil {
			w.refuse(s, err)
			return
		}
	}
	w.startIsolated(s, p)
}

// newNetwork makes the network of a plan. Its sockets go to the host, and nothing of them stays here.
func (w *warden) newNetwork(plan uint64, p *registered) error {
	port, byName := 0, []int(nil)
	if p.plan.Proxied {
		port, byName = confine.ProxyPort, p.plan.ByName
	}
	var sockets []int
	err := w.forest.Undisturbed(func() (err error) {
		p.cell.network, sockets, err = isolate.NewNetwork(port, byName)
		return err
	})
	if err != nil || len(sockets) == 0 {
		return err
	}
	var files []*os.File
	for _, socket := range sockets {
		file := os.NewFile(uintptr(socket), "socket")
		defer file.Close()
		files = append(files, file)
	}
	listening := &wire.Listening{Files: len(files), Asks: p.cell.network.Asks}
	if err := w.conn.Send(&wire.Reply{ID: plan, Listening: listening}, files...); err != nil {
		p.cell.network.Close()
		p.cell.network = nil
		return &birth.Error{Step: "give the sockets of the network to the host", Errno: unix.EIO}
	}
	return nil
}

func protectFailed(err error) error {
	errno, _ := errors.AsType[syscall.Errno](err)
	step := "placeholder for a protected name"
	if at, is := errors.AsType[*os.PathError](err); is {
		step += ": " + at.Op + " " + at.Path
		if errno == unix.EBUSY && at.Op == isolate.OpCreate {
			step = "create " + at.Path + ", which running commands could change as soon as it exists; end them first"
		}
	}
	return &birth.Error{Step: step, Errno: errno}
}

// refuse answers a start that has not begun.
func (w *warden) refuse(s start, err error) {
	closeAll(s.files)
	if _, told := errors.AsType[syscall.Errno](err); !told && !errors.Is(err, tree.ErrClosed) { // the child was killed, so there is no errno to pass on
		failed, _ := errors.AsType[*birth.Error](err)
		err = &birth.Error{Errno: unix.EIO}
		if failed != nil {
			err = &birth.Error{Step: failed.Step, Errno: unix.EIO}
		}
	}
	w.failAfter(s.leave, s.id, err)
}

// failAfter answers a start that has failed, once its use of the placeholders is over, if it has any.
func (w *warden) failAfter(leave func(), id uint64, err error) {
	if leave == nil {
		w.fail(id, err)
		return
	}
	go func() { // it may take a while
		leave()
		w.fail(id, err)
	}()
}

// launch converts a start for package isolate.
func (w *warden) launch(s start, p *registered, report int) isolate.Launch {
	l := isolate.Launch{Plan: s.plan, Files: pick(s.spec.FDs, s.files), Groups: pick(s.spec.Groups, s.files),
		Report: report, Network: p.cell.network, Dir: s.spec.Dir, Program: s.spec.Program, Argv: s.spec.Argv, Env: s.spec.Env,
		Tasks: s.spec.Tasks, Filter: w.plans.filter(isolate.KindOf(&p.plan)), TTY: s.spec.TTY}
	for _, limit := range s.spec.Rlimits {
		l.Limits = append(l.Limits, birth.Rlimit(limit.Resource, limit.Soft, limit.Hard))
	}
	if s.spec.TTY {
		l.Terminal = pathOf(l.Files[0])
	}
	return l
}

// pathOf returns the path of a terminal; empty if something else is at that path.
func pathOf(fd int) string {
	var ours, there unix.Stat_t
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil || !strings.HasPrefix(path, "/dev/") || unix.Fstat(fd, &ours) != nil || unix.Stat(path, &there) != nil ||
		ours.Dev != there.Dev || ours.Ino != there.Ino {
		return ""
	}
	return path
}

// startIsolated begins one leader in namespaces.
func (w *warden) startIsolated(s start, p *registered) {
	reports, report, err := isolate.Reports()
	if err != nil {
		w.refuse(s, err)
		return
	}
	n := &child{start: s}
	spec := w.spec(n)
	launch := w.launch(s, p, report)
	if spec.Executions, err = w.executions(n); err != nil {
		_ = reports.Close()
		_ = unix.Close(report)
		w.refuse(s, err)
		return
	}
	launch.Executions = spec.Executions
	ended := spec.Ended
	spec.Ended = func(report tree.Report) {
		s.leave()
		ended(report)
	}
	t, err := w.forest.BeginIsolated(spec, isolate.Namespaced(launch), reports)
	_ = unix.Close(report)
	if err != nil {
		_ = reports.Close()
		w.refuse(s, err)
		return
	}
	n.tree = t
	w.begun(n)
}
