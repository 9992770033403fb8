package policy

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
)

var (
	never     = messages.ApprovalPolicy{Mode: messages.ApproveNever}
	onRequest = messages.ApprovalPolicy{Mode: messages.ApproveOnRequest}
	untrusted = messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}
	readOnly  = messages.SandboxPolicy{Type: messages.SandboxReadOnly}
	workspace = messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}
	full      = messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}
	escalated = messages.CommandPolicy{SandboxPermissions: messages.PermissionsRequireEscalated}
)

func under(approval messages.ApprovalPolicy, sandbox messages.SandboxPolicy, rules *rules.Set) Snapshot {
	return Snapshot{Approval: approval, Sandbox: sandbox, Rules: rules}
}

func TestReasonsNameTheFacts(t *testing.T) {
	escalate := func(r Request, justification string) Request {
		r.CommandPolicy = messages.CommandPolicy{SandboxPermissions: messages.PermissionsRequireEscalated, Justification: justification}
		return r
	}
	widen := func(r Request) Request { r.CommandPolicy = classes["W"].policy; return r }
	noRules, noSandbox := approvals["granular, no rules"], approvals["granular, no sandbox_approval"]
	for name, c := range map[string]struct {
		request  Request
		approval messages.ApprovalPolicy
		want     Decision
		facts    string // separated by |
		not      string
	}{
		"a forbidden word in a script": {shell("ls; forbidden thing"), onRequest, Reject,
			"rejected|policy forbids|`forbidden`|ls; forbidden thing", ""},
		"a forbidden rule's justification": {shell("git push --force origin"), onRequest, Reject, "rejected: history is shared", ""},
		"a forbidden rule, and danger":     {shell("rm -rf x; forbidden"), never, Reject, "policy forbids|`forbidden`", ""},
		"forced removal, never": {shell("rm -rf secret-name"), never, Reject, "rejected|blocked by policy|rm -f",
			"secret-name"},
		"forced removal, switched off": {words("rm", "-rf", "secret-name"), noSandbox, Reject,
			"rejected|rm -f|sandbox_approval", "secret-name"},
		"a prompt rule":                 {shell("prompted thing"), onRequest, Ask, "requires approval by policy|`prompted`", ""},
		"a prompt rule's justification": {shell("mind this"), onRequest, Ask, "it requires approval: ask the owner", "mind this"},
		"a prompt rule, never":          {shell("prompted thing"), never, Reject, "rejected|approval|policy|never|`prompted`", ""},
		"a prompt rule, switched off": {shell("prompted thing"), noRules, Reject,
			"rejected|approval|policy rule|setting rules|`prompted`", ""},
		"a rule and danger, switched off": {shell("prompted thing; rm -rf x"), noRules, Reject, "setting rules", ""},
		"a rule and danger, sandbox off":  {shell("prompted thing; rm -rf x"), noSandbox, Reject, "sandbox_approval", ""},
		"the longest prompting prefix":    {shell("prompted; mind the gap"), onRequest, Ask, "requires approval: it is deep", ""},
		"escalated, never": {escalate(shell("ls"), ""), never, Reject,
			"reject command|you cannot ask for escalated permissions|never", ""},
		"escalated, on-failure": {escalate(shell("ls"), ""), approvals["on-failure"], Reject,
			"cannot ask for escalated permissions|on-failure", ""},
		"escalated, untrusted": {escalate(shell("ls"), ""), untrusted, Ask, "without a sandbox", ""},
		"escalated, granular":  {escalate(shell("ls"), ""), noRules, Ask, "without a sandbox", ""},
		"escalated, switched off": {escalate(shell("ls"), ""), noSandbox, Reject,
			"rejected|without a sandbox|granular|sandbox_approval", "rm -f"},
		"escalated, allowed by a rule": {escalate(shell("allowed"), ""), never, Reject,
			"cannot ask for escalated permissions", ""},
		"escalated, forbidden": {escalate(shell("forbidden"), "please"), onRequest, Reject, "policy forbids", "please"},
		"escalated with a reason": {escalate(shell("cargo b"), "needs the\nnetwork"), onRequest, Ask,
			`needs the\nnetwork`, "\n"},
		"escalated without":       {escalate(words("cargo", "b"), ""), onRequest, Ask, "without a sandbox", ""},
		"a rule, then the caller": {escalate(shell("mind this"), "please"), onRequest, Ask, "ask the owner; the caller says: \"please\"", ""},
		"wider, untrusted": {widen(shell("ls")), untrusted, Reject,
			"you cannot request additional permissions|on-request|untrusted", ""},
		"wider, asked":         {widen(shell("cargo b")), onRequest, Ask, "more than the sandbox allows", ""},
		"not known to be safe": {shell("cargo b"), untrusted, Ask, "not known to be safe", ""},
		"danger, asked":        {shell("ls; rm -rf x"), onRequest, Ask, "rm -f", ""},
		"no such mode":         {shell("ls"), messages.ApprovalPolicy{Mode: "always"}, Reject, "no mode|always", ""},
	} {
		plan := MakePlan(c.request, under(c.approval, readOnly, tableRules()))
		wellFormed(t, plan)
		if plan.Decision != c.want {
			t.Errorf("%s: %s, want %s", name, plan.Decision, c.want)
		}
		for fact := range strings.SplitSeq(c.facts, "|") {
			if !strings.Contains(plan.Reason, strings.ReplaceAll(fact, "policy rule", "rule of the policy")) {
				t.Errorf("%s: the reason %q does not say %q", name, plan.Reason, fact)
			}
		}
		if c.not != "" && strings.Contains(plan.Reason, c.not) {
			t.Errorf("%s: the reason %q says %q", name, plan.Reason, c.not)
		}
	}
}

