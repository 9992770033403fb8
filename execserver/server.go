package execserver

import (
	"cmp"
	"context"
	"os"
	"sync"

	"github.com/google/uuid"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// Server runs processes for clients. Its methods are safe for concurrent use.
type Server struct {
	spawner   ptyio.Spawner
	enclosure ptyio.Enclosure // of Options.Confinement
	options   Options
	ctx       context.Context // ends with the server
	stop      context.CancelFunc
	running   sync.WaitGroup // connections and children
	roots     []root         // of Options.Roots
	files     chan struct{}  // holds one entry for each running operation on files

	// mu guards the rest. Connections take it when they begin, start a process or end a session.
	mu       sync.Mutex
	sessions map[string]*session
	closed   bool
}

// NewServer makes a server that starts its commands with a spawner. The caller must close the spawner: Server.Close does not.
func NewServer(spawner ptyio.Spawner, options Options) (*Server, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{spawner: spawner, options: options, sessions: map[string]*session{}, files: make(chan struct{}, maxFilesAtOnce)}
	if options.Confinement != nil {
		if err := cmp.Or(options.Confinement.Policy.Check(), options.Confinement.Least.Check()); err != nil {
			return nil, err
		}
		if s.enclosure, err = s.encloses(context.Background(), *options.Confinement); err != nil {
			return nil, err
		}
		if _, err := spawner.Can(ptyio.Launch{Sandbox: s.enclosure}); err != nil {
			return nil, s.freed(err)
		}
	}
	if s.roots, err = openRoots(options.Roots); err != nil {
		return nil, s.freed(err)
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Close ends all connections and sessions, and returns when no process of theirs is left. Then calls of ServeStream and ServeUnix
// and requests to the handler return.
func (s *Server) Close() {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	sessions := make([]*session, 0, len(s.sessions))
	for _, one := range s.sessions {
		sessions = append(sessions, one)
	}
	s.mu.Unlock()
	s.stop()
	for _, one := range sessions {
		one.end()
	}
	s.running.Wait()
	if first {
		s.free()
	}
}

// freed frees a server that could not be made, and returns the error.
func (s *Server) freed(err error) error {
	s.free()
	return err
}

// free releases the resources that the server holds.
func (s *Server) free() {
	if s.enclosure != nil {
		s.enclosure.Release()
	}
	closeRoots(s.roots)
}

// enter adds one connection or process to those for which Close waits. It returns false if the server is closed.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	return true
}

var errServerClosed = &messages.Error{Code: messages.ErrClosed, Op: "serve", Detail: "the server is closed"}

// open makes a session for a connection.
func (s *Server) open(c *connection, extensions []wire.Extension) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, wire.Refuse(wire.Internal, "the server is closing")
	case len(s.sessions) >= s.options.MaxSessions:
		return nil, wire.Refuse(wire.Internal, "the server has reached its limit of %d sessions; try again later", s.options.MaxSessions)
	}
	one := &session{server: s, id: uuid.NewString(), extensions: extensions, conn: c, processes: map[string]*process{},
		enclosures: map[string]ptyio.Enclosure{}, files: map[string]*os.File{}}
	one.ctx, one.stop = context.WithCancel(s.ctx)
	s.sessions[one.id] = one
	return one, nil
}

// resume attaches a connection to a session that has none. If the session has one that no longer answers, that one is ended first.
func (s *Server) resume(c *connection, id string) (*session, error) {
	s.mu.Lock()
	one := s.sessions[id]
	s.mu.Unlock()
	if one == nil {
		return nil, wire.Refuse(wire.InvalidRequest, "unknown session id %s: it never existed, or has expired", id)
	}
	if one.attach(c) {
		return one, nil
	}
	if one.probe(); one.attach(c) {
		return one, nil
	}
	select {
	case <-one.ctx.Done():
		return nil, wire.Refuse(wire.InvalidRequest, "unknown session id %s: it has expired", id)
	default:
		return nil, wire.Refuse(wire.SessionAttached, "session %s is already attached to another connection", id)
	}
}

// forget removes a session that has ended.
func (s *Server) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, id)
}
