package actors

import (
	"strings"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
)

func makePlan(policy.Request, policy.Snapshot) policy.Plan {
	return policy.Plan{Decision: policy.Run, Source: messages.ByPolicy, FirstAttempt: policy.Sandboxed, OnDenial: policy.Return}
}

func display(argv []string) string { return strings.Join(argv, " ") }

func visible(text string) string { return text }

func choices(policy.Request, policy.Plan, string) []messages.Choice {
	return []messages.Choice{{Kind: messages.Approved}, {Kind: messages.ApprovedForSession, Remembers: "this"}, {Kind: messages.Denied}}
}

func checkCommand(messages.CommandPolicy, messages.ApprovalPolicy) error { return nil }
