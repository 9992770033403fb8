package rules

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
)

// said is the verdict of rules on a command: decision and words of each match.
func said(rules *Set, command ...string) string {
	var all []string
	for _, m := range rules.Match(command) {
		text := string(m.Decision) + " " + strings.Join(m.Prefix, " ")
		if m.Program != "" {
			text += " (" + m.Program + ")"
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func TestMatch(t *testing.T) {
	const git = `
prefix_rule(pattern=["git", "status"])
prefix_rule(pattern=["git"], decision="prompt", justification="ask first")
prefix_rule(pattern=["git", "push", "--force"], decision="forbidden")
`
	for _, test := range []struct{ source, command, want string }{
		{git, "git status", "allow git status; prompt git"},
		{git, "git status -s", "allow git status; prompt git"},
		{git, "git", "prompt git"},
		{git, "git push --force now", "prompt git; forbidden git push --force"},
		{git, "git push now --force", "prompt git"},
		{git, "gi", ""},
		{git, "Git status", ""},
		{git, "git2 status", ""},
		{"", "git", ""},

		// alternatives
		{`prefix_rule(pattern=[["npm", "pnpm"], "run", ["test", "lint"]])`, "npm run test", "allow npm run test"},
		{`prefix_rule(pattern=[["npm", "pnpm"], "run", ["test", "lint"]])`, "pnpm run lint x", "allow pnpm run lint"},
		{`prefix_rule(pattern=[["npm", "pnpm"], "run", ["test", "lint"]])`, "npm run build", ""},
		{`prefix_rule(pattern=[["npm", "npm"], ["run"]])`, "npm run", "allow npm run"},
		{`prefix_rule(pattern=[("npm", "pnpm"), "run"])`, "pnpm run", "allow pnpm run"},

		// the language
		{"for sub in ['add', 'commit']:\n  prefix_rule(pattern=['git', sub])\n", "git commit", "allow git commit"},
		{"tool = 'car' + 'go'\nif True:\n  prefix_rule(pattern=[tool, f\"te{tool}\"] if False else [tool])\n", "cargo x", "allow cargo"},
		{"v = 'test'\nprefix_rule(pattern=['go', f'{v}', f\"x{{{v}}}{v!r}\"])", `go test x{test}"test"`, `allow go test x{test}"test"`},
		{"v = 'a'\nprefix_rule(pattern=[f'''{v}\nb''', rf'\\{v}', fr\"{v}\\\"\"])\n", "a\nb \\a a\\\"", "allow a\nb \\a a\\\""},
		{"prefix_rule(pattern=[\"xf'{v}\", 'f\"{v}\"', r'f\"'])", "xf'{v} f\"{v}\" f\"", "allow xf'{v} f\"{v}\" f\""},
		{"def both(*words, **more):\n  prefix_rule(pattern=list(words), **more)\nboth('a', 'b', decision='prompt')\n", "a b", "prompt a b"},
		{"x = ['a']\ny = x\nx += ['b']\nprefix_rule(y)", "a b", "allow a b"},
		{"x = {'a': 1}\nx |= {'b': 2}\nprefix_rule(x.keys())", "a b", "allow a b"},
		{"n = 3\nn -= 1\nn *= 2\nprefix_rule(['%d' % n, str(n), '{}'.format(n), 'a,b'.split(',')])", "4 4 4 b", "allow 4 4 4 b"},
		{"prefix_rule([w for w in ('a', 'b') if w != 'x'] + [{'k': 'c'}['k']] * 2)", "a b c c", "allow a b c c"},
		{"p = (lambda x, y='2': [x, y])\nprefix_rule(p('1'))\r\nprefix_rule(p('1', y='3'))\r\n", "1 3", "allow 1 3"},

		// paths
		{git, "/usr/bin/git status", "allow git status (/usr/bin/git); prompt git (/usr/bin/git)"},
		{git, "/tmp/git status", "prompt git (/tmp/git)"},
		{git, "/usr/bin/../../tmp/git status", "prompt git (/usr/bin/../../tmp/git)"},
		{git, "/usr/bin//git status", "prompt git (/usr/bin//git)"},
		{git, "/usr/bin/x/git status", "prompt git (/usr/bin/x/git)"},
		{git, "./git push --force", "prompt git (./git); forbidden git push --force (./git)"},
		{git, "bin/git status", "prompt git (bin/git)"},
		{git, "/usr/bin/git/ status", "prompt git (/usr/bin/git/)"},
		{git, "usr/bin/git status", "prompt git (usr/bin/git)"},
		{`prefix_rule(["./git"])`, "./git x", "allow ./git"},
		{`prefix_rule(["./git"])`, "git x", ""},
		{`prefix_rule(["/opt/git"])` + git, "/opt/git status", "allow /opt/git"},
		{`prefix_rule(["/opt/git"])` + git, "/opt/git push --force", "allow /opt/git; forbidden git push --force (/opt/git)"},
		{`prefix_rule(["/opt/git", "log"])` + git, "/usr/bin/git status", "allow git status (/usr/bin/git); prompt git (/usr/bin/git)"},

		// paths that are listed
		{git + `host_executable("git", ["/opt/git"])`, "/opt/git status", "allow git status (/opt/git); prompt git (/opt/git)"},
		{git + `host_executable("git", ["/opt/git"])`, "/usr/bin/git status", "prompt git (/usr/bin/git)"},
		{git + `host_executable("git", ["/opt/git"])`, "/usr/bin/git push --force", "prompt git (/usr/bin/git); " +
			"forbidden git push --force (/usr/bin/git)"},
		{git + `host_executable("git", [])`, "/usr/bin/git status", "prompt git (/usr/bin/git)"},
		{git + `host_executable("git", [])`, "git status", "allow git status; prompt git"},
		{git + `host_executable("git", ["/a/git"])` + "\n" + `host_executable("git", ["/b/git", "/b/git"])`, "/a/git status", "prompt git (/a/git)"},
		{git + `host_executable("git", ["/a/../b/git"])`, "/b/git status", "allow git status (/b/git); prompt git (/b/git)"},
		{git + `host_executable("git", ["/a/../b/git"])`, "/a/../b/git status", "prompt git (/a/../b/git)"},
		{git + `host_executable("hg", ["/opt/hg"])`, "/usr/bin/git status", "allow git status (/usr/bin/git); prompt git (/usr/bin/git)"},
	} {
		command := strings.Split(test.command, " ")
		if got := said(parse(t, test.source), command...); got != test.want {
			t.Errorf("%s\n%q: %q, want %q", test.source, command, got, test.want)
		}
	}
}

func TestMatchNothing(t *testing.T) {
	var none *Set
	if got := none.Match([]string{"git"}); got != nil {
		t.Errorf("no rules: %v", got)
	}
	rules := parse(t, `prefix_rule(["git"])`)
	for _, command := range [][]string{nil, {}, {""}, {"/"}, {"."}, {"./"}, {"//"}} {
		if got := rules.Match(command); got != nil {
			t.Errorf("%q: %v", command, got)
		}
	}
}

func TestAMatchSaysWhy(t *testing.T) {
	rules := parse(t, "\nprefix_rule(\n  pattern=['rm'], decision='forbidden', justification='too sharp')\n")
	want := Match{Prefix: []string{"rm"}, Decision: Forbidden, Justification: "too sharp", Place: "test.rules:2"}
	matches := rules.Match([]string{"rm", "-r"})
	if len(matches) != 1 || !slices.Equal(matches[0].Prefix, want.Prefix) || matches[0].Place != want.Place ||
		matches[0].Justification != want.Justification || matches[0].Decision != want.Decision {
		t.Errorf("%+v, want %+v", matches, want)
	}
}

func TestStrictest(t *testing.T) {
	allow, prompt := Match{Prefix: []string{"a", "b", "c"}, Decision: Allow}, Match{Prefix: []string{"a"}, Decision: Prompt}
	long, other := Match{Prefix: []string{"a", "b"}, Decision: Prompt, Place: "1"}, Match{Prefix: []string{"a", "b"}, Decision: Prompt, Place: "2"}
	forbidden := Match{Prefix: []string{"a"}, Decision: Forbidden}
	for _, test := range []struct {
		matches []Match
		want    Match
	}{
		{[]Match{allow}, allow},
		{[]Match{allow, prompt}, prompt},
		{[]Match{prompt, long, other}, long},
		{[]Match{long, forbidden, allow}, forbidden},
	} {
		if got, ok := Strictest(test.matches); !ok || got.Decision != test.want.Decision || got.Place != test.want.Place ||
			len(got.Prefix) != len(test.want.Prefix) {
			t.Errorf("%v: %v", test.matches, got)
		}
	}
	if _, ok := Strictest(nil); ok {
		t.Error("nothing decides")
	}
}

func TestWith(t *testing.T) {
	// Three rules of one program: a list that has room for a fourth, which two of its copies must not share.
	before := parse(t, `
prefix_rule(["git", "push"], decision="prompt")
prefix_rule(["git", "x"])
prefix_rule(["git", "y"])
`)
	after, err := before.With([]string{"git", "push"})
	if err != nil {
		t.Fatal(err)
	}
	other, err := before.With([]string{"git", "log"})
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := (*Set)(nil).With([]string{"make"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		rules         *Set
		command, want string
	}{
		{before, "git push", "prompt git push"},
		{before, "git log", ""},
		{after, "git push x", "prompt git push; allow git push"},
		{after, "git log", ""},
		{other, "git log", "allow git log"},
		{other, "git push", "prompt git push"},
		{fresh, "make all", "allow make"},
		{fresh, "/tmp/make all", ""},
	} {
		if got := said(test.rules, strings.Fields(test.command)...); got != test.want {
			t.Errorf("%s: %q, want %q", test.command, got, test.want)
		}
	}
	for _, prefix := range [][]string{nil, {}, {"a\xff"}, {"a", "b\x00"}} {
		if _, err := before.With(prefix); !errors.Is(err, messages.ErrInvalidRequest) {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}

func TestWrongRules(t *testing.T) {
	for _, test := range []struct{ source, place, want string }{
		{`prefix_rule([], decision="allow")`, ":1:12", "invalid pattern element"},
		{`prefix_rule("git")`, ":1:12", "invalid pattern element"},
		{`prefix_rule(["git", 3])`, ":1:12", "invalid pattern element"},
		{`prefix_rule(["git", []])`, ":1:12", "invalid pattern element"},
		{`prefix_rule([["git", 3]])`, ":1:12", "invalid pattern element"},
		{`prefix_rule([["git", ["x"]]])`, ":1:12", "invalid pattern element"},
		{`prefix_rule(["git"], decision="deny")`, ":1:12", "invalid decision"},
		{`prefix_rule(["git"], decision="Allow")`, ":1:12", "invalid decision"},
		{`prefix_rule(["git"], justification=" ")`, ":1:12", "invalid rule"},
		{`prefix_rule(["git"], justification="")`, ":1:12", "invalid rule"},
		{`prefix_rule(["git"], justification=3)`, ":1:12", "invalid rule"},
		{`prefix_rule(["git"], match=["hg"])`, ":1:12", "expected every example to match"},
		{`prefix_rule(["git", "x"], match=["git x", "git y"])`, ":1:12", `rules: git x; unmatched examples: ["git y"]`},
		{`prefix_rule(["git"], match=[[]])`, ":1:12", "invalid example"},
		{`prefix_rule(["git"], match=[""])`, ":1:12", "invalid example"},
		{`prefix_rule(["git"], match=["git 'x"])`, ":1:12", "invalid example"},
		{`prefix_rule(["git"], match=["git \\"])`, ":1:12", "invalid example"},
		{`prefix_rule(["git"], match="git")`, ":1:12", "invalid example"},
		{`prefix_rule(["git"], match=[3])`, ":1:12", "invalid example"},
		{`prefix_rule(["git"], not_match=["git x"])`, ":1:12", "expected example to not match rule `git`: git x"},
		{`prefix_rule(["git"], match=["hg"], not_match=["git x"])`, ":1:12", "expected example to not match"},
		{`prefix_rule(["git"], colour="red")`, ":1:12", "colour"},
		{`prefix_rule()`, ":1:12", "pattern"},
		{"\n  x\n", ":2:3", "starlark error"},
		{"\n\nx = y", ":3:5", "starlark error: undefined: y"},
		{"x = [\n1 2]", ":2:", "starlark error"},
		{"def f():\n  prefix_rule([])\nf()", ":2:14", "invalid pattern"},
		{"prefix_rule(['a'])\nprefix_rule(['b'], not_match=['b'])", ":2:12", "expected example"},
		{"é = 'ü'; y = f'{é}'; prefix_rule([])", ":1:33", "invalid pattern"},
		{"x = f'{1+1}'", ":1:5", "only a name"},
		{"x = f'{x'", ":1:5", "not closed"},
		{"x = f'x}'", ":1:5", "}"},
		{"y = 1; x = f'{y!q}'", ":1:12", "!r"},
		{"x = f'a{{{'", ":1:5", "written twice"},
		{"x = f'{nobody}'", ":1:5", "undefined: nobody"},
		{"x = 1\nx[0] += 1", ":2:6", "+="},
		{`load("a", "b")`, ":1:1", "load"},
		{`x = b"a"`, ":1:", "string literal"},
		{`x = 1; y = rb'a'`, ":1:", "string literal"},
		{"x = 9223372036854775808", ":1:5", "too big"},
		{"x = 1 << 62\ny = x << 9\nz = y - y", ":3:7", "too big"},
		{"x = [\n'é', " + strings.Repeat("1", 501), ":2:6", "too big"},
		{"prefix_rule(['a'])\nprefix_rule(['\xff'])", ":2:15", "not a character"},
		{"prefix_rule(['a'])\n#\x00\nprefix_rule(['rm'], decision='forbidden')", ":2:2", "not a character"},
		{"\x00prefix_rule(['rm'], decision='forbidden')", ":1:1", "not a character"},
		{"x = 'é' + '\x00'", ":1:12", "not a character"},
		{`network_rule("a.*.example.com", "https", "allow")`, ":1:13", "invalid rule"},
		{`network_rule("a.example.com", "tcp", "allow")`, ":1:13", "name the port"},
		{`network_rule("127.1", "https", "allow")`, ":1:13", "invalid rule"},
		{`network_rule("http://a.b", "http", "allow")`, ":1:13", "invalid rule"},
		{`network_rule("a b", "http", "allow")`, ":1:13", "invalid rule"},
		{`network_rule("a/b", "http", "allow")`, ":1:13", "invalid rule"},
		{`network_rule("", "http", "allow")`, ":1:13", "invalid rule"},
		{`network_rule("a:x", "http", "allow")`, ":1:13", "invalid rule"},
		{`network_rule("[::1", "http", "allow")`, ":1:13", "invalid rule"},
		{`network_rule("::x", "http", "allow")`, ":1:13", "invalid rule"},
		{`network_rule("a", "gopher", "allow")`, ":1:13", "invalid rule"},
		{`network_rule("a", "http", "ask")`, ":1:13", "invalid decision"},
		{`network_rule("a", "http", "allow", justification=" ")`, ":1:13", "invalid rule"},
		{`network_rule("a", "http")`, ":1:13", "decision"},
		{`host_executable("git", ["git"])`, ":1:16", "invalid rule"},
		{`host_executable("git", ["bin/git"])`, ":1:16", "invalid rule"},
		{`host_executable("git", ["/usr/bin/hg"])`, ":1:16", "invalid rule"},
		{`host_executable("bin/git", ["/bin/git"])`, ":1:16", "invalid rule"},
		{`host_executable("", [])`, ":1:16", "invalid rule"},
		{`host_executable("git", "/bin/git")`, ":1:16", "invalid rule"},
		{`host_executable("git", [1])`, ":1:16", "invalid rule"},
	} {
		rules, err := Parse("dir/a.rules", []byte(test.source))
		if err == nil || !strings.Contains(err.Error(), "dir/a.rules"+test.place) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s\n%v\nwant %s and %q", test.source, err, test.place, test.want)
		}
		if rules != nil {
			t.Errorf("%s: rules and an error", test.source)
		}
		if !errors.Is(err, messages.ErrInvalidRequest) {
			t.Errorf("%s: %#v is not an invalid request", test.source, err)
		}
	}
}

func TestExamples(t *testing.T) {
	for _, source := range []string{
		`prefix_rule(["git", "push"], match=[["git", "push"], "git push", "'git' \"pu\"sh # that's it", "git\\\n pus\\h"], not_match=["git", "hg"])`,
		`prefix_rule(["git"], match=["/usr/bin/git", "/tmp/git"], not_match=["./git", "/bin/hg"])`,
		`prefix_rule(["git"], match=["/opt/git"], not_match=["/usr/bin/git"])` + "\n" + `host_executable("git", ["/opt/git"])`,
		`prefix_rule(["git"], decision="forbidden", not_match=["/usr/bin/git"])` + "\n" + `host_executable("git", [])`,
		`prefix_rule([["a", "b"], "c"], match=("a c", "b c"), not_match=None, justification=None)`,
		`prefix_rule(["a", "it's", "\"", "$x\\y", ""], match=["a it\\'s '\"' \"\\$x\\\\y\" ''"])`,
	} {
		if _, err := Parse("a.rules", []byte(source)); err != nil {
			t.Errorf("%s\n%v", source, err)
		}
	}
}

func TestNetworkRules(t *testing.T) {
	rules := parse(t, `
network_rule(host=" Example.COM.:443 ", protocol="https_connect", decision="deny", justification="no")
network_rule("[::1]:80", "http", "allow", hidden_name=True)
network_rule("**.example.com", "http-connect", "prompt")
network_rule("::3", "socks5_tcp", "forbidden")
network_rule("b", "socks5_udp", "allow")
network_rule("10.0.0.0/8:22", "tcp", "allow")
network_rule("private", "any", "forbidden")
`)
	want := []messages.HostRule{
		{Host: "Example.COM.:443", Protocol: messages.HostHTTPS, Decision: messages.HostForbid, Justification: "no", Origin: "test.rules:2"},
		{Host: "[::1]:80", Protocol: messages.HostHTTP, Decision: messages.HostAllow, HiddenName: true, Origin: "test.rules:3"},
		{Host: "**.example.com", Protocol: messages.HostHTTPS, Decision: messages.HostPrompt, Origin: "test.rules:4"},
		{Host: "::3", Protocol: messages.HostTCP, Decision: messages.HostForbid, Origin: "test.rules:5"},
		{Host: "b", Protocol: messages.HostUDP, Decision: messages.HostAllow, Origin: "test.rules:6"},
		{Host: "10.0.0.0/8:22", Protocol: messages.HostTCP, Decision: messages.HostAllow, Origin: "test.rules:7"},
		{Host: "private", Decision: messages.HostForbid, Origin: "test.rules:8"},
	}
	if got := rules.Network(); !slices.Equal(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if (*Set)(nil).Network() != nil {
		t.Error("no rules have network rules")
	}
}

// everyday is a file as people write them.
const everyday = `# Rules of our team.
# vim: ft=python

TOOLS = [
    "eslint",
    "prettier",  # a comma at the end
]

prefix_rule(
    pattern = ["npx", TOOLS],
    match = [
        "npx eslint .",
        ["npx", "prettier", "--check", "a b.js"],
    ],
    not_match = ["npx cowsay", ],
)

def script(name, *, decision = "allow"):
    """A script of package.json."""
    prefix_rule(pattern = [["npm", "pnpm"], "run", name], decision = decision)
    prefix_rule(pattern = ["yarn", f"{name}"], decision = decision)

for name in ("test", "build"):
    script(name)
script("deploy", decision = "prompt")

[prefix_rule(pattern = ["git", verb], decision = "forbidden" if verb == "gc" else "allow") for verb in ["status", "gc"]]

host_executable(name = "git", paths = [path + "/git" for path in ("/usr/bin", "/opt/homebrew/bin")])
prefix_rule(pattern=["cat", "it's \"here\""], decision="allow")
`

func TestAnEverydayFile(t *testing.T) {
	rules := parse(t, everyday)
	for command, want := range map[string]string{
		"npx prettier x":               "allow npx prettier",
		"npx cowsay":                   "",
		"pnpm run build":               "allow pnpm run build",
		"yarn deploy":                  "prompt yarn deploy",
		"/opt/homebrew/bin/git status": "allow git status (/opt/homebrew/bin/git)",
		"/bin/git gc":                  "forbidden git gc (/bin/git)",
	} {
		if got := said(rules, strings.Fields(command)...); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	if got := said(rules, "cat", `it's "here"`); got == "" {
		t.Error("escaped quotes")
	}
	if got := rules.Match([]string{"yarn", "test"})[0].Place; got != "test.rules:21" {
		t.Errorf("the rule is at %s", got)
	}
}

// TestTheManualsRules reads the example in the package doc.
func TestTheManualsRules(t *testing.T) {
	manual, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(manual), "# Rule files")
	var source strings.Builder
	for line := range strings.Lines(section) {
		if code, found := strings.CutPrefix(line, "//\t"); found {
			source.WriteString(code)
		}
		if strings.HasPrefix(line, "// # ") {
			break
		}
	}
	rules := parse(t, source.String())
	if got := said(rules, "/opt/git/bin/git", "pull"); got != "prompt git pull (/opt/git/bin/git)" || len(rules.Network()) != 1 {
		t.Errorf("%s\nsay %q", source.String(), got)
	}
}
