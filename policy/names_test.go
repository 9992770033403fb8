package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
)

// looked is a script whose names were looked for, and found in /usr/bin but for those that are given with a path.
func looked(text, path string, elsewhere ...string) Request {
	request := shell(text)
	request.Path, request.Found = path, map[string]string{}
	for _, name := range Names(request, nil) {
		request.Found[name] = "/usr/bin/" + name
	}
	for _, program := range elsewhere {
		request.Found[program[strings.LastIndex(program, "/")+1:]] = program
	}
	return request
}

const usualPath = "/usr/local/bin:/usr/bin/:/bin"

// TestANameIsBelievedWhereItLeads: neither allow rules nor the facts about a name count for another program.
func TestANameIsBelievedWhereItLeads(t *testing.T) {
	snapshot := under(untrusted, messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, WritableRoots: []string{"/data", "../side"}},
		testRules(testRule{rules.Allow, "allowed", ""}, testRule{rules.Prompt, "prompted", ""}, testRule{rules.Forbidden, "forbidden", ""}))
	snapshot.Dir = "/session"
	for name, c := range map[string]struct {
		path     string
		found    string // the directory of "allowed", "ls" and so on, or NotFound
		believed bool
	}{
		"the system's":                    {usualPath, "/usr/bin", true},
		"careless":                        {"/usr//bin/.", "/usr/bin", true},
		"another of the system's":         {usualPath, "/usr/local/bin", true},
		"a home's, after it":              {usualPath + ":/home/me/bin", "/usr/bin", true},
		"a home's, before it":             {"/home/me/bin:" + usualPath, "/usr/bin", true},
		"relative, after it":              {usualPath + ":.:bin::/work", "/usr/bin", true},
		"without a PATH":                  {"", "/usr/bin", true},
		"here, before it":                 {".:" + usualPath, "/usr/bin", false},
		"a relative one":                  {"node_modules/.bin:" + usualPath, "/usr/bin", false},
		"an empty one":                    {":" + usualPath, "/usr/bin", false},
		"an empty one in between":         {"/usr/local/bin::/usr/bin", "/usr/bin", false},
		"the working directory":           {"/work:" + usualPath, "/usr/bin", false},
		"below the working directory":     {"/work/bin/:" + usualPath, "/usr/bin", false},
		"beside the working directory":    {"/workbench/bin:" + usualPath, "/usr/bin", true},
		"the session's directory":         {"/session/bin:" + usualPath, "/usr/bin", false},
		"a writable root":                 {"/data/bin:" + usualPath, "/usr/bin", false},
		"a relative writable root":        {"/side/bin:" + usualPath, "/usr/bin", false},
		"the temporary directory":         {"/tmp/x:" + usualPath, "/usr/bin", false},
		"a way out of a directory":        {"/home/me/../../work/bin:" + usualPath, "/usr/bin", false},
		"found in a home":                 {"/home/me/bin:" + usualPath, "/home/me/bin", false},
		"found in the working directory":  {"/work/bin:" + usualPath, "/work/bin", false},
		"found by a detour":               {usualPath, "/usr/bin/../../work", false},
		"found nowhere":                   {usualPath, NotFound, false},
		"found at a path that is no path": {usualPath, "usr/bin", false},
	} {
		for _, script := range []string{"@", "@ x y", "@ <<E\nx\nE", "@; @ x", "true && @", "echo x | @ x"} {
			for program, want := range map[string][2]string{ // believed, not believed
				"allowed": {"run!", "ask/ask"}, "prompted": {"ask/ask", "ask/ask"}, "forbidden": {"rej", "rej"}, "ls": {"run/ask", "ask/ask"},
			} {
				if program == "ls" && strings.Contains(script, "<<") || program == "allowed" && strings.Contains(script, "echo") ||
					program == "allowed" && strings.Contains(script, "true") {
					continue // not safe either way, or not all allowed
				}
				request := looked(strings.ReplaceAll(script, "@", program), c.path)
				request.Found[program] = c.found
				if strings.Contains(c.found, "/") {
					request.Found[program] = c.found + "/" + program
				}
				wanted := want[1]
				if c.believed {
					wanted = want[0]
				}
				if got := outcome(MakePlan(request, snapshot), true); got != wanted {
					t.Errorf("%s: %q: %s, want %s", name, request.Argv[2], got, wanted)
				}
			}
		}
	}
}

// TestTheSystemsDirectoriesCount, even in the root.
func TestTheSystemsDirectoriesCount(t *testing.T) {
	request := looked("ls x", usualPath)
	request.Dir = "/"
	if plan := MakePlan(request, under(untrusted, workspace, nil)); plan.Decision != Run {
		t.Errorf("%+v", plan)
	}
}

func TestWiderPermissionsOpenDirectories(t *testing.T) {
	request := looked("ls", "/opt/x/bin:"+usualPath)
	snapshot := under(onRequest, workspace, testRules(testRule{rules.Allow, "ls", ""}))
	if plan := MakePlan(request, snapshot); plan.Source != messages.DecidedByRule {
		t.Errorf("%+v", plan)
	}
	request.CommandPolicy = wider(false, nil, []string{"/opt/x"})
	if plan := MakePlan(request, snapshot); plan.Source == messages.DecidedByRule {
		t.Errorf("the script may replace its own programs: %+v", plan)
	}
}

