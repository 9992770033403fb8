package ptyio

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
)

// Starter is the part in which spawners differ: how they fork and how they keep the tree. Spawn adds everything about bytes.
type Starter interface {
	// Start executes the leader in a kernel session of its own. The error is the kernel's errno, or better a *StepError, or
	// ctx's, or a *messages.Error. The files stay the caller's.
	Start(ctx context.Context, start Start) (Leader, error)
}

// Start is a launch with its program found and its descriptors made.
type Start struct {
	Program   string // absolute path
	Argv, Env []string
	Dir       string
	Files     []*os.File // the child's descriptors from 0 on; nil for a closed one
	TTY       bool       // Files[0] becomes the controlling terminal
	Keep      bool
	Grace     time.Duration
	Sandbox   Enclosure // nil for none
	Limits    messages.Limits
	// Exited and TreeEnded are called once each, in this order, from any goroutine; between them Background, with the
	// number of processes that the leader left behind, if there are any. They do not block.
	Exited     func(status messages.ExitStatus, lost error)
	Background func(count int)
	TreeEnded  func(messages.TreeReport)
	// Reached says, before Exited, that the tree has reached a limit, and ends it. Output and wall time are counted here.
	Reached func(messages.Limit)
}

// Leader is a started child without its bytes. Its methods are safe for concurrent use and do not block on the child. One
// whose calls return at once is also a Prompt.
type Leader interface {
	PID() int
	// Signal reaches the members of the tree that are in the process group, or all of them if group is zero.
	Signal(sig syscall.Signal, group int) error
	EndTree(grace time.Duration)
	// Enforced is what is enforced for it; nil where nothing was to be.
	Enforced() *messages.Enforcement
}

// Spawn starts a child through a starter. Spawners are made with it.
func Spawn(ctx context.Context, launch Launch, starter Starter) (Child, error) {
	if err := validate(launch); err != nil {
		return nil, err
	}
	program, err := reached(ctx, launch)
	if err != nil {
		return nil, err
	}
	start := prepare(launch, program)
	c := &child{launch: launch, spawned: make(chan struct{}), exited: make(chan struct{}), ended: make(chan struct{}),
		abandoned: make(chan struct{})}
	start.Exited, start.Background, start.TreeEnded, start.Reached = c.onExited, c.onBackground, c.onTreeEnded, c.reach
	opening.take()
	theirs, err := c.open(&start)
	opening.give(1)
	if err == nil {
		if c.leader, err = starter.Start(ctx, start); err != nil {
			err = startError(launch, start.Program, err)
		}
	}
	closeAll(theirs)
	if err != nil {
		c.discard()
		return nil, err
	}
	launch.Events(Spawned{Child: c, Enforced: c.leader.Enforced()})
	c.clock()
	close(c.spawned)
	c.read()
	return c, nil
}

func prepare(launch Launch, program string) Start {
	argv := slices.Clone(launch.Argv)
	if launch.Argv0 != "" {
		argv[0] = launch.Argv0
	}
	grace := DefaultGrace
	if launch.Grace != nil {
		grace = max(*launch.Grace, 0)
	}
	return Start{Program: program, Argv: argv, Env: launch.Env, Dir: launch.Dir, TTY: launch.TTY,
		Keep: launch.OnLeaderExit == messages.LeaderExitKeepsTree, Grace: grace,
		Sandbox: launch.Sandbox, Limits: launch.Limits}
}

// startError turns what a starter said into a sentence.
func startError(launch Launch, program string, err error) error {
	if typed, ok := errors.AsType[*messages.Error](err); ok {
		return typed
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return cancelled(program, err)
	}
	step, _ := errors.AsType[*StepError](err)
	switch {
	case step.aboutDir():
		return dirError(launch.Dir, step.Errno)
	case !step.aboutProgram():
		return openError(program, err)
	case step == nil: // the kernel does not tell a missing directory from a missing program
		if err := checkDir(launch.Dir); err != nil {
			return err
		}
	default:
		err = step.Errno
	}
	return spawnError(program, err)
}

func spawnError(program string, err error) error {
	e := &messages.Error{Code: messages.ErrSpawnFailed, Op: "spawn", Subject: program, Detail: reason(err) + scarcity(err)}
	info, statErr := os.Stat(program)
	switch {
	case errors.Is(err, syscall.ENOENT) && statErr == nil:
		e.Detail = "its interpreter does not exist; look at the first line of the script, or the loader of the binary"
	case errors.Is(err, syscall.ENOENT):
		e.Code = messages.ErrNoSuchProgram
		e.Detail = "no such program; check the path"
	case errors.Is(err, syscall.EACCES) && statErr == nil && info.IsDir():
		e.Detail = "it is a directory; name a program"
	case errors.Is(err, syscall.EACCES):
		e.Like = messages.LikePermission
		e.Detail = "permission denied; check the execute permission of the file and the search permission of its folders"
	case errors.Is(err, syscall.ENOEXEC):
		e.Detail = "this system cannot run that file; a script needs a first line such as #!/bin/sh"
	case errors.Is(err, syscall.E2BIG):
		e.Detail = "arguments and environment are too long for the kernel; pass large data by file or input"
	}
	return e
}

// reason is the innermost cause, without Go's "open /path:" prefixes, which the sentence names already.
func reason(err error) string {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	return err.Error()
}