func TestReasonsAreShort(t *testing.T) {
	plan := MakePlan(words(slices.Repeat([]string{"forbidden"}, 100_000)...), under(never, readOnly, tableRules()))
	if len(plan.Reason) > 1000 || !strings.Contains(plan.Reason, "…") {
		t.Errorf("the reason has %d bytes", len(plan.Reason))
	}
}

func TestCheckCommand(t *testing.T) {
	with := messages.PermissionsWithAdditional
	network := &messages.AdditionalPermissions{Network: &messages.NetworkPermissions{Enabled: true}}
	files := func(paths ...string) *messages.AdditionalPermissions {
		return &messages.AdditionalPermissions{FileSystem: &messages.FileSystemPermissions{Read: paths}}
	}
	for name, c := range map[string]struct {
		command  messages.CommandPolicy
		approval messages.ApprovalPolicy
		facts    string // empty: nothing is wrong
	}{
		"nothing": {messages.CommandPolicy{}, onRequest, ""},
		"the default, justified": {messages.CommandPolicy{SandboxPermissions: messages.PermissionsUseDefault, Justification: "x"},
			onRequest, ""},
		"escalated": {escalated, onRequest, ""},
		"wider": {messages.CommandPolicy{SandboxPermissions: with, AdditionalPermissions: network},
			onRequest, ""},
		"a path": {messages.CommandPolicy{SandboxPermissions: with, AdditionalPermissions: files("a",
			"/b[c]")}, onRequest, ""},
		"justified without permissions": {messages.CommandPolicy{Justification: "x"}, onRequest, ""},
		"the same, before the gate":     {messages.CommandPolicy{Justification: "x"}, never, ""},
		"no such permissions":           {messages.CommandPolicy{SandboxPermissions: "all"}, onRequest, `"all"|require_escalated`},
		"none named": {messages.CommandPolicy{SandboxPermissions: with}, onRequest,
			"ask for the network, or name paths"},
		"none named, but the gate first": {messages.CommandPolicy{SandboxPermissions: with}, never, ""},
		"empty": {messages.CommandPolicy{SandboxPermissions: with, AdditionalPermissions: &messages.AdditionalPermissions{
			Network: &messages.NetworkPermissions{}}}, onRequest, "nothing is asked for"},
		"not asked for":        {messages.CommandPolicy{AdditionalPermissions: network}, onRequest, "request them, or leave them out"},
		"not asked for, never": {messages.CommandPolicy{AdditionalPermissions: network}, never, "request them, or leave them out"},
		"both": {messages.CommandPolicy{SandboxPermissions: messages.PermissionsRequireEscalated,
			AdditionalPermissions: network}, onRequest, "named, but not requested"},
		"a pattern": {messages.CommandPolicy{SandboxPermissions: with, AdditionalPermissions: files("/a", "/b/*")},
			onRequest, "/b/*|not patterns"},
		"a path without a name": {messages.CommandPolicy{SandboxPermissions: with, AdditionalPermissions: files("")}, onRequest,
			"not a path"},
	} {
		err := CheckCommand(c.command, c.approval)
		if (err != nil) != (c.facts != "") || err != nil && !errors.Is(err, messages.ErrInvalidRequest) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for fact := range strings.SplitSeq(c.facts, "|") {
			if err != nil && !strings.Contains(err.Error(), fact) {
				t.Errorf("%s: %q does not say %q", name, err, fact)
			}
		}
		if err != nil {
			request := shell("ls")
			request.CommandPolicy = c.command
			if plan := MakePlan(request, under(c.approval, full, nil)); plan.Decision != Reject {
				t.Errorf("%s: the plan is to %s", name, plan.Decision)
			}
		}
	}
}

