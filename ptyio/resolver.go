package ptyio

import (
	"bufio"
	"context"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/execbus/execbus/messages"
)

// Resolver knows the machine on which a Spawner's children run, whether that is this one or another. Its methods may block,
// fail with messages.ErrCancelled when ctx ends, and are safe for concurrent use. An error says that the machine could not
// be asked, or why a program cannot be run. A missing file is not an error.
type Resolver interface {
	// Program is the file that execvp would execute there for name, with the directory and the PATH of the child: an absolute
	// path if dir is one. Symbolic links are not followed. A name without a slash that is found nowhere is
	// messages.ErrNoSuchProgram; one with a slash is not looked for.
	Program(ctx context.Context, name, dir, path string) (string, error)
	// UserShell is the shell that the machine's user database names for the user as whom commands run there; empty if it
	// does not say.
	UserShell(ctx context.Context) (string, error)
	// IsFile reports whether there is a regular file at path, and IsDir whether there is a directory; links are followed.
	IsFile(ctx context.Context, path string) (bool, error)
	IsDir(ctx context.Context, path string) (bool, error)
	// Environment is what the environment of commands there is made from, as BuildEnvironment wants it. The list is the caller's.
	Environment(ctx context.Context) ([]string, error)
	// TrustedDirs are the directories where only the machine's administrator puts programs, so that these are believed to be
	// what their names say. The list is the caller's.
	TrustedDirs(ctx context.Context) ([]string, error)
}

// Local knows the machine this process runs on. Its looks at the file system are done in goroutines that are left alone if
// ctx ends first, at most 256 at once.
func Local() Resolver { return local{} }

type local struct{}

func (local) Program(ctx context.Context, name, dir, path string) (string, error) {
	if name == "" {
		return "", invalid("argv", "there is no program; name one", "")
	}
	return look(ctx, name, func() (string, error) { return findProgram(name, dir, path) })
}

func (local) UserShell(ctx context.Context) (string, error) {
	return ownShell.get(ctx, func() string {
		file, err := os.Open("/etc/passwd")
		if err != nil {
			return ""
		}
		defer file.Close()
		return shellOf(file, os.Getuid())
	})
}

func (local) IsFile(ctx context.Context, path string) (bool, error) {
	return look(ctx, path, func() (bool, error) {
		info, err := os.Stat(path)
		return err == nil && info.Mode().IsRegular(), nil
	})
}

func (local) IsDir(ctx context.Context, path string) (bool, error) {
	return look(ctx, path, func() (bool, error) {
		info, err := os.Stat(path)
		return err == nil && info.IsDir(), nil
	})
}

func (local) Environment(context.Context) ([]string, error) { return os.Environ(), nil }

func (local) TrustedDirs(context.Context) ([]string, error) {
	return []string{"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"}, nil
}

// ownShell is what the user database says about us. It is looked up once: many commands that start at once would each take
// a thread to read the file.
var ownShell = answer{there: make(chan struct{})}

// answer is looked up once, in a goroutine of its own, so that each caller can stop waiting when its context ends.
type answer struct {
	once  sync.Once
	there chan struct{} // closed when there is a text
	text  string
}

func (a *answer) get(ctx context.Context, ask func() string) (string, error) {
	a.once.Do(func() {
		go func() {
			defer close(a.there)
			a.text = ask()
		}()
	})
	select {
	case <-a.there:
		return a.text, nil
	default:
	}
	select {
	case <-a.there:
		return a.text, nil
	case <-ctx.Done():
		return "", cancelled("the user database", ctx.Err())
	}
}

// shellOf finds a user's shell in a file like /etc/passwd. The standard library does not tell it.
func shellOf(passwd io.Reader, uid int) string {
	wanted := strconv.Itoa(uid)
	for lines := bufio.NewScanner(passwd); lines.Scan(); {
		if fields := strings.Split(lines.Text(), ":"); len(fields) == 7 && fields[2] == wanted {
			return fields[6]
		}
	}
	return ""
}

func cancelled(subject string, err error) error {
	return &messages.Error{Code: messages.ErrCancelled, Op: "spawn", Subject: subject, Detail: err.Error(), Like: messages.LikeOf(err)}
}
