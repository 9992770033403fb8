package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/execbus/execbus/messages"
)

// reasonBytes bounds how much of a command a reason quotes.
const reasonBytes = 300

// quote is a command inside a reason: its beginning.
func quote(command []string) string {
	var words []string
	left, end := reasonBytes, ""
	for _, word := range command {
		if len(word) > left {
			words = append(words, strings.ToValidUTF8(word[:max(left, 0)], ""))
			end = " …"
			break
		}
		words = append(words, word)
		left -= len(word) + 1
	}
	return "`" + Display(words) + end + "`"
}

// forbidden is the plan for a command whose segment i is forbidden. Of several rules the first segment's speaks.
func (m *maker) forbidden(i int) Plan {
	plan := Plan{Decision: Reject, Source: messages.ByPolicy, FirstAttempt: Sandboxed, OnDenial: Return}
	for j := range m.segments { // a rule says more than what we know about programs
		if m.segments[j].verdict == forbid && m.segments[j].rule != nil {
			i = j
			break
		}
	}
	rule := m.segments[i].rule
	switch {
	case rule == nil:
		plan.Reason = "rejected: removing files by force, `rm -f`, is blocked by policy, since the approval policy is never and " +
			"nobody may be asked; remove them in a safer way"
	case rule.Justification != "":
		plan.Reason = fmt.Sprintf("%s rejected: %s", quote(m.request.Argv), Visible(rule.Justification))
		plan.Source = messages.ByRule
	default:
		plan.Reason = fmt.Sprintf("%s rejected: a rule of the policy forbids commands that begin with %s", quote(m.request.Argv),
			quote(rule.Prefix))
		plan.Source = messages.ByRule
	}
	return plan
}

// mayNotAsk says why a question that is needed is not put, naming the setting; empty if it may be.
func (m *maker) mayNotAsk(byRule, byGuess *segment) string {
	granular := m.approval.Mode == messages.Granular
	switch {
	case byRule != nil && m.approval.Mode == messages.Never:
		return fmt.Sprintf("rejected: a rule of the policy requires approval for commands that begin with %s, but the approval "+
			"policy is never", quote(byRule.rule.Prefix))
	case m.approval.Mode == messages.Never:
		return "rejected: it requires approval by policy, but the approval policy is never"
	case granular && byRule != nil && !m.approval.Granular.Rules:
		return fmt.Sprintf("rejected: a rule of the policy requires approval for commands that begin with %s, but the approval "+
			"policy is granular and its setting rules is off", quote(byRule.rule.Prefix))
	case granular && byGuess != nil && !m.approval.Granular.SandboxApproval && !byGuess.danger:
		return "rejected: running without a sandbox requires approval, but the approval policy is granular and its setting " +
			"sandbox_approval is off; run the command without escalated permissions"
	case granular && byGuess != nil && !m.approval.Granular.SandboxApproval:
		return "rejected: removing files by force, `rm -f`, requires approval, but the approval policy is granular and its setting " +
			"sandbox_approval is off; remove them in a safer way"
	}
	return ""
}

// whyAsk says why there is a question: the rule's reason, else the caller's, else what we know.
func (m *maker) whyAsk(byRule *segment) string {
	switch {
	case byRule != nil && byRule.rule.Justification != "":
		return fmt.Sprintf("%s requires approval: %s", quote(m.request.Argv), Visible(byRule.rule.Justification))
	case byRule != nil:
		return fmt.Sprintf("%s requires approval by policy: a rule asks about commands that begin with %s", quote(m.request.Argv),
			quote(byRule.rule.Prefix))
	case m.request.Justification != "":
		return Visible(m.request.Justification)
	case slices.ContainsFunc(m.segments, func(s segment) bool { return s.danger }):
		return "it removes files by force, `rm -f`"
	case m.request.SandboxPermissions == messages.RequireEscalated:
		return "it asks to run without a sandbox"
	case m.request.SandboxPermissions == messages.WithAdditionalPermissions:
		return "it asks for more than the sandbox allows"
	}
	return "it is not known to be safe"
}