func TestAmendments(t *testing.T) {
	prefer := func(r Request, prefix ...string) Request { r.PrefixRule = prefix; return r }
	escalate := func(r Request) Request { r.SandboxPermissions = messages.PermissionsRequireEscalated; return r }
	altered := func(r Request) Request {
		r.Environment = &messages.EnvironmentPolicy{Set: map[string]string{"A": "b"}}
		return r
	}
	elsewhere := func(path string, r Request) Request { r.Program = path; return r }
	wider := func(r Request) Request { r.CommandPolicy = classes["W"].policy; return r }
	for name, c := range map[string]struct {
		request  Request
		approval messages.ApprovalPolicy
		want     []string
	}{
		"what asks":                        {shell("cargo build"), untrusted, []string{"cargo", "build"}},
		"the first that asks":              {shell("ls; cargo build; make"), untrusted, []string{"cargo", "build"}},
		"the first that is allowed":        {shell("cargo build; make"), onRequest, []string{"cargo", "build"}},
		"a safe one, escalated":            {escalate(shell("echo hi")), onRequest, []string{"echo", "hi"}},
		"none: what is not plain":          {shell("cat > $X"), untrusted, nil},
		"danger":                           {shell("rm -rf x"), onRequest, []string{"rm", "-rf", "x"}},
		"none: a rule asks":                {shell("prompted thing"), onRequest, nil},
		"none: a rule asks among others":   {shell("cargo build; prompted thing"), untrusted, nil},
		"none: a rule allows":              {shell("git status; cargo build"), onRequest, nil},
		"what asks, beside an allow rule":  {shell("git status; cargo build"), untrusted, []string{"cargo", "build"}},
		"none: a here-document":            {shell("cargo run <<E\nx\nE"), untrusted, nil},
		"none: the request's environment":  {altered(shell("cargo build")), untrusted, nil},
		"none: permissions, not a sandbox": {wider(shell("cargo build")), onRequest, nil},
		"a program by its path": {elsewhere("/opt/bin/tool", words("tool", "x")), untrusted,
			[]string{"/opt/bin/tool", "x"}},
		"the caller's": {prefer(shell("cargo build -v"), "cargo", "build"), untrusted, []string{"cargo",
			"build"}},
		"the caller's, for all":              {prefer(shell("cargo build; cargo test"), "cargo"), untrusted, []string{"cargo"}},
		"the caller's, by the base name":     {prefer(words("/usr/bin/cargo", "build"), "cargo"), untrusted, []string{"cargo"}},
		"the caller's covers not all":        {prefer(shell("cargo build; make"), "make"), untrusted, []string{"cargo", "build"}},
		"the caller's covers none":           {prefer(shell("cargo build"), "make"), untrusted, []string{"cargo", "build"}},
		"the caller's, and a rule matches":   {prefer(shell("git status; cargo b"), "cargo"), untrusted, []string{"cargo", "b"}},
		"the caller's is banned":             {prefer(shell("cargo build"), "python3", "-c"), untrusted, []string{"cargo", "build"}},
		"a script of the system's":           {shell("python3 /usr/lib/tool.py x"), untrusted, []string{"python3", "/usr/lib/tool.py", "x"}},
		"in an image":                        {shell("docker run alpine ls"), untrusted, []string{"docker", "run", "alpine", "ls"}},
		"the caller's, with a here-document": {prefer(shell("python3 x <<E\nx\nE"), "python3", "x"), untrusted, nil},
		"none: no such program":              {elsewhere(NotFound, words("tool", "x")), untrusted, nil},
		"none: banned":                       {words("python3"), untrusted, nil},
		"none: no rule file could say it":    {words("tool", "\xff"), untrusted, nil},
	} {
		plan := MakePlan(c.request, under(c.approval, readOnly, tableRules()))
		if !slices.Equal(plan.Amendment, c.want) {
			t.Errorf("%s: %s offers %q, want %q", name, plan.Decision, plan.Amendment, c.want)
		}
	}
}

