package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
)

// strictRules forbid and ask.
const strictRules = `
prefix_rule(["git", "push"], decision="forbidden", justification="pushes")
prefix_rule(["make"], decision="prompt")
prefix_rule(["/opt/tools/make"], decision="allow")
prefix_rule(["curl"], decision="forbidden")
prefix_rule(["dash"], decision="prompt")
prefix_rule(["ls"])
`

func parsed(t *testing.T, source string) *rules.Set {
	t.Helper()
	set, err := rules.Parse("it.rules", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// executing is an execution of a program, written and resolved, with arguments.
func executing(written, resolved string, argv ...string) *Execution {
	return &Execution{Execution: messages.Execution{PID: 7, Parent: 6, Program: written, Resolved: resolved, Argv: argv, Dir: "/work"}, Process: 1000, Command: "make all"}
}

// The decision table of executions: names and rules against what is decided.
func TestWhichExecutionsRulesForbidOrAskAbout(t *testing.T) {
	set := parsed(t, strictRules)
	mode := func(m messages.ApprovalMode) messages.ApprovalPolicy { return messages.ApprovalPolicy{Mode: m} }
	unread := executing("/usr/bin/git", "", "git")
	unread.Unread = "it made itself unreadable"
	for _, row := range []struct {
		what     string
		x        *Execution
		approval messages.ApprovalPolicy
		want     Decision
		rule     string
		reason   string
	}{
		{"no rule", executing("/usr/bin/true", "/usr/bin/true", "true"), mode(""), Run, "", ""},
		{"an allow rule has no say", executing("/usr/bin/ls", "/usr/bin/ls", "ls"), mode(""), Run, "", ""},
		{"another subcommand", executing("/usr/bin/git", "/usr/bin/git", "git", "status"), mode(""), Run, "", ""},
		{"by path", executing("/usr/bin/git", "/usr/bin/git", "git", "push"), mode(""), Reject, "forbidden git push (it.rules:2)", "pushes; a rule of the policy forbids `git push`"},
		{"by a relative path", executing("bin/git", "/work/bin/git", "git", "push", "origin"), mode(""), Reject, "forbidden git push (it.rules:2)", "pushes"},
		{"past options", executing("/usr/bin/git", "/usr/bin/git", "git", "-C", "x", "--no-pager", "push"), mode(""), Reject, "forbidden git push (it.rules:2)", "pushes"},
		{"by the file that a link leads to", executing("/tmp/g", "/usr/bin/git", "g", "push"), mode(""), Reject, "forbidden git push (it.rules:2)", "pushes"},
		{"by the written name of a link", executing("/tmp/git", "/usr/bin/true", "x", "push"), mode(""), Reject, "forbidden git push (it.rules:2)", "pushes"},
		{"by the name it is given as its own", executing("/bin/busybox", "/bin/busybox", "curl", "x"), mode(""), Reject, "forbidden curl (it.rules:5)", "forbids commands that begin with `curl`"},
		{"a link for a subcommand", executing("/usr/lib/git-core/git-push", "/usr/bin/git", "git-push", "origin"), mode(""), Reject, "forbidden git push (it.rules:2)", "pushes"},
		{"another link for a subcommand", executing("/usr/lib/git-core/git-status", "/usr/bin/git", "git-status"), mode(""), Run, "", ""},
		{"an open file", executing("", "/usr/bin/curl", "x"), mode(""), Reject, "forbidden curl (it.rules:5)", "forbids"},
		{"no arguments at all", executing("/usr/bin/curl", "/usr/bin/curl"), mode(""), Reject, "forbidden curl (it.rules:5)", "forbids"},
		{"asked", executing("/usr/bin/make", "/usr/bin/make", "make", "all"), mode(""), Ask, "prompt make (it.rules:3)", "it requires approval by policy: a rule asks about commands that begin with `make`"},
		{"the stricter of the names", executing("/usr/bin/make", "/usr/bin/curl", "make"), mode(""), Reject, "forbidden curl (it.rules:5)", "forbids"},
		{"a rule for the path as it is written", executing("/opt/tools/make", "/opt/tools/make", "/opt/tools/make"), mode(""), Run, "", ""},
		{"under never", executing("/usr/bin/make", "/usr/bin/make", "make"), mode(messages.ApproveNever), Reject, "prompt make (it.rules:3)", "is never and lets nobody be asked"},
		{"under granular without rules", executing("/usr/bin/make", "/usr/bin/make", "make"), messages.ApprovalPolicy{Mode: messages.ApproveGranular}, Reject, "prompt make (it.rules:3)",
			"lets nobody be asked"},
		{"under granular with rules", executing("/usr/bin/make", "/usr/bin/make", "make"), messages.ApprovalPolicy{Mode: messages.ApproveGranular, Granular: messages.GranularApproval{Rules: true}},
			Ask, "prompt make (it.rules:3)", "it requires"},
		{"under untrusted", executing("/usr/bin/sort", "/usr/bin/sort", "sort"), mode(messages.ApproveUntrusted), Run, "", ""},
		{"under an unknown policy", executing("/usr/bin/true", "/usr/bin/true", "true"), mode("odd"), Reject, "", "odd"},
		{"unreadable", unread, mode(""), Reject, "", "cannot be applied to it, because it made itself unreadable"},
		{"what a shell is told is its own business", executing("/bin/sh", "/usr/bin/bash", "sh", "-c", "git push"), mode(""), Run, "", ""},
	} {
		request := row.x.Request()
		plan := MakePlan(request, Snapshot{Approval: row.approval, Rules: set})
		if plan.Decision != row.want || plan.Rule != row.rule || !strings.Contains(plan.Reason, row.reason) || (plan.CacheKey != "") != (row.want == Ask) {
			t.Errorf("%s: %+v", row.what, plan)
		}
	}
}

// A person is not asked twice about what the approved command says it runs. What else it executes is asked about.
func TestExecutionsOfTheApprovedCommand(t *testing.T) {
	set := parsed(t, strictRules)
	command := Request{Argv: []string{"/bin/bash", "-c", "cd x && make all; make $X; for i in 1; do make install; done; ./make here; git push"}, Program: "/bin/bash",
		Found: map[string]string{"make": "/usr/bin/make"}}
	for _, row := range []struct {
		x    *Execution
		want Decision
	}{
		{executing("/usr/bin/make", "/usr/bin/gmake", "make", "all"), Run},
		{executing("/usr/bin/make", "/usr/bin/make", "make", "install"), Run},
		{executing("/usr/bin/make", "/usr/bin/make", "make", "other"), Ask},
		{executing("/usr/bin/make", "/usr/bin/make", "make"), Ask},
		{executing("/tmp/make", "/tmp/make", "make", "all"), Ask}, // it is another program
		{executing("./make", "/work/make", "./make", "here"), Ask},
		{executing("/usr/bin/git", "/usr/bin/git", "git", "push"), Reject}, // what is forbidden stays so
	} {
		row.x.Planned = Planned(command)
		if plan := MakePlan(row.x.Request(), Snapshot{Rules: set}); plan.Decision != row.want {
			t.Errorf("%q: %+v", row.x.Argv, plan)
		}
	}
	if nothing := Planned(Request{Argv: []string{"make"}, Program: NotFound}); len(nothing) > 0 {
		t.Errorf("%+v", nothing)
	}
	if many := Planned(Request{Argv: []string{"bash", "-c", strings.Repeat("make;", 1000)}}); len(many) != maxPlanned {
		t.Errorf("%d", len(many))
	}
}

// An approval covers the same program with the same arguments in the same directory: of one process, or of the session.
func TestWhatAnApprovalOfAnExecutionCovers(t *testing.T) {
	set := parsed(t, strictRules)
	first := executing("/usr/bin/make", "/usr/bin/make", "make", "all")
	granted := func(key string) bool { return key == first.Key(true) }
	change := func(f func(*Execution)) *Execution {
		x := *first
		f(&x)
		return &x
	}
	for _, row := range []struct {
		x         *Execution
		once, all bool
	}{
		{change(func(x *Execution) { x.PID, x.Parent, x.Command = 1, 2, "other" }), true, true},
		{change(func(x *Execution) { x.Process = 1001 }), false, true},
		{change(func(x *Execution) { x.Argv = []string{"make", "all", ""} }), false, false},
		{change(func(x *Execution) { x.Argv = []string{"make", "all\xff"} }), false, false},
		{change(func(x *Execution) { x.Dir = "/" }), false, false},
		{change(func(x *Execution) { x.Resolved = "/usr/bin/gmake" }), false, false},
		{change(func(x *Execution) { x.Program = "/bin/make" }), true, true}, // the same file
	} {
		if same := row.x.Key(false) == first.Key(false); same != row.once {
			t.Errorf("%+v once: %v", row.x, same)
		}
		plan := MakePlan(row.x.Request(), Snapshot{Rules: set, Granted: granted})
		if ran := plan.Decision == Run; ran != row.all || ran && plan.Source != messages.DecidedByCache {
			t.Errorf("%+v: %+v", row.x, plan)
		}
	}
	choices := Choices(first.Request(), Plan{Decision: Ask}, "it.rules")
	var kinds []messages.DecisionKind
	for _, c := range choices {
		kinds = append(kinds, c.Kind)
		if c.Remembers != "" && !strings.Contains(c.Remembers, "in /work") {
			t.Error(c)
		}
	}
	if !slices.Equal(kinds, []messages.DecisionKind{messages.DecisionApproved, messages.DecisionApprovedForSession, messages.DecisionDenied, messages.DecisionAborted}) {
		t.Error(kinds)
	}
}

// While executions are seen, an allow rule does not lift the sandbox; a person who is asked may.
func TestAnAllowRuleLeavesTheSandboxWhereExecutionsAreSeen(t *testing.T) {
	set := parsed(t, strictRules)
	confined, free := messages.SandboxPolicy{Type: messages.SandboxReadOnly}, messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}
	for _, row := range []struct {
		sandbox  messages.SandboxPolicy
		seen     bool
		escalate bool
		want     Attempt
	}{
		{confined, false, false, Unsandboxed},
		{confined, true, false, Sandboxed},
		{free, true, false, Unsandboxed}, // there is none
		{confined, true, true, Unsandboxed},
	} {
		request := Request{Argv: []string{"ls"}, Program: "/usr/bin/ls"}
		if row.escalate {
			request.SandboxPermissions = messages.PermissionsRequireEscalated
		}
		if plan := MakePlan(request, Snapshot{Sandbox: row.sandbox, Rules: set, Executions: row.seen}); plan.FirstAttempt != row.want {
			t.Errorf("%+v: %+v", row, plan)
		}
	}
}

func TestTheNamesThatRulesMention(t *testing.T) {
	if names := parsed(t, strictRules+`prefix_rule(["/usr/local/bin/deploy"], decision="prompt")`).StrictNames(); !slices.Equal(names, []string{"curl", "dash", "deploy", "git", "make"}) {
		t.Error(names)
	}
	if names := (*rules.Set)(nil).StrictNames(); names != nil {
		t.Error(names)
	}
}
