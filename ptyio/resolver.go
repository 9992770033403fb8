package ptyio

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/execbus/execbus/internal/follow"
	"github.com/execbus/execbus/internal/placeholder"
	"github.com/execbus/execbus/messages"
)

// Resolver knows the machine on which a Spawner's children run, which may be another one. Its methods may block, and fail
// with messages.ErrCancelled when ctx ends. They are safe for concurrent use. An error says that the machine could not be
// asked, or why a program cannot be run. A missing file is not an error.
type Resolver interface {
	// Program returns the file that execvp would execute on that machine for name, with the directory and the PATH of the
	// child. The path is absolute if dir is. Symbolic links are not followed. If a name without a slash is not found, the error
	// is messages.ErrNoSuchProgram. A name with a slash is not looked up.
	Program(ctx context.Context, name, dir, path string) (string, error)
	// UserShell returns the shell of the user as whom commands run, from the machine's user database; empty if it names none.
	UserShell(ctx context.Context) (string, error)
	// IsFile reports whether there is a regular file at path, and IsDir whether there is a directory; links are followed.
	IsFile(ctx context.Context, path string) (bool, error)
	IsDir(ctx context.Context, path string) (bool, error)
	// Environment returns the environment of that machine, as the base for BuildEnvironment. The caller owns the list.
	Environment(ctx context.Context) ([]string, error)
	// TrustedDirs returns the directories in which only the machine's administrator puts programs. A program there is trusted
	// to be what its name says. The caller owns the list.
	TrustedDirs(ctx context.Context) ([]string, error)
}

// Locator is a Resolver that can say where a path leads. Without it, an approval of a path covers whatever the path leads to later.
type Locator interface {
	Resolver
	// Locate follows an absolute path on that machine. Names at its end may be missing.
	Locate(ctx context.Context, path string) (messages.Location, error)
}

// Patcher is a Resolver of another machine on which the files of patches can be read and written.
type Patcher interface {
	Resolver
	// PatchProgram returns how the program is started there that does it, but for what confines it; see package patch/writer. The error says
	// why there is none.
	PatchProgram(ctx context.Context) (Launch, error)
	// Machine names the machine, always by the same name.
	Machine(ctx context.Context) (string, error)
}

// IsLocal reports whether a resolver is that of the machine that this process runs on.
func IsLocal(r Resolver) bool {
	_, local := r.(local)
	return local
}

// Local returns the resolver for the machine that this process runs on. It looks at the file system in goroutines, at most
// 256 at once. If ctx ends first, it leaves the goroutine behind.
func Local() Resolver { return local{} }

type local struct{}

func (local) Program(ctx context.Context, name, dir, path string) (string, error) {
	if name == "" {
		return "", invalid("argv", "there is no program; name one", "")
	}
	return look(ctx, name, func() (string, error) { return findProgram(name, dir, path) })
}

func (local) UserShell(ctx context.Context) (string, error) {
	return look(ctx, "the user database", func() (string, error) { return ownShell(), nil })
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

// Locate implements Locator.
func (local) Locate(ctx context.Context, path string) (messages.Location, error) {
	return look(ctx, path, func() (messages.Location, error) { return locate(path) })
}

func locate(path string) (messages.Location, error) {
	if at := placeholder.On(path); at != "" { // nothing that anybody has made
		return inDirectory(filepath.Dir(at), path[strings.LastIndexByte(at, '/')+1:])
	}
	end, err := follow.Path(path)
	if err != nil {
		return messages.Location{}, err
	}
	defer end.Close()
	if len(end.Below) == 0 && !end.Directory() {
		return inDirectory(filepath.Dir(end.Path), filepath.Base(end.Path))
	}
	dir, name := filepath.Split(strings.TrimRight(path, "/"))
	if len(end.Below) > 0 && len(end.Links) > 0 && name != ".." {
		// A link that leads nowhere is a name of its own: a placeholder looks like that, and nothing can be written through it.
		if parent, err := inDirectory(dir, name); err == nil {
			if info, err := os.Lstat(parent.Path); err == nil && info.Mode()&os.ModeSymlink != 0 {
				return parent, nil
			}
		}
	}
	return location(end), nil
}

// inDirectory is the location of a name in a directory.
func inDirectory(dir, name string) (messages.Location, error) {
	end, err := follow.Path(dir)
	if err != nil {
		return messages.Location{}, err
	}
	defer end.Close()
	end.Below = append(end.Below, name)
	end.Path = filepath.Join(end.Path, name)
	return location(end), nil
}

func location(end follow.End) messages.Location {
	return messages.Location{Path: end.Path, Device: end.Device, Inode: end.Inode, Born: end.Born, Below: strings.Join(end.Below, "/")}
}

func (local) Environment(context.Context) ([]string, error) { return os.Environ(), nil }

func (local) TrustedDirs(context.Context) ([]string, error) {
	return []string{"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"}, nil
}

// ownShell is the shell that the user database has for this user; empty if it names none. It is looked up once.
var ownShell = sync.OnceValue(func() string {
	file, err := os.Open("/etc/passwd")
	if err != nil {
		return ""
	}
	defer file.Close()
	return shellOf(file, os.Getuid())
})

// shellOf finds a user's shell in a file like /etc/passwd. The standard library does not return it.
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