// A rule for what a command can replace would be one for everything.
func TestNoRuleIsOfferedForWhatCommandsCanReplace(t *testing.T) {
	at := func(program string, r Request) Request { r.Program = program; return r }
	found := func(name, path string) Request {
		r := shell(name + " x")
		r.Path, r.Found = "/usr/bin:"+path, map[string]string{name: path + "/" + name}
		return r
	}
	for name, request := range map[string]Request{
		"a program in the workspace":             at("/work/bin/tool", words("tool", "x")),
		"a program by a relative path":           at("/work/tool", words("./tool", "x")),
		"a program of the session's":             at("/session/tool", words("/session/tool")),
		"a program in a writable root":           at("/root/x/tool", words("tool")),
		"a program in a temporary directory":     at("/tmp/tool", words("/tmp/tool")),
		"a program in another":                   at("/var/tmp/a/tool", words("tool")),
		"a program in TMPDIR":                    at("/scratch/tool", words("/scratch/tool")),
		"a program that may be anywhere":         at("/opt/../work/tool", words("/opt/../work/tool")),
		"a name in a script":                     found("tool", "/work/bin"),
		"a path in a script":                     shell("./tool x"),
		"a path in a list":                       shell("ls; bin/tool x"),
		"through sudo":                           shell("sudo -u me ./tool"),
		"through env and nice":                   words("env", "A=b", "nice", "-n", "1", "/work/tool"),
		"a script":                               words("python3", "build.py"),
		"a script with options":                  words("python3.12", "-B", "-u", "tools/build.py", "x"),
		"a script by its absolute path":          words("node", "/work/x.js"),
		"a script of a shell":                    words("bash", "./build.sh"),
		"a script of a shell, with options":      words("bash", "-eu", "-o", "pipefail", "build.sh"),
		"a script of a shell in a script":        shell("sh build.sh"),
		"a script of an unknown shell":           at("/opt/zsh", words("zsh", "build.sh")),
		"a module":                               words("python3", "-m", "build"),
		"a module, joined":                       words("python3", "-mbuild"),
		"a runner's":                             words("npm", "run", "build"),
		"a Go program":                           words("go", "run", "./tool"),
		"a script of bun":                        words("bun", "run", "x.ts"),
		"a whole script":                         shell("for i in a b; do cargo build; done"),
		"a whole script with more words":         {Argv: []string{"/bin/bash", "-c", "eval $1", "x"}, Program: "/bin/bash", Dir: "/work"},
		"a whole script of an unknown shell":     at("/opt/zsh", words("zsh", "-c", "cargo build")),
		"a whole script through sudo":            words("sudo", "bash", "-c", "for i in a; do b; done"),
		"a whole script of an interpreter":       words("python3", "-c", "print(1)"),
		"a whole script, with options":           words("perl", "-wne", "print"),
		"a whole script by another name":         words("node", "--eval=1"),
		"a whole script of busybox":              words("busybox", "sh", "-c", "for i in a; do b; done"),
		"a whole script, and the caller's words": {Argv: []string{"/bin/bash", "-c", "x $Y"}, Program: "/bin/bash", Dir: "/work", CommandPolicy: messages.CommandPolicy{PrefixRule: []string{"/bin/bash", "-c", "x $Y"}}},
		"a script, and the caller's words":       {Argv: []string{"python3", "build.py", "x"}, Program: "/usr/bin/python3", Dir: "/work", CommandPolicy: messages.CommandPolicy{PrefixRule: []string{"python3", "build.py"}}},
		"the caller's words in front of a path":  {Argv: []string{"sudo", "-n", "./x"}, Program: "/usr/bin/sudo", Dir: "/work", CommandPolicy: messages.CommandPolicy{PrefixRule: []string{"sudo", "-n"}}},
	} {
		snapshot := under(untrusted, messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, WritableRoots: []string{"/root"}}, nil)
		snapshot.Dir, snapshot.TempDir = "/session", "/scratch"
		if plan := MakePlan(request, snapshot); plan.Decision != Ask || plan.Amendment != nil {
			t.Errorf("%s: to %s about %q offers %q", name, plan.Decision, request.Argv, plan.Amendment)
		}
	}
}

