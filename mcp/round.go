package mcp

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/execbus/execbus/messages"
)

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
