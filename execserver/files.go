package execserver

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
)

// Bounds of the methods about files.
const (
	maxFile        = 32 << 20 // bytes of a file that is read or written whole
	maxBlock       = 1 << 20  // bytes of one block
	maxListed      = 100_000  // names of one directory
	maxFilesAtOnce = 16       // operations of the server that go on at the same time
	maxLarge       = 8        // operations of a connection whose answers are large, until these are being sent
)

// operation is a request on files or on a process. On one connection operations on the same path, handle or process take effect in the
// order of their requests, and so do those that change a directory and something below it.
type operation struct {
	on      []string // paths, handles and processes
	changes bool     // it does not only read
	large   bool     // its answer is large
	done    chan struct{}
}

// precedes reports whether an operation has to wait for an earlier one.
func (u *operation) precedes(later *operation) bool {
	if !u.changes && !later.changes {
		return false
	}
	for _, one := range u.on {
		for _, other := range later.on {
			if one == other || u.changes && later.changes && (within(one, other) || within(other, one)) {
				return true
			}
		}
	}
	return false
}

// beginOperation notes an operation, and returns those for which it has to wait.
func (c *connection) beginOperation(u *operation) (first []*operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, earlier := range c.operations {
		if earlier.precedes(u) {
			first = append(first, earlier)
		}
	}
	u.done = make(chan struct{})
	c.operations = append(c.operations, u)
	return first
}

func (c *connection) endOperation(u *operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.operations = slices.DeleteFunc(c.operations, func(other *operation) bool { return other == u })
	close(u.done)
}

