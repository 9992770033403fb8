package sandbox

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/birth"
)

// direct forks from the host. Without pidfds and /proc a tree is the leader's process group here, and a waiting leader
// costs a thread.
type direct struct {
	mu     sync.Mutex // guards the table that starts, exits and Close share
	trees  map[*groupLeader]struct{}
	closed bool
}

func newDefault(Options) (ptyio.Spawner, error) { return newDirect() }

func newDirect() (ptyio.Spawner, error) { return &direct{trees: map[*groupLeader]struct{}{}}, nil }

// Spawn implements ptyio.Spawner.
func (d *direct) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	if _, err := d.Can(launch); err != nil {
		return nil, err
	}
	return ptyio.Spawn(ctx, launch, d)
}

// Start implements ptyio.Starter.
func (d *direct) Start(ctx context.Context, start ptyio.Start) (ptyio.Leader, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	start, err := fasten(start)
	if err != nil {
		return nil, err
	}
	files := make([]int, len(start.Files))
	for i, file := range start.Files {
		files[i] = -1
		if file != nil {
			files[i] = int(file.Fd())
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, &messages.Error{Code: messages.ErrClosed, Op: "spawn", Detail: "the spawner is closed"}
	}
	steps := append([]birth.Step{birth.Setsid(), birth.Chdir(start.Dir)}, birth.Files(files)...)
	if start.TTY {
		steps = append(steps, birth.ControllingTTY(0))
	}
	pid, _, err := birth.Start(append(steps, birth.Execve(start.Program, start.Argv, start.Env)))
	if failed, ok := errors.AsType[*birth.Error](err); ok {
		err = stepError(failed.Step, failed.Errno)
	}
	if err != nil {
		return nil, err
	}
	confined, _ := start.Sandbox.(*seatbelted)
	l := &groupLeader{pid: pid, confined: confined, exited: make(chan struct{}), ended: make(chan struct{})}
	d.trees[l] = struct{}{}
	go d.watch(l, start)
	return l, nil
}

func (d *direct) watch(l *groupLeader, start ptyio.Start) {
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(l.pid, &status, 0, nil); err != syscall.EINTR {
			break
		}
	}
	close(l.exited)
	if status.Signaled() {
		start.Exited(messages.StatusSignaled(status.Signal()), nil)
	} else {
		start.Exited(messages.StatusExited(status.ExitStatus()), nil)
	}
	if !start.Keep {
		l.EndTree(start.Grace)
	}
	for syscall.Kill(-l.pid, 0) == nil {
		<-time.After(10 * time.Millisecond)
	}
	close(l.ended)
	start.TreeEnded(messages.TreeReport{})
	d.mu.Lock()
	delete(d.trees, l)
	d.mu.Unlock()
}

// Resolver implements ptyio.Spawner.
func (*direct) Resolver() ptyio.Resolver { return ptyio.Local() }

// Close implements ptyio.Spawner.
func (d *direct) Close() error {
	d.mu.Lock()
	d.closed = true
	var left []*groupLeader
	for l := range d.trees {
		left = append(left, l)
	}
	d.mu.Unlock()
	for _, l := range left {
		l.EndTree(ptyio.DefaultGrace)
	}
	for _, l := range left {
		<-l.ended
	}
	return nil
}

type groupLeader struct {
	pid           int
	confined      *seatbelted // nil for none
	exited, ended chan struct{}
	killer        sync.Once
}

// PID implements ptyio.Leader.
func (l *groupLeader) PID() int { return l.pid }

// Signal implements ptyio.Leader.
func (l *groupLeader) Signal(sig syscall.Signal, group int) error {
	if group == 0 {
		group = l.pid
	}
	return syscall.Kill(-group, sig)
}

// EndTree implements ptyio.Leader.
func (l *groupLeader) EndTree(grace time.Duration) {
	if grace <= 0 {
		_ = syscall.Kill(-l.pid, syscall.SIGKILL)
		return
	}
	l.killer.Do(func() {
		_ = syscall.Kill(-l.pid, syscall.SIGTERM)
		time.AfterFunc(grace, func() {
			select {
			case <-l.ended:
			default:
				_ = syscall.Kill(-l.pid, syscall.SIGKILL)
			}
		})
	})
}

// Prompt implements ptyio.Prompt.
func (*groupLeader) Prompt() {}

// Prompt implements ptyio.Prompt.
func (*direct) Prompt() {}

// Enforced implements ptyio.Leader.
func (l *groupLeader) Enforced() *messages.Enforcement {
	if l.confined == nil {
		return nil
	}
	enforced := l.confined.enforces()
	return &enforced
}
