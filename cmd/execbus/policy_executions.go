package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/rules"
)

// Bounds of what is listed about a command's executions.
const (
	maxListedPrograms = 256 // distinct programs
	maxListedLines    = 8   // distinct command lines that meet the same rule
)

// executedPrograms is what a command has executed, and which rules that would have met.
type executedPrograms struct {
	set      *rules.Set
	programs []*executedProgram // in the order of their first execution
	total    int64
	unlisted int64 // about which nothing is known, or which are beyond the bound
}

// executedProgram is one program that was executed.
type executedProgram struct {
	Program string   `json:"program"`
	Count   int64    `json:"count"`
	Rules   []metBy  `json:"rules,omitempty"`
	unread  []string // why executions of it could not be read
}

// metBy is a rule that executions of a program would meet.
type metBy struct {
	Decision      rules.Decision `json:"decision"`
	Prefix        []string       `json:"matchedPrefix"`
	Place         string         `json:"place"`
	Justification string         `json:"justification,omitempty"`
	Count         int64          `json:"count"`
	Commands      []string       `json:"commands"` // the first distinct ones
}

// add notes one execution.
func (e *executedPrograms) add(x messages.Execution) {
	e.total++
	name := cmp.Or(x.Resolved, x.Program, "?")
	at := slices.IndexFunc(e.programs, func(p *executedProgram) bool { return p.Program == name })
	if at < 0 {
		if len(e.programs) == maxListedPrograms {
			e.unlisted++
			return
		}
		at, e.programs = len(e.programs), append(e.programs, &executedProgram{Program: name})
	}
	p := e.programs[at]
	p.Count++
	if x.Unread != "" && !slices.Contains(p.unread, x.Unread) && len(p.unread) < maxListedLines {
		p.unread = append(p.unread, x.Unread)
	}
	if rule, met := (&policy.Execution{Execution: x}).MeetsRule(e.set); met {
		p.met(rule, x)
	}
}

func (p *executedProgram) met(rule rules.Match, x messages.Execution) {
	at := slices.IndexFunc(p.Rules, func(m metBy) bool { return m.Place == rule.Place && slices.Equal(m.Prefix, rule.Prefix) })
	if at < 0 {
		at = len(p.Rules)
		p.Rules = append(p.Rules, metBy{Decision: rule.Decision, Prefix: rule.Prefix, Place: rule.Place, Justification: rule.Justification})
	}
	m := &p.Rules[at]
	m.Count++
	if line := messages.CutMiddle(messages.Display(x.Command()), 300); len(m.Commands) < maxListedLines && !slices.Contains(m.Commands, line) {
		m.Commands = append(m.Commands, line)
	}
}

// decision is the strictest of all rules that were met.
func (e *executedPrograms) decision() rules.Decision {
	var all []rules.Match
	for _, p := range e.programs {
		for _, m := range p.Rules {
			all = append(all, rules.Match{Decision: m.Decision})
		}
	}
	best, _ := rules.Strictest(all)
	return best.Decision
}

// text is the list for people.
func (e *executedPrograms) text() string {
	var b strings.Builder
	switch decision := e.decision(); decision {
	case undecided:
		b.WriteString("no rule forbids what it executes, or asks about it\n")
	default:
		fmt.Fprintf(&b, "%s\n", decision)
	}
	for _, p := range e.programs {
		fmt.Fprintf(&b, "  %s%s\n", messages.Visible(p.Program), times(p.Count))
		for _, m := range p.Rules {
			fmt.Fprintf(&b, "    %s by %s: commands that begin with %s%s\n", m.Decision, messages.Visible(m.Place), messages.Display(m.Prefix), times(m.Count))
			if m.Justification != "" {
				fmt.Fprintf(&b, "    %s\n", messages.Visible(m.Justification))
			}
			for _, line := range m.Commands {
				fmt.Fprintf(&b, "      %s\n", line)
			}
		}
		for _, why := range p.unread {
			fmt.Fprintf(&b, "    refused where rules are enforced: %s\n", messages.Visible(why))
		}
	}
	fmt.Fprintf(&b, "executions: %d\n", e.total)
	if e.unlisted > 0 {
		fmt.Fprintf(&b, "executions that are not listed, because there were too many: %d\n", e.unlisted)
	}
	return b.String()
}

// times is how often something happened, if more than once.
func times(n int64) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" (%d times)", n)
}

// printJSON prints the list for scripts.
func (e *executedPrograms) printJSON(std streams, pretty bool) int {
	programs := e.programs
	if programs == nil {
		programs = []*executedProgram{}
	}
	encoder := json.NewEncoder(std.out)
	encoder.SetEscapeHTML(false)
	if pretty {
		encoder.SetIndent("", "  ")
	}
	if err := encoder.Encode(struct {
		Programs []*executedProgram `json:"programs"`
		Decision rules.Decision     `json:"decision,omitempty"`
		Total    int64              `json:"executions"`
		Unlisted int64              `json:"unlisted,omitempty"`
	}{programs, e.decision(), e.total, e.unlisted}); err != nil {
		return failed(std, err)
	}
	return 0
}

// checkExecutions runs a command in the sandbox, under no rule, and finds the rule that each program would meet that it executes. Its output
// goes to standard error.
func (c *config) checkExecutions(set *rules.Set, argv []string, std streams) (*executedPrograms, error) {
	if err := c.settle("--sandbox", "", std); err != nil {
		return nil, err
	}
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = shutdown(rt) }()
	options := c.session()
	options.Approval, options.Executions = messages.ApprovalPolicy{Mode: messages.ApproveNever}, messages.ExecutionsReport
	options.Environment = messages.EnvironmentPolicy{Exact: true, Set: environment()}
	session, err := rt.OpenSession(options)
	if err != nil {
		return nil, err
	}
	events, err := session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindProgramExecuted, messages.KindOutputDelta, messages.KindExecEnded}})
	if err != nil {
		return nil, err
	}
	defer events.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	process, err := session.Start(ctx, messages.ExecCommand{Argv: argv})
	if err != nil {
		adviseAssurance(err, std)
		return nil, err
	}
	all := &executedPrograms{set: set}
	for {
		event, err := events.Next(ctx)
		if err != nil {
			return nil, cmp.Or(context.Cause(ctx), err)
		}
		switch e := event.(type) {
		case messages.ProgramExecuted:
			all.add(e.Execution)
		case messages.OutputDelta:
			_, _ = std.err.Write(e.Bytes)
		case messages.ExecEnded:
			if e.Process != process.ID() {
				continue
			}
			if e.Executions == nil {
				return nil, errors.New("the executions of the command were not seen")
			}
			all.unlisted += e.Executions.Total - all.total
			all.total = e.Executions.Total
			if e.Status != messages.StatusExited(0) {
				fmt.Fprintln(std.err, "execbus: the command", e.Words())
			}
			return all, nil
		}
	}
}

// printExecutions is the answer of "policy check --executions".
func (c *config) printExecutions(set *rules.Set, argv []string, std streams, asJSON, pretty bool) int {
	all, err := c.checkExecutions(set, argv, std)
	if err != nil {
		return failed(std, err)
	}
	if asJSON || pretty {
		return all.printJSON(std, pretty)
	}
	if _, err := io.WriteString(std.out, all.text()); err != nil {
		return failed(std, err)
	}
	if decision := all.decision(); decision != undecided {
		return exitCodes[decision]
	}
	return 0
}
