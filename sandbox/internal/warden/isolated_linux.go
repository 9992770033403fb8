package warden

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/isolate"
	"github.com/execbus/execbus/sandbox/internal/tree"
)

// cell holds what the isolated commands of a plan share. The first of them creates it.
type cell struct {
	network *isolate.Network // nil where they use the host's
	waiting []start          // until the placeholders have been made
	asked   bool
	// withdrawn says that the plan is removed once the waiting starts have begun.
	withdrawn bool

	mu       sync.Mutex // guards the fields below, which births and endings touch
	held     *isolate.Placeholders
	users    int
	forsaken bool // no start will come any more
}

// making reports whether the placeholders are being made.
func (c *cell) making() bool { return c.asked && c.holding() == nil }

func (c *cell) holding() *isolate.Placeholders {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}

func (c *cell) hold(held *isolate.Placeholders) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = held
}

// enter counts a command that needs the placeholders, until leave.
func (c *cell) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users++
}

func (c *cell) leave() {
	c.mu.Lock()
	c.users--
	c.mu.Unlock()
	c.tidy(false)
}

// tidy removes the placeholders when nobody needs them any more. It may block for as long as their file system does.
func (c *cell) tidy(forsaken bool) {
	c.mu.Lock()
	c.forsaken = c.forsaken || forsaken
	held := c.held
	if !c.forsaken || c.users > 0 {
		held = nil
	}
	if held != nil {
		c.held = nil
	}
	c.mu.Unlock()
	if held != nil {
		held.Release()
	}
}

// prepared is the result of making placeholders.
type prepared struct {
	number uint64
	plan   confine.Plan
	held   *isolate.Placeholders
	err    error
}

// isolate begins an isolated leader. The first leader of a plan waits until its placeholders have been made, and so do those
// behind it.
func (w *warden) isolate(s start) {
	p := w.rooms.plans[s.spec.Plan]
	if p == nil {
		w.refuse(s, &birth.Error{Step: "plan", Errno: unix.EINVAL})
		return
	}
	c := &p.cell
	if !c.asked {
		c.asked = true
		c.waiting = append(c.waiting, s)
		plan, number := p.plan, s.spec.Plan
		go func() { // their file system may not answer
			held, plan, err := isolate.Hold(plan)
			w.starts <- start{prepared: &prepared{number, plan, held, err}}
		}()
		return
	}
	if c.making() {
		c.waiting = append(c.waiting, s)
		return
	}
	if s.plan == nil {
		held, plan := c.holding(), p.plan
		go func() { // the file system may not answer
			plan, err := held.Renew(plan)
			s.plan, s.failed = &plan, err
			w.starts <- s
		}()
		return
	}
	if s.failed != nil {
		w.refuse(s, protectFailed(s.failed))
		return
	}
	if !p.plan.Network && c.network == nil {
		err := w.forest.Undisturbed(func() (err error) {
			c.network, err = isolate.NewNetwork()
			return err
		})
		if err != nil {
			w.refuse(s, err)
			return
		}
	}
	w.bearIsolated(s, p)
}

// prepare continues with the starts that have waited.
func (w *warden) prepare(done *prepared) {
	p := w.rooms.plans[done.number] // the plan is not withdrawn before this
	waiting := p.cell.waiting
	p.cell.waiting = nil
	p.cell.asked = done.err == nil
	p.cell.hold(done.held)
	if done.err == nil {
		p.plan = done.plan
	}
	for _, s := range waiting {
		if done.err != nil {
			w.refuse(s, protectFailed(done.err))
			continue
		}
		w.isolate(s)
	}
	if p.cell.withdrawn {
		w.rooms.withdraw(done.number)
	}
}

func protectFailed(err error) error {
	errno, _ := errors.AsType[syscall.Errno](err)
	step := "placeholder for a protected name"
	if at, is := errors.AsType[*os.PathError](err); is {
		step += ": " + at.Op + " " + at.Path
	}
	return &birth.Error{Step: step, Errno: errno}
}

// refuse answers a start that has not begun.
func (w *warden) refuse(s start, err error) {
	for _, fd := range s.files {
		_ = unix.Close(fd)
	}
	if _, told := errors.AsType[syscall.Errno](err); !told { // it was killed, so there is no errno to pass on
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
	l := isolate.Launch{Plan: s.plan, Files: numbers(placed(s.spec.FDs, s.files)), Groups: numbers(placed(s.spec.Groups, s.files)),
		Report: report, Network: p.cell.network, Dir: s.spec.Dir, Program: s.spec.Program, Argv: s.spec.Argv, Env: s.spec.Env, Filter: w.rooms.filter(isolate.KindOf(&p.plan)), TTY: s.spec.TTY}
	for _, limit := range s.spec.Rlimits {
		l.Limits = append(l.Limits, birth.Rlimit(limit.Resource, limit.Soft, limit.Hard))
	}
	if s.spec.TTY {
		l.Terminal = pathOf(l.Files[0])
	}
	return l
}

// numbers converts descriptors for package isolate; -1 is closed.
func numbers(files []uintptr) []int {
	fds := make([]int, len(files))
	for i, fd := range files {
		fds[i] = int(fd)
	}
	return fds
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
	id, c := s.id, &p.cell
	c.enter()
	spec := w.spec(id, s.spec)
	ended := spec.Ended
	spec.Ended = func(report tree.Report) {
		c.leave()
		ended(report)
	}
	t, err := w.forest.BeginIsolated(spec, isolate.Family(w.launch(s, p, report)), reports)
	_ = unix.Close(report)
	if err != nil {
		_ = reports.Close()
		c.leave()
		w.refuse(s, err)
		return
	}
	w.begun(newborn{s, t, c.leave})
}
