package mcp

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/execbus/execbus/messages"
)

// These protocol versions changed how questions are asked.
const (
	titledChoices = "2025-11-25" // a choice may be one of several constants with titles
	multiRound    = "2026-07-28" // a question is a result, and the next request brings the answer
)

// approvalKey names the question in a result, which has only one.
const approvalKey = "approval"

// The fields of the form.
const (
	fieldDecision = "decision"
	fieldReason   = "reason"
)

// canAsk reports whether a client can show forms to a person.
func canAsk(client *sdk.ClientCapabilities) bool {
	if client == nil || client.Elicitation == nil {
		return false
	}
	return client.Elicitation.Form != nil || client.Elicitation.URL == nil
}

// form turns a question into a form for a client of a protocol version.
func form(q *messages.Question, version string) *sdk.ElicitParams {
	decision := map[string]any{"type": "string", "title": "Decision"}
	var kinds, titles []string
	var titled []map[string]any
	for _, choice := range q.Choices {
		kinds, titles = append(kinds, string(choice.Kind)), append(titles, choice.String())
		titled = append(titled, map[string]any{"const": string(choice.Kind), "title": choice.String()})
	}
	if version >= titledChoices {
		decision["oneOf"] = titled
	} else {
		decision["enum"], decision["enumNames"] = kinds, titles
	}
	return &sdk.ElicitParams{Mode: "form", Message: q.Text(), RequestedSchema: compact(map[string]any{
		"type": "object",
		"properties": map[string]any{
			fieldDecision: decision,
			fieldReason:   map[string]any{"type": "string", "title": "Reason", "description": "If not: why, for the model. It may be empty."},
		},
		"required": []string{fieldDecision},
	})}
}

// decide turns a client's answer into a decision. Any answer that is not a clear approval denies.
func decide(q *messages.Question, answer *sdk.ElicitResult) messages.Decision {
	switch {
	case answer == nil:
		return messages.Decision{Kind: messages.DecisionDenied, Rejection: "the client did not answer the question"}
	case answer.Action == "decline":
		return messages.Decision{Kind: messages.DecisionDenied}
	case answer.Action != "accept":
		return messages.Decision{Kind: messages.DecisionDenied, Rejection: "the question was dismissed without an answer"}
	}
	kind, _ := answer.Content[fieldDecision].(string)
	reason, _ := answer.Content[fieldReason].(string)
	for _, choice := range q.Choices {
		if string(choice.Kind) == kind {
			decision := messages.Decision{Kind: choice.Kind}
			if choice.Kind == messages.DecisionDenied {
				decision.Rejection = reason
			}
			return decision
		}
	}
	return messages.Decision{Kind: messages.DecisionDenied, Rejection: "the client's answer is not one of the choices"}
}

// questioned waits for the answer of a call, and asks the client the call's questions meanwhile. If another request must
// bring the answer to a question, it returns that question. Otherwise it returns nil, once the call has its answer.
func (c *conversation) questioned(ctx context.Context, request *sdk.CallToolRequest, r *running) *messages.Question {
	if r.questions == nil {
		<-r.call.Done()
		return nil
	}
	withdraw := func() {}
	defer func() { withdraw() }()
	for event := range r.questions.All(context.Background()) { // they end with the call
		withdraw()
		withdraw = func() {}
		asked, isQuestion := event.(messages.ApprovalRequested)
		if !isQuestion || len(r.processes) > 0 && asked.Host == nil && asked.Question.Execution == nil { // the call that asked for the command puts it
			continue
		}
		if request.ProtocolVersion() >= multiRound {
			return &asked.Question
		}
		withdraw = put(ctx, request, r, &asked.Question)
	}
	<-r.call.Done()
	return nil
}

// put asks the client a question, and decides by its answer. The returned function withdraws the question if it is still
// open.
func put(ctx context.Context, request *sdk.CallToolRequest, r *running, q *messages.Question) (withdraw func()) {
	asking, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		answer, err := request.Session.Elicit(asking, form(q, request.ProtocolVersion()))
		if asking.Err() != nil {
			return
		}
		if err != nil {
			answer = nil
		}
		_ = r.session.Decide(asking, messages.Decide{Question: q.ID, Decision: decide(q, answer)}) // it fails if the question has been answered elsewhere
	}()
	return func() {
		cancel()
		<-done
	}
}

// maxParked bounds the calls of one conversation that wait for a request with an answer.
const maxParked = 64

// parked are calls whose question waits for the client's next request. Each has a name that nobody can guess, and the
// request that brings the name takes the call. The lock guards the table: a request, the end of patience and the end of the
// conversation may come at the same time, and exactly one of them gets the call.
type parked struct {
	mu     sync.Mutex
	calls  map[string]*parkedCall
	closed bool
}

type parkedCall struct {
	running  *running
	question *messages.Question
	patience *time.Timer
}

// park keeps a call until a request brings the answer to its question. If there is no room, it denies the question.
func (c *conversation) park(r *running, q *messages.Question) (state string, parked bool) {
	state = rand.Text()
	p := &parkedCall{running: r, question: q}
	c.parked.mu.Lock()
	full := c.parked.closed || len(c.parked.calls) >= maxParked
	if !full {
		if c.parked.calls == nil {
			c.parked.calls = map[string]*parkedCall{}
		}
		c.parked.calls[state] = p
		p.patience = time.AfterFunc(c.server.options.QuestionPatience, func() {
			if p := c.parked.take(state); p != nil {
				p.giveUp()
			}
		})
	}
	c.parked.mu.Unlock()
	if full {
		_ = r.session.Decide(context.Background(), messages.Decide{Question: q.ID,
			Decision: messages.Decision{Kind: messages.DecisionDenied, Rejection: "too many questions are waiting for an answer"}})
	}
	return state, !full
}

func (p *parked) take(state string) *parkedCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	call := p.calls[state]
	delete(p.calls, state)
	return call
}

// clear cancels all parked calls. Calls that are parked later are cancelled as well.
func (p *parked) clear() {
	p.mu.Lock()
	calls := p.calls
	p.calls, p.closed = nil, true
	p.mu.Unlock()
	for _, call := range calls {
		call.patience.Stop()
		call.giveUp()
	}
}

// giveUp cancels a call.
func (p *parkedCall) giveUp() {
	p.running.cancel()
	<-p.running.call.Done()
	p.running.end()
}

// resume continues a parked call with the answer in the request. It runs the command that the question was about, whatever
// command the request names.
func (c *conversation) resume(ctx context.Context, request *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	p := c.parked.take(request.Params.RequestState)
	if p == nil {
		return failed(&messages.Error{Code: messages.ErrAlreadyResolved, Op: "answer a question",
			Detail: "it is not open any more, and its command was not run; make the call again without the old request state"}), nil
	}
	p.patience.Stop()
	answer, _ := request.Params.InputResponses[approvalKey].(*sdk.ElicitResult)
	_ = p.running.session.Decide(ctx, messages.Decide{Question: p.question.ID, Decision: decide(p.question, answer)}) // it fails if the deadline came first
	return c.attend(ctx, request, p.running)
}
