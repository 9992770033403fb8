package policy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
)

// table is the decision table, as the package doc has it.
const table = `
policy                        |sandbox  |S          |U          |D          |A    |P          |F   |E    |SE   |W
never                         |RO, WW   |run/return |run/return |rej        |run! |rej        |rej |rej  |rej  |rej
never                         |DFA, EXT |run        |run        |rej        |run! |rej        |rej |rej  |rej  |rej
on-request                    |RO, WW   |run/return |run/return |ask/return |run! |ask/return |rej |ask! |ask! |ask/return
on-request                    |DFA, EXT |run        |run        |ask        |run! |ask        |rej |run! |run! |run
untrusted                     |RO, WW   |run/ask    |ask/ask    |ask/ask    |run! |ask/ask    |rej |ask! |ask! |rej
untrusted                     |DFA, EXT |run        |ask        |ask        |run! |ask        |rej |ask! |run! |rej
on-failure                    |RO, WW   |run/ask    |run/ask    |ask/ask    |run! |ask/ask    |rej |rej  |rej  |rej
on-failure                    |DFA, EXT |run        |run        |ask        |run! |ask        |rej |rej  |rej  |rej
granular                      |RO, WW   |run/ask    |run/ask    |ask/ask    |run! |ask/ask    |rej |ask! |ask! |rej
granular, no sandbox_approval |RO, WW   |run/return |run/return |rej        |run! |ask/return |rej |rej  |rej  |rej
granular, no rules            |RO, WW   |run/ask    |run/ask    |ask/ask    |run! |rej        |rej |ask! |ask! |rej
granular                      |DFA, EXT |run        |run        |ask        |run! |ask        |rej |run! |run! |rej
granular, no sandbox_approval |DFA, EXT |run        |run        |rej        |run! |ask        |rej |rej  |rej  |rej
granular, no rules            |DFA, EXT |run        |run        |ask        |run! |rej        |rej |run! |run! |rej
`

var approvals = map[string]messages.ApprovalPolicy{
	"never":                         {Mode: messages.ApproveNever},
	"on-request":                    {Mode: messages.ApproveOnRequest},
	"untrusted":                     {Mode: messages.ApproveUntrusted},
	"on-failure":                    {Mode: messages.ApproveOnFailure},
	"granular":                      granular(messages.GranularApproval{SandboxApproval: true, Rules: true}),
	"granular, no sandbox_approval": granular(messages.GranularApproval{Rules: true}),
	"granular, no rules":            granular(messages.GranularApproval{SandboxApproval: true}),
}

func granular(settings messages.GranularApproval) messages.ApprovalPolicy {
	return messages.ApprovalPolicy{Mode: messages.ApproveGranular, Granular: settings}
}

var sandboxes = map[string][]messages.SandboxPolicy{
	"RO, WW":   {{}, {Type: messages.SandboxReadOnly}, {Type: messages.SandboxWorkspaceWrite, NetworkAccess: true}},
	"DFA, EXT": {{Type: messages.SandboxDangerFullAccess}, {Type: messages.SandboxExternal}},
}

// classes are commands of each column, with the permissions that they ask for.
var classes = map[string]struct {
	script string
	policy messages.CommandPolicy
}{
	"S":  {script: "ls -l"},
	"U":  {script: "cargo build"},
	"D":  {script: "rm -rf build"},
	"A":  {script: "allowed thing"},
	"P":  {script: "prompted thing"},
	"F":  {script: "forbidden thing"},
	"E":  {"cargo build", messages.CommandPolicy{SandboxPermissions: messages.PermissionsRequireEscalated}},
	"SE": {"ls -l", messages.CommandPolicy{SandboxPermissions: messages.PermissionsRequireEscalated}},
	"W": {"cargo build", messages.CommandPolicy{SandboxPermissions: messages.PermissionsWithAdditional,
		AdditionalPermissions: &messages.AdditionalPermissions{Network: &messages.NetworkPermissions{Enabled: true}}}},
}

// tableRules has a rule of each kind.
func tableRules() *rules.Set {
	return testRules(
		testRule{rules.Allow, "allowed", ""}, testRule{rules.Prompt, "prompted", ""}, testRule{rules.Forbidden, "forbidden", ""},
		testRule{rules.Prompt, "mind", "ask the owner"}, testRule{rules.Prompt, "mind the gap", "it is deep"}, testRule{rules.Forbidden,
			"git push --force", "history is shared"},
		testRule{rules.Allow, "git", ""})
}

type testRule struct {
	decision      rules.Decision
	prefix        string
	justification string
}

