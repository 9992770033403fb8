package mcp

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
)

// maxConversations bounds the clients that one server serves at the same time.
const maxConversations = 64

// lingering is how long ServeStream waits, after the processes have ended, for a client that reads nothing.
const lingering = 300 * time.Millisecond

// Server serves the tools of a runtime to clients. Its methods are safe for concurrent use.
type Server struct {
	runtime *execbus.Runtime
	options Options

	// The clients that are served, those over HTTP with their connections. The lock is held to look up, add or remove one.
	// Requests do that at any time; an owner to send messages to would have to end when the last of them has.
	mu            sync.Mutex
	conversations map[*conversation]*sdk.ServerSession
	closed        bool
}

// NewServer makes a server on a runtime. The caller still has to shut the runtime down.
func NewServer(runtime *execbus.Runtime, options Options) (*Server, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Server{runtime: runtime, options: options, conversations: map[*conversation]*sdk.ServerSession{}}, nil
}

// ServeStream serves one client, with one message a line on in and out, until in or ctx ends. Then it ends the client's
// processes, unless Options.Detach is set. It returns when the processes have ended, which takes little longer than their
// grace. It keeps a goroutine until in ends.
func (s *Server) ServeStream(ctx context.Context, in io.Reader, out io.Writer) error {
	stream := newStream(in, out)
	c := s.newConversation(stream.begun)
	if err := s.admit(c, nil); err != nil {
		return err
	}
	connection, err := c.protocol.Connect(ctx, stream, nil)
	if err != nil {
		return err
	}
	select {
	case <-stream.ended:
		if s.options.Detach {
			c.outlast(ctx)
		}
	case <-ctx.Done():
	}
	c.close()
	_ = stream.Close()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		_ = connection.Wait() // its error only says that the stream has ended
	}()
	select {
	case <-finished:
	case <-time.After(lingering):
	}
	return nil
}

// admit adds a conversation to those that are served.
func (s *Server) admit(c *conversation, connection *sdk.ServerSession) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch _, known := s.conversations[c]; {
	case s.closed:
		return &messages.Error{Code: messages.ErrClosed, Op: "serve", Detail: "the server is closed"}
	case known:
		return nil
	case len(s.conversations) >= maxConversations:
		return &messages.Error{Code: messages.ErrLimitReached, Op: "serve",
			Detail: "the server already has its maximum of clients; end the session of one that is not needed any more"}
	}
	s.conversations[c] = connection
	return nil
}

func (s *Server) dismiss(c *conversation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conversations, c)
}

// named finds the conversation of a connection by the name of its session.
func (s *Server) named(name string) *conversation {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, connection := range s.conversations {
		if connection != nil && connection.ID() == name {
			return c
		}
	}
	return nil
}

// Close ends all conversations with their processes. No new one can begin.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	all := maps.Clone(s.conversations)
	s.mu.Unlock()
	var ended sync.WaitGroup
	for c, connection := range all {
		ended.Go(func() {
			c.close()
			if connection != nil {
				_ = connection.Close() // its error only says that the client has gone
			}
		})
	}
	ended.Wait()
}

// DefaultQuestionPatience is the default of Options.QuestionPatience.
const DefaultQuestionPatience = 10 * time.Minute

// Options of a Server. The zero value is useful.
type Options struct {
	// Session has the options for the session of each client. Its Approver is ignored: the client is asked.
	Session execbus.SessionOptions
	// SandboxSettings and AssuranceSetting name the server's settings to a model that needs more: see tools.Options.
	SandboxSettings, AssuranceSetting string
	// HideShell leaves the argument shell out of exec_command.
	HideShell bool
	// Detach lets processes live on when the client of a stream has gone. ServeStream then returns when they have ended by
	// themselves. It has no effect on clients over HTTP.
	Detach bool
	// QuestionPatience is how long a question waits for its answer if the client has protocol version 2026-07-28 or later. Then
	// the call is cancelled. Zero means DefaultQuestionPatience.
	QuestionPatience time.Duration
	// Version is the version that the server reports; it may be empty.
	Version string
	// Logger gets the records of the protocol library. Nil means that nothing is logged.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.QuestionPatience < 0 {
		return o, &messages.Error{Code: messages.ErrInvalidRequest, Op: "configure", Subject: "Options.QuestionPatience",
			Detail: fmt.Sprintf("%v is negative; use a positive duration, or 0 for %v", o.QuestionPatience, DefaultQuestionPatience)}
	}
	if o.QuestionPatience == 0 {
		o.QuestionPatience = DefaultQuestionPatience
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Session.Approver = nil
	return o, nil
}

// tools returns the options of the tools.
func (o Options) tools() tools.Options {
	return tools.Options{Session: o.Session, SandboxSettings: o.SandboxSettings, AssuranceSetting: o.AssuranceSetting, HideShell: o.HideShell}
}
