package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
)

// lines are the segments of a plan, each with its reason.
func lines(plan Plan) (all []string) {
	for _, s := range plan.Segments {
		all = append(all, strings.TrimSuffix(s.Display+" | "+s.Why, " | "))
	}
	return all
}

func TestAQuestionShowsWhatRuns(t *testing.T) {
	set := testRules(testRule{rules.Prompt, "mind", "ask the owner"}, testRule{rules.Prompt, "prompted", ""}, testRule{rules.Allow, "allowed", ""})
	long := strings.Repeat("x", 2*segmentBytes)
	for name, c := range map[string]struct {
		request Request
		want    []string
		more    int
	}{
		"the unknown first": {shell("ls -l && cargo build; echo 'a b' | make"), []string{"cargo build | it is not known to be safe",
			"make | it is not known to be safe", "ls -l", "echo 'a b'"}, 0},
		"rules and danger": {shell("ls; mind the gap; rm -rf x; prompted; allowed x"), []string{"mind the gap | it requires approval: ask the owner",
			"rm -rf x | it removes files by force, `rm -f`",
			"prompted | it requires approval by policy: a rule asks about commands that begin with `prompted`", "ls", "allowed x"}, 0},
		"what steers the shell": {shell("set -e; cargo build || exit 1"), []string{"cargo build | it is not known to be safe", "set -e", "exit 1"}, 0},
		"an argv":               {words("cargo", "build\u202e"), []string{`cargo $'build\u202e' | it is not known to be safe`}, 0},
		"what is not plain": {shell("cargo build > log"), []string{"/bin/bash -lc 'cargo build > log' | it is not known to be safe: the script is " +
			"more than a list of plain commands"}, 0},
		"another place": {looked("tool x; ls", "/home/me/bin:"+usualPath, "/home/me/bin/tool"), []string{
			"tool x | it is not known to be safe: `tool` leads to /home/me/bin/tool", "ls"}, 0},
		"no certain place": {looked("ls x", ".:"+usualPath), []string{
			"ls x | it is not known to be safe: where `ls` leads in PATH is not certain"}, 0},
		"many": {shell(strings.Repeat("ls; ", 20) + "make"), append([]string{"make | it is not known to be safe"}, slices.Repeat([]string{"ls"},
			maxShown-1)...), 21 - maxShown},
		"a long one": {shell("cargo " + long + "; ls"), []string{"cargo " + long[:segmentBytes-len("cargo ")] + " … | it is not known to be safe", "ls"}, 0},
	} {
		plan := MakePlan(c.request, under(untrusted, readOnly, set))
		if got := lines(plan); plan.Decision != Ask || !slices.Equal(got, c.want) || plan.MoreSegments != c.more {
			t.Errorf("%s: %s, and %d more of\n%s\nwant %d of\n%s", name, plan.Decision, plan.MoreSegments, strings.Join(got, "\n"), c.more,
				strings.Join(c.want, "\n"))
		}
	}
	request := shell("ls; make")
	request.CommandPolicy = escalated
	want := []string{"ls | it asks to run without a sandbox", "make | it asks to run without a sandbox"}
	if plan := MakePlan(request, under(onRequest, readOnly, set)); !slices.Equal(lines(plan), want) {
		t.Errorf("escalated: %q", lines(plan))
	}
	// If the sandbox stops it there will be a question; otherwise there is nothing to show.
	if plan := MakePlan(shell("ls; pwd"), under(untrusted, readOnly, nil)); !slices.Equal(lines(plan), []string{"ls", "pwd"}) {
		t.Errorf("a possible question: %q", lines(plan))
	}
	if plan := MakePlan(shell("ls; pwd"), under(onRequest, readOnly, nil)); plan.Segments != nil {
		t.Errorf("no question: %q", lines(plan))
	}
}

func TestTheCallersWordsAreMarkedAndBounded(t *testing.T) {
	for _, justification := range []string{"needs the network", `it is "safe"` + "\n\u202e", strings.Repeat("é", callerBytes)} {
		request := shell("cargo build")
		request.CommandPolicy = messages.CommandPolicy{SandboxPermissions: messages.PermissionsRequireEscalated, Justification: justification}
		reason := MakePlan(request, under(onRequest, readOnly, nil)).Reason
		ours, theirs, marked := strings.Cut(reason, `; the caller says: "`)
		inner, closed := strings.CutSuffix(theirs, `"`)
		if ours != "it asks to run without a sandbox" || !marked || !closed || strings.Contains(strings.ReplaceAll(inner, `\"`, ""), `"`) ||
			len(inner) > callerBytes+10 || strings.ContainsAny(inner, "\n\u202e") {
			t.Errorf("%q becomes %s", justification, reason)
		}
	}
}

func TestHostsThatAreNotWhatTheyLookLike(t *testing.T) {
	for word, want := range map[string]string{
		"https://\u0430pple.com/x":                     "xn--pple-43d.com",
		"https://аррӏе.com:443/x?y#z":                  "xn--80ak6aa92e.com",
		"http://user:pw@g\u043e\u043egle.com":          "xn--ggle-55da.com",
		"git@g\u0456thub.com:a/b.git":                  "xn--gthub-n2e.com",
		"--url=https://ex\u0430mple.org":               "xn--exmple-4nf.org",
		"https://größe.de":                             "xn--gre-6ka8i.de",
		"https://ｇoogle.com":                           "google.com",
		"https://xn--pple-43d.com":                     "",
		"https://example.com/größe":                    "",
		"\u0430pple.com":                               "xn--pple-43d.com",
		"аррӏе.com":                                    "xn--80ak6aa92e.com",
		"отчёт.txt":                                    "",
		"größe.txt":                                    "",
		"größe":                                        "",
		"版本.md":                                        "",
		"https://" + strings.Repeat("é", 200) + ".com": "",
		"say 'https://\u0430pple.com/' twice":          "xn--pple-43d.com",
	} {
		got := strings.Join(hostNames([]string{"curl", word}), "; ")
		if want == "" && got != "" || !strings.HasSuffix(got, want) || want != "" && !strings.Contains(got, " is "+want) {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	var many []string
	for i := range 2 * maxHosts {
		many = append(many, fmt.Sprintf("https://é%d.com", i))
	}
	if got := hostNames(many); len(got) != maxHosts {
		t.Errorf("%d hosts", len(got))
	}
	if got := hostNames([]string{strings.Repeat("x", segmentBytes), "https://é.com"}); got != nil {
		t.Errorf("a host that is not shown either: %q", got)
	}
	plan := MakePlan(shell("ls; curl https://аррӏе.com"), under(untrusted, readOnly, nil))
	if len(plan.Segments) != 2 || len(plan.Segments[0].Hosts) != 1 || plan.Segments[1].Hosts != nil {
		t.Errorf("%+v", plan.Segments)
	}
}
