package ptyio

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// looking bounds the concurrent looks at file systems. A look at one that does not answer occupies a thread and cannot be
// ended. If that many hang, all others have to wait.
var looking = make(chan struct{}, 256)

// look calls at, which may have to wait for a file system, in a goroutine of its own. File systems may not answer. If ctx
// ends first, look returns and the goroutine goes on, so at must not use memory of the caller, such as the lists of a
// launch.
func look[T any](ctx context.Context, subject string, at func() (T, error)) (T, error) {
	done := make(chan struct{})
	var found T
	var failed error
	go func() {
		select {
		case looking <- struct{}{}:
		case <-ctx.Done():
			return
		}
		defer close(done)
		defer func() { <-looking }()
		found, failed = at()
	}()
	select {
	case <-done:
		return found, failed
	case <-ctx.Done():
		var nothing T
		return nothing, cancelled(subject, ctx.Err())
	}
}

// reached finds the program of a launch. It returns when the file systems of the program, the directory and the sandbox have
// answered.
func reached(ctx context.Context, launch Launch) (string, error) {
	name, dir, path, sandbox := launch.Argv[0], launch.Dir, SearchPath(launch.Env), launch.Sandbox
	return look(ctx, name, func() (string, error) {
		if sandbox != nil {
			if err := sandbox.Check(); err != nil {
				return "", err
			}
		}
		if err := checkDir(dir); err != nil {
			return "", err
		}
		program, err := findProgram(name, dir, path)
		if err != nil {
			return "", err
		}
		reach(program)
		return program, nil
	})
}

func checkDir(dir string) error {
	if !filepath.IsAbs(dir) {
		return invalid("dir", fmt.Sprintf("%q is not absolute; use an absolute path", dir), "")
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
	remedy := "create it or choose another"
	if errors.Is(err, syscall.ENOTDIR) {
		remedy = "choose another"
	}
	return &messages.Error{Code: messages.ErrSpawnFailed, Op: "spawn", Subject: strconv.Quote(dir),
		Detail: "the working directory cannot be used: " + reason(err) + "; " + remedy, Like: messages.LikeOf(err)}
}

// reach waits until the file system of a program answers. Otherwise the process that forks would wait for it and delay other
// commands. Errors are ignored, because the kernel reports what is wrong with the file.
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
		return "", &messages.Error{Code: messages.ErrSpawnFailed, Op: "spawn", Subject: denied,
			Detail: "it is not executable; make it so, or run it with its interpreter", Like: messages.LikePermission}
	}
	return "", &messages.Error{Code: messages.ErrNoSuchProgram, Op: "spawn", Subject: name,
		Detail: "no such program in PATH " + path + "; install it or give its full path"}
}

// within joins the paths but keeps "link/..", which the kernel resolves through the link.
func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return dir + "/" + path
}

// SearchPath returns the PATH of an environment. If there are several it is the first, which a C library finds too; if there
// is none it is a usual one.
func SearchPath(env []string) string {
	for _, entry := range env {
		if value, found := strings.CutPrefix(entry, "PATH="); found {
			return value
		}
	}
	return "/usr/local/bin:/usr/bin:/bin"
}