// TestAnAmendmentIsEffective takes each offer and makes the plan again.
func TestAnAmendmentIsEffective(t *testing.T) {
	elsewhere := words("tool", "x")
	elsewhere.Program = "/opt/bin/tool"
	there := words("/opt/tool", "x")
	there.Program = "/opt/tool"
	unknownShell := shell("cargo build")
	unknownShell.Argv, unknownShell.Program = []string{"bash", "/opt/script"}, "/opt/bash"
	for _, request := range []Request{shell("cargo build"), words("cargo", "build"), elsewhere, there, unknownShell} {
		plan := MakePlan(request, under(untrusted, readOnly, tableRules()))
		rules, err := tableRules().With(plan.Amendment)
		if err != nil {
			t.Fatalf("%q offers %q: %v", request.Argv, plan.Amendment, err)
		}
		if again := MakePlan(request, under(untrusted, readOnly, rules)); outcome(again,
			true) != "run!" || again.Source != messages.DecidedByRule {
			t.Errorf("%q with a rule for %q: %s", request.Argv, plan.Amendment, outcome(again, true))
		}
	}
}

// TestARequestThatChangesTheMeaningOfNames: neither rules nor knowledge about names say anything then.
func TestARequestThatChangesTheMeaningOfNames(t *testing.T) {
	set := func(e messages.EnvironmentPolicy) func(*Request) { return func(r *Request) { r.Environment = &e } }
	for name, c := range map[string]struct {
		change   func(*Request)
		counts   bool // allow rules and safe names do
		onlyArgv bool
	}{
		"nothing":            {func(*Request) {}, true, false},
		"an empty policy":    {set(messages.EnvironmentPolicy{}), true, false},
		"an empty set":       {set(messages.EnvironmentPolicy{Set: map[string]string{}, Inherit: messages.InheritAll}), true, false},
		"a variable":         {set(messages.EnvironmentPolicy{Set: map[string]string{"LD_PRELOAD": "x"}}), false, false},
		"an exact one":       {set(messages.EnvironmentPolicy{Exact: true}), false, false},
		"another start":      {set(messages.EnvironmentPolicy{Inherit: messages.InheritNone}), false, false},
		"without secrets":    {set(messages.EnvironmentPolicy{DropSecrets: true}), false, false},
		"without some":       {set(messages.EnvironmentPolicy{Exclude: []string{"PATH"}}), false, false},
		"only some":          {set(messages.EnvironmentPolicy{IncludeOnly: []string{"LD_*"}}), false, false},
		"the same argv[0]":   {func(r *Request) { r.Argv0 = r.Argv[0] }, true, false},
		"another argv[0]":    {func(r *Request) { r.Argv0 = "sh" }, false, false},
		"found in the work":  {func(r *Request) { r.Program = "/work/bin/x" }, false, true},
		"found through dots": {func(r *Request) { r.Program = "/usr/bin/../../work/x" }, false, true},
		"found nowhere":      {func(r *Request) { r.Program = NotFound }, false, true},
		"a relative program": {func(r *Request) { r.Program = r.Argv[0] }, false, true},
		"a careless PATH":    {func(r *Request) { r.Program = "/usr//bin/./" + r.Argv[0] }, true, true},
		"nobody has looked":  {func(r *Request) { r.Program = "" }, true, true},
	} {
		try := func(request Request, want string) {
			t.Helper()
			c.change(&request)
			if got := outcome(MakePlan(request, under(untrusted, readOnly, tableRules())), true); got != want {
				t.Errorf("%s: %q: %s, want %s", name, request.Argv, got, want)
			}
		}
		safe, allowed := "ask/ask", "ask/ask"
		if c.counts {
			safe, allowed = "run/ask", "run!"
		}
		try(words("ls", "-l"), safe)
		try(words("allowed", "thing"), allowed)
		try(words("prompted", "thing"), "ask/ask")
		try(words("forbidden", "thing"), "rej")
		if !c.onlyArgv {
			try(shell("ls -l"), safe)
			try(shell("allowed thing"), allowed)
			try(shell("forbidden thing"), "rej")
		}
	}
}

