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
)

// Bounds of the methods about files.
const (
	maxFile        = 32 << 20 // bytes of a file that is read or written whole
	maxBlock       = 1 << 20  // bytes of one block
	maxListed      = 100_000  // names of one directory
	maxFilesAtOnce = 16       // operations of the server that go on at the same time
	maxLarge       = 8        // operations of a connection whose answers are large, until these are being sent
)

// use is an operation on files or on a process. On one connection operations on the same path, handle or process take effect in the order
// of their requests, and so do those that change a directory and something below it.
type use struct {
	on      []string // paths, handles and processes
	changes bool     // it does not only read
	large   bool     // its answer is large
	done    chan struct{}
}

// before reports whether an operation has to wait for an earlier one.
func (u *use) before(later *use) bool {
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

// beginUse notes an operation, and returns those for which it has to wait.
func (c *connection) beginUse(u *use) (first []*use) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, earlier := range c.uses {
		if earlier.before(u) {
			first = append(first, earlier)
		}
	}
	u.done = make(chan struct{})
	c.uses = append(c.uses, u)
	return first
}

func (c *connection) endUse(u *use) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uses = slices.DeleteFunc(c.uses, func(other *use) bool { return other == u })
	close(u.done)
}

// awaitUses waits until operations are over.
func awaitUses(ctx context.Context, uses []*use) error {
	for _, one := range uses {
		select {
		case <-one.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// using runs an operation on files in a goroutine of its own: a file system may never answer. If the connection ends, using does not
// wait for that goroutine.
func using(c *connection, u *use, do func() (any, error)) (later, error) {
	first := c.beginUse(u)
	return func(ctx context.Context) (any, error) {
		if err := awaitUses(ctx, first); err != nil {
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
				c.endUse(u)
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

// at calls using for one path.
func at(c *connection, u *use, path string, sandbox *any, do func(l location) (any, error)) (later, error) {
	if err := unconfined(sandbox); err != nil {
		return nil, err
	}
	l, err := c.server.locate("params.path", path)
	if err != nil {
		return nil, err
	}
	u.on = append(u.on, l.path)
	return using(c, u, func() (any, error) {
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
	return at(c, &use{large: true}, params.Path, params.Sandbox, func(l location) (any, error) {
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
	return at(c, &use{changes: true}, params.Path, params.Sandbox, func(l location) (any, error) {
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
	return at(c, &use{changes: true}, params.Path, params.Sandbox, func(l location) (any, error) {
		if params.Recursive != nil && *params.Recursive {
			return wire.Empty{}, l.in.MkdirAll(l.name, 0o777)
		}
		return wire.Empty{}, l.in.Mkdir(l.name, 0o777)
	})
}

func getMetadata(c *connection, params wire.FileParams) (later, error) {
	return at(c, &use{}, params.Path, params.Sandbox, func(l location) (any, error) {
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
	return at(c, &use{large: true}, params.Path, params.Sandbox, func(l location) (any, error) {
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
	return at(c, &use{changes: true}, params.Path, params.Sandbox, func(l location) (any, error) {
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
	return at(c, &use{}, params.Path, params.Sandbox, func(l location) (any, error) {
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
	return at(c, &use{on: []string{handle(params.HandleID)}, changes: true}, params.Path, params.Sandbox, func(l location) (any, error) {
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
	return using(c, &use{on: []string{handle(params.HandleID)}, large: true}, func() (any, error) {
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
	return using(c, &use{on: []string{handle(params.HandleID)}, changes: true}, func() (any, error) {
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
