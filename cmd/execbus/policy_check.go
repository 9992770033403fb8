package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/rules"
)

func checkUsage() string {
	return `Usage:
  execbus policy check [SETTING]... [--json | --pretty] [--] COMMAND [ARGUMENT]...

Shows which rule decides about a command, and why. It runs nothing and looks up no program: only the name or path as given
counts. With --executions it runs the command, in the sandbox that the settings describe and with nothing prevented, and lists
the programs that it executes and the rule that each would meet; the command's output goes to standard error. The rules are
those of execbus run and execbus mcp, if the settings are the same.

  --executions                run the command, and check every program that it executes
  --json                      print JSON, and exit with 0 for every answer
  --pretty                    the same, indented
  --resolve-host-executables  accepted for scripts that give it; a path is always tried under its base name, too

If the command is a shell script (bash -lc SCRIPT) that is only a list of plain commands, each of these is checked. Rules that
forbid or ask apply to every command in a script, wherever it stands, and also behind sudo, env and the like. The strictest
rule decides. If a part of a command matches no rule, the rules do not allow the command. Then the session's approval and
sandbox policies decide, which this program does not check.

The JSON is {"matchedRules":[{"prefixRuleMatch":{"matchedPrefix":[...],"decision":"...","resolvedProgram":"...",
"justification":"..."}}],"decision":"...","unread":"..."}; fields that do not apply are left out. There is no decision if no rule
decides. Where rules forbid or ask and the command runs something that its text does not say, unread says why they cannot
be applied to all of it. A person must be asked about such a command; a session that cannot ask does what it is set to do.
With --executions it is {"programs":[{"program":"...","count":N,"rules":[{"decision":"...","matchedPrefix":[...],"place":"...",
"count":N,"commands":["..."]}]}],"decision":"...","executions":N}, and code 0 says that no rule forbids anything or asks.

` + settingsHelp("policy") + `
Exit codes, without --json and --pretty:
  0  the rules allow the command     1  a rule file cannot be used; there is no answer
  3  a person must be asked          2  wrong usage or settings
  4  the command is forbidden
  5  no rule decides

Examples:
  execbus policy check --rules default.rules -- git push
  execbus policy check --rules default.rules --json -- bash -lc 'git status && git push' | jq -r .decision
  execbus policy check --rules default.rules --executions -- make test
  EXECBUS_RULES=default.rules:project.rules execbus policy check -- git push
`
}

// exitCodes give the answer to people, and to scripts that do not read JSON.
var exitCodes = map[rules.Decision]int{rules.Allow: 0, rules.Prompt: 3, rules.Forbidden: 4, undecided: 5}

// undecided is the exit code if no rule decides.
const undecided rules.Decision = ""

// policyCheck runs "policy check".
func policyCheck(args []string, std streams) int {
	c := config{sandbox: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}}
	var asJSON, pretty, executions *bool
	argv, code, done := configure("policy", checkUsage(), &c, args, std, func(flags *flag.FlagSet) {
		asJSON, pretty = flags.Bool("json", false, ""), flags.Bool("pretty", false, "")
		executions = flags.Bool("executions", false, "")
		flags.Bool("resolve-host-executables", false, "")
	})
	if done {
		return code
	}
	if len(argv) == 0 {
		return misused(std, "there is no command to check", checkUsage())
	}
	all, _ := c.ruleLayers()
	set, failures := rules.Load(all)
	for _, failure := range failures {
		fmt.Fprintln(std.err, "execbus:", messages.Visible(failure.Error()))
	}
	if len(failures) > 0 {
		return exitFailed // the answer of the other files alone may be incomplete
	}
	if *executions {
		return c.printExecutions(set, argv, std, *asJSON, *pretty)
	}
	v := judge(set, argv)
	if *asJSON || *pretty {
		return v.printJSON(std, *pretty)
	}
	if _, err := io.WriteString(std.out, v.text()); err != nil {
		return failed(std, err)
	}
	return exitCodes[v.decision]
}

// verdict is the answer of the rules for a command line.
type verdict struct {
	commands []policy.Checked
	decision rules.Decision
	unread   string // why rules that forbid or ask could not be applied to all of it
}

// judge checks all commands of a command line. The strictest match decides, but a command line is allowed only if all of it
// is allowed.
func judge(set *rules.Set, argv []string) (v verdict) {
	v.commands, v.unread = policy.Check(set, argv)
	var all []rules.Match
	whole := true
	for _, c := range v.commands {
		all = append(all, c.Matches...)
		whole = whole && len(c.Matches) > 0
	}
	if best, found := rules.Strictest(all); found && (whole || best.Decision != rules.Allow) {
		v.decision = best.Decision
	}
	if v.unread != "" && v.decision != rules.Forbidden {
		v.decision = rules.Prompt
	}
	return v
}

// text returns the verdict for people.
func (v verdict) text() string {
	var b strings.Builder
	if v.decision == undecided {
		b.WriteString("no rule decides\n")
	} else {
		fmt.Fprintf(&b, "%s\n", v.decision)
	}
	if v.unread != "" {
		fmt.Fprintf(&b, "  the rules cannot be applied to all of it: %s\n", v.unread)
	}
	for _, c := range v.commands {
		best, found := rules.Strictest(c.Matches)
		fmt.Fprintf(&b, "  %s\n", messages.Display(c.Words))
		if !found {
			b.WriteString("    no rule matches\n")
			continue
		}
		fmt.Fprintf(&b, "    %s by %s: commands that begin with %s\n", best.Decision, messages.Visible(best.Place), messages.Display(best.Prefix))
		if best.Program != "" {
			fmt.Fprintf(&b, "    %s is taken for %s\n", messages.Visible(best.Program), messages.Visible(best.Prefix[0]))
		}
		if best.Justification != "" {
			fmt.Fprintf(&b, "    %s\n", messages.Visible(best.Justification))
		}
		if others := len(c.Matches) - 1; others > 0 {
			fmt.Fprintf(&b, "    rules that match and do not decide: %d\n", others)
		}
	}
	return b.String()
}

type jsonVerdict struct {
	MatchedRules []jsonMatch    `json:"matchedRules"`
	Decision     rules.Decision `json:"decision,omitempty"`
	Unread       string         `json:"unread,omitempty"`
}

type jsonMatch struct {
	PrefixRuleMatch struct {
		MatchedPrefix   []string       `json:"matchedPrefix"`
		Decision        rules.Decision `json:"decision"`
		ResolvedProgram string         `json:"resolvedProgram,omitempty"`
		Justification   string         `json:"justification,omitempty"`
	} `json:"prefixRuleMatch"`
}

// printJSON prints the verdict for scripts.
func (v verdict) printJSON(std streams, pretty bool) int {
	answer := jsonVerdict{MatchedRules: []jsonMatch{}, Decision: v.decision, Unread: v.unread}
	for _, c := range v.commands {
		for _, m := range c.Matches {
			var match jsonMatch
			match.PrefixRuleMatch.MatchedPrefix, match.PrefixRuleMatch.Decision = m.Prefix, m.Decision
			match.PrefixRuleMatch.ResolvedProgram, match.PrefixRuleMatch.Justification = m.Program, m.Justification
			answer.MatchedRules = append(answer.MatchedRules, match)
		}
	}
	encoder := json.NewEncoder(std.out)
	encoder.SetEscapeHTML(false)
	if pretty {
		encoder.SetIndent("", "  ")
	}
	if err := encoder.Encode(answer); err != nil {
		return failed(std, err)
	}
	return 0
}
