package execserver

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
)

// tree is the part of the file system in which the methods about files work: all of it, or one of the server's roots. No link leads
// out of a root.
type tree interface {
	OpenFile(name string, flag int, mode fs.FileMode) (*os.File, error)
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	Mkdir(name string, mode fs.FileMode) error
	MkdirAll(name string, mode fs.FileMode) error
	Remove(name string) error
	RemoveAll(name string) error
	Readlink(name string) (string, error)
	Symlink(target, name string) error
}

// everywhere is the whole file system.
type everywhere struct{}

func (everywhere) OpenFile(name string, flag int, mode fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, mode)
}
func (everywhere) Stat(name string) (fs.FileInfo, error)        { return os.Stat(name) }
func (everywhere) Lstat(name string) (fs.FileInfo, error)       { return os.Lstat(name) }
func (everywhere) Mkdir(name string, mode fs.FileMode) error    { return os.Mkdir(name, mode) }
func (everywhere) MkdirAll(name string, mode fs.FileMode) error { return os.MkdirAll(name, mode) }
func (everywhere) Remove(name string) error                     { return os.Remove(name) }
func (everywhere) RemoveAll(name string) error                  { return os.RemoveAll(name) }
func (everywhere) Readlink(name string) (string, error)         { return os.Readlink(name) }
func (everywhere) Symlink(target, name string) error            { return os.Symlink(target, name) }

// root is one directory of Options.Roots.
type root struct {
	path string
	tree *os.Root
}

// openRoots opens the directories of Options.Roots.
func openRoots(paths []string) (roots []root, err error) {
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			err = badOption("Roots", path+" is not an absolute path; use one")
		}
		var opened *os.Root
		if err == nil {
			opened, err = os.OpenRoot(path)
		}
		if err != nil {
			closeRoots(roots)
			return nil, err
		}
		roots = append(roots, root{filepath.Clean(path), opened})
	}
	return roots, nil
}

func closeRoots(roots []root) {
	for _, r := range roots {
		_ = r.tree.Close()
	}
}

// location is a file by its name in a tree.
type location struct {
	in   tree
	name string
	path string // absolute
}

// locate finds the tree for a path that a client has sent.
func (s *Server) locate(field, text string) (location, error) {
	path, err := localPath(field, text)
	if err != nil {
		return location{}, err
	}
	if len(s.options.Roots) == 0 {
		if s.enclosure != nil {
			return location{}, wire.Refuse(wire.InvalidRequest, "this server confines its commands and has no directory for files of clients")
		}
		return location{everywhere{}, path, path}, nil
	}
	for _, r := range s.roots {
		if path == r.path {
			return location{r.tree, ".", path}, nil
		}
		if below, is := strings.CutPrefix(path, strings.TrimSuffix(r.path, "/")+"/"); is {
			return location{r.tree, below, path}, nil
		}
	}
	return location{}, wire.Refuse(wire.InvalidRequest, "%s is outside the directories of this server", path)
}

// fileFault is the answer to a failed use of a file.
func fileFault(path string, err error) error {
	if fault, is := errors.AsType[*wire.Fault](err); is {
		return fault
	}
	code := wire.Internal
	like := messages.LikeOf(err)
	if like == messages.LikeNotExist {
		code = wire.NotFound
	}
	cause := err
	if wrapped, is := errors.AsType[*fs.PathError](err); is {
		cause = wrapped.Err
	}
	fault := faultOf(&messages.Error{Code: messages.ErrRuntimeFailure, Op: "use file", Subject: path, Detail: cause.Error(), Like: like})
	fault.Code = code
	return fault
}
