package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
)

// TestUnreadableCommands: where rules forbid or ask, a command that hides what it runs is asked about, or the session decides.
func TestUnreadableCommands(t *testing.T) {
	const hidden = `eval "$x"`
	strict, lax := testRules(testRule{rules.Forbidden, "git push", ""}), testRules(testRule{rules.Allow, "bash", ""}, testRule{rules.Allow, "eval", ""})
	off := granular(messages.GranularApproval{SandboxApproval: true})
	for name, c := range map[string]struct {
		request  Request
		approval messages.ApprovalPolicy
		rules    *rules.Set
		session  messages.RulesUnreadable
		want     Decision
		unread   bool
	}{
		"asked about":                   {shell(hidden), onRequest, strict, "", Ask, true},
		"asked about, though rejected":  {shell(hidden), onRequest, strict, messages.UnreadableReject, Ask, true},
		"never asked about, and run":    {shell(hidden), never, strict, "", Run, true},
		"never asked about, rejected":   {shell(hidden), never, strict, messages.UnreadableReject, Reject, true},
		"no questions about rules":      {shell(hidden), off, strict, messages.UnreadableReject, Reject, true},
		"no questions about rules, run": {shell(hidden), off, strict, messages.UnreadableRun, Run, true},
		"on failure":                    {shell(hidden), approvals["on-failure"], strict, "", Ask, true},
		"no rules":                      {shell(hidden), onRequest, nil, messages.UnreadableReject, Run, false},
		"only rules that allow":         {shell(hidden), never, lax, messages.UnreadableReject, Run, false},
		"readable":                      {shell(`ls "$x"`), never, strict, messages.UnreadableReject, Run, false},
		"forbidden as well":             {shell(hidden + "; git push"), onRequest, strict, "", Reject, true},
		"a here-document":               {shell("bash <<'E'\necho it\\'s\ngit push\necho it\\'s\nE"), onRequest, strict, "", Reject, false},
		"an option before a word":       {shell("git -C x push"), never, strict, "", Reject, false},
		"typed":                         {open(words("bash")), onRequest, strict, "", Ask, true},
		"not typed":                     {words("bash"), onRequest, strict, "", Run, false},
		"a variable of the request":     {with(words("bash", "-c", "ls"), map[string]string{"BASH_ENV": "/tmp/x"}), onRequest, strict, "", Ask, true},
		"another variable":              {with(words("bash", "-c", "ls"), map[string]string{"ENV": "production"}), onRequest, strict, "", Run, false},
	} {
		snapshot := under(c.approval, workspace, c.rules)
		snapshot.Unreadable = c.session
		plan := MakePlan(c.request, snapshot)
		if plan.Decision != c.want || (plan.Unread != "") != c.unread {
			t.Errorf("%s: %s (%s), unread %q", name, plan.Decision, plan.Reason, plan.Unread)
		}
		if unasked := plan.Decision == Ask && c.session != messages.UnreadableReject; (plan.Unasked == Run) != unasked {
			t.Errorf("%s: if nobody is there it is %q", name, plan.Unasked)
		}
		if c.unread && plan.Decision == Ask && (!strings.Contains(plan.Reason, plan.Unread) || plan.Amendment != nil || plan.FirstAttempt != Sandboxed) {
			t.Errorf("%s: %+v", name, plan)
		}
	}
	both := testRules(testRule{rules.Allow, "eval", ""}, testRule{rules.Prompt, "npm", ""})
	if plan := MakePlan(words("eval", "$x; \x00"), under(onRequest, workspace, both)); plan.Decision != Ask {
		t.Error("a rule allows what nobody can read:", plan.Decision)
	}
	if plan := MakePlan(shell(hidden+"; npm i"), under(onRequest, workspace, both)); plan.Unasked == Run || plan.Source != messages.DecidedByRule {
		t.Errorf("a question of a rule is left out: %+v", plan)
	}
	request := shell(hidden)
	request.CommandPolicy = escalated
	if plan := MakePlan(request, under(onRequest, workspace, both)); plan.Unasked == Run || plan.Unread == "" {
		t.Errorf("a run without a sandbox is left out: %+v", plan)
	}
}