// awaitOperations waits until operations are over.
func awaitOperations(ctx context.Context, list []*operation) error {
	for _, one := range list {
		select {
		case <-one.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// operate runs an operation on files in a goroutine of its own: a file system may never answer. If the connection ends, operate does not
// wait for that goroutine.
func operate(c *connection, u *operation, do func() (any, error)) (later, error) {
	first := c.beginOperation(u)
	return func(ctx context.Context) (any, error) {
		if err := awaitOperations(ctx, first); err != nil {
			return nil, err
		}
		if u.large {
			if err := take(ctx, c.large); err != nil {
				return nil, err
			}
		}
		if err := take(ctx, c.server.files); err != nil {
			return nil, err
		}
		var result any
		var err error
		go func() {
			defer func() {
				c.endOperation(u)
				<-c.server.files
			}()
			result, err = do()
		}()
		select {
		case <-u.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		switch {
		case !u.large:
			return result, err
		case err != nil:
			<-c.large
			return nil, err
		}
		return func() any {
			<-c.large // the answer is being sent
			return result
		}, nil
	}, nil
}

// take adds an entry to a channel that bounds something.
func take(ctx context.Context, bound chan struct{}) error {
	select {
	case bound <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unconfined returns an error if the client asks for a sandbox.
func unconfined(sandbox *any) error {
	if sandbox == nil {
		return nil
	}
	return wire.Refuse(wire.InvalidParams, "params.sandbox cannot be enforced for files; leave it out, or use a command")
}

// onPath calls operate for one path.
func onPath(c *connection, u *operation, path string, sandbox *any, do func(l location) (any, error)) (later, error) {
	if err := unconfined(sandbox); err != nil {
		return nil, err
	}
	l, err := c.server.locate("params.path", path)
	if err != nil {
		return nil, err
	}
	u.on = append(u.on, l.path)
	return operate(c, u, func() (any, error) {
		result, err := do(l)
		if err != nil {
			return nil, fileFault(l.path, err)
		}
		return result, nil
	})
}

// regular opens a regular file. It refuses all other files, such as a FIFO, on which the server could block.
func (l location) regular(flag int) (*os.File, error) {
	file, err := l.in.OpenFile(l.name, flag|syscall.O_NONBLOCK, 0o666)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

func readFile(c *connection, params wire.FileParams) (later, error) {
	return onPath(c, &operation{large: true}, params.Path, params.Sandbox, func(l location) (any, error) {
		file, err := l.regular(os.O_RDONLY)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
		if len(data) > maxFile {
			return nil, wire.Refuse(wire.InvalidRequest, "%s has more than %d bytes; open it and read it in blocks", l.path, maxFile)
		}
		return wire.ReadFileResult{Data: data}, err
	})
}

func writeFile(c *connection, params wire.WriteFileParams) (later, error) {
	return onPath(c, &operation{changes: true}, params.Path, params.Sandbox, func(l location) (any, error) {
		file, err := l.regular(os.O_WRONLY | os.O_CREATE)
		if err != nil {
			return nil, err
		}
		err = file.Truncate(0)
		if err == nil {
			_, err = file.Write(params.Data)
		}
		return wire.Empty{}, errors.Join(err, file.Close())
	})
}

func createDirectory(c *connection, params wire.CreateDirectoryParams) (later, error) {
	return onPath(c, &operation{changes: true}, params.Path, params.Sandbox, func(l location) (any, error) {
		if params.Recursive != nil && *params.Recursive {
			return wire.Empty{}, l.in.MkdirAll(l.name, 0o777)
		}
		return wire.Empty{}, l.in.Mkdir(l.name, 0o777)
	})
}

func getMetadata(c *connection, params wire.FileParams) (later, error) {
	return onPath(c, &operation{}, params.Path, params.Sandbox, func(l location) (any, error) {
		itself, err := l.in.Lstat(l.name)
		if err != nil {
			return nil, err
		}
		info := itself
		link := itself.Mode().Type() == fs.ModeSymlink
		if link {
			if led, err := l.in.Stat(l.name); err == nil {
				info = led
			}
		}
		return wire.MetadataResult{IsDirectory: info.IsDir(), IsFile: info.Mode().IsRegular(), IsSymlink: link, Size: info.Size(),
			CreatedAtMs: createdMs(l.path, info), ModifiedAtMs: info.ModTime().UnixMilli()}, nil
	})
}

// names lists a directory, in the order of the names.
func (l location) names() ([]string, error) {
	dir, err := l.in.OpenFile(l.name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(maxListed + 1)
	if len(names) > maxListed {
		return nil, wire.Refuse(wire.InvalidRequest, "%s has more than %d names; list it with a command", l.path, maxListed)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	slices.Sort(names)
	return names, err
}

// below returns the location of a file in a directory.
func (l location) below(name string) location {
	return location{l.in, filepath.Join(l.name, name), filepath.Join(l.path, name)}
}

func readDirectory(c *connection, params wire.FileParams) (later, error) {
	return onPath(c, &operation{large: true}, params.Path, params.Sandbox, func(l location) (any, error) {
		names, err := l.names()
		result := wire.ReadDirectoryResult{Entries: []wire.DirectoryEntry{}}
		for _, name := range names {
			entry := wire.DirectoryEntry{FileName: strings.ToValidUTF8(name, "\ufffd")}
			if info, err := l.in.Stat(l.below(name).name); err == nil { // otherwise it is a link to nothing, or has gone
				entry.IsDirectory, entry.IsFile = info.IsDir(), info.Mode().IsRegular()
			}
			result.Entries = append(result.Entries, entry)
		}
		return result, err
	})
}

func remove(c *connection, params wire.RemoveParams) (later, error) {
	return onPath(c, &operation{changes: true}, params.Path, params.Sandbox, func(l location) (any, error) {
		_, err := l.in.Lstat(l.name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && params.Force != nil && *params.Force:
			return wire.Empty{}, nil
		case err != nil:
			return nil, err
		case l.name == "." || l.path == "/":
			return nil, wire.Refuse(wire.InvalidRequest, "%s is the top directory of the server's files and cannot be removed; remove the files in it", l.path)
		case params.Recursive != nil && *params.Recursive:
			return wire.Empty{}, l.in.RemoveAll(l.name)
		}
		return wire.Empty{}, l.in.Remove(l.name)
	})
}

func canonicalize(c *connection, params wire.FileParams) (later, error) {
	return onPath(c, &operation{}, params.Path, params.Sandbox, func(l location) (any, error) {
		if _, err := l.in.Stat(l.name); err != nil { // nothing outside the roots is disclosed
			return nil, err
		}
		path, err := l.canonical()
		return wire.CanonicalizeResult{Path: wire.FileURI(path)}, err
	})
}

// maxLinks bounds the symbolic links of one path.
const maxLinks = 40

// canonical returns the path without links. In a root it makes each step below that root, so that nothing outside is disclosed, whatever
// is replaced meanwhile; the path of the root stays as the server names it, which is how the client has to name it, too.
func (l location) canonical() (string, error) {
	if _, all := l.in.(everywhere); all {
		return filepath.EvalSymlinks(l.path)
	}
	at, links, top := ".", 0, l.path
	if l.name != "." {
		top = strings.TrimSuffix(l.path, l.name)
	}
	for rest := strings.Split(l.name, "/"); len(rest) > 0; {
		path := filepath.Join(at, rest[0])
		rest = rest[1:]
		info, err := l.in.Lstat(path)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = path
			continue
		}
		to, err := l.in.Readlink(path)
		if links++; err == nil && (links > maxLinks || filepath.IsAbs(to)) {
			err = &fs.PathError{Op: "readlink", Path: l.path, Err: syscall.ELOOP}
		}
		if err != nil {
			return "", err
		}
		rest = slices.Concat(strings.Split(to, "/"), rest)
	}
	return filepath.Join(top, at), nil
}

// maxHandles bounds the files that one session has open.
const maxHandles = 64

// openFile opens a file for fs/readBlock. It stays open until it is closed or the session ends.
func openFile(c *connection, params wire.OpenFileParams) (later, error) {
	if len(params.HandleID) > maxID {
		return nil, wire.Refuse(wire.InvalidParams, "params.handleId has more than %d bytes; use a shorter one", maxID)
	}
	s := c.session
	return onPath(c, &operation{on: []string{handle(params.HandleID)}, changes: true}, params.Path, params.Sandbox, func(l location) (any, error) {
		file, err := l.regular(os.O_RDONLY)
		if err != nil {
			return nil, err
		}
		if err := s.keepFile(params.HandleID, file); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		return wire.Empty{}, nil
	})
}

func (s *session) keepFile(id string, file *os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return wire.Refuse(wire.InvalidRequest, "the session has ended")
	case s.files[id] != nil:
		return wire.Refuse(wire.InvalidRequest, "handle %s already exists; use another id", id)
	case len(s.files) >= maxHandles:
		return wire.Refuse(wire.Internal, "the session has reached its limit of %d open files; close one first", maxHandles)
	}
	s.files[id] = file
	return nil
}

func (s *session) file(id string) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if file := s.files[id]; file != nil {
		return file, nil
	}
	return nil, wire.Refuse(wire.NotFound, "unknown handle %.200s", id)
}

// handle names an open file among the things that operations are on. No path is relative.
func handle(id string) string { return "handle " + id }

func readBlock(c *connection, params wire.ReadBlockParams) (later, error) {
	if params.Offset > 1<<62 {
		return nil, wire.Refuse(wire.InvalidParams, "params.offset is out of range")
	}
	return operate(c, &operation{on: []string{handle(params.HandleID)}, large: true}, func() (any, error) {
		file, err := c.session.file(params.HandleID)
		if err != nil {
			return nil, err
		}
		block := make([]byte, min(params.Len, maxBlock))
		n, err := file.ReadAt(block, int64(params.Offset))
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return nil, fileFault(file.Name(), err)
		}
		return wire.ReadBlockResult{Chunk: block[:n], EOF: ended}, nil
	})
}

// closeFile closes a file. It is no error if the file is not open.
func closeFile(c *connection, params wire.CloseFileParams) (later, error) {
	s := c.session
	return operate(c, &operation{on: []string{handle(params.HandleID)}, changes: true}, func() (any, error) {
		s.mu.Lock()
		file := s.files[params.HandleID]
		delete(s.files, params.HandleID)
		s.mu.Unlock()
		if file != nil {
			_ = file.Close() // it was only read
		}
		return wire.Empty{}, nil
	})
}

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
