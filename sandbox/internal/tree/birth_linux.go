package tree

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/executions"
	"github.com/execbus/execbus/sandbox/internal/procs"
)

// ErrClosed is the error of Begin after EndAll.
var ErrClosed = errors.New("the forest is closed")

// Start begins a leader and waits until it has executed its program.
func (f *Forest) Start(spec Spec) (*Tree, error) {
	t, err := f.Begin(spec)
	if err != nil {
		return nil, err
	}
	if err := t.Executed(); err != nil {
		return nil, err
	}
	return t, nil
}

// Begin begins the birth of a leader, in a kernel session of its own. Executed must follow, in any goroutine: if the program's
// file system hangs, so does its execution, and Begin does not wait for that. The error is ErrClosed, a *birth.Error, or an
// errno.
func (f *Forest) Begin(spec Spec) (*Tree, error) {
	f.forking.Lock()
	defer f.forking.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	t := f.newTree()
	steps := make([]birth.Step, 0, usualSteps+len(spec.Confine)+len(spec.Groups)+len(spec.Rlimits))
	t.roots = t.related
	if f.subreaper {
		t.roots, t.mark = t.orphans, f.marker.Next()
		steps = append(append(steps, f.mortal...), f.marker.steps(t.mark, spec.Secret)...)
	}
	steps = spec.steps(steps, f.many())
	t.earliest = procs.BootTicks()
	t.list = f.listOf(unix.Gettid())
	var err error
	t.list.undisturbed(func() { err = f.fork(t, spec, steps) })
	if err != nil {
		return nil, err
	}
	return t, nil
}

// manyTrees is the number of live trees from which on a leader shares our descriptors until it has its own. With fewer it costs
// more to close ours later.
const manyTrees = 256

func (f *Forest) many() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.trees) >= manyTrees
}

// fork starts a leader on this thread and adds its tree to the table.
func (f *Forest) fork(t *Tree, spec Spec, steps []birth.Step) error {
	child, err := birth.Begin(steps)
	if err != nil {
		return err
	}
	if child.Plain() {
		t.mark = 0
	}
	if child.PIDFD < 0 { // before Linux 5.4
		_ = syscall.Kill(child.PID, syscall.SIGKILL)
		child.Reap()
		return syscall.ENOSYS
	}
	spec.Program, spec.Argv, spec.Env, spec.Dir, spec.Files, spec.Confine = "", nil, nil, "", nil, nil // they may be large
	spec.Groups, spec.Rlimits = nil, nil
	f.enter(t, spec, child)
	return nil
}

func (f *Forest) newTree() *Tree {
	return &Tree{forest: f, executed: make(chan struct{}), exited: make(chan struct{}), counted: make(chan struct{}),
		done: make(chan struct{}), shorter: make(chan struct{}, 1)}
}

// enter adds a tree to the table. Its leader has not yet executed its program.
func (f *Forest) enter(t *Tree, spec Spec, child *birth.Child) {
	t.spec, t.pid, t.fd, t.child = spec, child.PID, child.PIDFD, child
	f.mu.Lock()
	f.trees[t.pid], f.unborn[t] = t, struct{}{}
	t.list.count(1)
	f.mu.Unlock()
}

// usualSteps is the number of steps that most launches have, apart from those that depend on their Spec. Of the places in
// Spec.Files most may be empty, and then need no steps.
const usualSteps = 16

// steps appends the launch of a leader to the first steps. With many other leaders there are many descriptors.
func (s Spec) steps(steps []birth.Step, many bool) []birth.Step {
	steps = append(steps, birth.Setsid())
	for _, group := range s.Groups { // before the program's descriptors take their places
		steps = append(steps, birth.Join(group))
	}
	steps = append(steps, s.Confine...)
	if s.Executions != nil { // right before the leader leaves our descriptors
		steps = append(steps, s.Executions.Steps...)
	}
	if many || s.Executions != nil {
		steps = append(steps, birth.FewFiles(s.Files)...)
	} else {
		steps = append(steps, birth.Files(s.Files)...)
	}
	if s.TTY {
		steps = append(steps, birth.ControllingTTY(0))
	}
	for _, limit := range s.Rlimits {
		steps = append(steps, birth.Rlimit(limit.Resource, limit.Soft, limit.Hard))
	}
	if s.Dir != "" {
		steps = append(steps, birth.Chdir(s.Dir)) // it may hang, so it comes after the descriptors
	}
	execute := birth.Execve(s.Program, s.Argv, s.Env)
	if s.Executions != nil {
		execute = execute.Showing(s.Executions.Secret)
	}
	return append(steps, execute)
}

