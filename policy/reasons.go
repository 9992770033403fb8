package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
)

// reasonBytes bounds how much of a command a reason quotes.
const reasonBytes = 300

// quote is the beginning of a command, as a reason quotes it.
func quote(command []string) string { return "`" + displayed(command, reasonBytes) + "`" }

// displayed is the beginning of a command as it is shown to a person.
func displayed(command []string, left int) string {
	var words []string
	end := ""
	for _, word := range command {
		if len(word) > left {
			words = append(words, strings.ToValidUTF8(word[:max(left, 0)], ""))
			end = " …"
			break
		}
		words = append(words, word)
		left -= len(word) + 1
	}
	return messages.Display(words) + end
}

// callerBytes bounds how much of the caller's justification a reason quotes.
const callerBytes = 300

// justified is a reason followed by the caller's own, which is unchecked.
func (m *maker) justified(reason string) string {
	text := m.request.Justification
	if text == "" {
		return reason
	}
	if len(text) > callerBytes {
		text = strings.ToValidUTF8(text[:callerBytes], "") + "…"
	}
	return fmt.Sprintf("%s; the caller says: \"%s\"", reason, strings.ReplaceAll(messages.Visible(text), `"`, `\"`))
}

// forbidden is the plan for a command whose segment i is forbidden. If several rules forbid it, the first segment's rule
// gives the reason.
func (m *maker) forbidden(i int) Plan {
	plan := Plan{Decision: Reject, Source: messages.DecidedByPolicy, FirstAttempt: Sandboxed, OnDenial: Return}
	for j := range m.segments { // a rule says more than what we know about programs
		if m.segments[j].verdict == forbid && m.segments[j].rule != nil {
			i = j
			break
		}
	}
	rule := m.segments[i].rule
	plan.Unread, plan.Rule = m.segments[i].unread, m.segments[i].named()
	switch {
	case m.segments[i].closed:
		plan.Reason = fmt.Sprintf("rejected: the rules of the policy cannot be applied to all of it, because %s; write the commands out", plan.Unread)
	case rule == nil:
		plan.Reason = "rejected: removing files by force, `rm -f`, is blocked by policy, since the approval policy is never and " +
			"nobody may be asked; remove them in a safer way"
	case rule.Justification != "":
		plan.Reason = fmt.Sprintf("%s rejected: %s", quote(m.request.Argv), messages.Visible(rule.Justification))
		plan.Source = messages.DecidedByRule
	default:
		plan.Reason = fmt.Sprintf("%s rejected: a rule of the policy forbids commands that begin with %s", quote(m.request.Argv),
			quote(rule.Prefix))
		plan.Source = messages.DecidedByRule
	}
	return plan
}

// named is the rule behind a verdict; empty if none is.
func (s *segment) named() string {
	if s == nil || s.rule == nil {
		return ""
	}
	return ruleName(*s.rule)
}

// ruleName names a rule: git push (default.rules:3).
func ruleName(rule rules.Match) string {
	name := displayed(rule.Prefix, reasonBytes)
	if rule.Place != "" {
		name += " (" + messages.Visible(rule.Place) + ")"
	}
	return name
}

// mayNotAsk says why a question that is needed must not be asked, naming the setting; it is empty if it may be.
func (m *maker) mayNotAsk(byRule, byGuess *segment) string {
	granular := m.approval.Mode == messages.ApproveGranular
	switch {
	case byRule != nil && m.approval.Mode == messages.ApproveNever:
		return fmt.Sprintf("rejected: a rule of the policy requires approval for commands that begin with %s, but the approval "+
			"policy is never", quote(byRule.rule.Prefix))
	case m.approval.Mode == messages.ApproveNever:
		return "rejected: it requires approval by policy, but the approval policy is never"
	case granular && byRule != nil && !m.approval.Granular.Rules:
		return fmt.Sprintf("rejected: a rule of the policy requires approval for commands that begin with %s, but the approval "+
			"policy is granular and its setting rules is off", quote(byRule.rule.Prefix))
	case granular && byGuess != nil && byGuess.danger && !m.approval.Granular.SandboxApproval:
		return "rejected: removing files by force, `rm -f`, requires approval, but the approval policy is granular and its setting " +
			"sandbox_approval is off; remove them in a safer way"
	}
	return ""
}

// whyAsk says why a question is asked: the rule's reason, or else the facts about the command; then the caller's reason. The question
// shows the command, so the reason does not.
func (m *maker) whyAsk(byRule *segment) string {
	if byRule != nil {
		return m.justified("it " + whyRule(byRule.rule))
	}
	first := slices.IndexFunc(m.segments, func(s segment) bool { return s.danger })
	if first < 0 {
		first = slices.IndexFunc(m.segments, func(s segment) bool { return !s.idle && s.verdict == ask })
	}
	return m.justified("it " + m.whySegment(first))
}

func whyRule(rule *rules.Match) string {
	if rule.Justification != "" {
		return "requires approval: " + messages.Visible(rule.Justification)
	}
	return "requires approval by policy: a rule asks about commands that begin with " + quote(rule.Prefix)
}

// whySegment says why a question is asked about a segment.
func (m *maker) whySegment(i int) string {
	s, c := &m.segments[i], &m.commands[i]
	switch {
	case s.rule != nil:
		return whyRule(s.rule)
	case s.closed:
		return "cannot be checked against all rules of the policy: " + s.unread
	case s.danger:
		return "removes files by force, `rm -f`"
	case m.request.SandboxPermissions == messages.PermissionsRequireEscalated && m.sandbox.Confined():
		return "asks to run without a sandbox"
	case m.request.SandboxPermissions == messages.PermissionsWithAdditional && m.sandbox.Confined():
		return "asks for more than the sandbox allows"
	case c.nowhere && m.understood.Script:
		return "is not known to be safe: where " + quote(c.written[:1]) + " leads in PATH is not certain"
	case c.written != nil && !c.nowhere:
		return "is not known to be safe: " + quote(c.written[:1]) + " leads to " + messages.Visible(c.words[0])
	case m.understood.Script && !m.understood.Plain && !m.understood.Complex:
		return "is not known to be safe: the script is more than a list of plain commands"
	}
	return "is not known to be safe"
}
