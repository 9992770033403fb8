package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

// These constants say how processes appear as resources.
const (
	scheme   = "execbus://processes/"
	mimeType = "text/plain"
	// resourceTail is how much of the end of a process's output its resource shows, in bytes, and how much a page of it has.
	resourceTail = 64 << 10
	// pages is between the process and the offset in the URI of a page.
	pages = "/output/"
	// nextKey has the URI of the next page, unless nothing will follow; totalKey how much output there is, and missedKey how much before
	// the page is not kept.
	nextKey   = "execbus/next"
	totalKey  = "execbus/total"
	missedKey = "execbus/missed"
)

// pageOf is the URI of a page of output.
func pageOf(id messages.ProcessID, offset int64) string {
	return uriOf(id) + pages + strconv.FormatInt(offset, 10)
}

// whole is a link to all output of a process.
func whole(id messages.ProcessID) *sdk.ResourceLink {
	return &sdk.ResourceLink{URI: pageOf(id, 0), Name: "output of process " + id.String(), Description: "All output, in pages.", MIMEType: mimeType}
}

// readPage returns a page of a process's output, which begins at an offset, or where output is kept again.
func (c *conversation) readPage(ctx context.Context, request *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	uri := request.Params.URI
	process, digits, _ := strings.Cut(uri, pages)
	id, ours := processOf(process)
	offset, err := strconv.ParseInt(digits, 10, 64)
	if !ours || err != nil || uri != pageOf(id, offset) {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	o, err := c.open()
	if err != nil {
		return nil, err
	}
	page, err := o.session.Read(ctx, messages.ReadOutput{Process: id, Offset: &offset, Max: resourceTail, SkipLost: true})
	if errors.Is(err, messages.ErrUnknownProcess) || errors.Is(err, messages.ErrOutputUnretained) || errors.Is(err, messages.ErrInvalidRequest) {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	if err != nil {
		return nil, err
	}
	next := offset + page.Missed
	var output []byte
	for _, chunk := range page.Chunks {
		output = append(output, chunk.Bytes...)
	}
	if next += int64(len(output)); next < page.Total || !page.Ended { // a character in pieces comes with the next page
		whole := beforeUnfinished(output)
		next -= int64(len(output) - len(whole))
		output = whole
	}
	meta := sdk.Meta{totalKey: page.Total}
	if page.Missed > 0 {
		meta[missedKey] = page.Missed
	}
	if next < page.Total || !page.Ended {
		meta[nextKey] = pageOf(id, next)
	}
	return &sdk.ReadResourceResult{Meta: meta, Contents: []*sdk.ResourceContents{
		{URI: uri, MIMEType: mimeType, Text: strings.ToValidUTF8(string(output), "\uFFFD")}}}, nil
}

// beforeUnfinished is a text without the beginning of a character at its end.
func beforeUnfinished(text []byte) []byte {
	for n := 1; n <= min(utf8.UTFMax, len(text)); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if n < len(text) && !utf8.FullRune(last) {
				return text[:len(text)-n]
			}
			break
		}
	}
	return text
}

func uriOf(id messages.ProcessID) string { return scheme + id.String() }

// processOf returns the process of a URI.
func processOf(uri string) (messages.ProcessID, bool) {
	digits, ours := strings.CutPrefix(uri, scheme)
	id, err := strconv.Atoi(digits)
	return messages.ProcessID(id), ours && err == nil && digits == strconv.Itoa(id)
}

// listed are the processes that the client sees as resources. The lock is for concurrent calls, which compare this list with
// the session's processes: the library keeps the client's list too, but offers no way to read it.
type listed struct {
	mu  sync.Mutex
	all map[messages.ProcessID]bool
}

// listing brings the list up to date before a client gets it: the session forgets ended processes after a while. It also completes
// the content of a resource.
func (c *conversation) listing(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, request sdk.Request) (sdk.Result, error) {
		if method == "resources/list" && c.listed.some() {
			c.list(ctx, 0)
		}
		result, err := next(ctx, method, request)
		if output, is := result.(*sdk.ReadResourceResult); is && err == nil {
			return reading{output}, nil
		}
		return result, err
	}
}

// reading is the content of a resource. Its JSON has a text even if that is empty: the library leaves an empty text out, and clients
// refuse a content that has neither a text nor a blob.
type reading struct{ *sdk.ReadResourceResult }

// MarshalJSON implements json.Marshaler.
func (r reading) MarshalJSON() ([]byte, error) {
	var members map[string]json.RawMessage
	encoded, err := r.ReadResourceResult.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(encoded, &members)
	}
	if err != nil {
		return nil, err
	}
	type content struct {
		sdk.ResourceContents
		Text string `json:"text"`
	}
	var contents []content
	for _, c := range r.Contents {
		contents = append(contents, content{*c, c.Text})
	}
	members["contents"] = compact(contents)
	return json.Marshal(members)
}

func (l *listed) some() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all) > 0
}

// list adds a resource for a process that has outlived the call that started it, if there is one, and removes the resources of
// processes that the session has forgotten.
func (c *conversation) list(ctx context.Context, id messages.ProcessID) {
	o, err := c.open()
	if err != nil {
		return
	}
	c.listed.mu.Lock() // before the question, or an older answer could overwrite a newer one
	defer c.listed.mu.Unlock()
	known, err := o.session.Records(context.WithoutCancel(ctx))
	if err != nil {
		return
	}
	left := map[messages.ProcessID]bool{}
	for _, p := range known {
		if p.Process == id {
			c.protocol.AddResource(&sdk.Resource{URI: uriOf(id), Name: "process " + id.String(), Title: short(p.Label),
				Description: fmt.Sprintf("The output of %s, in %s", short(p.Label), p.Dir), MIMEType: mimeType}, c.readResource)
		}
		left[p.Process] = p.Process == id || c.listed.all[p.Process]
	}
	for old, was := range c.listed.all {
		if was && !left[old] {
			c.protocol.RemoveResources(uriOf(old))
		}
	}
	c.listed.all = left
}

// short shortens a label for a list.
func short(label string) string {
	const most = 80
	if runes := []rune(label); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return label
}

// readResource returns the end of a process's output.
func (c *conversation) readResource(ctx context.Context, request *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	id, ours := processOf(request.Params.URI)
	if !ours {
		return nil, sdk.ResourceNotFoundError(request.Params.URI)
	}
	o, err := c.open()
	if err != nil {
		return nil, err
	}
	page, err := o.session.Read(ctx, messages.ReadOutput{Process: id, Tail: resourceTail})
	switch {
	case errors.Is(err, messages.ErrUnknownProcess):
		return nil, sdk.ResourceNotFoundError(request.Params.URI)
	case err != nil:
		return nil, err
	}
	var output strings.Builder
	for _, chunk := range page.Chunks {
		output.Write(chunk.Bytes)
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{
		{URI: request.Params.URI, MIMEType: mimeType, Text: strings.ToValidUTF8(output.String(), "\uFFFD")}}}, nil
}

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
