package ptyio

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
)

// open makes the descriptors of both sides and returns the child's, to be closed once it has them.
func (c *child) open(start *Start) (theirs []*os.File, err error) {
	if c.launch.TTY {
		theirs, err = c.openTerminal()
	} else {
		theirs, err = c.openPipes()
	}
	if err != nil {
		return theirs, err
	}
	for _, file := range theirs {
		blocking(file)
	}
	start.Files = append(start.Files, theirs[0], theirs[len(theirs)/2], theirs[len(theirs)-1])
	for _, in := range c.launch.Inherit {
		if err := control(in.File, func(int) error { return nil }); err != nil {
			return theirs, invalid("inherit", fmt.Sprintf("the file for descriptor %d is closed", in.FD), "keep it open until Spawn returns")
		}
		blocking(in.File)
		for len(start.Files) <= in.FD {
			start.Files = append(start.Files, nil)
		}
		start.Files[in.FD] = in.File
	}
	c.undrained.Store(int32(len(c.streams)) + 1) // and the leader's exit
	c.opened.Store(int32(len(c.streams)))
	return theirs, nil
}

// blocking undoes what Go does to every pipe and terminal it opens: it puts them into non-blocking mode, which belongs to
// the open file and not to a descriptor, so that the child's reads and writes would fail with EAGAIN. Fd has that effect.
func blocking(file *os.File) { _ = file.Fd() }

func (c *child) openTerminal() ([]*os.File, error) {
	master, slave, err := openPTY(c.launch.Size.OrDefault())
	if err != nil {
		return nil, openError("terminal", err)
	}
	c.terminal = master
	c.input = &input{file: master, terminal: true}
	c.streams = []*stream{newStream(c, messages.PTY, master, Credits)}
	return []*os.File{slave}, nil
}

func (c *child) openPipes() (theirs []*os.File, err error) {
	in, err := c.openInput()
	if err != nil {
		return nil, openError("stdin", err)
	}
	theirs = append(make([]*os.File, 0, 3), in)
	c.streams = make([]*stream, 0, 2)
	for _, name := range []messages.Stream{messages.Stdout, messages.Stderr} {
		read, write, err := openPipe(false)
		if err != nil {
			return theirs, openError(string(name), err)
		}
		c.streams = append(c.streams, newStream(c, name, read, Credits/2))
		theirs = append(theirs, write)
	}
	return theirs, nil
}

// openInput is the null device, from which the child reads end-of-file, unless a pipe was asked for.
func (c *child) openInput() (*os.File, error) {
	if !c.launch.OpenStdin {
		c.input = &input{refusal: noInput}
		return openNull()
	}
	read, write, err := openPipe(true)
	if err != nil {
		return nil, err
	}
	c.input = &input{file: write}
	return read, nil
}

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
}

// discard frees our side after a failed start. What a late leader still reports goes nowhere.
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

func (c *child) onExited(status messages.ExitStatus, lost error) {
	<-c.spawned
	if c.dead {
		return
	}
	c.launch.Events(Exited{Status: status, Lost: lost})
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

func (c *child) Write(p []byte, deadline time.Time, done func(int, error)) {
	c.input.write(p, deadline, done)
}

func (c *child) CloseStdin(done func(error)) { c.input.finish(done) }

func (c *child) EndTree(grace time.Duration) { c.leader.EndTree(grace) }

func (c *child) Abandon() {
	c.abandon.Do(func() { close(c.abandoned) })
	c.wake()
	c.leader.EndTree(0)
}

func (c *child) Resize(size messages.Size) error {
	if c.terminal == nil {
		if c.over() {
			return closedError("resize")
		}
		return &messages.Error{Code: messages.CodeNotATerminal, Op: "resize",
			Detail: "the process is on pipes", Hint: "start it on a terminal"}
	}
	return controlError("resize", setSize(c.terminal, size.OrDefault()))
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
		return &messages.Error{Code: messages.CodeInvalidRequest, Op: "signal",
			Detail: fmt.Sprintf("there is no signal %d", int(sig)), Hint: fmt.Sprintf("use 1 to %d", maxSignal)}
	}
	if c.over() {
		return closedError("signal")
	}
	err := c.leader.Signal(sig, c.group(scope))
	if errors.Is(err, syscall.ESRCH) && !c.over() {
		return nil // a job that ends leaves an empty foreground group for a moment; the kernel's own Ctrl-C is lost then, too
	}
	return controlError("signal", err)
}

// group is the process group of a scope, zero for the tree.
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

// controlError names what went wrong with a control operation.
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
	return &messages.Error{Code: messages.CodeRuntimeFailure, Op: op, Detail: reason(err)}
}

func closedError(op string) *messages.Error {
	return &messages.Error{Code: messages.CodeClosed, Op: op, Detail: "the process has ended"}
}
