package execserver

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/execbus/execbus/execserver/internal/wire"
)

// maxCopied bounds the files of one fs/copy, and maxNested their depth.
const (
	maxCopied = 100_000
	maxNested = 128
)

// copier copies files.
type copier struct{ left int }

func copyFiles(c *connection, params wire.CopyParams) (later, error) {
	if err := unconfined(params.Sandbox); err != nil {
		return nil, err
	}
	from, err := c.server.locate("params.sourcePath", params.SourcePath)
	if err != nil {
		return nil, err
	}
	to, err := c.server.locate("params.destinationPath", params.DestinationPath)
	if err != nil {
		return nil, err
	}
	return operate(c, &operation{on: []string{from.path, to.path}, changes: true}, func() (any, error) {
		info, err := from.in.Lstat(from.name)
		switch {
		case err != nil:
			return nil, fileFault(from.path, err)
		case info.IsDir() && !params.Recursive:
			return nil, wire.Refuse(wire.InvalidRequest, "%s is a directory; copy it with params.recursive", from.path)
		case info.IsDir() && strings.HasPrefix(to.path+"/", strings.TrimSuffix(from.path, "/")+"/"):
			return nil, wire.Refuse(wire.InvalidRequest, "%s is inside %s; copy it to another place", to.path, from.path)
		}
		copying := &copier{left: maxCopied}
		if err := copying.one(from, to, info, 0); err != nil {
			return nil, fileFault(from.path, err)
		}
		return wire.Empty{}, nil
	})
}

// one copies a file, a link, or a directory with everything in it.
func (c *copier) one(from, to location, info fs.FileInfo, depth int) error {
	if c.left--; c.left < 0 || depth > maxNested {
		return wire.Refuse(wire.InvalidRequest, "there are more than %d files or %d levels; copy them with a command", maxCopied, maxNested)
	}
	switch info.Mode().Type() {
	case 0:
		return copyFile(from, to, info.Mode().Perm())
	case fs.ModeSymlink:
		target, err := from.in.Readlink(from.name)
		if err != nil {
			return err
		}
		return to.in.Symlink(target, to.name)
	case fs.ModeDir:
		return c.directory(from, to, info.Mode().Perm(), depth)
	}
	return errors.New("there is a file that is neither regular, nor a directory, nor a link")
}

func (c *copier) directory(from, to location, mode fs.FileMode, depth int) error {
	if err := to.in.Mkdir(to.name, mode|0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	names, err := from.names()
	for i := 0; err == nil && i < len(names); i++ {
		below := from.below(names[i])
		var info fs.FileInfo
		if info, err = from.in.Lstat(below.name); err == nil {
			err = c.one(below, to.below(names[i]), info, depth+1)
		}
	}
	return err
}

func copyFile(from, to location, mode fs.FileMode) error {
	source, err := from.regular(os.O_RDONLY)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := to.regular(os.O_WRONLY | os.O_CREATE)
	if err != nil {
		return err
	}
	same, err := sameFile(source, target)
	if err == nil && same {
		err = errors.New("a file cannot be copied to itself")
	}
	if err == nil {
		err = target.Truncate(0)
	}
	if err == nil {
		_, err = io.Copy(target, source)
	}
	if err == nil {
		err = target.Chmod(mode)
	}
	return errors.Join(err, target.Close())
}

func sameFile(a, b *os.File) (bool, error) {
	one, err := a.Stat()
	if err != nil {
		return false, err
	}
	other, err := b.Stat()
	return err == nil && os.SameFile(one, other), err
}

// Bounds of a walk.
const (
	maxWalked     = 100_000
	maxWalkErrors = 1000
)

// walker collects the entries below a directory.
type walker struct {
	result  wire.WalkResult
	entries int // how many more fit
	depth   int // the deepest level that the client wants
}

func walk(c *connection, params wire.WalkParams) (later, error) {
	w := &walker{result: wire.WalkResult{Entries: []wire.WalkEntry{}, Errors: []wire.WalkError{}}, entries: maxWalked, depth: maxNested}
	if n := params.Options.MaxEntries; n != nil {
		w.entries = int(min(*n, maxWalked))
	}
	if n := params.Options.MaxDepth; n != nil {
		w.depth = int(min(*n, maxNested))
	}
	return onPath(c, &operation{large: true}, params.Path, params.Sandbox, func(l location) (any, error) {
		names, err := l.names()
		if err != nil {
			return nil, err
		}
		w.directory(l, names, 1)
		return w.result, nil
	})
}

// directory lists the entries of a directory at a depth. Each directory comes before its own entries.
func (w *walker) directory(l location, names []string, depth int) {
	if depth > w.depth {
		w.result.Truncated = w.result.Truncated || len(names) > 0
		return
	}
	for _, name := range names {
		if w.entries == 0 {
			w.result.Truncated = true
			return
		}
		below := l.below(name)
		info, err := l.in.Lstat(below.name)
		if err != nil {
			w.failed(below, err)
			continue
		}
		w.entries--
		w.result.Entries = append(w.result.Entries, wire.WalkEntry{Path: wire.FileURI(below.path), IsDirectory: info.IsDir(),
			IsFile: info.Mode().IsRegular(), IsSymlink: info.Mode().Type() == fs.ModeSymlink})
		if !info.IsDir() {
			continue
		}
		inside, err := below.names()
		if err != nil {
			w.failed(below, err)
			continue
		}
		w.directory(below, inside, depth+1)
	}
}

func (w *walker) failed(l location, err error) {
	if len(w.result.Errors) == maxWalkErrors {
		w.result.Truncated = true
		return
	}
	w.result.Errors = append(w.result.Errors, wire.WalkError{Path: wire.FileURI(l.path), Message: err.Error()})
}
