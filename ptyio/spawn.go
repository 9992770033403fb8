package ptyio

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// Starter is what spawners differ in: the fork, and the keeping of the tree. Spawn adds everything about bytes.
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
	// Exited and TreeEnded are called once each, in this order, from any goroutine; between them Background, with the
	// number of processes that the leader left behind, if there are any. They do not block.
	Exited     func(status messages.ExitStatus, lost error)
	Background func(count int)
	TreeEnded  func(messages.TreeReport)
}

// Leader is a started child without its bytes. Its methods are safe for concurrent use and do not block on the child.
type Leader interface {
	PID() int
	// Signal reaches the members of the tree that are in the process group, or all of them if group is zero.
	Signal(sig syscall.Signal, group int) error
	EndTree(grace time.Duration)
}

// MaxArguments bounds the bytes of Argv and Env together. Linux itself takes 2 MiB by default and never more than 6.
const MaxArguments = 6 << 20

// opening bounds the spawns that look for their programs, or open their terminals and pipes, at once: each can take a
// thread, which Go never gives back. Opening cannot hang; a look that takes long no longer counts.
var opening = newPlaces(2)

// Spawn starts a child through a starter. Spawners are made with it.
func Spawn(ctx context.Context, launch Launch, starter Starter) (Child, error) {
	if err := validate(launch); err != nil {
		return nil, err
	}
	program, err := look(ctx, launch, reached)
	if err != nil {
		return nil, err
	}
	start := prepare(launch, program)
	c := &child{launch: launch, spawned: make(chan struct{}), exited: make(chan struct{}), ended: make(chan struct{}),
		abandoned: make(chan struct{})}
	start.Exited, start.Background, start.TreeEnded = c.onExited, c.onBackground, c.onTreeEnded
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
	launch.Events(Spawned{c})
	close(c.spawned)
	c.read()
	return c, nil
}

// looking bounds the looks at file systems that are under way: one that does not answer takes a thread, and nobody can end
// it. When so many do not, all others have to wait, too.
var looking = make(chan struct{}, 256)

// look finds the program of a launch in a goroutine of its own, which is left alone if ctx ends first: file systems may not
// answer. So it must not look at the lists of the launch, which are the caller's again then, nor keep them.
func look(ctx context.Context, launch Launch, at func(name, dir, path string) (string, error)) (string, error) {
	name, dir, path := launch.Argv[0], launch.Dir, searchPath(launch.Env)
	done := make(chan struct{})
	var program string
	var failed error
	go func() {
		select {
		case looking <- struct{}{}:
		case <-ctx.Done():
			return
		}
		defer close(done)
		defer func() { <-looking }()
		over := opening.takeForALook()
		program, failed = at(name, dir, path)
		over()
	}()
	select {
	case <-done:
		return program, failed
	case <-ctx.Done():
		return "", startError(launch, name, ctx.Err())
	}
}

// reached finds a program, and returns when its file system and that of the directory have answered.
func reached(name, dir, path string) (string, error) {
	if err := checkDir(dir); err != nil {
		return "", err
	}
	program, err := findProgram(name, dir, path)
	if err != nil {
		return "", err
	}
	reach(program)
	return program, nil
}

func prepare(launch Launch, program string) Start {
	argv := slices.Clone(launch.Argv)
	if launch.Argv0 != "" {
		argv[0] = launch.Argv0
	}
	grace := launch.Grace
	if grace <= 0 {
		grace = DefaultGrace
	}
	return Start{Program: program, Argv: argv, Env: launch.Env, Dir: launch.Dir, TTY: launch.TTY,
		Keep: launch.OnLeaderExit == messages.KeepTree, Grace: grace}
}

func invalid(field, detail, hint string) error {
	return &messages.Error{Code: messages.CodeInvalidRequest, Op: "spawn", Subject: field, Detail: detail, Hint: hint}
}

func validate(launch Launch) error {
	if len(launch.Argv) == 0 || launch.Argv[0] == "" {
		return invalid("argv", "the command line is empty", "name a program")
	}
	if launch.Events == nil {
		return invalid("events", "nobody would receive the child's events", "set Launch.Events")
	}
	total := 0
	for _, list := range [][]string{launch.Argv, launch.Env, {launch.Argv0, launch.Dir}} {
		for _, s := range list {
			if strings.IndexByte(s, 0) >= 0 {
				return invalid("argv", fmt.Sprintf("%.40q contains a NUL byte", s), "the kernel ends strings there; remove it")
			}
			total += len(s) + 1
		}
	}
	if total > MaxArguments {
		return invalid("argv", fmt.Sprintf("arguments and environment have %d bytes", total),
			fmt.Sprintf("pass at most %d, and large data by file or input", MaxArguments))
	}
	if launch.OnLeaderExit != "" && launch.OnLeaderExit != messages.EndTree && launch.OnLeaderExit != messages.KeepTree {
		return invalid("onLeaderExit", fmt.Sprintf("%q is unknown", launch.OnLeaderExit), "use end_tree or keep")
	}
	return validateInherited(launch.Inherit)
}

