package execserver

import (
	"errors"
	"io"
	"os"

	"github.com/execbus/execbus/execserver/internal/wire"
)

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
