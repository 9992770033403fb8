package main

import (
	"context"
	"errors"
	"io"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/cmd/internal/ask"
	"github.com/execbus/execbus/messages"
)

// asked is a question on its way to a person.
type asked struct {
	messages.Question
	wanted context.Context        // done when the answer is no longer wanted
	answer chan messages.Decision // of size one
}

// errUnanswered is the error of an approver that got no answer.
var errUnanswered = errors.New("nobody answered")

// asker is an approver that asks a person at the keyboard.
type asker struct {
	policies *policies
	asks     chan *asked
	session  *execbus.Session // set before the first command
}

func newAsker(p *policies) *asker { return &asker{policies: p, asks: make(chan *asked)} }

// Approve implements execbus.Approver.
func (a *asker) Approve(ctx context.Context, q messages.Question) (messages.Decision, error) {
	question := &asked{Question: q, wanted: ctx, answer: make(chan messages.Decision, 1)}
	select {
	case a.asks <- question:
	case <-ctx.Done():
		return messages.Decision{}, errUnanswered
	}
	select {
	case decision := <-question.answer:
		switch decision.Kind {
		case messages.DecisionAborted:
			a.stopOthers(ctx, q.ID)
		case messages.DecisionApprovedWithRule:
			a.policies.makeRoom()
		}
		return decision, nil
	case <-ctx.Done():
		return messages.Decision{}, errUnanswered
	}
}

// stopOthers aborts the other pending questions after one was answered with x. It runs before the next question can be
// shown.
func (a *asker) stopOthers(ctx context.Context, but messages.QuestionID) {
	waiting, _ := a.session.Questions(ctx) // a session that has ended has none
	for _, q := range waiting {
		if q.ID != but {
			_ = a.session.Decide(ctx, messages.Decide{Question: q.ID, Decision: messages.Decision{Kind: messages.DecisionAborted}}) // it may already be over
		}
	}
}

// put puts a question on the terminal, and waits until it is answered or over.
func (a *asked) put(t *terminal, keys <-chan []byte, out io.Writer) {
	asking := ask.Terminal{Name: "demo", Keys: keys, Out: out, Size: t.size, Drop: t.drop}
	if decision, err := asking.Ask(a.wanted, a.Question); err == nil {
		a.answer <- decision
	}
}
