package client

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/execbus/execbus/execserver/internal/wire"
)

// connect makes a connection, and begins or resumes the session on it. Each step has its own time limit.
func (l *link) connect(ctx context.Context) (wire.Conn, error) {
	dialing, cancel := context.WithTimeout(ctx, l.times.dial)
	defer cancel()
	conn, err := l.dial(dialing)
	if err != nil {
		return nil, broken(err)
	}
	greeting, cancel := context.WithTimeout(ctx, l.times.greet)
	defer cancel()
	if err := l.greet(greeting, conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// greet initializes a connection. Notifications of a resumed session may come before the answer.
func (l *link) greet(ctx context.Context, conn wire.Conn) error {
	params := wire.InitializeParams{ClientName: l.name, Extensions: l.wanted}
	if l.session != "" {
		params.ResumeSessionID = &l.session
	}
	id := wire.NumberID(0)
	hello, err := wire.AppendRequest(nil, id, wire.Initialize, params)
	if err != nil {
		return failed("connect", err.Error())
	}
	if err := conn.Write(ctx, hello); err != nil {
		return broken(err)
	}
	for {
		text, err := conn.Read(ctx)
		if err != nil {
			return broken(err)
		}
		m, err := wire.Parse(text)
		if err != nil {
			return violation("a message of it is malformed: %s", err)
		}
		switch {
		case m.Kind == wire.Notification:
			if err := l.notified(m.Method, m.Params); err != nil {
				return err
			}
		case m.Kind == wire.Failure && m.ID == id:
			return refusedSession(m.Fault)
		case m.Kind == wire.Response && m.ID == id:
			return l.welcome(ctx, conn, m.Result)
		default:
			return violation("it did not begin with an answer to initialize")
		}
	}
}

// welcome takes the answer to initialize, and confirms it.
func (l *link) welcome(ctx context.Context, conn wire.Conn, result []byte) error {
	var server wire.InitializeResult
	if err := json.Unmarshal(result, &server); err != nil {
		return violation("its answer to initialize is malformed: %s", err)
	}
	switch {
	case server.SessionID == "" || len(server.SessionID) > maxName:
		return violation("its answer to initialize has no session id of at most %d bytes", maxName)
	case l.session != "" && server.SessionID != l.session:
		return violation("it resumed session %.40q instead of %q", server.SessionID, l.session)
	case slices.Contains(server.Extensions, wire.ExtensionFlow) != slices.Contains(server.Extensions, wire.ExtensionEnds):
		return violation("it has only one of the extensions %q and %q", wire.ExtensionFlow, wire.ExtensionEnds)
	case l.session == "":
		l.session, l.server = server.SessionID, server
	}
	confirm, _ := wire.AppendNotification(nil, wire.Initialized, nil)
	if err := conn.Write(ctx, confirm); err != nil {
		return broken(err)
	}
	return nil
}

// maxName bounds the names that the server gives.
const maxName = 256

// refusedSession returns the error of an initialize that failed. A session that is still attached to another connection can be resumed
// once the server has noticed that the other connection is gone.
func refusedSession(fault *wire.Fault) error {
	if fault.Code == wire.SessionAttached {
		return broken(errors.New(clipped(fault.Message)))
	}
	return final{errors.New("it refused the session: " + clipped(fault.Message))}
}

// has reports whether the server has an extension.
func (l *link) has(e wire.Extension) bool { return slices.Contains(l.server.Extensions, e) }

// flow reports whether the server reports all events of a child, in order, and repeats those that a cut has lost.
func (l *link) flow() bool { return l.has(wire.ExtensionFlow) }

// take handles one message of the server.
func (l *link) take(text []byte) error {
	m, err := wire.Parse(text)
	if err != nil {
		return violation("a message of it is malformed: %s", err)
	}
	switch m.Kind {
	case wire.Notification:
		return l.notified(m.Method, m.Params)
	case wire.Request:
		answer := wire.AppendFailure(nil, m.ID, wire.Refuse(wire.UnknownMethod, "the client does not answer %.80s", m.Method))
		if !l.notify(answer) {
			return violation("it sends requests without reading the answers")
		}
		return nil
	}
	c, err := l.answered(m.ID)
	switch {
	case err != nil || c == nil:
		return err
	case m.Kind == wire.Failure:
		c.finish(nil, m.Fault)
	default:
		c.finish(m.Result, nil)
	}
	return nil
}
