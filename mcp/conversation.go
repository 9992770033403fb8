package mcp

import (
	"context"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
)

// maxCalls bounds the calls of one conversation that have no answer yet.
const maxCalls = 256

// conversation is one client with its own session of execbus. The clients of the protocol without sessions share one.
type conversation struct {
	server   *Server
	protocol *sdk.Server
	begun    func() // says that the call which was read last has begun
	parked   parked
	listed   listed
	slots    chan struct{} // one for each call that has no answer yet
	watches  watches

	// opening is held while the first call opens the session, for which concurrent calls have to wait in any case.
	opening sync.Mutex
	session *opened // nil until then
	over    bool    // nothing will be opened any more

	closing sync.Once
	ended   chan struct{} // closed when the conversation has ended
}

// opened is the part of a conversation that its first call creates.
type opened struct {
	session *execbus.Session
	tools   *tools.Set
}

func (s *Server) newConversation(begun func()) *conversation {
	c := &conversation{server: s, begun: begun, slots: make(chan struct{}, maxCalls), ended: make(chan struct{})}
	c.protocol = sdk.NewServer(&sdk.Implementation{Name: "execbus", Title: "execbus", Version: s.options.Version}, &sdk.ServerOptions{
		Instructions: tools.Instructions, Logger: s.options.Logger, SubscribeHandler: c.subscribe, UnsubscribeHandler: c.unsubscribe,
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{ListChanged: true, Subscribe: true}},
	})
	c.protocol.AddReceivingMiddleware(c.listing)
	for _, t := range tools.List(s.options.tools()) {
		destructive, openWorld := t.Destructive, true
		c.protocol.AddTool(&sdk.Tool{Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.Input, OutputSchema: t.Output,
			Annotations: &sdk.ToolAnnotations{Title: t.Title, ReadOnlyHint: t.ReadOnly, DestructiveHint: &destructive, OpenWorldHint: &openWorld}}, c.call)
	}
	c.protocol.AddResourceTemplate(&sdk.ResourceTemplate{Name: "process", Title: "Output of a process", URITemplate: scheme + "{session_id}",
		Description: "The end of a process's output, also for a while after it has ended.", MIMEType: mimeType}, c.readResource)
	c.protocol.AddResourceTemplate(&sdk.ResourceTemplate{Name: "output", Title: "All output of a process, in pages", URITemplate: scheme + "{session_id}" + pages + "{offset}",
		Description: "Output from an offset on, at most 64 KiB. The result's _meta names the next page.", MIMEType: mimeType}, c.readPage)
	return c
}

// open returns the session, and opens it if there is none yet. If that fails, the next call tries again.
func (c *conversation) open() (*opened, error) {
	c.opening.Lock()
	defer c.opening.Unlock()
	switch {
	case c.session != nil:
		return c.session, nil
	case c.over:
		return nil, &messages.Error{Code: messages.ErrClosed, Op: "open session", Detail: "the conversation is over"}
	}
	session, err := c.server.runtime.OpenSession(c.server.options.Session)
	if err != nil {
		return nil, err
	}
	c.session = &opened{session, tools.New(session, c.server.options.tools())}
	return c.session, nil
}

// finish lets nothing be opened any more, and returns what has been opened; nil if nothing was.
func (c *conversation) finish() *opened {
	c.opening.Lock()
	defer c.opening.Unlock()
	c.over = true
	return c.session
}

// close ends the processes and waits for their end. Waiting calls are answered; later ones find a closed session.
func (c *conversation) close() {
	c.closing.Do(func() {
		defer close(c.ended)
		defer c.server.dismiss(c)
		if o := c.finish(); o != nil {
			_ = o.session.Close(context.Background()) // it is closed already if the runtime is
		}
		c.parked.clear()
		c.watches.clear()
	})
	<-c.ended
}

// outlast waits until the processes have ended by themselves or ctx has ended.
func (c *conversation) outlast(ctx context.Context) {
	o, err := c.open()
	if err != nil {
		return
	}
	ends, err := o.session.Events(execbus.Watch{Name: "detached", Kinds: []messages.EventKind{messages.KindExecEnded}})
	if err != nil {
		return
	}
	defer ends.Close()
	for {
		if left, err := o.session.List(ctx); err != nil || len(left) == 0 {
			return
		}
		if _, err := ends.Next(ctx); err != nil {
			return
		}
	}
}