// TestDangerIsKnownByItsName, wherever the program lies.
func TestDangerIsKnownByItsName(t *testing.T) {
	for _, program := range []string{"", "/bin/rm", "/work/rm", "rm", NotFound} {
		request := words("rm", "-rf", "x")
		request.Program = program
		if plan := MakePlan(request, under(never, readOnly, nil)); plan.Decision != Reject {
			t.Errorf("found at %q: %s", program, plan.Decision)
		}
	}
}

// TestWishesAndRules: under on-request, commands that ask for more and that rules match.
func TestWishesAndRules(t *testing.T) {
	for text, want := range map[string][2]string{ // escalated, wider
		"allowed x":             {"run!", "run!"},
		"prompted x":            {"ask!", "ask/return"},
		"forbidden x":           {"rej", "rej"},
		"rm -rf x":              {"ask!", "ask/return"},
		"allowed x; cargo b":    {"ask!", "ask/return"},
		"allowed x; ls":         {"ask!", "ask/return"},
		"allowed x; prompted":   {"ask!", "ask/return"},
		"allowed x; forbidden":  {"rej", "rej"},
		"allowed x > y":         {"ask!", "ask/return"},
		"allowed x <<E\nx\nE":   {"run!", "run!"},
		"allowed x && allowed":  {"run!", "run!"},
		"allowed x; rm -rf x":   {"ask!", "ask/return"},
		"prompted x; forbidden": {"rej", "rej"},
	} {
		for i, class := range []string{"E", "W"} {
			request := shell(text)
			request.CommandPolicy = classes[class].policy
			if got := outcome(MakePlan(request, under(onRequest, workspace, tableRules())), true); got != want[i] {
				t.Errorf("%q, %s: %s, want %s", text, request.SandboxPermissions, got, want[i])
			}
		}
	}
}

// deep is a script that begins far from the root.
func deep(text string) Request {
	request := shell(text)
	request.Dir = "/srv/a/b/c"
	return request
}

// TestWhatIsSafeDependsOnTheSandbox: git runs programs that a repository configures, so it is safe only in a sandbox.
func TestWhatIsSafeDependsOnTheSandbox(t *testing.T) {
	for _, c := range []struct {
		request Request
		sandbox messages.SandboxPolicy
		want    string
	}{
		{shell("git status"), readOnly, "run/ask"},
		{shell("git status"), full, "ask"},
		{words("git", "status"), messages.SandboxPolicy{Type: messages.SandboxExternal}, "ask"},
		{shell("git diff"), workspace, "ask/ask"},
		{shell("git diff --no-textconv --no-ext-diff"), workspace, "run/ask"},
		{shell("ls"), full, "run"},
		{shell("cat environ"), full, "run"},
		{Request{Argv: []string{"cat", "environ"}, Program: "/bin/cat", Dir: "/proc/1"}, full, "ask"},
		// cd leads there step by step.
		{shell("cd .. && cd proc && cat 1/environ"), full, "ask"},
		{shell("cd ..; grep -r x ."), full, "ask"},
		{shell("cd ../home/x; cd .. && cd ..; cat proc"), full, "ask"},
		{shell("cd; cd ..; rg x"), full, "ask"},
		{shell("cd ~/x; cd ../.. && grep -r x"), full, "ask"},
		{shell("cd -P -- ..; find"), full, "ask"},
		{shell("cd work proc; cat 1/environ"), full, "ask"},
		{shell("false && cd x; cd ..; grep -r x ."), full, "ask"},
		{shell(strings.Repeat("cd a; ", 20) + "cat x"), full, "ask"},
		{shell("cd src && grep -r x . && cd .. && cat a"), full, "run"},
		{shell("cd / && ls"), full, "run"},
		{shell("cd / && rg x"), full, "ask"},
		{shell("cd /srv/x; cd y; cd -; rg x"), full, "run"},
		{shell("cd ~/x && cat y"), full, "run"},
		{shell("cd -P src && cat y"), full, "run"},
		{deep("cd ..; grep -r x ."), full, "run"},
		{deep("cd; cd ..; grep -r x ."), full, "ask"},
		{deep("cd ~/x; cd ../..; grep -r x ."), full, "ask"},
	} {
		if got := outcome(MakePlan(c.request, under(untrusted, c.sandbox, nil)), c.sandbox.Confined()); got != c.want {
			t.Errorf("%q in %s, %s: %s, want %s", c.request.Argv, c.request.Dir, c.sandbox, got, c.want)
		}
	}
}

