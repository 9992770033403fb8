package window

import (
	"context"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// Source is what a window shows if it is no runtime, such as an *execserver.Server. Its methods are safe for concurrent use.
type Source[S Session] interface {
	// Sessions are those that are open now.
	Sessions() []S
	// Follow calls changed when a session or a process has begun, ended or changed, until ctx ends. changed returns at once.
	Follow(ctx context.Context, changed func())
}

// Session is what a window needs of a session: the methods of *execbus.Session, and Info. Their contexts have deadlines, except in Read, where
// the messages say how long to wait.
type Session interface {
	ID() messages.SessionID
	// List are the processes that have not ended, and Records those that have, as long as they are remembered.
	List(context.Context) (messages.Processes, error)
	Records(context.Context) (messages.Processes, error)
	// Info describes a process of either kind.
	Info(context.Context, messages.ProcessID) (messages.ProcessInfo, error)
	// Read reads from an Offset or with a Tail, can Wait, skips what is lost, and answers a Grep. A window of a Source asks for nothing else. Where a
	// terminal is resized, the page has its Sizes: the screen gets them from there.
	Read(context.Context, messages.ReadOutput) (*messages.OutputPage, error)
	// WatchTerminal says that the screen of a process is seen, and PlaceCursor where its cursor was when the program asked.
	WatchTerminal(context.Context, messages.WatchTerminal) error
	PlaceCursor(context.Context, messages.PlaceCursor) error
	Signal(context.Context, messages.Signal) error
	Terminate(context.Context, messages.Terminate) (*messages.EndRecord, error)
}

// source is a Source, or a runtime.
type source interface {
	Source[Session]
	// Session is one of the sessions; nil if there is none of that name.
	Session(messages.SessionID) Session
}

// served makes a source of a Source, whose sessions have a type of their own.
type served[S Session] struct{ Source[S] }

// Sessions implements source.
func (s served[S]) Sessions() (open []Session) {
	for _, one := range s.Source.Sessions() {
		open = append(open, one)
	}
	return open
}

// Session implements source.
func (s served[S]) Session(id messages.SessionID) Session {
	for _, one := range s.Sessions() {
		if one.ID() == id {
			return one
		}
	}
	return nil
}

// hosted is a runtime as a source.
type hosted struct {
	*execbus.Runtime
	events *timeline // gets what happens
}

// Sessions implements source.
func (h hosted) Sessions() (open []Session) {
	for _, s := range h.Runtime.Sessions() {
		open = append(open, hostedSession{s})
	}
	return open
}

// Session implements source.
func (h hosted) Session(id messages.SessionID) Session {
	if s := h.Runtime.Session(id); s != nil {
		return hostedSession{s}
	}
	return nil
}

// Follow implements source.
func (h hosted) Follow(ctx context.Context, changed func()) { h.events.follow(ctx, h.Runtime, changed) }

// hostedSession is a session of a runtime.
type hostedSession struct{ *execbus.Session }

// Info implements Session.
func (s hostedSession) Info(ctx context.Context, id messages.ProcessID) (messages.ProcessInfo, error) {
	p, err := s.Process(ctx, id)
	if err != nil {
		return messages.ProcessInfo{}, err
	}
	return p.Info(ctx)
}

// own is the session of a runtime that a session is, with all that people can do there; nil if it is another's.
func own(s Session) *execbus.Session {
	h, _ := s.(hostedSession)
	return h.Session
}

// runtime is what the window is of; nil if that is something else.
func (w *Window) runtime() *execbus.Runtime {
	h, _ := w.source.(hosted)
	return h.Runtime
}
