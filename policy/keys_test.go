package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

// asked has the parts of a call that may vary.
type asked struct {
	exec    messages.ExecCommand
	program string
	shell   string // the path of the shell; empty: /bin/bash
}

// request is the plan's input for a call: yield time and output limits are gone, relative directories resolved.
func (a asked) request() Request {
	e := a.exec
	r := Request{Argv: e.Argv, Argv0: e.Argv0, Program: a.program, Dir: "/work", Environment: e.Environment,
		OpenInput: e.TTY || e.OpenStdin, CommandPolicy: e.CommandPolicy}
	if e.Dir != "" {
		r.Dir = e.Dir
	}
	if e.Script != "" {
		flag := "-lc"
		if e.Login != nil && !*e.Login {
			flag = "-c"
		}
		if r.Program = a.shell; r.Program == "" {
			r.Program = "/bin/bash"
		}
		r.Argv = []string{r.Program, flag, e.Script}
	} else if r.Program == "" {
		r.Program = "/usr/bin/" + e.Argv[0][strings.LastIndex(e.Argv[0], "/")+1:]
	}
	return r
}

func run(script string) asked     { return asked{exec: messages.ExecCommand{Script: script}} }
func argv(words ...string) asked  { return asked{exec: messages.ExecCommand{Argv: words}} }
func in(shell, text string) asked { a := run(text); a.shell = shell; return a }

func (a asked) with(change func(*messages.ExecCommand)) asked {
	change(&a.exec)
	return a
}

func (a asked) permitted(p messages.CommandPolicy) asked {
	a.exec.CommandPolicy = p
	return a
}

func told(argv0 string) func(*messages.ExecCommand) {
	return func(e *messages.ExecCommand) { e.Argv0 = argv0 }
}

func terminal(e *messages.ExecCommand) { e.TTY = true }

func openStdin(e *messages.ExecCommand) { e.OpenStdin = true }

func variable(e *messages.ExecCommand) {
	e.Environment = &messages.EnvironmentPolicy{Set: map[string]string{"A": "b"}}
}

func noLogin(e *messages.ExecCommand) { login := false; e.Login = &login }

func wider(network bool, read, write []string) messages.CommandPolicy {
	p := messages.AdditionalPermissions{FileSystem: &messages.FileSystemPermissions{Read: read, Write: write}}
	if network {
		p.Network = &messages.NetworkPermissions{Enabled: true}
	}
	return messages.CommandPolicy{SandboxPermissions: messages.PermissionsWithAdditional, AdditionalPermissions: &p}
}

