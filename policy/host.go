package policy

import (
	"fmt"

	"golang.org/x/net/idna"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/hosts"
	"github.com/execbus/execbus/policy/rules"
)

// Host is a host that a running command wants to talk to.
type Host struct {
	hosts.Request
	// Command is that of the process, escaped, for a person's eyes; empty if it is not known.
	Command string
	// Runs is that process, which an abort ends; zero if it is not known. A connection that shows no credential belongs to the only one that runs.
	Runs messages.ProcessID
}

// planHost decides whether a person is asked about a host. Nobody is asked about what a rule forbids or allows, or about addresses that
// are closed.
func planHost(h *Host, s Snapshot) Plan {
	plan := Plan{Decision: Run, Source: messages.DecidedByPolicy, FirstAttempt: Sandboxed, OnDenial: Return}
	reject := func(format string, values ...any) Plan {
		plan.Decision, plan.Reason = Reject, fmt.Sprintf(format, values...)
		return plan
	}
	if err := s.Approval.Check(); err != nil {
		return reject("%v", err)
	}
	if s.Sandbox.Network == nil {
		return reject("the policy names no hosts any more")
	}
	all, err := hosts.NewRules(s.Sandbox.Network.Hosts, s.Rules.Network())
	if err != nil {
		return reject("%v", err)
	}
	v := hosts.Snapshot{Rules: all, Default: s.Sandbox.Network.Default}.Decide(h.Request)
	plan.Source = source(v.By != "")
	switch v.Action {
	case hosts.Allow:
		return plan
	case hosts.Deny:
		return reject("%s", v.Text)
	}
	mode := messages.ApprovalMode(s.Approval.String())
	granular := mode == messages.ApproveGranular
	if mode == messages.ApproveNever || granular && v.By != "" && !s.Approval.Granular.Rules || granular && v.By == "" && !s.Approval.Granular.SandboxApproval {
		return reject("%s, but the approval policy is %s and lets nobody be asked", v.Text, s.Approval)
	}
	plan.Decision, plan.Reason, plan.HostRule, plan.CacheKey = Ask, v.Text, v.Suggestion, h.Key(false)
	if s.Granted != nil && (s.Granted(plan.CacheKey) || s.Granted(h.Key(true))) {
		plan.Decision, plan.Source = Run, messages.DecidedByCache
	}
	return plan
}

// Key is equal for connections that one approval covers: for the whole session, or for one process.
func (h *Host) Key(session bool) string {
	key := fmt.Sprintf("host %s %s", h.Protocol, h.Host.Authority(h.Port))
	if !session {
		key += fmt.Sprintf(" process %d", h.Process)
	}
	return key
}

// Argv is the connection in the form of a command.
func (h *Host) Argv() []string {
	return []string{"network-access", string(h.Protocol) + "://" + h.Host.Authority(h.Port)}
}

// Question is the part of a question that says which host it is about.
func (h *Host) Question(plan Plan) *messages.HostQuestion {
	q := &messages.HostQuestion{Process: h.Process, Command: h.Command, Host: h.Host.String(), Port: h.Port, Protocol: h.Protocol, Rule: plan.HostRule}
	if name, err := idna.Punycode.ToUnicode(q.Host); err == nil && name != q.Host {
		q.Looks = messages.Visible(name) + " is " + q.Host
	}
	return q
}

// Grant is what an approval covers.
func (h *Host) Grant(session bool) hosts.Grant {
	return hosts.Grant{Host: h.Host, Port: h.Port, Protocol: h.Protocol, Session: session, Process: h.Process}
}

// choices are the answers that a person is offered. Nothing can be ended if nobody knows which process asks.
func (h *Host) choices(plan Plan, file string) []messages.Choice {
	at := h.Question(plan).String()
	whose, until, once := fmt.Sprintf("process %d, and whatever shows its credential,", h.Process), "until it ends", "Allow it to this command, until it ends."
	never := "Refuse it to this command, until it ends, and tell the command and the model why."
	if h.Process == 0 {
		whose, until, once = "whatever shows no command's credential", "until no command of the session runs", "Allow it for now."
		never = "Refuse it for now, and tell the command and the model why."
	}
	all := []messages.Choice{
		{Kind: messages.DecisionApproved, Sentence: once, Remembers: whose + " may talk to " + at + ", " + until},
		{Kind: messages.DecisionApprovedForSession, Sentence: "Allow it to every command of this session.",
			Remembers: "every command may talk to " + at + ", until the session ends"},
	}
	if plan.HostRule != nil {
		all = append(all, messages.Choice{Kind: messages.DecisionApprovedWithRule, Sentence: "Allow it to every command from now on.", Remembers: hostRuleRemembers(*plan.HostRule, file)})
	}
	all = append(all, messages.Choice{Kind: messages.DecisionDenied, Sentence: never})
	if h.Runs != 0 {
		all = append(all, messages.Choice{Kind: messages.DecisionAborted, Sentence: "Refuse the connection, end the command, and stop the turn."})
	}
	return all
}

// hostRuleRemembers says what a rule about a host does.
func hostRuleRemembers(rule messages.HostRule, file string) string {
	long := "until the runtime ends"
	if file != "" {
		long = "written to " + messages.Visible(file)
	}
	return "the rule " + rule.String() + ", for every command that may talk to named hosts, in every session; " + long
}

// CheckHostRule returns an error if a rule cannot be read, or does not allow what is asked about.
func (h *Host) CheckHostRule(rule messages.HostRule) error {
	wrong := func(detail string) error {
		return &messages.Error{Code: messages.ErrInvalidRequest, Op: "decide", Subject: "hostRule", Detail: detail}
	}
	if err := rules.CheckHost(rule); err != nil {
		return err
	}
	only, err := hosts.NewRules([]messages.HostRule{rule})
	if err != nil {
		return err
	}
	if v := (hosts.Snapshot{Rules: only}).Decide(h.Request); v.Action != hosts.Allow {
		return wrong(fmt.Sprintf("the rule %q does not allow %s; name one that does, or use another answer", rule, h.Question(Plan{})))
	}
	return nil
}
