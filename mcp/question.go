package mcp

import (
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