// equivalents are pairs of calls of which the second should not be asked about if the first was approved for the session.
func equivalents() [][2]asked {
	base := run("npm test")
	longer := run("cd x && npm test | tee log")
	unknown := run("npm test > log")
	vary := func(a asked, changes ...func(*messages.ExecCommand)) (pairs [][2]asked) {
		for _, change := range changes {
			pairs = append(pairs, [2]asked{a, a.with(change)})
		}
		return pairs
	}
	shell := []func(*messages.ExecCommand){
		func(e *messages.ExecCommand) { e.Yield = new(time.Second) },
		func(e *messages.ExecCommand) { e.MaxOutputTokens = new(17) },
		func(e *messages.ExecCommand) { e.Grace = new(time.Second) },
		func(e *messages.ExecCommand) { e.Call = "another" },
		func(e *messages.ExecCommand) { e.SandboxPermissions = messages.PermissionsUseDefault },
		func(e *messages.ExecCommand) {
			e.SandboxPermissions, e.Justification = messages.PermissionsUseDefault, "because"
		},
		func(e *messages.ExecCommand) { e.PrefixRule = []string{"npm"} },
		func(e *messages.ExecCommand) { e.Environment = &messages.EnvironmentPolicy{} },
		func(e *messages.ExecCommand) {
			e.Environment = &messages.EnvironmentPolicy{Inherit: messages.InheritAll, Set: map[string]string{}}
		},
		func(e *messages.ExecCommand) { e.Dir = "/work/" },
		func(e *messages.ExecCommand) { e.Dir = "//work/./" },
	}
	var pairs [][2]asked
	pairs = append(pairs, vary(base, shell...)...)
	pairs = append(pairs, vary(unknown, shell[:7]...)...)
	pairs = append(pairs, [][2]asked{
		{base, base.with(noLogin)},
		{base, argv("npm", "test")},
		{base, in("/usr/bin/bash", "npm test")},
		{base, in("/bin/sh", "npm test")},
		{base, in("/usr/bin/zsh", "npm test")},
		{base, in("/home/me/.nix/zsh", "npm test")}, // a trusted one
		{base, run("npm  test")},
		{base, run(" npm test ")},
		{base, run("\nnpm test\n")},
		{base, run("npm\ttest")},
		{base, run("npm test;")},
		{base, run("npm 'test'")},
		{base, run(`npm "test"`)},
		{base, run(`npm te""st`)},
		{base, run(`npm \test`)},
		{base, run("npm \\\n test")},
		{longer, longer.with(noLogin)},
		{longer, in("/usr/bin/bash", "cd x && npm test | tee log")},
		{longer, run("cd x&&npm test|tee log")},
		{longer, run("cd x &&\n  npm test |\n  tee log")},
		{longer, run("cd 'x' && npm test | tee \"log\"")},
		{run("make; make test"), run("make\nmake test")},
		{run("make; make test"), run("make;make test;")},
		{unknown, in("/usr/bin/bash", "npm test > log")},
		{in("/bin/sh", "npm test > log"), in("/usr/bin/sh", "npm test > log")},
		{run("npm 'a b' x"), run(`npm "a b" x`)},
		{run("npm 'a b' x"), run(`npm a\ b x`)},
		{run("npm 'a b' x"), argv("npm", "a b", "x")},
		{argv("npm", "test"), argv("npm", "test").with(told("npm"))},
		{argv("npm", "test").with(variable), argv("npm", "test").with(variable).with(told("npm"))},
		{base.with(variable), in("/usr/bin/bash", "npm test").with(variable)},
		{argv("npm", "test").with(terminal), argv("npm", "test")},
		{argv("npm", "test").with(openStdin), run("npm test")},
		{argv("npm", "test").with(openStdin), run("npm test").with(terminal)},
		{base.with(terminal), base.with(openStdin)},
		{unknown.with(terminal), unknown},
		{base.with(terminal), base.with(func(e *messages.ExecCommand) { e.TTY, e.Size = true, messages.Size{Rows: 50, Cols: 200} })},
		{base.permitted(escalated), base.permitted(messages.CommandPolicy{SandboxPermissions: messages.PermissionsRequireEscalated,
			Justification: "x"})},
		{base.permitted(wider(true, nil, nil)), base.permitted(wider(true, []string{}, nil))},
		{base.permitted(wider(false, []string{"/a", "/b"}, nil)), base.permitted(wider(false, []string{"/b", "/a", "/b/"}, nil))},
		{base.permitted(wider(false, nil, []string{"x"})), base.permitted(wider(false, nil, []string{"/work/x", "./x"}))},
		{base.permitted(wider(true, []string{"/a"}, []string{"x"})), argv("npm", "test").permitted(wider(true, []string{"/a/."},
			[]string{"x/"}))},
		{base.with(func(e *messages.ExecCommand) {
			e.Environment = &messages.EnvironmentPolicy{Exclude: []string{"A", "B"}}
		}),
			base.with(func(e *messages.ExecCommand) {
				e.Environment = &messages.EnvironmentPolicy{Exclude: []string{"B", "A"}}
			})},
	}...)
	return pairs
}

func TestEquivalentCommandsAreAskedAboutOnce(t *testing.T) {
	trusted := []string{"/home/me/.nix/zsh"}
	pairs, same := equivalents(), 0
	for _, pair := range pairs {
		snapshot := Snapshot{Approval: untrusted, Sandbox: workspace, TrustedShells: trusted}
		if override(pair[0].exec.CommandPolicy) {
			snapshot.Approval = onRequest
		}
		first := MakePlan(pair[0].request(), snapshot)
		snapshot.Granted = func(key string) bool { return key == first.CacheKey }
		if second := MakePlan(pair[1].request(), snapshot); first.Decision == Ask && second.Decision == Run {
			same++
		} else {
			t.Errorf("asked twice: %s %s and %s %s", first.Decision, first.CacheKey, second.Decision, second.CacheKey)
		}
	}
	t.Logf("%d of %d pairs are asked about once", same, len(pairs))
	if len(pairs) < 60 || same < len(pairs) {
		t.Errorf("only %d of %d pairs", same, len(pairs))
	}
}

