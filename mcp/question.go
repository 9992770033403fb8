package mcp

import (
	"fmt"
	"strings"

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
		kinds, titles = append(kinds, string(choice.Kind)), append(titles, title(choice))
		titled = append(titled, map[string]any{"const": string(choice.Kind), "title": title(choice)})
	}
	if version >= titledChoices {
		decision["oneOf"] = titled
	} else {
		decision["enum"], decision["enumNames"] = kinds, titles
	}
	return &sdk.ElicitParams{Mode: "form", Message: describe(q), RequestedSchema: compact(map[string]any{
		"type": "object",
		"properties": map[string]any{
			fieldDecision: decision,
			fieldReason:   map[string]any{"type": "string", "title": "Reason", "description": "If not: why, for the model. It may be empty."},
		},
		"required": []string{fieldDecision},
	})}
}

// title describes a choice, with what it would remember.
func title(choice messages.Choice) string {
	words := map[messages.DecisionKind]string{
		messages.DecisionApproved:           "Run it this once",
		messages.DecisionApprovedForSession: "Run it, and do not ask again in this session",
		messages.DecisionApprovedWithRule:   "Run it, and allow what begins like it from now on",
		messages.DecisionDenied:             "Do not run it",
		messages.DecisionAborted:            "Do not run it, and stop",
	}[choice.Kind]
	if words == "" {
		words = string(choice.Kind)
	}
	if choice.Remembers != "" {
		words += ": " + choice.Remembers
	}
	return words
}

// describe says what a person has to know about a command, one fact a line. The facts in the question are escaped already.
func describe(q *messages.Question) string {
	var b strings.Builder
	line := func(format string, values ...any) { fmt.Fprintf(&b, format+"\n", values...) }
	if q.Retry {
		line("The sandbox stopped this command. Run it again without a sandbox?")
	} else {
		line("Run this command?")
	}
	line("\n%s\n", q.Display)
	line("Directory: %s", q.Dir)
	if q.Program != "" {
		line("Program: %s", q.Program)
	}
	if q.Reason != "" {
		line("Reason: %s", q.Reason)
	}
	for _, variable := range q.Environment {
		line("Sets: %s", variable)
	}
	describeSegments(q, line)
	if q.Unsandboxed {
		line("It would run without a sandbox.")
	}
	if q.OpenInput {
		line("Its input stays open: there will be no question about later input.")
	}
	return strings.TrimRight(b.String(), "\n")
}

func describeSegments(q *messages.Question, line func(string, ...any)) {
	for _, segment := range q.Segments {
		if len(q.Segments) > 1 || segment.Why != "" {
			line("It runs: %s%s", segment.Display, behind(segment.Why))
		}
		for _, host := range segment.Hosts {
			line("Careful, this host name is not what it looks like: %s", host)
		}
	}
	if q.MoreSegments > 0 {
		line("It runs %d more commands.", q.MoreSegments)
	}
}

func behind(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
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