// Prompt waits at most this long until the leader has executed its program or failed to, and reports whether it has.
func (t *Tree) Prompt(most time.Duration) bool { return t.child.Prompt(most) }

// Died reports whether the leader has ended. Executed must not have been called.
func (t *Tree) Died() bool { return t.child.Died() }

// Runs reports whether a leader that has not executed its program is running, or would if a processor were free. While an isolated one
// runs, process 1 of its namespace waits for it.
func (t *Tree) Runs() bool {
	pids := []int{t.child.PID}
	if t.isolated != nil {
		children, _ := procs.Children(t.child.PID)
		pids = append(pids, children...)
	}
	return slices.ContainsFunc(pids, func(pid int) bool {
		p, err := procs.Read(pid)
		return err == nil && p.State == 'R'
	})
}

// GiveUp kills a leader that has not executed its program. Executed then returns ETIMEDOUT, unless it has just done so.
func (t *Tree) GiveUp() {
	t.forest.mu.Lock()
	defer t.forest.mu.Unlock()
	if t.child != nil {
		t.givenUp = true
		_ = t.child.Kill()
	}
}

// Executed waits until the leader has executed its program. After an error, a *birth.Error, nothing is left of the tree. A leader
// that somebody else killed before the execution counts as started and exits at once. Executed must be called once.
func (t *Tree) Executed() error {
	err := t.child.Wait()
	t.forest.mu.Lock()
	givenUp := t.givenUp
	t.forest.mu.Unlock()
	if failed, ok := errors.AsType[*birth.Error](err); ok && failed.Errno == 0 {
		err = nil
		if givenUp {
			err = &birth.Error{Step: failed.Step, Index: failed.Index, Errno: unix.ETIMEDOUT}
		}
	}
	if t.isolated != nil && err == nil {
		t.isolated.found(t.pid)
	}
	f, child := t.forest, t.child
	f.mu.Lock()
	delete(f.unborn, t)
	t.listener = t.spec.Executions.Listener(child)
	lost := t.spec.Executions != nil && t.listener < 0
	t.child, t.spec.Executions = nil, nil // they may be large
	if err == nil {
		f.unsaid[t] = struct{}{}
	}
	f.mu.Unlock()
	if lost {
		f.closeLost()
	}
	child.Release()
	close(t.executed)
	if err != nil {
		_ = unix.Close(t.fd)
		if t.listener >= 0 {
			_ = unix.Close(t.listener)
		}
		t.close()
		f.forget(t)
		return err
	}
	return nil
}

// closeLost closes the listener of a leader that was killed before it could say which descriptor it is.
func (f *Forest) closeLost() {
	f.forking.Lock()
	defer f.forking.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	executions.CloseLost(func() {
		for t := range f.unborn {
			t.spec.Executions.Listener(t.child)
		}
	})
}

// reap removes a dead leader. Without WALL, a wait does not find one that was killed before it executed anything.
func (t *Tree) reap() { _, _ = syscall.Wait4(t.pid, nil, syscall.WNOHANG|syscall.WALL, nil) }

// endUnborn kills the children that have not executed their programs yet, and names those that do not die. A program that was
// executed, but not attended to since, gets its chance to end by itself, like any other.
func (f *Forest) endUnborn(until time.Time) (survivors []Survivor) {
	f.mu.Lock()
	var unborn []*Tree
	for t := range f.unborn {
		unborn = append(unborn, t)
		if !t.child.Over() {
			_ = t.child.Kill() // its descriptor stays open as long as it is in the table
		}
	}
	f.mu.Unlock()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for _, t := range unborn {
		select {
		case <-t.executed:
		case <-timer.C:
			timer.Reset(0) // for the next one
			survivors = append(survivors, f.hanging(t)...)
		}
	}
	return survivors
}

// hanging names a child that should have died, or should have been attended to.
func (f *Forest) hanging(t *Tree) []Survivor {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t.child == nil {
		return nil
	}
	_ = t.child.Kill()
	return []Survivor{{PID: t.pid,
		Why: "hangs in its start (" + t.child.Step() + ") and did not die of SIGKILL within " + killWait.String()}}
}
