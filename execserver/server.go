package execserver

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/spool"
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
	output    *spool.Store   // of Options.Spool
	files     chan struct{}  // holds one entry for each running operation on files
	searches  chan struct{}  // and this, for each search of output

	// mu guards the rest. Connections take it when they begin, start a process or end a session.
	mu       sync.Mutex
	sessions map[string]*session
	opened   int           // sessions so far
	news     chan struct{} // closed when a session or a process begins or ends; nil if nobody follows
	closed   bool
}

// NewServer makes a server that starts its commands with a spawner. The caller must close the spawner: Server.Close does not.
func NewServer(spawner ptyio.Spawner, options Options) (*Server, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{spawner: spawner, options: options, sessions: map[string]*session{}, files: make(chan struct{}, maxFilesAtOnce), searches: make(chan struct{}, maxSearches)}
	if s.output, err = spool.New(options.Spool); err != nil {
		return nil, err
	}
	if options.Confinement != nil {
		if err := cmp.Or(options.Confinement.Policy.Check(), options.Confinement.Least.Check()); err != nil {
			return nil, err
		}
		if s.enclosure, err = s.encloses(context.Background(), *options.Confinement); err != nil {
			return nil, err
		}
		if _, err := spawner.Can(ptyio.Launch{Sandbox: s.enclosure}); err != nil {
			s.free()
			return nil, err
		}
	}
	if s.roots, err = openRoots(options.Roots); err != nil {
		s.free()
		return nil, err
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

// free releases the resources that the server holds. It waits for a disk no longer than a write does.
func (s *Server) free() {
	bound, cancel := context.WithTimeout(context.Background(), s.options.patience.disk)
	defer cancel()
	_, _ = hostcode.Call[struct{}]{Do: func(context.Context) (none struct{}, _ error) {
		s.output.Close()
		return none, nil
	}}.Wait(bound)
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
func (s *Server) open(c *connection, client string, extensions []wire.Extension) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, wire.Refuse(wire.Internal, "the server is closing")
	case len(s.sessions) >= s.options.MaxSessions:
		return nil, wire.Refuse(wire.Internal, "the server has reached its limit of %d sessions; try again later", s.options.MaxSessions)
	}
	s.opened++
	one := &session{server: s, id: uuid.NewString(), number: s.opened, client: client, extensions: extensions, conn: c, processes: map[string]*process{},
		numbered:   map[messages.ProcessID]*process{},
		enclosures: map[string]ptyio.Enclosure{}, files: map[string]*os.File{}}
	one.ctx, one.stop = context.WithCancel(s.ctx)
	s.sessions[one.id] = one
	s.notice()
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
	s.notice()
}

// Defaults of Options.
const (
	DefaultMaxMessage   = wire.MaxMessage
	DefaultMaxRequests  = 1024
	DefaultMaxProcesses = 128
	DefaultMaxSessions  = 4096
	DefaultDetached     = wire.DetachedLifetime
)

// Options of a server. The zero value is usable.
type Options struct {
	// Confinement confines every command for which the client asks for no sandbox. A client's own sandbox is then enforced only if it
	// certainly allows no more: the same policy in the same directory, or read-only. Nil means that clients choose.
	Confinement *ptyio.Confinement
	// Roots are the directories in which the methods about files work, as absolute paths. No link leads out of them. No roots means
	// the whole file system, or no files at all if there is a Confinement. Roots do not restrict commands.
	Roots []string
	// Spool says where the output of processes is kept that the record of a client without the extension flow has no room for: see "Output"
	// in the package doc. No command in a sandbox can change what is in Spool.Dir. Empty means that only the newest output can be read.
	Spool spool.Options
	// MaxMessage bounds a message of a client, in bytes; zero means DefaultMaxMessage. A client that sends more is disconnected.
	MaxMessage int
	// MaxRequests bounds the unanswered requests of a connection; zero means DefaultMaxRequests. Further requests are refused,
	// except those that the server answers at once. So are requests beyond 128 MiB.
	MaxRequests int
	// MaxProcesses bounds the living processes of a session; zero means DefaultMaxProcesses. Further starts are refused. If the client
	// acknowledges events, twice as many processes may live or wait for the acknowledgement of their ends.
	MaxProcesses int
	// MaxSessions bounds the sessions of the server; zero means DefaultMaxSessions. Further clients are refused. A Listener closes
	// connections beyond this number and 256 more.
	MaxSessions int
	// Detached is how long a session lives without a connection; zero means DefaultDetached.
	Detached time.Duration
	// Logger logs failures, among them those of files with output; nil means no log. It must not block.
	Logger *slog.Logger

	patience patience
}

// patience is how long things may take; zero fields mean the defaults.
type patience struct {
	retention time.Duration // of a closed process: wire.Retention
	handshake time.Duration // until a connection is initialized: wire.HandshakeTimeout
	ping      time.Duration // between two pings: wire.PingInterval
	pong      time.Duration // for the answer to one, behind the output that is on its way: 30 s
	stall     time.Duration // for a client to read one message: 30 s
	probe     time.Duration // for a connection to show that it lives when another wants its session: 2 s
	disk      time.Duration // for a write of output: 2 s
	look      time.Duration // for a child to say what it waits for, if it is one of the host's own: 2 s
}

func (o Options) withDefaults() (Options, error) {
	for _, option := range []struct {
		name  string
		value *int
		zero  int
	}{
		{"MaxMessage", &o.MaxMessage, DefaultMaxMessage}, {"MaxRequests", &o.MaxRequests, DefaultMaxRequests},
		{"MaxProcesses", &o.MaxProcesses, DefaultMaxProcesses}, {"MaxSessions", &o.MaxSessions, DefaultMaxSessions},
	} {
		if *option.value < 0 {
			return o, badOption(option.name, fmt.Sprintf("%d is negative; use a positive number, or 0 for %d", *option.value, option.zero))
		}
		*option.value = cmp.Or(*option.value, option.zero)
	}
	if o.Detached < 0 {
		return o, badOption("Detached", fmt.Sprintf("%v is negative; use a positive duration, or 0 for %v", o.Detached, DefaultDetached))
	}
	o.Detached = cmp.Or(o.Detached, DefaultDetached)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	p := &o.patience
	p.retention, p.handshake = cmp.Or(p.retention, wire.Retention), cmp.Or(p.handshake, wire.HandshakeTimeout)
	p.ping, p.pong = cmp.Or(p.ping, wire.PingInterval), cmp.Or(p.pong, 30*time.Second)
	p.stall, p.probe = cmp.Or(p.stall, 30*time.Second), cmp.Or(p.probe, 2*time.Second)
	p.disk, p.look = cmp.Or(p.disk, 2*time.Second), cmp.Or(p.look, 2*time.Second)
	return o, nil
}

func badOption(name, detail string) error {
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: "configure", Subject: "Options." + name, Detail: detail}
}