func testRules(list ...testRule) *rules.Set {
	var source strings.Builder
	for _, r := range list {
		line := strings.TrimSuffix(rules.Line(strings.Fields(r.prefix)), `, decision="allow")`)
		fmt.Fprintf(&source, "%s, decision=%q", line, r.decision)
		if r.justification != "" {
			fmt.Fprintf(&source, ", justification=%q", r.justification)
		}
		source.WriteString(")\n")
	}
	set, err := rules.Parse("test.rules", []byte(source.String()))
	if err != nil {
		panic(err)
	}
	return set
}

// shell is a request to run a script in the system's bash.
func shell(text string) Request {
	return Request{Argv: []string{"/bin/bash", "-lc", text}, Program: "/bin/bash", Dir: "/work"}
}

// words is a request to run a program of the system.
func words(argv ...string) Request {
	return Request{Argv: argv, Program: path.Join("/usr/bin", path.Base(argv[0])), Dir: "/work"}
}

// outcome is a plan in the table's words.
func outcome(plan Plan, confined bool) string {
	if plan.Decision == Reject {
		return "rej"
	}
	text := string(plan.Decision)
	switch {
	case plan.FirstAttempt == Unsandboxed:
		text += "!"
		if plan.OnDenial != Return {
			text += "/" + string(plan.OnDenial)
		}
	case confined || plan.OnDenial != Return:
		text += "/" + string(plan.OnDenial)
	}
	return text
}

// rows are the cells of a table, trimmed; the first are the headings.
func rows(text string) [][]string {
	var all [][]string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		all = append(all, cells)
	}
	return all
}

func TestTable(t *testing.T) {
	all := rows(table)
	heads, tried := all[0], map[string]int{}
	for _, row := range all[1:] {
		approval, known := approvals[row[0]]
		if !known || len(row) != len(heads) || len(sandboxes[row[1]]) == 0 {
			t.Fatalf("the row %q is not understood", row)
		}
		for column := 2; column < len(heads); column++ {
			class, known := classes[heads[column]]
			if !known {
				t.Fatalf("there is no class %q", heads[column])
			}
			for _, sandbox := range sandboxes[row[1]] {
				for _, request := range []Request{shell(class.script), words(strings.Fields(class.script)...)} {
					request.CommandPolicy = class.policy
					plan := MakePlan(request, Snapshot{Approval: approval, Sandbox: sandbox, Rules: tableRules()})
					if got := outcome(plan, sandbox.Confined()); got != row[column] {
						t.Errorf("%s, %s, %s, %q: %s, want %s (%s)", row[0], sandbox, heads[column], request.Argv, got, row[column],
							plan.Reason)
					}
					wellFormed(t, plan)
					tried[heads[column]]++
				}
			}
		}
	}
	if want := len(approvals)*2 + 1; len(all) != want {
		t.Errorf("the table has %d rows, want %d", len(all), want)
	}
	for class := range classes {
		if want := len(approvals) * (3 + 2) * 2; tried[class] != want {
			t.Errorf("class %s was tried %d times, want %d", class, tried[class], want)
		}
	}
}

// wellFormed checks the properties that every plan has.
func wellFormed(t interface{ Errorf(string, ...any) }, plan Plan) {
	switch {
	case plan.Decision == Reject && (plan.Reason == "" || plan.CacheKey != ""),
		plan.Decision == Reject && (plan.OnDenial != Return || plan.FirstAttempt != Sandboxed):
		t.Errorf("a rejection is more than that, or has no reason: %+v", plan)
	case plan.Decision == Ask && plan.Reason == "":
		t.Errorf("asked without a reason: %+v", plan)
	case (plan.Decision == Ask || plan.OnDenial == AskTo) != (plan.CacheKey != "") && plan.Source != messages.DecidedByCache:
		t.Errorf("a question without a key, or the reverse: %+v", plan)
	case plan.FirstAttempt == Unsandboxed && plan.OnDenial != Return:
		t.Errorf("without a sandbox there is no denial: %+v", plan)
	case plan.Source == "":
		t.Errorf("there is no source: %+v", plan)
	}
}

// TestTheDocHasTheTable keeps the manual true.
func TestTheDocHasTheTable(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(docTable(file)), fmt.Sprint(append(rows(table), rows(patchTable)...)); got != want {
		t.Errorf("the package doc has\n%s\nand the test\n%s", strings.ReplaceAll(got, "] [", "\n"),
			strings.ReplaceAll(want, "] [", "\n"))
	}
}

// docTable takes the tables out of a package doc: the lines with bars.
func docTable(file *ast.File) [][]string {
	var lines []string
	for line := range strings.Lines(file.Doc.Text()) {
		if strings.HasPrefix(line, "\t") && strings.Count(line, "|") > 1 {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return rows(strings.Join(lines, "\n"))
}