func validateInherited(inherit []Inherited) error {
	if len(inherit) > MaxInherited {
		return invalid("inherit", fmt.Sprintf("%d descriptors", len(inherit)), fmt.Sprintf("pass at most %d", MaxInherited))
	}
	used := map[int]bool{}
	for _, in := range inherit {
		if in.FD < 3 || in.FD > MaxInheritedFD || in.File == nil || used[in.FD] {
			return invalid("inherit", fmt.Sprintf("descriptor %d", in.FD),
				fmt.Sprintf("give each file a number of its own between 3 and %d", MaxInheritedFD))
		}
		used[in.FD] = true
	}
	return nil
}

func checkDir(dir string) error {
	if !filepath.IsAbs(dir) {
		return invalid("dir", fmt.Sprintf("%q is not absolute", dir), "resolve it first")
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return dirError(dir, err)
	}
	return nil
}

func dirError(dir string, err error) error {
	return &messages.Error{Code: messages.CodeSpawnFailed, Op: "spawn", Subject: dir,
		Detail: "the working directory cannot be used: " + reason(err), Hint: "create it or choose another"}
}

// reach waits until the file system of a program answers. Otherwise the process that forks would wait for it, and with it
// all that it has to do for other commands. What is wrong with the file, the kernel will say.
func reach(program string) {
	var info unix.Stat_t
	if unix.Stat(program, &info) != nil || info.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	for {
		fd, err := unix.Open(program, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		if err != unix.EINTR {
			return
		}
	}
}

// FindProgram is the file that a spawner would execute for a launch: what execvp would find with its PATH and directory. It
// looks at the file system, and gives up with messages.ErrCancelled when ctx ends. Symbolic links are not followed.
func FindProgram(ctx context.Context, l Launch) (string, error) {
	if len(l.Argv) == 0 {
		return "", &messages.Error{Code: messages.CodeInvalidRequest, Op: "spawn", Subject: "argv", Detail: "there is no program"}
	}
	return look(ctx, l, findProgram)
}

// findProgram does what execvp does, with the child's own PATH and directory.
func findProgram(name, dir, path string) (string, error) {
	if strings.Contains(name, "/") {
		return within(dir, name), nil
	}
	var denied string
	for _, folder := range filepath.SplitList(path) {
		candidate := within(dir, folder+"/"+name)
		if folder == "" {
			candidate = within(dir, name)
		}
		switch info, err := os.Stat(candidate); {
		case err != nil || !info.Mode().IsRegular():
		case unix.Faccessat(unix.AT_FDCWD, candidate, unix.X_OK, unix.AT_EACCESS) == nil:
			return candidate, nil
		default:
			denied = candidate
		}
	}
	if denied != "" {
		return "", &messages.Error{Code: messages.CodeSpawnFailed, Op: "spawn", Subject: denied,
			Detail: "it is not executable", Hint: "chmod +x it, or run it with its interpreter"}
	}
	return "", &messages.Error{Code: messages.CodeNoSuchProgram, Op: "spawn", Subject: name,
		Detail: "no such program in PATH " + path, Hint: "install it or give its full path"}
}

// within leaves "link/.." to the kernel, for which it is not nothing.
func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return dir + "/" + path
}

// searchPath is the first PATH, which is the one a C library finds.
func searchPath(env []string) string {
	for _, entry := range env {
		if value, found := strings.CutPrefix(entry, "PATH="); found {
			return value
		}
	}
	return "/usr/local/bin:/usr/bin:/bin"
}

// startError turns what a starter said into a sentence.
func startError(launch Launch, program string, err error) error {
	if typed, ok := errors.AsType[*messages.Error](err); ok {
		return typed
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &messages.Error{Code: messages.CodeCancelled, Op: "spawn", Subject: program, Detail: err.Error()}
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
	e := &messages.Error{Code: messages.CodeSpawnFailed, Op: "spawn", Subject: program, Detail: reason(err), Hint: scarcity(err)}
	info, statErr := os.Stat(program)
	switch {
	case errors.Is(err, syscall.ENOENT) && statErr == nil:
		e.Detail, e.Hint = "its interpreter does not exist", "look at the first line of the script, or the loader of the binary"
	case errors.Is(err, syscall.ENOENT):
		e.Code = messages.CodeNoSuchProgram
		e.Detail, e.Hint = "no such program", "check the path"
	case errors.Is(err, syscall.EACCES) && statErr == nil && info.IsDir():
		e.Detail, e.Hint = "it is a directory", "name a program"
	case errors.Is(err, syscall.EACCES):
		e.Detail, e.Hint = "permission denied", "check the execute permission of the file and the search permission of its folders"
	case errors.Is(err, syscall.ENOEXEC):
		e.Detail, e.Hint = "it is no program this system can run", "a script needs a first line such as #!/bin/sh"
	case errors.Is(err, syscall.E2BIG):
		e.Detail, e.Hint = "arguments and environment are too long for the kernel", "pass large data by file or input"
	}
	return e
}

// openError is a failure before the execution; its ENOENT is not the program's.
func openError(what string, err error) error {
	return &messages.Error{Code: messages.CodeSpawnFailed, Op: "spawn", Subject: what, Detail: reason(err), Hint: scarcity(err)}
}

// scarcity is the hint where something has run out.
func scarcity(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE):
		return "this process has too many files open: raise its limit or end other commands"
	case errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.ENOSPC):
		return "the system is short of processes, terminals or memory: end other commands"
	}
	return ""
}

// reason is the innermost cause, without Go's "open /path:" prefixes, which the sentence names already.
func reason(err error) string {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	return err.Error()
}
