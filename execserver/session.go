package execserver

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// Bounds on the closed processes that a session remembers. It forgets the oldest first. Those whose end a client with
// wire.ExtensionFlow has not acknowledged do not count: reserve bounds them.
const (
	maxClosed      = 1024
	maxClosedBytes = 64 << 20
)

// session holds the processes of one client, which outlive its connection.
type session struct {
	server     *Server
	id         string
	number     int              // people know it by that: who knows the id can take the session
	client     string           // the name that its client has given itself
	extensions []wire.Extension // that the client has asked for
	ctx        context.Context  // ends with the session
	stop       context.CancelFunc

	// mu guards the rest. The requests of one connection are handled concurrently, and hold mu only to look something up.
	mu         sync.Mutex
	conn       *connection // nil: detached
	expiry     *time.Timer // of a detached session
	ended      bool
	processes  map[string]*process // by the client's ids
	numbered   map[messages.ProcessID]*process
	started    int        // processes so far
	living     int        // processes that are not over
	closed     []*process // those that are over and may be forgotten, the oldest first
	kept       int        // bytes of output of the closed ones
	enclosures map[string]ptyio.Enclosure
	files      map[string]*os.File // open, by the client's handles
}

// has reports whether the client has asked for an extension.
func (s *session) has(extension wire.Extension) bool { return slices.Contains(s.extensions, extension) }

// attached reports whether a connection is the session's.
func (s *session) attached(to *connection) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn == to
}

// attach gives the session a connection, if it has none.
func (s *session) attach(to *connection) bool {
	s.mu.Lock()
	if s.ended || s.conn != nil {
		s.mu.Unlock()
		return false
	}
	s.conn = to
	s.expiry.Stop()
	processes := s.list()
	s.mu.Unlock()
	for _, p := range processes {
		p.attach(to)
	}
	return true
}

// list is called with the lock.
func (s *session) list() []*process {
	list := make([]*process, 0, len(s.processes))
	for _, p := range s.processes {
		list = append(list, p)
	}
	return list
}

// probe ends the session's connection if the client does not answer.
func (s *session) probe() {
	s.mu.Lock()
	c := s.conn
	s.mu.Unlock()
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.server.options.patience.probe)
	defer cancel()
	if err := c.wire.Ping(ctx); err != nil {
		_ = c.wire.Close()
		<-c.over
	}
}

// detach is called when a connection has ended and none of its goroutines runs.
func (s *session) detach(from *connection) {
	s.mu.Lock()
	if s.conn != from {
		s.mu.Unlock()
		return
	}
	s.conn = nil
	if !s.ended {
		s.expiry = time.AfterFunc(s.server.options.Detached, s.expire)
	}
	processes := s.list()
	s.mu.Unlock()
	for _, p := range processes {
		p.detach(from)
	}
}

// expire ends a session that is still detached.
func (s *session) expire() { s.endIf(func() bool { return s.conn == nil }) }

// end ends the session with all its processes, and does not wait for them.
func (s *session) end() { s.endIf(func() bool { return true }) }

// endIf is end under a condition, which is checked with the lock held.
func (s *session) endIf(condition func() bool) {
	s.mu.Lock()
	if s.ended || !condition() {
		s.mu.Unlock()
		return
	}
	s.ended = true
	if s.expiry != nil {
		s.expiry.Stop()
	}
	processes, enclosures, files := s.list(), s.enclosures, s.files
	s.processes, s.numbered, s.enclosures, s.files, s.closed = nil, nil, nil, nil, nil
	s.mu.Unlock()
	s.stop()
	for _, p := range processes {
		p.discard()
	}
	for _, e := range enclosures {
		e.Release()
	}
	for _, file := range files {
		_ = file.Close() // they were only read
	}
	s.server.forget(s.id)
}

// reserve takes an id for a process that will be started.
func (s *session) reserve(p *process) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch most := s.server.options.MaxProcesses; {
	case s.ended:
		return wire.Refuse(wire.InvalidRequest, "the session has ended")
	case s.processes[p.id] != nil:
		return wire.Refuse(wire.InvalidRequest, "process %s already exists; use another id", p.id)
	case s.living >= most:
		return wire.Refuse(wire.Internal, "the session has reached its limit of %d processes; end one first", most)
	case len(s.processes)-len(s.closed) >= 2*most:
		return wire.Refuse(wire.Internal, "the session has %d processes that live or whose ends are not acknowledged, which is the limit; acknowledge some ends", 2*most)
	}
	s.processes[p.id] = p
	p.about.Process = firstNumber + messages.ProcessID(s.started)
	s.numbered[p.about.Process] = p
	s.started++
	s.living++
	return nil
}

// unlist frees the id of a process that was not started, or is being ended before its start was answered.
func (s *session) unlist(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.processes[p.id] == p {
		delete(s.processes, p.id)
		delete(s.numbered, p.about.Process)
	}
}

// find returns the process with an id; nil if there is none.
func (s *session) find(id string) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.processes[id]
}

// over is called once for each process, when nothing is left of it.
func (s *session) over() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.living--
}

// retire is called once for a process that is over and may be forgotten. It forgets the oldest ones beyond the bounds. The caller holds
// the process's lock.
func (s *session) retire(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.processes[p.id] != p {
		return
	}
	s.closed = append(s.closed, p)
	s.kept += p.past.kept // this no longer changes
	for len(s.closed) > maxClosed || s.kept > maxClosedBytes {
		s.drop(s.closed[0])
	}
}

// forget forgets a closed process.
func (s *session) forget(p *process) {
	s.mu.Lock()
	s.drop(p)
	s.mu.Unlock()
	s.server.changed()
}

// drop is called with the lock.
func (s *session) drop(p *process) {
	if i := slices.Index(s.closed, p); i >= 0 {
		s.closed = slices.Delete(s.closed, i, i+1)
		s.kept -= p.past.kept
		p.spooling.close()
		if s.processes[p.id] == p { // otherwise it was unlisted
			delete(s.processes, p.id)
			delete(s.numbered, p.about.Process)
		}
	}
}
