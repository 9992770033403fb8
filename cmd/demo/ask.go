package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// asked is a question on its way to a person.
type asked struct {
	messages.Question
	file   string                 // where rules are written
	over   <-chan struct{}        // closed when the answer is no longer wanted
	answer chan messages.Decision // of size one
}

// errUnanswered is the error of an approver that got no answer.
var errUnanswered = fmt.Errorf("nobody answered")

// asker is an approver that asks a person at the keyboard.
type asker struct {
	policies *policies
	asks     chan *asked
	session  *execbus.Session // set before the first command
}

func newAsker(p *policies) *asker { return &asker{policies: p, asks: make(chan *asked)} }

// Approve implements execbus.Approver.
func (a *asker) Approve(ctx context.Context, q messages.Question) (messages.Decision, error) {
	question := &asked{Question: q, file: a.policies.amendments(), over: ctx.Done(), answer: make(chan messages.Decision, 1)}
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

// keysOf has the keys that answer, in the order in which they are shown.
var keysOf = []struct {
	key   byte
	kind  messages.DecisionKind
	short string
	text  string
}{
	{'y', messages.DecisionApproved, "once", "yes, this once"},
	{'a', messages.DecisionApprovedForSession, "this session", "yes, and for the session"},
	{'p', messages.DecisionApprovedWithRule, "always", "yes, and always"},
	{'n', messages.DecisionDenied, "no", "no, and the next line says why"},
	{'x', messages.DecisionAborted, "no, and stop", "no, and stop: nothing else that waits for an answer runs either (also Ctrl-C)"},
}

// offers reports whether the question offers an answer.
func (a *asked) offers(kind messages.DecisionKind) bool {
	return slices.ContainsFunc(a.Choices, func(c messages.Choice) bool { return c.Kind == kind })
}

// choice is the answer that a key stands for.
func (a *asked) choice(key byte) (kind messages.DecisionKind, found bool) {
	for _, k := range keysOf {
		if k.key == key {
			return k.kind, a.offers(k.kind)
		}
	}
	return "", false
}

// keys returns the keys that answer, for the prompt.
func (a *asked) keys() string {
	var keys []string
	for _, k := range keysOf {
		if a.offers(k.kind) {
			keys = append(keys, string(k.key))
		}
	}
	return fmt.Sprintf("%s? [%s, ? shows all of it] ", a.ID, strings.Join(keys, "/"))
}

// show returns the question in at most five lines, or six with the prompt. Text from a program is escaped. Cut text is marked
// as cut: nobody should approve what they cannot see.
func (a *asked) show(columns int) string {
	lines := []string{
		fmt.Sprintf("%s: may this run in %s, %s?", a.ID, visible(a.Dir), a.confinement()),
		"    " + a.Display,
	}
	if why := a.why(); why != "" {
		lines = append(lines, "  "+why)
	}
	answers := make([]string, 0, len(keysOf))
	for _, k := range keysOf {
		if a.offers(k.kind) && k.kind != messages.DecisionApprovedWithRule {
			answers = append(answers, fmt.Sprintf("%c %s", k.key, k.short))
		}
	}
	if a.offers(messages.DecisionApprovedWithRule) {
		lines = append(lines, "  p always: "+visible(execbus.RuleLine(a.Amendment)))
	}
	lines = append(lines, "  "+strings.Join(answers, " · ")+" · ? all of it")
	for i, line := range lines {
		lines[i] = fit(line, columns)
	}
	return strings.Join(lines, "\n") + "\n"
}

// why returns the reason for the question, and facts that the command itself does not show.
func (a *asked) why() string {
	var parts []string
	if a.Reason != "" {
		parts = append(parts, "because: "+visible(a.Reason))
	}
	if hosts := a.hosts(); len(hosts) > 0 {
		parts = append(parts, "it talks to "+strings.Join(hosts, ", "))
	}
	if len(a.Environment) > 0 {
		parts = append(parts, "with "+strings.Join(a.Environment, " "))
	}
	if a.Program != "" {
		parts = append(parts, "it is "+visible(a.Program))
	}
	if n := len(a.Segments) + a.MoreSegments; n > 1 {
		parts = append(parts, fmt.Sprintf("%d commands", n))
	}
	if a.OpenInput {
		parts = append(parts, "there will be no question about later input")
	}
	return strings.Join(parts, "; ")
}

// hosts returns the hosts that the command names.
func (a *asked) hosts() (hosts []string) {
	for _, s := range a.Segments {
		for _, host := range s.Hosts {
			hosts = append(hosts, fmt.Sprint(host))
		}
	}
	return hosts
}

// again returns the question in one line.
func (a *asked) again(columns int) string {
	return fit(fmt.Sprintf("%s: %s", a.ID, a.Display), columns) + "\n"
}

// fit shortens a text to one line of the window, and marks it if it was cut.
func fit(text string, columns int) string {
	if columns == 0 {
		columns = 80
	}
	const cut = " … (? shows all)"
	runes := []rune(toMarks(text))
	if len(runes) < columns || columns <= 2*utf8.RuneCountInString(cut) {
		return string(runes)
	}
	return string(runes[:columns-1-utf8.RuneCountInString(cut)]) + cut
}

// showAll returns the question with everything known about it.
func (a *asked) showAll() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: may this run?\n    %s\n", a.ID, a.Display)
	if len(a.Segments) > 1 || len(a.Segments) == 1 && len(a.Segments[0].Hosts) > 0 {
		a.showSegments(&b)
	}
	if a.Program != "" {
		fmt.Fprintf(&b, "  which is %s\n", visible(a.Program))
	}
	fmt.Fprintf(&b, "  in %s, %s\n", visible(a.Dir), a.confinement())
	if a.OpenInput {
		b.WriteString("  its input stays open: there will be no question about later input\n")
	}
	if a.Reason != "" {
		fmt.Fprintf(&b, "  because: %s\n", a.Reason)
	}
	for _, variable := range a.Environment {
		fmt.Fprintf(&b, "  with %s\n", variable)
	}
	for _, k := range keysOf {
		for _, c := range a.Choices {
			if c.Kind == k.kind {
				fmt.Fprintf(&b, "  %c  %s\n", k.key, strings.TrimSuffix(k.text+": "+c.Remembers, ": "))
			}
		}
		if k.kind == messages.DecisionApprovedWithRule && a.offers(k.kind) {
			fmt.Fprintf(&b, "     %s\n", visible(execbus.RuleLine(a.Amendment)))
		}
	}
	return b.String()
}