// TestHereDocuments: rules hold for the command that reads one, and nothing is known about its safety.
func TestHereDocuments(t *testing.T) {
	for text, want := range map[string]string{"ls -l": "run/ask", "ls -l <<E\nx\nE": "ask/ask", "allowed x <<E\nx\nE": "run!",
		"forbidden <<'E'\nx\nE": "rej", "prompted <<E\nx\nE": "ask/ask", "allowed <<E > x\nx\nE": "ask/ask",
		"A=b allowed <<E\nx\nE": "ask/ask"} {
		if got := outcome(MakePlan(shell(text), under(untrusted, readOnly, tableRules())), true); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestSources(t *testing.T) {
	for _, c := range []struct {
		script string
		want   messages.DecisionSource
	}{{"allowed", messages.DecidedByRule}, {"prompted", messages.DecidedByRule}, {"forbidden", messages.DecidedByRule}, {"ls", messages.DecidedByPolicy},
		{"cargo b", messages.DecidedByPolicy}, {"allowed; ls", messages.DecidedByPolicy}, {"rm -rf x", messages.DecidedByPolicy}} {
		if plan := MakePlan(shell(c.script), under(untrusted, readOnly, tableRules())); plan.Source != c.want {
			t.Errorf("%s: by %s, want %s", c.script, plan.Source, c.want)
		}
	}
}

// grantAll is a snapshot in which every question has been approved before; asked has the keys that were looked up.
func grantAll(snapshot Snapshot, asked *[]string) Snapshot {
	snapshot.Granted = func(key string) bool {
		*asked = append(*asked, key)
		return true
	}
	return snapshot
}

func TestGrants(t *testing.T) {
	for _, row := range rows(table)[1:] {
		for class := range maps.Values(classes) {
			for _, sandbox := range sandboxes[row[1]] {
				request := shell(class.script)
				request.CommandPolicy = class.policy
				before := MakePlan(request, under(approvals[row[0]], sandbox, tableRules()))
				var asked []string
				after := MakePlan(request, grantAll(under(approvals[row[0]], sandbox, tableRules()), &asked))
				want := before
				if before.Decision == Ask {
					want.Decision, want.Source = Run, messages.DecidedByCache
				}
				if before.OnDenial == AskTo {
					want.OnDenial, want.Source = Retry, messages.DecidedByCache
				}
				if before.Decision != Ask && before.OnDenial != AskTo && len(asked) > 0 {
					t.Errorf("%s, %s: a grant was looked for though there is no question", row[0], class.script)
				}
				if !equal(after, want) {
					t.Errorf("%s, %s, %s: with a grant %+v, want %+v", row[0], sandbox, class.script, after, want)
				}
			}
		}
	}
}

func equal(a, b Plan) bool {
	same := slices.Equal(a.Amendment, b.Amendment) && slices.Equal(lines(a), lines(b)) && a.MoreSegments == b.MoreSegments
	return same && a.Decision == b.Decision && a.Reason == b.Reason && a.Source == b.Source && a.FirstAttempt == b.FirstAttempt &&
		a.OnDenial == b.OnDenial && a.CacheKey == b.CacheKey
}

func TestMakePlanChangesNothing(t *testing.T) {
	request := shell("cargo build")
	request.PrefixRule = []string{"cargo", "build", "x"}[:2]
	request.Program = "/work/bash"
	rules := tableRules()
	plan := MakePlan(request, under(untrusted, readOnly, rules))
	for range plan.Amendment {
		plan.Amendment[0] = "changed"
	}
	if again := MakePlan(request, under(untrusted, readOnly, rules)); slices.Contains(again.Amendment, "changed") {
		t.Errorf("a holder of a plan can change the request: %q", again.Amendment)
	}
	if request.Argv[0] != "/bin/bash" || request.PrefixRule[0] != "cargo" {
		t.Errorf("the request was changed: %+v", request)
	}
}

func TestNothingToRun(t *testing.T) {
	for _, argv := range [][]string{nil, {}, {""}, {"", "x"}} {
		for _, program := range []string{"", "/work/x"} {
			if plan := MakePlan(Request{Argv: argv, Program: program, Dir: "/work"}, under(untrusted, readOnly,
				nil)); plan.Decision != Ask {
				t.Errorf("%q: %s", argv, plan.Decision)
			}
		}
	}
}
