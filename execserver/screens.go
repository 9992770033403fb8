package execserver

import (
	"context"
	"slices"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// WatchTerminal says that somebody begins, or ends, to see the screen of a process, and can say where its cursor is: see PlaceCursor.
func (s Session) WatchTerminal(_ context.Context, m messages.WatchTerminal) error {
	p, err := s.find("watch terminal", m.Process)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watchers++; m.Over {
		p.watchers = max(0, p.watchers-2)
	}
	p.tellWatched()
	return nil
}

// PlaceCursor says where the cursor of a terminal was when a program asked, which gets this for an answer, once, if the client has left the
// answers to the server. The caller finds the requests, ESC[6n, in the output; the offset of one is that of the byte behind it.
func (s Session) PlaceCursor(_ context.Context, m messages.PlaceCursor) error {
	p, err := s.find("place cursor", m.Process)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.place(m.Positions)
	return nil
}

// watchTerminal says whether somebody at the client's sees the screen.
func watchTerminal(p *process, params wire.WatchTerminalParams) (any, later, error) {
	if p == nil {
		return nil, nil, errUnknown(params.ProcessID)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchedThere = params.Watched
	p.tellWatched()
	return wire.Empty{}, nil, nil
}

// placeCursor says where somebody at the client's has seen the cursor.
func placeCursor(p *process, params wire.PlaceCursorParams) (any, later, error) {
	if p == nil {
		return nil, nil, errUnknown(params.ProcessID)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.place(params.Positions)
	return wire.Empty{}, nil, nil
}

// tellWatched tells the child whether somebody sees its screen: here, or at a client that is connected. It is called with the lock.
func (p *process) tellWatched() {
	watched := p.watchers > 0 || p.watchedThere && p.conn != nil
	if child, can := p.child.(ptyio.Watched); can && watched != p.watched {
		p.watched = watched
		child.Watch(watched)
	}
}

// place passes positions on. It is called with the lock.
func (p *process) place(positions []messages.CursorPosition) {
	if child, can := p.child.(ptyio.Watched); can {
		child.Place(slices.Clone(positions[max(0, len(positions)-messages.MaxCursorPositions):]))
	}
}
