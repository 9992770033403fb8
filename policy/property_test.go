package policy

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
	"pgregory.net/rapid"
)

// drawn is a request to run a script of known segments, with its snapshot.
type drawn struct {
	segments [][]string
	request  Request
	snapshot Snapshot
	rules    []testRule
}

// vocabulary is small, so that rules often match.
var vocabulary = []string{"ls", "rm", "-rf", "a", "b", "git", "status", "cat"}

func drawPlan(t *rapid.T) drawn {
	word := rapid.SampledFrom(vocabulary)
	program := rapid.SampledFrom([]string{"ls", "rm", "a", "b", "git", "cat"})
	command := rapid.Custom(func(t *rapid.T) []string {
		return append([]string{program.Draw(t, "program")}, rapid.SliceOfN(word, 0, 2).Draw(t, "words")...)
	})
	d := drawn{segments: rapid.SliceOfN(command, 1, 4).Draw(t, "segments")}
	d.rules = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) testRule {
		decision := rapid.SampledFrom([]rules.Decision{rules.Allow, rules.Allow, rules.Allow, rules.Prompt, rules.Forbidden}).Draw(t, "decision")
		return testRule{decision, strings.Join(command.Draw(t, "prefix"), " "), ""}
	}), 0, 6).Draw(t, "rules")
	// Rare cases are drawn more often.
	switch rapid.SampledFrom([]string{"any", "all allowed", "one forbidden"}).Draw(t, "kind") {
	case "all allowed":
		d.rules = nil
		for _, segment := range d.segments {
			d.rules = append(d.rules, testRule{rules.Allow, segment[0], ""})
		}
	case "one forbidden":
		d.rules = append(d.rules, testRule{rules.Forbidden, strings.Join(rapid.SampledFrom(d.segments).Draw(t, "forbidden"), " "), ""})
	}
	approval := rapid.SampledFrom(slices.Sorted(maps.Keys(approvals))).Draw(t, "approval")
	sandbox := rapid.SampledFrom(slices.Concat(sandboxes["RO, WW"], sandboxes["DFA, EXT"])).Draw(t, "sandbox")
	d.snapshot = under(approvals[approval], sandbox, testRules(d.rules...))
	if rapid.Bool().Draw(t, "granted") {
		d.snapshot.Granted = func(string) bool { return true }
	}
	d.request = d.join(t, d.segments)
	class := rapid.SampledFrom([]string{"S", "S", "S", "E", "W"}).Draw(t, "permissions")
	d.request.CommandPolicy = classes[class].policy
	if rapid.IntRange(0, 4).Draw(t, "alter") == 0 {
		d.request.Environment = &messages.EnvironmentPolicy{Set: map[string]string{"PATH": "."}}
	}
	return d
}

// join makes a script, or argv if there is only one command.
func (d *drawn) join(t *rapid.T, segments [][]string) Request {
	if len(segments) == 1 && rapid.Bool().Draw(t, "direct") {
		return words(segments[0]...)
	}
	text := strings.Join(segments[0], " ")
	for _, segment := range segments[1:] {
		text += rapid.SampledFrom([]string{"; ", "\n", " && ", " || ", " | "}).Draw(t, "joint") + strings.Join(segment, " ")
	}
	return shell(text)
}

// says is the verdict of the rules on a command, found in the simplest way.
func (d *drawn) says(command []string) (decisions []rules.Decision) {
	for _, r := range d.rules {
		prefix := strings.Fields(r.prefix)
		if len(prefix) <= len(command) && slices.Equal(prefix, command[:len(prefix)]) {
			decisions = append(decisions, r.decision)
		}
	}
	return decisions
}

func (d *drawn) allAllowed() bool {
	return d.request.Environment == nil && !slices.ContainsFunc(d.segments, func(s []string) bool {
		decisions := d.says(s)
		return len(decisions) == 0 || slices.ContainsFunc(decisions, func(r rules.Decision) bool { return r != rules.Allow })
	})
}

func TestNothingLeavesTheSandboxByItself(t *testing.T) {
	left := 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlan(t)
		plan := MakePlan(d.request, d.snapshot)
		approved := plan.Decision == Ask || plan.Source == messages.DecidedByCache && d.snapshot.Granted != nil
		mayLeave := approved || d.allAllowed() || !d.snapshot.Sandbox.Confined()
		if plan.Decision != Reject && plan.FirstAttempt == Unsandboxed && !mayLeave {
			t.Fatalf("%q, %s: begins without a sandbox: %+v", d.request.Argv, d.snapshot.Approval, plan)
		}
		if plan.OnDenial == Retry && d.snapshot.Granted == nil {
			t.Fatalf("%q, %s: goes on without a sandbox: %+v", d.request.Argv, d.snapshot.Approval, plan)
		}
		if plan.Decision == Run && plan.FirstAttempt == Unsandboxed && d.allAllowed() {
			left++
		}
	})
	if left == 0 {
		t.Error("no plan was drawn in which an allow rule removes the sandbox: the test shows nothing")
	}
}

