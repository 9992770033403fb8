package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"

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
	session *execbus.Session
	call    *tools.Call
	id      messages.CallID
	process messages.ProcessID // the process that the call concerns; zero for a new command
	cancel  context.CancelFunc
	// questions delivers the call's questions and the ends of these; nil if the client cannot be asked.
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
	r := &running{session: o.session, cancel: func() {}, id: messages.CallID("mcp-" + uuid.NewString()), process: tools.ProcessOf(request.Params.Arguments)}
	if request.Params.Name == tools.ExecCommand && canAsk(request.ClientCapabilities()) {
		r.questions, err = o.session.Events(execbus.Watch{Name: "approvals", Calls: []messages.CallID{r.id},
			Kinds: []messages.EventKind{messages.KindApprovalRequested, messages.KindApprovalResolved}})
		if err != nil {
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
	return result(answer), nil
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
