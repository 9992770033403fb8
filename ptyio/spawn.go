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

// Starter is the part in which spawners differ: how they fork and how they keep track of the tree. Spawn adds everything
// about bytes.
type Starter interface {
	// Start executes the leader in a kernel session of its own. The error is the kernel's errno, or better a *StepError, or
	// that of ctx, or a *messages.Error. The caller still owns the files.
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
	Limits    messages.Limits
	// Executions are those of the launch; nil for none. A starter that cannot show them ignores them.
	Executions *Executions
	// Exited and TreeEnded are called once each, in this order, from any goroutine. If the leader left processes behind,
	// Background is called between them with their number. They do not block.
	Exited     func(status messages.ExitStatus, lost error)
	Background func(count int)
	TreeEnded  func(messages.TreeReport)
	// Reached says, before Exited, that the tree has reached a limit, and ends it. It is for the starter's own limits; this
	// package counts output and wall time.
	Reached func(messages.Limit)
	// A starter may call Born when the leader has started and the files are not needed any more, before Exited and from any
	// goroutine; Start must then return this leader. Otherwise Spawn acts as if it had when Start has returned.
	Born func(leader Leader)
}

// Leader is a started child without its bytes. Its methods are safe for concurrent use and do not block on the child. A
// Leader whose calls return at once is also a Prompt.
type Leader interface {
	PID() int
	// Signal sends sig to the members of the tree that are in the process group, or to all of them if group is zero.
	Signal(sig syscall.Signal, group int) error
	EndTree(grace time.Duration)
	// Enforced says what is enforced for the child; nil if nothing was to be enforced.
	Enforced() *messages.Enforcement
}

// Spawn starts a child with the help of a starter. Spawners are implemented with it.
func Spawn(ctx context.Context, launch Launch, starter Starter) (Child, error) {
	if err := launch.Check(); err != nil {
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
	theirs, err := c.open(&start)
	c.theirs = theirs
	start.Born = c.onBorn
	if err == nil {
		if leader, failed := starter.Start(ctx, start); failed != nil {
			err = startError(launch, start.Program, failed)
		} else {
			c.onBorn(leader)
		}
	}
	if err != nil {
		closeAll(theirs)
		c.discard()
		return nil, err
	}
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
		Limits: launch.Limits, Executions: launch.Executions}
}

// startError turns the error of a starter into a sentence.
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
	case step == nil: // the kernel has the same error for a missing directory and a missing program
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