func TestAForbiddenRuleAlwaysWins(t *testing.T) {
	met := 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlan(t)
		if !slices.ContainsFunc(d.segments, func(s []string) bool { return slices.Contains(d.says(s), rules.Forbidden) }) {
			return
		}
		met++
		if plan := MakePlan(d.request, d.snapshot); plan.Decision != Reject || plan.Reason == "" {
			t.Fatalf("%q: %+v", d.request.Argv, plan)
		}
	})
	if met == 0 {
		t.Error("no forbidden command was drawn")
	}
}

// freedom orders plans: the higher, the more may happen without a person.
func freedom(p Plan) int {
	switch {
	case p.Decision == Reject:
		return 0
	case p.Decision == Ask:
		return 1
	case p.FirstAttempt == Sandboxed:
		return 2
	}
	return 3
}

func TestTheStrictestSegmentDecides(t *testing.T) {
	several := 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlan(t)
		d.snapshot.Granted = nil
		strictest := 3
		for _, segment := range d.segments {
			alone := shell(strings.Join(segment, " "))
			alone.CommandPolicy, alone.Environment = d.request.CommandPolicy, d.request.Environment
			strictest = min(strictest, freedom(MakePlan(alone, d.snapshot)))
		}
		if len(d.segments) > 1 {
			several++
		}
		if plan := MakePlan(d.request, d.snapshot); freedom(plan) != strictest {
			t.Fatalf("%q, %s: the strictest segment has %d, all together %d: %+v", d.request.Argv, d.snapshot.Approval, strictest,
				freedom(plan), plan)
		}
	})
	if several == 0 {
		t.Error("no script of several commands was drawn")
	}
}

// TestWhatAGrantCannotDo: it answers questions and changes nothing else.
func TestWhatAGrantCannotDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlan(t)
		d.snapshot.Granted = nil
		before := MakePlan(d.request, d.snapshot)
		d.snapshot.Granted = func(key string) bool { return key == before.CacheKey }
		after := MakePlan(d.request, d.snapshot)
		if before.Decision == Reject && after.Decision != Reject || after.FirstAttempt != before.FirstAttempt ||
			after.CacheKey != before.CacheKey || before.Decision == Run && before.OnDenial != AskTo && !equal(before, after) {
			t.Fatalf("%q: a grant makes %+v of %+v", d.request.Argv, after, before)
		}
	})
}

// TestEveryCommandHasAPlan draws words and scripts of all kinds.
func TestEveryCommandHasAPlan(t *testing.T) {
	rules := tableRules()
	rapid.Check(t, func(t *rapid.T) {
		argv := rapid.SliceOfN(anyWord(), 0, 4).Draw(t, "argv")
		if rapid.Bool().Draw(t, "script") {
			argv = []string{rapid.SampledFrom([]string{"bash", "/bin/sh", "/work/bash", "zsh"}).Draw(t, "shell"), "-lc",
				strings.Join(argv, " ")}
		}
		request := Request{Argv: argv, Argv0: anyWord().Draw(t, "argv0"), Dir: anyWord().Draw(t, "dir"),
			Program: rapid.SampledFrom([]string{"", "/bin/bash", "/work/bash", "x"}).Draw(t, "program")}
		request.PrefixRule = rapid.SliceOfN(anyWord(), 0, 2).Draw(t, "prefix")
		for _, approval := range approvals {
			plan := MakePlan(request, under(approval, workspace, rules))
			wellFormed(t, plan)
			if choices := Choices(request, plan, "/f"); plan.Decision == Ask && len(choices) < 4 {
				t.Errorf("there are too few choices: %v", choices)
			}
			shown := []string{plan.Reason}
			for _, s := range plan.Segments {
				shown = append(append(shown, s.Display, s.Why), s.Hosts...)
			}
			for _, text := range shown {
				if strings.ContainsAny(text, "\n\x1b\x00\u202e") || !utf8.ValidString(text) || len(text) > 20*segmentBytes {
					t.Errorf("this is not fit to be shown: %q", text)
				}
			}
			if len(plan.Segments) > maxShown || plan.Decision == Ask && len(plan.Segments) == 0 {
				t.Errorf("%d segments are shown", len(plan.Segments))
			}
		}
	})
}

// anyWord draws words, dangerous ones more often.
func anyWord() *rapid.Generator[string] {
	odd := []string{"'", "\\", "$", "`", "\"", " ", "\n", "\x1b", "\x7f", "\u202e", "\u200d", "\u3164", "\xff", "\u0301", "a", "if", "=", "~", "!", "#", "*", "{a,b}", "é"}
	return rapid.Custom(func(t *rapid.T) string {
		word := strings.Join(rapid.SliceOfN(rapid.SampledFrom(odd), 0, 6).Draw(t, "odd"), "")
		return strings.ReplaceAll(word+rapid.StringN(0, 3, -1).Draw(t, "any"), "\x00", "")
	})
}
