package host

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/seatbelt"
)

// Direct forks from the host. Without pidfds and /proc a tree is the leader's process group here, and a waiting leader
// costs a thread. It is safe for concurrent use.
type Direct struct {
	mu     sync.Mutex // guards the table that starts, exits and Close share
	trees  map[*groupLeader]struct{}
	closed bool
}

// NewDirect returns a starter without trees.
func NewDirect() *Direct { return &Direct{trees: map[*groupLeader]struct{}{}} }

// Enclosure is what a start needs of its sandbox.
type Enclosure struct{ Profile seatbelt.Profile }

// Start starts a leader.
func (d *Direct) Start(ctx context.Context, start Start) (ptyio.Leader, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if e := start.Enclosure; e != nil {
		start.Argv = e.Profile.Argv(start.Program, start.Argv[1:]...)
		start.Program = start.Argv[0]
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
		return nil, errClosed()
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
	l := &groupLeader{pid: pid, enforced: start.Enforced, exited: make(chan struct{}), ended: make(chan struct{})}
	d.trees[l] = struct{}{}
	go d.watch(l, start.Start)
	return l, nil
}

func (d *Direct) watch(l *groupLeader, start ptyio.Start) {
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

// Close ends all trees and waits for their ends.
func (d *Direct) Close() error {
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
	enforced      *messages.Enforcement // nil if nothing had to be enforced
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

// Enforced implements ptyio.Leader.
func (l *groupLeader) Enforced() *messages.Enforcement { return l.enforced }