func TestKeysTellApart(t *testing.T) {
	base, script := run("npm test"), run("npm test > log")
	set := func(name, value string) func(*messages.ExecCommand) {
		return func(e *messages.ExecCommand) {
			e.Environment = &messages.EnvironmentPolicy{Set: map[string]string{name: value}}
		}
	}
	for name, pair := range map[string][2]asked{
		"words":                   {base, run("npm test x")},
		"where words end":         {argv("npm", "a b"), argv("npm", "a", "b")},
		"typed code":              {argv("python3"), argv("python3").with(terminal)},
		"open input":              {run("python3"), run("python3").with(openStdin)},
		"thrown away output":      {run("npm test >/dev/null"), run("npm test")},
		"no input":                {run("python3 </dev/null").with(terminal), run("python3").with(terminal)},
		"empty words":             {argv("npm", ""), argv("npm")},
		"bytes that are no UTF-8": {argv("npm", "\xff"), argv("npm", "\xfe")},
		"a replacement character": {argv("npm", "\xff"), argv("npm", "\ufffd")},
		"what stands for bytes":   {argv("npm", "\xff"), argv("npm", `{"bytes":"/w=="}`)},
		"directories":             {base, base.with(func(e *messages.ExecCommand) { e.Dir = "/work/x" })},
		"directories that are no UTF-8": {base.with(func(e *messages.ExecCommand) { e.Dir = "/\xff" }),
			base.with(func(e *messages.ExecCommand) { e.Dir = "/\xfe" })},
		"the parent of what may be a link": {base, base.with(func(e *messages.ExecCommand) { e.Dir = "/work/x/.." })},
		"paths through such a parent": {base.permitted(wider(false, []string{"x/../y"}, nil)), base.permitted(wider(false,
			[]string{"y"}, nil))},
		"variables":                {base, base.with(set("A", "b"))},
		"values":                   {base.with(set("A", "b")), base.with(set("A", "c"))},
		"values that are no UTF-8": {base.with(set("A", "\xff")), base.with(set("A", "\xfe"))},
		"names":                    {base.with(set("A", "b")), base.with(set("B", "b"))},
		"inherited variables":      {base.with(inherits(messages.InheritCore)), base},
		"no variables":             {base.with(inherits(messages.InheritNone)), base},
		"some and no variables":    {base.with(inherits(messages.InheritCore)), base.with(inherits(messages.InheritNone))},
		"all variables and some":   {base.with(inherits(messages.InheritAll)).with(terminal), base.with(inherits(messages.InheritCore)).with(terminal)},
		"secrets": {base.with(func(e *messages.ExecCommand) { e.Environment = &messages.EnvironmentPolicy{DropSecrets: true} }),
			base},
		"an exact environment": {base.with(func(e *messages.ExecCommand) { e.Environment = &messages.EnvironmentPolicy{Exact: true} }),
			base.with(inherits(messages.InheritNone))},
		"argv[0]": {argv("npm"), argv("npm").with(told("sh"))},
		// Start files and functions of a shell do not matter to a program; a shell's own name is not the program's.
		"variables for a shell":       {argv("npm", "test").with(set("BASH_ENV", "x")), base.with(set("BASH_ENV", "x"))},
		"variables for one shell":     {in("/bin/sh", "npm test").with(set("BASH_ENV", "x")), base.with(set("BASH_ENV", "x"))},
		"variables for a login shell": {base.with(set("HOME", "x")), base.with(set("HOME", "x")).with(noLogin)},
		"a shell's argv[0]":           {base.with(told("npm-x")), argv("npm", "test").with(told("npm-x"))},
		"programs of somebody else's": {argv("npm"), asked{exec: argv("npm").exec, program: "/work/npm"}},
		"programs that are not there": {asked{exec: argv("a", "x").exec, program: NotFound}, asked{exec: argv("b", "x").exec,
			program: NotFound}},
		"a relative program": {asked{exec: argv("a").exec, program: "a"}, argv("a")},
		"two such programs": {asked{exec: argv("npm").exec, program: "/tmp/npm"}, asked{exec: argv("npm").exec,
			program: "/work/npm"}},
		"shells of somebody else's": {base, in("/work/bash", "npm test")},
		"joints":                    {run("a && b"), run("a || b")},
		"pipes":                     {run("a | b"), run("a; b")},
		"patterns":                  {run("npm *"), run("npm '*'")},
		"patterns and words":        {run("npm *"), argv("npm", "*")},
		"home directories":          {run("npm ~"), run(`npm \~`)},
		"backslashes":               {run(`npm a\b`), argv("npm", `a\b`)},
		"variables and words":       {run("npm $x"), argv("npm", "$x")},
		"shells":                    {in("/bin/sh", "npm test > log"), script},
		"login":                     {script, script.with(noLogin)},
		"scripts as words":          {run("a; b"), argv("a", ";", "b")},
		"quoted joints":             {run("a; b"), run("a ';' b")},
		"permissions":               {base, base.permitted(escalated)},
		"wider sandboxes":           {base.permitted(escalated), base.permitted(wider(true, nil, nil))},
		"networks": {base.permitted(wider(true, []string{"x"}, nil)), base.permitted(wider(false,
			[]string{"x"}, nil))},
		"reading and writing": {base.permitted(wider(false, []string{"x"}, nil)), base.permitted(wider(false, nil,
			[]string{"x"}))},
		"more paths": {base.permitted(wider(false, []string{"x"}, nil)), base.permitted(wider(false,
			[]string{"x", "y"}, nil))},
		"relative paths in other places": {base.permitted(wider(false, []string{"x"}, nil)), base.permitted(wider(false,
			[]string{"/x"}, nil))},
	} {
		keyed := false
		for _, approval := range []messages.ApprovalPolicy{untrusted, onRequest} {
			snapshot := under(approval, workspace, nil)
			first, second := MakePlan(pair[0].request(), snapshot), MakePlan(pair[1].request(), snapshot)
			keyed = keyed || first.CacheKey != ""
			if first.CacheKey != "" && first.CacheKey == second.CacheKey {
				t.Errorf("%s: %q and %q have one key, %s", name, pair[0].request().Argv, pair[1].request().Argv, first.CacheKey)
			}
		}
		if !keyed {
			t.Errorf("%s: nobody is asked about %q", name, pair[0].request().Argv)
		}
	}
}