// showSegments lists the commands that would run, one per line.
func (a *asked) showSegments(b *strings.Builder) {
	for _, s := range a.Segments {
		fmt.Fprintf(b, "  runs: %s\n", s.Display)
		if s.Why != "" {
			fmt.Fprintf(b, "        %s\n", s.Why)
		}
		for _, host := range s.Hosts {
			fmt.Fprintf(b, "        the host %s\n", host)
		}
	}
	if a.MoreSegments > 0 {
		fmt.Fprintf(b, "  and %d more commands\n", a.MoreSegments)
	}
}

// confinement says what the command may do if it is approved.
func (a *asked) confinement() string {
	switch {
	case a.Retry:
		return "again, without a sandbox: it ran, and the sandbox stopped it"
	case a.Unsandboxed:
		return "without a sandbox"
	default:
		return "in the sandbox" + additional(a.Additional)
	}
}

// additional says what a wider sandbox allows.
func additional(p *messages.AdditionalPermissions) string {
	if p.Empty() {
		return ""
	}
	text := ", which also allows"
	if p.Network != nil && p.Network.Enabled {
		text += " the network"
	}
	if p.FileSystem != nil {
		for _, path := range p.FileSystem.Read {
			text += " reading " + visible(path)
		}
		for _, path := range p.FileSystem.Write {
			text += " writing " + visible(path)
		}
	}
	return text
}

// answered says what was answered.
func answered(id messages.QuestionID, d messages.Decision) string {
	switch d.Kind {
	case messages.DecisionApproved:
		return fmt.Sprintf("%s: yes, once", id)
	case messages.DecisionApprovedForSession:
		return fmt.Sprintf("%s: yes, for this session; :grants lists it", id)
	case messages.DecisionApprovedWithRule:
		return fmt.Sprintf("%s: yes, always", id)
	case messages.DecisionAborted:
		return fmt.Sprintf("%s: no, stop", id)
	default:
		return fmt.Sprintf("%s: no", id)
	}
}

// visible returns a text with nothing hidden in it: it is quoted if it has invisible characters.
func visible(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.QuoteToASCII(text)
	}
	return text
}
