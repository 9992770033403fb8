package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/execbus/execbus/messages"
)

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
		if !isQuestion {
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