func inherits(from messages.Inherit) func(*messages.ExecCommand) {
	return func(e *messages.ExecCommand) { e.Environment = &messages.EnvironmentPolicy{Inherit: from} }
}

// An approval is for what a path has led to.
func TestKeysHoldWhatPathsLeadTo(t *testing.T) {
	key := func(path string, at *messages.Location) string {
		r := shell("make")
		r.CommandPolicy = wider(false, nil, []string{path})
		if at != nil {
			r.Located = map[string]messages.Location{path: *at}
		}
		plan := MakePlan(r, under(onRequest, workspace, nil))
		if plan.CacheKey == "" {
			t.Fatalf("%+v", plan)
		}
		return plan.CacheKey
	}
	at := messages.Location{Path: "/data/x", Device: 1, Inode: 2, Born: 3, Below: "x"}
	base := key("x", &at)
	for name, change := range map[string]func(*messages.Location){
		"device": func(l *messages.Location) { l.Device = 9 }, "inode": func(l *messages.Location) { l.Inode = 9 },
		"birth": func(l *messages.Location) { l.Born = 9 }, "names": func(l *messages.Location) { l.Below = "y" },
		"no names": func(l *messages.Location) { l.Below = "" },
	} {
		other := at
		if change(&other); key("x", &other) == base {
			t.Errorf("another %s, the same key", name)
		}
	}
	same := at
	same.Path = "/moved/x"
	if key("another/../x", &at) != base || key("x", &same) != base {
		t.Error("another spelling, another key")
	}
	if key("x", nil) == base || key("x", nil) == key("y", nil) || key("x", nil) != key("./x", nil) {
		t.Error("where it is not known where paths lead, they count as they are written")
	}
}