// TestWhatAShellReadsCountsForTheShell: the commands of a plain script are judged one by one, and what one writes for another with it.
func TestWhatAShellReadsCountsForTheShell(t *testing.T) {
	set := testRules(testRule{rules.Prompt, "git push", ""}, testRule{rules.Forbidden, "npm", ""})
	plan := MakePlan(shell("echo git push | sh | cat"), under(onRequest, workspace, set))
	if plan.Decision != Ask || len(plan.Segments) != 3 || plan.Segments[0].Display != "sh" || plan.Segments[1].Why != "" || plan.Segments[2].Why != "" {
		t.Errorf("%+v", plan)
	}
	for text, want := range map[string]Decision{"echo 'rm -rf x' | sh": Ask, "echo 'rm x' | sh": Run, "echo npm | xargs env": Reject, "echo npm | cat": Run, "cd x; echo npm | sh -s": Reject} {
		if plan := MakePlan(shell(text), under(onRequest, workspace, set)); plan.Decision != want {
			t.Errorf("%s: %s (%s)", text, plan.Decision, plan.Reason)
		}
	}
	noSandbox := granular(messages.GranularApproval{Rules: true})
	if plan := MakePlan(shell("make | sh"), under(noSandbox, workspace, set)); plan.Decision != Ask {
		t.Errorf("%+v", plan)
	}
	if plan := MakePlan(shell("make | sh; rm -rf x"), under(noSandbox, workspace, set)); plan.Decision != Reject || !strings.Contains(plan.Reason, "rm -f") {
		t.Errorf("a question that is switched off is asked behind another: %+v", plan)
	}
	request := words("find", ".", "-exec", "{}", ";")
	if plan := MakePlan(request, under(onRequest, workspace, set)); plan.Decision != Ask || plan.Amendment != nil {
		t.Errorf("a rule is offered that would not hold: %+v", plan)
	}
}

// TestFilesOfAScript are looked up in every directory that the script may be in.
func TestFilesOfAScript(t *testing.T) {
	got := Files(shell("cat a && cd sub; cat b"), nil)
	for _, want := range []string{"/work/a", "/work/b", "/work/sub/b"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not among %q", want, got)
		}
	}
	if got := Files(shell("cat $x"), nil); got != nil {
		t.Errorf("a script that is not plain has %q", got)
	}
	if got := Files(shell("cat "+strings.Repeat("a ", 10)+strings.Join(strings.Split(strings.Repeat("b", 600), ""), "/x ")), nil); len(got) > maxFiles {
		t.Errorf("%d paths", len(got))
	}
	request := shell("cat link")
	request.Leads = map[string]string{"/work/link": "/proc/1/environ"}
	if plan := MakePlan(request, under(untrusted, workspace, nil)); plan.Decision != Ask {
		t.Errorf("%+v", plan)
	}
	request.Leads["/work/link"] = "/work/file"
	if plan := MakePlan(request, under(untrusted, workspace, nil)); plan.Decision != Run {
		t.Errorf("%+v", plan)
	}
}

// TestWhatIsFoundAllowsNothing: rules that allow look at no command inside of another.
func TestWhatIsFoundAllowsNothing(t *testing.T) {
	set := testRules(testRule{rules.Allow, "git status", ""}, testRule{rules.Allow, "ls", ""})
	for _, request := range []Request{words("git", "-c", "core.sshCommand=x", "status"), words("strace", "-o", "x", "git", "status"), shell("sh <<< ls"),
		words("su", "-c", "ls"), shell("echo ls | sh"), words("git", "-C", "x", "status"), words("npm", "exec", "ls"), words("taskset", "1", "ls")} {
		for _, mode := range []messages.ApprovalPolicy{never, untrusted} {
			if plan := MakePlan(request, under(mode, workspace, set)); plan.FirstAttempt != Sandboxed || mode == untrusted && plan.Decision != Ask {
				t.Errorf("%q: %s", request.Argv, outcome(plan, true))
			}
		}
	}
	for _, request := range []Request{words("strace", "-o", "x", "ls"), words("su", "-c", "ls"), words("git", "-c", "core.sshCommand=x", "fetch"), words("script", "-c", "ls")} {
		if plan := MakePlan(request, under(untrusted, workspace, nil)); plan.Amendment != nil {
			t.Errorf("a rule is offered: %q", plan.Amendment)
		}
	}
}

func open(request Request) Request {
	request.OpenInput = true
	return request
}

func with(request Request, set map[string]string) Request {
	request.Environment = &messages.EnvironmentPolicy{Set: set}
	return request
}
