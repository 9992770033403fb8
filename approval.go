package execbus

import (
	"context"

	"github.com/execbus/execbus/actors"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
)

// Approver answers questions about commands on a person's behalf.
type Approver interface {
	// Approve answers one question. It is called in a goroutine of its own, for one question of a session at a time. It must
	// return when ctx ends: the question was then answered elsewhere, or withdrawn. An error, a panic or an invalid answer
	// rejects the command, unless a subscriber may still answer.
	Approve(ctx context.Context, question messages.Question) (messages.Decision, error)
}

// ApproverFunc is a function as an Approver.
type ApproverFunc func(context.Context, messages.Question) (messages.Decision, error)

// Approve calls f.
func (f ApproverFunc) Approve(ctx context.Context, question messages.Question) (messages.Decision, error) {
	return f(ctx, question)
}

// Questions lists the questions without an answer. The first is being asked; the others are asked after it, in this order.
func (s *Session) Questions(ctx context.Context) (messages.Questions, error) {
	return begin[messages.Questions](ctx, s, actors.ListQuestions{})
}

// Decide answers a question. Any caller may, even one that was not asked. The answer is in force when Decide returns without an error. Errors:
// messages.ErrAlreadyResolved, ErrUnknownQuestion, and ErrInvalidRequest, which leaves the question open.
func (s *Session) Decide(ctx context.Context, decide messages.Decide) error {
	_, err := begin[actors.Done](ctx, s, messages.Clone(decide))
	return err
}

// Grants lists the approvals that hold for the session, the oldest first.
func (s *Session) Grants(ctx context.Context) (messages.Grants, error) {
	return begin[messages.Grants](ctx, s, actors.ListGrants{})
}

// Revoke forgets a grant: the next such command is asked about again. Running commands go on. Connections to a host that nothing else
// allows are closed.
func (s *Session) Revoke(ctx context.Context, revoke messages.RevokeGrant) error {
	_, err := ask[actors.Done](ctx, s, revoke)
	return err
}

// RuleLine is the line that an approval with a rule writes for a prefix.
func RuleLine(prefix []string) string { return rules.Line(prefix) }
