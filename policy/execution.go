package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/command"
	"github.com/execbus/execbus/policy/rules"
)

// Execution is a program that a process of a running command is about to execute.
type Execution struct {
	messages.Execution
	// Process is the command inside of which it happens, and Command that command, escaped, for a person's eyes.
	Process messages.ProcessID
	Command string
	// Planned are the commands of that command's own plan, as Planned lists them: they were judged, and asked about where necessary.
	Planned []PlannedCommand
}

// PlannedCommand is one of the commands that a command line consists of.
type PlannedCommand struct {
	Words []string
	// Program is where its name led when the plan was made; empty if that was not looked up.
	Program string
}

// MeetsRule finds the strictest rule that forbids an execution or asks about it. The program counts under the path that was written, under
// that of the file it leads to, and under the name that it is given as its own. Allow rules have no say, except that one for the path as it is written spares the question
// of a prompt rule for the name, as for every command.
func (x *Execution) MeetsRule(set *rules.Set) (rules.Match, bool) {
	var matches []rules.Match
	for _, words := range x.lines() {
		program := words[0]
		matches = append(matches, set.Match(words)...)
		for _, inner := range command.Search(words).Commands[1:] { // past the options before a subcommand: git -C x push
			if filepath.Base(inner[0]) == filepath.Base(program) {
				matches = append(matches, set.Match(inner)...)
			}
		}
	}
	return rules.Strictest(slices.DeleteFunc(matches, allows))
}

// MetRule is the rule that MeetsRule finds, as RuleText has it; empty if it finds none.
func (x *Execution) MetRule(set *rules.Set) string {
	if rule, met := x.MeetsRule(set); met {
		return RuleText(rule)
	}
	return ""
}

// lines are the command lines that the execution amounts to. Programs with many names go by the one that they are given as their own. A
// link such as git-push that leads to git is git push as well.
func (x *Execution) lines() (all [][]string) {
	names, arguments := x.names(), x.Argv[min(1, len(x.Argv)):]
	if len(x.Argv) > 0 && x.Argv[0] != "" && x.Argv[0] != x.Program {
		names = append(names, x.Argv[0])
	}
	for _, name := range names {
		all = append(all, append([]string{name}, arguments...))
	}
	if sub, is := strings.CutPrefix(filepath.Base(x.Program), filepath.Base(x.Resolved)+"-"); is && x.Resolved != "" {
		all = append(all, append([]string{x.Resolved, sub}, arguments...))
	}
	return all
}

// names are what the program is called: as it was written, and the file, if that is something else.
func (x *Execution) names() (all []string) {
	for _, name := range []string{x.Program, x.Resolved} {
		if name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// RuleText is a rule for a person: forbidden git push (default.rules:3).
func RuleText(m rules.Match) string { return string(m.Decision) + " " + ruleName(m) }

// planExecution decides about an execution. Only rules that forbid or ask have a say: everything else was decided when the command began,
// or is the sandbox's business.
func planExecution(x *Execution, s Snapshot) Plan {
	plan := Plan{Decision: Run, Source: messages.DecidedByPolicy, FirstAttempt: Sandboxed, OnDenial: Return}
	reject := func(format string, values ...any) Plan {
		plan.Decision, plan.Reason = Reject, fmt.Sprintf(format, values...)
		return plan
	}
	if err := s.Approval.Check(); err != nil {
		return reject("%v", err)
	}
	if x.Unread != "" {
		return reject("the rules of the policy cannot be applied to it, because %s", messages.Visible(x.Unread))
	}
	rule, met := x.MeetsRule(s.Rules)
	if !met {
		return plan
	}
	plan.Source, plan.Rule = messages.DecidedByRule, RuleText(rule)
	mode := messages.ApprovalMode(s.Approval.String())
	switch {
	case rule.Decision != rules.Prompt && rule.Justification != "":
		return reject("%s; a rule of the policy forbids %s", messages.Visible(rule.Justification), quote(rule.Prefix))
	case rule.Decision != rules.Prompt:
		return reject("a rule of the policy forbids commands that begin with %s", quote(rule.Prefix))
	case x.planned():
		return plan
	case mode == messages.ApproveNever, mode == messages.ApproveGranular && !s.Approval.Granular.Rules:
		return reject("a rule of the policy requires approval for commands that begin with %s, but the approval policy is %s and lets nobody be asked", quote(rule.Prefix), s.Approval)
	}
	plan.Decision, plan.Reason, plan.CacheKey = Ask, "it "+whyRule(&rule), x.Key(false)
	if s.Granted != nil && s.Granted(x.Key(true)) {
		plan.Decision, plan.Source = Run, messages.DecidedByCache
	}
	return plan
}

// planned reports whether the execution is one of the commands of the approved command: the same words, and the program that their first
// word led to.
func (x *Execution) planned() bool {
	return slices.ContainsFunc(x.Planned, func(p PlannedCommand) bool {
		if len(x.Argv) == 0 || len(p.Words) != len(x.Argv) || !slices.Equal(p.Words[1:], x.Argv[1:]) {
			return false
		}
		name := p.Words[0]
		switch {
		case strings.Contains(name, "/"):
			return filepath.IsAbs(name) && slices.Contains(x.names(), filepath.Clean(name))
		case p.Program != "":
			return slices.Contains(x.names(), p.Program)
		}
		return filepath.Base(x.Program) == name && command.InSystemDir(x.Program)
	})
}

// maxPlanned bounds the commands of a plan that are not asked about again when they are executed.
const maxPlanned = 256

// Planned are the commands that a request says it runs, those that [command.Search] finds. A name that a command line computes is none.
func Planned(request Request) (all []PlannedCommand) {
	for i, words := range command.Search(request.Argv).Commands {
		if len(all) == maxPlanned {
			break
		}
		if len(words) == 0 || slices.ContainsFunc(words, func(word string) bool { return strings.Contains(word, "\x00") }) {
			continue
		}
		p := PlannedCommand{Words: words, Program: request.Found[words[0]]}
		if i == 0 && p.Program == "" {
			p.Program = request.Program
		}
		if p.Program != NotFound {
			all = append(all, p)
		}
	}
	return all
}

// Key is equal for executions that one approval covers: in the whole session, or of one process. How the path of a file is written makes no
// difference: what is refused under one directory of PATH is tried under the next.
func (x *Execution) Key(session bool) string {
	process := x.Process
	if session {
		process = 0
	}
	text, err := json.Marshal([]any{"execution", process, texts([]string{cmp.Or(x.Resolved, x.Program), x.Dir}), texts(x.Argv)})
	if err != nil {
		panic(err) // strings and a number
	}
	return shortKey(text)
}

// Request is what is planned, and shown, about an execution.
func (x *Execution) Request() Request {
	return Request{Argv: x.Execution.Command(), Program: x.Resolved, Dir: x.Dir, Execution: x}
}

// choices are the answers that a person is offered. None makes a rule, because one that asks outweighs every one that allows.
func (x *Execution) choices() []messages.Choice {
	return []messages.Choice{
		{Kind: messages.DecisionApproved, Sentence: "Let it run this once."},
		{Kind: messages.DecisionApprovedForSession, Sentence: "Let it run, and do not ask about it again in this session.",
			Remembers: "this program with these arguments in " + messages.Visible(x.Dir) + ", executed by whatever command, until the session ends"},
		{Kind: messages.DecisionDenied, Sentence: "Refuse it to this command, until that ends, and tell the command and the model why."},
		{Kind: messages.DecisionAborted, Sentence: "Refuse it, end the command, and stop the turn."},
	}
}
