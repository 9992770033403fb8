package ptyio

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
)

// discard frees our side after a failed start. Later reports of the leader are ignored.
func (c *child) discard() {
	c.dead = true
	close(c.spawned)
	for _, s := range c.streams {
		_ = s.file.Close()
	}
	if c.input != nil {
		c.input.close()
	}
}

// wake makes the readers look at the child again.
func (c *child) wake() {
	for _, s := range c.streams {
		_ = s.file.SetReadDeadline(past)
	}
}

// onBorn is called by the starter or by Spawn. Our copies of the child's files are closed before anyone hears of the child. Otherwise a
// pipe whose reader has closed it would take input for a moment.
func (c *child) onBorn(leader Leader) {
	c.born.Do(func() {
		closeAll(c.theirs)
		c.theirs = nil
		c.leader = leader
		c.launch.Events(Spawned{Child: c, Enforced: leader.Enforced()})
		c.clock()
		close(c.spawned)
		for _, s := range c.streams {
			go s.run()
		}
	})
}

func (c *child) onExited(status messages.ExitStatus, lost error) {
	<-c.spawned
	if c.dead {
		return
	}
	c.disarm()
	c.launch.Events(Exited{Status: status, Lost: lost, Limit: c.limit()})
	c.countDrained()
	close(c.exited)
	c.wake()
}

func (c *child) onBackground(count int) {
	<-c.spawned
	if !c.dead {
		c.launch.Events(Background{Count: count})
	}
}

func (c *child) onTreeEnded(report messages.TreeReport) {
	<-c.spawned
	if c.dead {
		return
	}
	c.input.close()
	close(c.ended)
	c.launch.Events(TreeEnded{report})
	c.wake()
}

func (c *child) PID() int { return c.leader.PID() }

func (c *child) Write(p []byte, deadline time.Time, done func(Taken, error)) (taken func() int) {
	return c.input.write(p, deadline, done)
}

func (c *child) CloseStdin(done func(error)) { c.input.finish(done) }

func (c *child) EndTree(grace time.Duration) { c.leader.EndTree(grace) }

func (c *child) Abandon() {
	c.abandon.Do(func() { close(c.abandoned) })
	c.wake()
	c.leader.EndTree(0)
}

func (c *child) Resize(size messages.Size) error {
	switch {
	case c.launch.TTY:
		return controlError("resize", control(c.terminal, func(fd int) error { return setSize(fd, size.OrDefault()) }))
	case c.over():
		return closedError("resize")
	}
	return &messages.Error{Code: messages.ErrNotATerminal, Op: "resize",
		Detail: "the process is on pipes; start it on a terminal"}
}

// over reports whether the tree has ended.
func (c *child) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// maxSignal is the last real-time signal of Linux.
const maxSignal = 64

func (c *child) Signal(sig syscall.Signal, scope Scope) error {
	if sig <= 0 || sig > maxSignal {
		return &messages.Error{Code: messages.ErrInvalidRequest, Op: "signal",
			Detail: fmt.Sprintf("there is no signal %d; use 1 to %d", int(sig), maxSignal)}
	}
	if c.over() {
		return closedError("signal")
	}
	err := c.leader.Signal(sig, c.group(scope))
	if errors.Is(err, syscall.ESRCH) && !c.over() {
		return nil // when a job ends, the foreground group is empty for a moment; the kernel's own Ctrl-C would be lost then, too
	}
	return controlError("signal", err)
}

// group is the process group of a scope; zero means the tree.
func (c *child) group(scope Scope) int {
	if scope == Tree {
		return 0
	}
	if c.terminal != nil {
		if foreground, err := foregroundGroup(c.terminal); err == nil && foreground > 0 {
			return foreground
		}
	}
	return c.leader.PID()
}

// controlError explains why a control operation failed.
func controlError(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrClosed), errors.Is(err, syscall.ESRCH):
		return closedError(op)
	}
	if typed, ok := errors.AsType[*messages.Error](err); ok {
		return typed
	}
	return &messages.Error{Code: messages.ErrRuntimeFailure, Op: op, Detail: reason(err)}
}

func closedError(op string) *messages.Error {
	return &messages.Error{Code: messages.ErrClosed, Op: op, Detail: "the process has ended"}
}
