package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
)

// codeKey is the key of the error code in the metadata of a failed call.
const codeKey = "execbus/code"

// running is a tool call that has begun.
type running struct {
	session   *execbus.Session
	call      *tools.Call
	id        messages.CallID
	processes []messages.ProcessID // those that the call concerns; none for a new command
	cancel    context.CancelFunc
	// questions delivers the call's questions, and those about hosts that its processes want to talk to, and the ends of these; nil if
	// there are none, or the client cannot be asked.
	questions *bus.Subscription
	output    *bus.Subscription // what the client is told during the call; nil if it did not ask for progress
}

// call handles tools/call.
func (c *conversation) call(ctx context.Context, request *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	default:
		return failed(&messages.Error{Code: messages.ErrLimitReached, Op: "call a tool", Detail: "too many calls wait for an answer; wait for one of them"}), nil
	}
	if request.Params.RequestState != "" {
		c.begun()
		return c.resume(ctx, request)
	}
	r, err := c.begin(ctx, request)
	c.begun()
	if err != nil {
		return failed(err), nil
	}
	return c.attend(ctx, request, r)
}

// begin begins a call. The call has a context of its own, because it may outlast the request.
func (c *conversation) begin(ctx context.Context, request *sdk.CallToolRequest) (*running, error) {
	o, err := c.open()
	if err != nil {
		return nil, err
	}
	r := &running{session: o.session, cancel: func() {}, id: messages.CallID("mcp-" + uuid.NewString()), processes: tools.ProcessesOf(request.Params.Arguments)}
	asks := request.Params.Name == tools.ExecCommand || request.Params.Name == tools.ApplyPatch
	if (asks || len(r.processes) > 0) && canAsk(request.ClientCapabilities()) {
		watch := execbus.Watch{Name: "approvals", Kinds: []messages.EventKind{messages.KindApprovalRequested, messages.KindApprovalResolved}}
		if asks {
			watch.Calls, r.processes = []messages.CallID{r.id}, nil
		} else {
			watch.Processes = r.processes
		}
		if r.questions, err = o.session.Events(watch); err != nil {
			return nil, err
		}
	}
	if r.output, err = r.outputOf(request); err != nil {
		r.end()
		return nil, err
	}
	callContext, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	r.call = o.tools.Begin(callContext, tools.Request{Call: r.id, Name: request.Params.Name, Arguments: request.Params.Arguments})
	if r.questions != nil {
		go func() {
			<-r.call.Done()
			r.questions.Close()
		}()
	}
	return r, nil
}

// attend answers a request with the answer of its call, or with a question if the protocol requires that. After a question
// the call waits for the request that brings the answer.
func (c *conversation) attend(ctx context.Context, request *sdk.CallToolRequest, r *running) (*sdk.CallToolResult, error) {
	stop := context.AfterFunc(ctx, func() {
		if !errors.Is(context.Cause(ctx), io.EOF) { // the end of a stream ends its calls only if it ends the conversation
			r.cancel()
		}
	})
	defer stop()
	progress := follow(ctx, request, r)
	question := c.questioned(ctx, request, r)
	progress.finish()
	if question != nil {
		if state, parked := c.park(r, question); parked {
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{approvalKey: form(question, request.ProtocolVersion())}, RequestState: state}, nil
		}
		<-r.call.Done()
	}
	defer r.end()
	answer := r.call.Answer()
	if answer.Running && request.Params.Name == tools.ExecCommand {
		c.list(ctx, answer.Process)
	}
	told := result(answer)
	told.Content = append(told.Content, links(answer, request.ProtocolVersion())...)
	return told, nil
}

// linkVersion is the first version of the protocol that has links in results.
const linkVersion = "2025-06-18"

// links are links to the output that a result leaves out.
func links(answer tools.Answer, version string) []sdk.Content {
	if !answer.MoreKept || version < linkVersion {
		return nil
	}
	return []sdk.Content{whole(answer.Process)}
}

