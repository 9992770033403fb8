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
)

// linger is how long placeholders stay after the last command that needed them. Making them takes a good part of a start, and
// often the next command comes at once.
const linger = 500 * time.Millisecond

// cell holds the resources that the isolated commands of a plan share.
type cell struct {
	network *isolate.Network // nil where they use the host's

	mu       sync.Mutex // guards the fields below, which births and endings touch
	users    int
	forsaken bool      // no further start will come
	lingers  bool      // there may be placeholders although there are no users
	left     time.Time // when the last user left
	timed    bool      // lapse will be called; one timer serves many short commands

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

// leave must be called once after each enter.
func (c *cell) leave() {
	c.mu.Lock()
	c.users--
	over := c.users == 0 && c.forsaken
	c.lingers, c.left = c.users == 0 && !over, time.Now()
	if c.lingers && !c.timed {
		c.timed = true
		time.AfterFunc(linger, c.lapse)
	}
	c.mu.Unlock()
	if over {
		c.tidy()
	}
}

// lapse removes the placeholders that have lingered long enough.
func (c *cell) lapse() {
	c.mu.Lock()
	rest := linger - time.Since(c.left)
	c.timed = c.lingers && rest > 0
	if c.timed {
		time.AfterFunc(rest, c.lapse)
	}
	over := c.lingers && !c.timed
	c.mu.Unlock()
	if over {
		c.tidy()
	}
}

// forsake says that no further start will come.
func (c *cell) forsake() {
	c.mu.Lock()
	c.forsaken = true
	c.mu.Unlock()
	c.tidy()
}

// tidy removes the placeholders if no command needs them.
func (c *cell) tidy() {
	c.work <- struct{}{}
	defer func() { <-c.work }()
	c.mu.Lock()
	needed := c.users > 0
	c.lingers = c.lingers && needed
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

// idles reports whether there may be placeholders that no command needs.
func (c *cell) idles() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.users == 0 && c.lingers
}

// clear removes placeholders that only linger and would be in the way of a start. For an isolated start they are in the way where
// it may create protected names, and for any other start in its directory. Clear reports whether the start has to wait; then the
// start is handled again later.
func (w *warden) clear(s start) (waits bool) {
	if s.cleared {
		return false
	}
	dirs := []string{s.spec.Dir}
	if p := w.rooms.plans[s.spec.Plan]; p != nil && s.spec.Level == confine.Isolated {
		dirs = p.creates
	}
	cells := w.rooms.idle(dirs)
	if len(cells) == 0 {
		return false
	}
	s.cleared = true
	go func() { // their file systems may not answer
		for _, c := range cells {
			c.tidy()
		}
		w.proceed(s)
	}()
	return true
}

// enter has a goroutine look at the protected names of an isolated start: their file system may not answer. Enter reports whether
// the start has to wait for that; then the start is handled again later.
func (w *warden) enter(s start) (waits bool) {
	p := w.rooms.plans[s.spec.Plan]
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
	p := w.rooms.plans[s.spec.Plan]
	switch {
	case p == nil:
		w.refuse(s, &birth.Error{Step: "plan", Errno: unix.EINVAL})
		return
	case s.failed != nil:
		w.refuse(s, protectFailed(s.failed))
		return
	}
	if !p.plan.Network && p.cell.network == nil {
		err := w.forest.Undisturbed(func() (err error) {
			p.cell.network, err = isolate.NewNetwork()
			return err
		})
		if err != nil {
			w.refuse(s, err)
			return
		}
	}
	w.bearIsolated(s, p)
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
	if s.leave != nil {
		s.leave()
	}
	closeAll(s.files)
	if errors.Is(err, tree.ErrClosed) { // we are ending, and the host learns that anyway
		return
	}
	if _, told := errors.AsType[syscall.Errno](err); !told { // the newborn was killed, so there is no errno to pass on
		failed, _ := errors.AsType[*birth.Error](err)
		err = &birth.Error{Errno: unix.EIO}
		if failed != nil {
			err = &birth.Error{Step: failed.Step, Errno: unix.EIO}
		}
	}
	w.fail(s.id, err)
}

// launch converts a start for package isolate.
func (w *warden) launch(s start, p *registered, report int) isolate.Launch {
	l := isolate.Launch{Plan: s.plan, Files: placed(s.spec.FDs, s.files), Groups: placed(s.spec.Groups, s.files),
		Report: report, Network: p.cell.network, Dir: s.spec.Dir, Program: s.spec.Program, Argv: s.spec.Argv, Env: s.spec.Env,
		Tasks: s.spec.Tasks, Filter: w.rooms.filter(isolate.KindOf(&p.plan)), TTY: s.spec.TTY}
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

// bearIsolated begins one leader in namespaces.
func (w *warden) bearIsolated(s start, p *registered) {
	reports, report, err := isolate.Reports()
	if err != nil {
		w.refuse(s, err)
		return
	}
	n := &newborn{start: s, failed: s.leave}
	spec := w.spec(n)
	ended := spec.Ended
	spec.Ended = func(report tree.Report) {
		s.leave()
		ended(report)
	}
	t, err := w.forest.BeginIsolated(spec, isolate.Family(w.launch(s, p, report)), reports)
	_ = unix.Close(report)
	if err != nil {
		_ = reports.Close()
		w.refuse(s, err)
		return
	}
	n.tree = t
	w.begun(n)
}