// TestAProgramFoundElsewhereIsKnownByItsPath, in a script as without one.
func TestAProgramFoundElsewhereIsKnownByItsPath(t *testing.T) {
	const home = "/home/me/.cargo/bin/cargo"
	script := looked("cd x && cargo build", "/home/me/.cargo/bin:"+usualPath, home)
	plan := MakePlan(script, under(untrusted, readOnly, nil))
	if want := []string{home, "build"}; plan.Decision != Ask || !slices.Equal(plan.Amendment, want) {
		t.Fatalf("%s offers %q, want %q", plan.Decision, plan.Amendment, want)
	}
	with, err := testRules(testRule{rules.Allow, "cd", ""}).With(plan.Amendment)
	if err != nil {
		t.Fatal(err)
	}
	if again := outcome(MakePlan(script, under(untrusted, readOnly, with)), true); again != "run!" {
		t.Errorf("with the rule: %s", again)
	}
	listed, err := rules.Parse("x", []byte(fmt.Sprintf("prefix_rule(['cargo'])\nprefix_rule(['cd'])\nhost_executable('cargo', [%q])", home)))
	if err != nil {
		t.Fatal(err)
	}
	if plan := MakePlan(script, under(untrusted, readOnly, listed)); outcome(plan, true) != "run!" {
		t.Errorf("with a host_executable: %s", outcome(plan, true))
	}
	for _, path := range []string{".:" + script.Path, "/work/bin:" + script.Path} {
		script := looked(script.Argv[2], path, home)
		if plan := MakePlan(script, under(untrusted, readOnly, listed)); outcome(plan, true) != "ask/ask" || plan.Amendment != nil {
			t.Errorf("PATH=%s: %s offers %q", path, outcome(plan, true), plan.Amendment)
		}
	}
	missing := looked("cargo build", usualPath)
	missing.Found["cargo"] = NotFound
	if plan := MakePlan(missing, under(untrusted, readOnly, nil)); plan.Decision != Ask || plan.Amendment != nil {
		t.Errorf("found nowhere: %s offers %q", plan.Decision, plan.Amendment)
	}
}

// TestAnApprovalIsForTheProgramThatWasFound, however it is written.
func TestAnApprovalIsForTheProgramThatWasFound(t *testing.T) {
	key := func(r Request) string { return MakePlan(r, under(untrusted, readOnly, nil)).CacheKey }
	path := "/home/me/bin:/home/you/bin:" + usualPath
	mine, yours := looked("tool x", path, "/home/me/bin/tool"), looked("tool x", path, "/home/you/bin/tool")
	argv := words("tool", "x")
	argv.Program = "/home/me/bin/tool"
	if key(mine) == key(yours) || key(mine) == key(looked("tool x", path)) || key(mine) != key(argv) {
		t.Errorf("keys: %s, %s, %s and %s", key(mine), key(yours), key(looked("tool x", path)), key(argv))
	}
	two := "tool x && tool y"
	if a, b := looked(two, path, "/home/me/bin/tool"), looked(two, path, "/home/you/bin/tool"); key(a) == key(b) || key(a) == key(looked(two, path)) {
		t.Error("a script of two commands has one key for two programs")
	}
	if a, b := looked("tool x >/dev/null", path, "/home/me/bin/tool"), looked("tool x </dev/null", path, "/home/me/bin/tool"); key(a) == key(b) {
		t.Error("redirections do not count where a program is known by its path")
	}
	pattern := words("ls", "*")
	pattern.Program = "/home/me/bin/ls"
	if script := looked("ls *", path, "/home/me/bin/ls"); key(script) == key(pattern) {
		t.Error("a pattern and a word have one key")
	}
	if unknown := shell("tool x"); key(unknown) != key(looked("tool x", path)) {
		t.Error("a lookup makes a difference")
	}
}

func TestNames(t *testing.T) {
	many := ""
	var all []testRule
	for i := range 2 * maxNames {
		many += fmt.Sprintf("n%d; ", i)
		all = append(all, testRule{rules.Allow, fmt.Sprint("n", i), ""})
	}
	for text, want := range map[string][]string{
		"git status && make; git log | wc -l": {"git", "make", "wc"}, "cd x; echo a; true; pwd": nil, "./x; /bin/ls; a/b": nil,
		"tool <<E\nx\nE": {"tool"}, "tool > $X": nil, "if tool; then x; fi": nil, "": nil,
	} {
		if got := Names(shell(text), nil); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := Names(shell(many), nil); len(got) != maxNames {
		t.Errorf("%d names", len(got))
	}
	if got := Names(words("git", "status"), nil); got != nil {
		t.Errorf("an argv: %q", got)
	}
	// A name without a lookup is not trusted.
	for text, want := range map[string]Decision{many: Ask, strings.SplitAfter(many, "n63; ")[0]: Run} {
		if plan := MakePlan(looked(text, usualPath), under(untrusted, readOnly, testRules(all...))); plan.Decision != want {
			t.Errorf("%.20q: %+v", text, plan)
		}
	}
}