// end frees the resources of a call that has its answer.
func (r *running) end() {
	r.cancel()
	for _, events := range []*bus.Subscription{r.questions, r.output} {
		if events != nil {
			events.Close()
		}
	}
}

func result(answer tools.Answer) *sdk.CallToolResult {
	r := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: answer.Text}}, StructuredContent: answer.Structured}
	if answer.Err != nil {
		r.IsError, r.Meta = true, sdk.Meta{codeKey: string(answer.Err.Code)}
	}
	return r
}

// failed is the result of a call that reached no tool.
func failed(err error) *sdk.CallToolResult {
	r := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: err.Error()}}, IsError: true}
	if known, ok := errors.AsType[*messages.Error](err); ok {
		r.Meta = sdk.Meta{codeKey: string(known.Code)}
	}
	return r
}

// compact is for values that always have a JSON form.
func compact(value any) json.RawMessage {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return encoded
}

// Bounds of one progress notification, and the pause after it.
const (
	maxProgress   = 16 << 10 // bytes of output; the rest is counted
	maxCollected  = 1024     // events
	progressPause = 50 * time.Millisecond
)

// outputOf subscribes to the output of a call if its request asks for progress. Otherwise it returns nil.
func (r *running) outputOf(request *sdk.CallToolRequest) (*bus.Subscription, error) {
	if request.Params.GetProgressToken() == nil {
		return nil, nil
	}
	watch := execbus.Watch{Name: "progress", Kinds: []messages.EventKind{messages.KindOutputDelta}}
	switch {
	case request.Params.Name == tools.ExecCommand:
		watch.Calls = []messages.CallID{r.id}
	case request.Params.Name == tools.WriteStdin && len(r.processes) > 0:
		watch.Processes = r.processes
	default:
		return nil, nil
	}
	return r.session.Events(watch)
}

// progress sends the client of one request the output of its call's process.
type progress struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// follow starts sending progress. It returns nil if the client did not ask for any.
func follow(ctx context.Context, request *sdk.CallToolRequest, r *running) *progress {
	if r.output == nil || request.Params.GetProgressToken() == nil {
		return nil
	}
	reading, cancel := context.WithCancel(ctx)
	p := &progress{cancel, make(chan struct{})}
	go func() {
		defer close(p.done)
		for {
			event, err := r.output.Next(reading)
			if err != nil {
				tell(ctx, request, collect(r.output, nil))
				return
			}
			tell(ctx, request, collect(r.output, event))
			select {
			case <-time.After(progressPause):
			case <-reading.Done():
			}
		}
	}()
	return p
}

// finish sends the remaining output.
func (p *progress) finish() {
	if p != nil {
		p.cancel()
		<-p.done
	}
}

// said is the output that one notification reports.
type said struct {
	text    strings.Builder
	omitted int64
	end     int64 // the offset at which it ends in the output of the process
}

// collect combines a first event with those that are already queued.
func collect(output *bus.Subscription, event messages.Event) *said {
	s := &said{}
	for range maxCollected {
		switch e := event.(type) {
		case messages.OutputDelta:
			s.end = e.Offset + int64(len(e.Bytes))
			if s.text.Len()+len(e.Bytes) > maxProgress {
				s.omitted += int64(len(e.Bytes))
			} else {
				s.text.WriteString(strings.ToValidUTF8(string(e.Bytes), "\uFFFD"))
			}
		case messages.Gap:
			s.end, s.omitted = max(s.end, e.End), s.omitted+e.End-e.First
		}
		next, more, _ := output.TryNext()
		if !more {
			break
		}
		event = next
	}
	return s
}

func tell(ctx context.Context, request *sdk.CallToolRequest, s *said) {
	if s.end == 0 {
		return
	}
	text := s.text.String()
	if s.omitted > 0 {
		text += messages.OmissionMarker(s.omitted)
	}
	_ = request.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ // a client that has gone needs no progress
		ProgressToken: request.Params.GetProgressToken(), Progress: float64(s.end), Message: text})
}
