package mcp

import (
	"context"
	"errors"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

const (
	// maxWatches bounds the subscribed resources of one conversation.
	maxWatches = 64
	// updatePause is the least time between two notifications about one resource.
	updatePause = 200 * time.Millisecond
)

// watches are the subscribed resources. A goroutine follows each of them. The lock guards the table: concurrent requests
// subscribe and unsubscribe.
type watches struct {
	mu     sync.Mutex
	all    map[string]*watched
	closed bool
}

type watched struct {
	subscribers int
	events      *bus.Subscription
}

// subscribe begins to notify the client of changes to a process.
func (c *conversation) subscribe(ctx context.Context, request *sdk.SubscribeRequest) error {
	uri := request.Params.URI
	id, ours := processOf(uri)
	if !ours {
		return sdk.ResourceNotFoundError(uri)
	}
	o, err := c.open()
	if err != nil {
		return err
	}
	if _, err := o.session.Read(ctx, messages.ReadOutput{Process: id, Tail: 1}); errors.Is(err, messages.ErrUnknownProcess) {
		return sdk.ResourceNotFoundError(uri)
	}
	c.watches.mu.Lock()
	defer c.watches.mu.Unlock()
	w := c.watches.all[uri]
	switch {
	case c.watches.closed:
		return &messages.Error{Code: messages.ErrClosed, Op: "subscribe", Detail: "the conversation is over"}
	case w != nil:
		w.subscribers++
		return nil
	case len(c.watches.all) >= maxWatches:
		return &messages.Error{Code: messages.ErrLimitReached, Op: "subscribe", Detail: "too many resources are subscribed to; unsubscribe from one first"}
	}
	events, err := o.session.Events(execbus.Watch{Name: "resource", Processes: []messages.ProcessID{id},
		Kinds: []messages.EventKind{messages.KindOutputDelta, messages.KindExecExited, messages.KindExecEnded}})
	if err != nil {
		return err
	}
	if c.watches.all == nil {
		c.watches.all = map[string]*watched{}
	}
	c.watches.all[uri] = &watched{subscribers: 1, events: events}
	go c.tellUpdates(uri, events)
	return nil
}

// tellUpdates notifies the client of changes to a resource, at a limited rate, until the last subscriber is gone or the
// resource can no longer change.
func (c *conversation) tellUpdates(uri string, events *bus.Subscription) {
	for event, err := range events.All(context.Background()) {
		if err != nil {
			return
		}
		last := false
		for more := true; more; event, more, _ = events.TryNext() {
			_, ended := event.(messages.ExecEnded)
			last = last || ended
		}
		_ = c.protocol.ResourceUpdated(context.Background(), &sdk.ResourceUpdatedNotificationParams{URI: uri}) // it never fails
		if last {
			c.watches.forget(uri, events)
			return
		}
		select {
		case <-time.After(updatePause):
		case <-c.ended:
		}
	}
}

// unsubscribe removes one subscriber.
func (c *conversation) unsubscribe(_ context.Context, request *sdk.UnsubscribeRequest) error {
	c.watches.mu.Lock()
	defer c.watches.mu.Unlock()
	w := c.watches.all[request.Params.URI]
	if w == nil {
		return nil
	}
	if w.subscribers--; w.subscribers == 0 {
		w.events.Close()
		delete(c.watches.all, request.Params.URI)
	}
	return nil
}

// forget removes a watch whose process has ended, so that it counts no longer.
func (w *watches) forget(uri string, events *bus.Subscription) {
	events.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.all[uri]; one != nil && one.events == events {
		delete(w.all, uri)
	}
}

// clear ends all watches.
func (w *watches) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.all {
		one.events.Close()
	}
	w.all, w.closed = nil, true
}