func TestAPersonLearnsWherePathsLead(t *testing.T) {
	r := shell("make")
	r.CommandPolicy = wider(false, []string{"unknown"}, []string{"link", "/work/plain", "plain/", "b\u202ead"})
	r.Located = map[string]messages.Location{"link": {Path: "/home/me/.ssh"}, "/work/plain": {Path: "/work/plain"}, "plain/": {Path: "/work/plain"},
		"b\u202ead": {Path: "/e\u202evil"}}
	want := []string{"unknown: it is not known where this path leads; an approval covers the path as it is written", "link leads to /home/me/.ssh",
		`b\u202ead leads to /e\u202evil`}
	if got := Leads(r); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	remembers := Choices(r, MakePlan(r, under(onRequest, workspace, nil)), "")[1].Remembers
	if !strings.Contains(remembers, "reading unknown (wherever that leads), writing link (which leads to /home/me/.ssh), writing /work/plain, writing plain/, writing") {
		t.Errorf("it remembers %s", remembers)
	}
	if Leads(shell("make")) != nil {
		t.Error("no permissions lead somewhere")
	}
}

// TestAnApprovalCoversOnlyItsAttempt: an approval under one policy allows no more under another.
func TestAnApprovalCoversOnlyItsAttempt(t *testing.T) {
	request := shell("rm -rf build")
	first := MakePlan(request, under(onRequest, readOnly, nil))
	if first.Decision != Ask || first.OnDenial != Return {
		t.Fatalf("%+v", first)
	}
	for _, later := range []Snapshot{under(untrusted, readOnly, nil), under(onRequest, workspace, nil), under(onRequest, full,
		nil),
		under(onRequest, messages.SandboxPolicy{Type: messages.SandboxReadOnly, NetworkAccess: true}, nil),
		under(onRequest, messages.SandboxPolicy{Type: messages.SandboxReadOnly, WritableRoots: []string{"/data"}}, nil)} {
		later.Granted = func(key string) bool { return key == first.CacheKey }
		if plan := MakePlan(request, later); plan.Decision != Ask {
			t.Errorf("%s, %s: %+v", later.Approval, later.Sandbox, plan)
		}
	}
}

// TestAnApprovalWithOpenInputCoversMore, and one with closed input does not.
func TestAnApprovalWithOpenInputCoversMore(t *testing.T) {
	for _, request := range []Request{words("python3"), shell("python3 -i"), shell("cat > $X"), words("python3", strings.Repeat("x", 2*longKey))} {
		open := request
		open.OpenInput = true
		with, without := MakePlan(open, under(untrusted, workspace, nil)), MakePlan(request, under(untrusted, workspace, nil))
		for _, c := range []struct {
			approved Plan
			later    Request
			want     Decision
		}{{with, open, Run}, {with, request, Run}, {without, request, Run}, {without, open, Ask}} {
			snapshot := under(untrusted, workspace, nil)
			snapshot.Granted = func(key string) bool { return key == c.approved.CacheKey }
			if got := MakePlan(c.later, snapshot).Decision; got != c.want {
				t.Errorf("%.40q: approved with open input %t, later %t: %s, want %s", request.Argv, c.approved.CacheKey == with.CacheKey,
					c.later.OpenInput, got, c.want)
			}
		}
	}
}

func TestLongCommandsHaveShortKeysOfTheirOwn(t *testing.T) {
	key := func(word string) string {
		return MakePlan(Request{Argv: []string{"cat", word}, Dir: "/"}, Snapshot{Approval: untrusted}).CacheKey
	}
	long := strings.Repeat("a", 1<<20)
	one, other := key(long+"b"), key(long+"c")
	if one == other || len(one) > longKey || key(long+"b") != one {
		t.Errorf("keys of %d and %d bytes: %.80s, %.80s", len(one), len(other), one, other)
	}
}
