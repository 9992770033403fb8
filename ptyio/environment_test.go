package ptyio

import (
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"pgregory.net/rapid"
)

// Most tests start from hostEnvironment.
var hostEnvironment = []string{
	"PATH=/bin", "Home=/home/me", "API_KEY=k", "My_Secret=s", "GITHUB_TOKEN=t", "EDITOR=vi", "LANG=de_DE",
}

// expectEnvironment builds an environment without overrides and compares it with want.
func expectEnvironment(t *testing.T, base []string, policy messages.EnvironmentPolicy, want ...string) {
	t.Helper()
	got, err := BuildEnvironment(base, policy, nil)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v\n got %q (%v)\nwant %q", policy, got, err, want)
	}
}

func TestOverridesFillAnEmptyEnvironmentExactly(t *testing.T) {
	got, err := BuildEnvironment(nil, messages.EnvironmentPolicy{}, Overrides())
	want := []string{
		"COLORTERM=", "EXECBUS=1", "GH_PAGER=cat", "GIT_PAGER=cat", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "LC_CTYPE=C.UTF-8",
		"NO_COLOR=1", "PAGER=cat", "TERM=dumb",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q (%v)\nwant %q", got, err, want)
	}
}

func TestOverridesReplaceWhatIsInheritedAndNotWhatIsSet(t *testing.T) {
	policy := messages.EnvironmentPolicy{Set: map[string]string{"PAGER": "less", "TERM": "xterm-256color", "COLORTERM": "", "LANG": "de_DE"},
		IncludeOnly: []string{"NO_COLOR", "PATH", "PAGER", "TERM", "COLORTERM"}}
	got, err := BuildEnvironment([]string{"NO_COLOR=0", "TERM=vt100", "PATH=/usr/bin"}, policy, Overrides())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"NO_COLOR=1", "PATH=/usr/bin", "PAGER=less", "TERM=xterm-256color", "COLORTERM=", "LANG=C.UTF-8"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if len(got) != len(Overrides())+1 {
		t.Errorf("got %q", got)
	}
}

// The overrides are documented in the places where an embedder looks.
func TestOverridesAreDocumented(t *testing.T) {
	for _, file := range []string{"../messages/environment.go", "../doc.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range Overrides() {
			if !strings.Contains(string(text), name+"="+value) {
				t.Errorf("%s does not say %s=%s", file, name, value)
			}
		}
	}
}

func TestPagersStayOffInAnExactEnvironment(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		want []string
	}{
		{nil, []string{"GH_PAGER=cat", "GIT_PAGER=cat", "PAGER=cat"}},
		{map[string]string{"A": "b", "GIT_PAGER": "less", "PAGER": ""}, []string{"A=b", "GH_PAGER=cat", "GIT_PAGER=less", "PAGER="}},
	} {
		policy := messages.EnvironmentPolicy{Inherit: messages.InheritNone, Set: c.set}
		if got, err := BuildEnvironment(hostEnvironment, policy, PagersOff()); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("got %q (%v)\nwant %q", got, err, c.want)
		}
	}
}

func TestOverridesAreTheCallersMap(t *testing.T) {
	Overrides()["TERM"] = "xterm"
	if got := Overrides()["TERM"]; got != "dumb" {
		t.Errorf("TERM is %q", got)
	}
}

func TestOverridesPassIncludeOnly(t *testing.T) {
	policy := messages.EnvironmentPolicy{IncludeOnly: []string{"PATH"}}
	got, err := BuildEnvironment(hostEnvironment, policy, map[string]string{"TERM": "dumb"})
	if want := []string{"PATH=/bin", "TERM=dumb"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
}

func TestEnvironmentInherits(t *testing.T) {
	all := slices.Sorted(slices.Values(hostEnvironment))
	expectEnvironment(t, hostEnvironment, messages.EnvironmentPolicy{}, all...)
	expectEnvironment(t, hostEnvironment, messages.EnvironmentPolicy{Inherit: messages.InheritAll}, all...)
	expectEnvironment(t, hostEnvironment, messages.EnvironmentPolicy{Inherit: messages.InheritNone})
	expectEnvironment(t, hostEnvironment, messages.EnvironmentPolicy{Inherit: messages.InheritCore},
		"Home=/home/me", "LANG=de_DE", "PATH=/bin")
}

func TestEnvironmentKnowsTheCoreNames(t *testing.T) {
	core := []string{
		"HOME=1", "LANG=1", "LC_ALL=1", "LC_CTYPE=1", "LOGNAME=1", "PATH=1", "SHELL=1", "TEMP=1", "TMP=1", "TMPDIR=1",
		"USER=1",
	}
	expectEnvironment(t, append([]string{"PATHS=1", "XPATH=1"}, core...),
		messages.EnvironmentPolicy{Inherit: messages.InheritCore}, core...)
}

func TestEnvironmentDropsSecretsOnlyOnRequest(t *testing.T) {
	expectEnvironment(t, hostEnvironment, messages.EnvironmentPolicy{DropSecrets: true},
		"EDITOR=vi", "Home=/home/me", "LANG=de_DE", "PATH=/bin")
	base := []string{"PATH=/bin", "USER=me", "user_key=k"}
	expectEnvironment(t, base, messages.EnvironmentPolicy{Inherit: messages.InheritCore, DropSecrets: true},
		"PATH=/bin", "USER=me")
}

func TestEnvironmentExcludesInheritedNamesOnly(t *testing.T) {
	expectEnvironment(t, hostEnvironment, messages.EnvironmentPolicy{
		Exclude:     []string{"*o*", "l??G", "edi*"},
		DropSecrets: true,
		Set:         map[string]string{"EDITOR": "ed", "NEW_TOKEN": "mine"},
	}, "EDITOR=ed", "NEW_TOKEN=mine", "PATH=/bin")
}

func TestEnvironmentSetReplacesAndAdds(t *testing.T) {
	expectEnvironment(t, []string{"PATH=/bin", "Path=x"},
		messages.EnvironmentPolicy{Set: map[string]string{"PATH": "/opt", "EMPTY": "", "SUM": "1+1=2"}},
		"EMPTY=", "PATH=/opt", "Path=x", "SUM=1+1=2")
}

func TestEnvironmentIncludeOnlyAppliesToSetToo(t *testing.T) {
	expectEnvironment(t, hostEnvironment, messages.EnvironmentPolicy{
		IncludeOnly: []string{"path", "*_to?en"},
		Set:         map[string]string{"MY_TOKEN": "m", "OTHER": "o"},
	}, "GITHUB_TOKEN=t", "MY_TOKEN=m", "PATH=/bin")
}

func TestEnvironmentTakesTheLastOfTwoAndNothingWithoutName(t *testing.T) {
	expectEnvironment(t, []string{"A=1", "B=1", "A=2=3", "noise", "=C:=x", "", "B="}, messages.EnvironmentPolicy{},
		"A=2=3", "B=")
}

func TestEnvironmentRefusesWhatNoKernelTakes(t *testing.T) {
	for _, c := range []struct {
		base      []string
		policy    messages.EnvironmentPolicy
		overrides map[string]string
		fact      string
	}{
		{base: []string{"EVIL=a\x00b"}, fact: `"EVIL"`},
		{base: []string{"EV\x00IL=a"}, fact: `"EV\x00IL"`},
		{policy: messages.EnvironmentPolicy{Set: map[string]string{"A": "\x00"}}, fact: `"A"`},
		{policy: messages.EnvironmentPolicy{Set: map[string]string{"A=B": "c"}}, fact: `"A=B"`},
		{policy: messages.EnvironmentPolicy{Set: map[string]string{"": "c"}}, fact: "no name"},
		{overrides: map[string]string{"O\x00": "c"}, fact: `"O\x00"`},
		{policy: messages.EnvironmentPolicy{Inherit: "some"}, fact: `"some"`},
	} {
		got, err := BuildEnvironment(c.base, c.policy, c.overrides)
		if got != nil || !errors.Is(err, messages.ErrInvalidRequest) || !strings.Contains(err.Error(), c.fact) {
			t.Errorf("got %q and error %v, want one with %s", got, err, c.fact)
		}
	}
	expectEnvironment(t, []string{"EVIL=a\x00b", "B=1"}, messages.EnvironmentPolicy{Exclude: []string{"evil"}}, "B=1")
}

func TestEnvironmentLeavesThePolicyAlone(t *testing.T) {
	set := map[string]string{"A": "1"}
	if _, err := BuildEnvironment(hostEnvironment, messages.EnvironmentPolicy{Set: set}, Overrides()); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(set, map[string]string{"A": "1"}) {
		t.Errorf("Set became %v", set)
	}
}

func TestGlobsKnowTwoSpecialCharacters(t *testing.T) {
	for _, c := range []struct {
		glob, name string
		want       bool
	}{
		{"*", "", true},
		{"*", "ANY", true},
		{"", "", true},
		{"", "A", false},
		{"A?C", "abc", true},
		{"A?C", "ac", false},
		{"?", "é", true},
		{"?", "\xff", true},
		{"Ä*", "äx", true},
		{"*KEY*", "monkey_1", true},
		{"*A*B", "xAxAxB", true},
		{"*A*B", "xAxAxC", false},
		{"A**C", "AC", true},
		{"[A]", "A", false},
		{"[A]", "[a]", true},
		{`\*`, "*", false},
		{`\*`, `\x`, true},
		{"A.C", "ABC", false},
		{"*KEY*", "api_\u212aey", true}, // the Kelvin sign, which folds to k
	} {
		if got := patterns([]string{c.glob})(c.name); got != c.want {
			t.Errorf("%q matches %q: %v", c.glob, c.name, got)
		}
	}
}

func TestGlobsAgreeWithRegularExpressions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		glob := rapid.StringMatching(`[aAb*?.\[]{0,8}`).Draw(t, "glob")
		name := rapid.StringMatching(`[aAbB.\[]{0,12}`).Draw(t, "name")
		expression := regexp.QuoteMeta(glob)
		expression = strings.ReplaceAll(expression, `\*`, ".*")
		expression = strings.ReplaceAll(expression, `\?`, ".")
		want := regexp.MustCompile("^(?is:" + expression + ")$").MatchString(name)
		if got := patterns([]string{glob})(name); got != want {
			t.Fatalf("%q matches %q: %v, want %v", glob, name, got, want)
		}
	})
}

func TestGlobsOfManyStarsAreFast(t *testing.T) {
	glob, name := strings.Repeat("*a", 2000)+"b", strings.Repeat("a", 4000)
	if patterns([]string{glob})(name) {
		t.Error("it matches")
	}
}

func FuzzEnvironment(f *testing.F) {
	f.Add("PATH=/bin\nHOME=/me", "H*", "", "A", "1", "core", true)
	f.Add("a=1\nA=2\na=3\n=x\nnoise", "?", "*", "", "", "", false)
	f.Add("K\x00=1", "[*", "\xff", "A=B", "\x00", "none", true)
	f.Fuzz(func(t *testing.T, base, exclude, include, name, value, inherit string, secrets bool) {
		policy := messages.EnvironmentPolicy{
			Inherit: messages.Inherit(inherit), DropSecrets: secrets, Exclude: []string{exclude},
			Set: map[string]string{name: value},
		}
		if include != "" {
			policy.IncludeOnly = []string{include}
		}
		env, err := BuildEnvironment(strings.Split(base, "\n"), policy, Overrides())
		if err != nil {
			if !errors.Is(err, messages.ErrInvalidRequest) {
				t.Fatalf("error %v", err)
			}
			return
		}
		checkBuilt(t, env, policy)
	})
}

// checkBuilt checks the rules that every environment built with Overrides must keep.
func checkBuilt(t *testing.T, env []string, policy messages.EnvironmentPolicy) {
	built := make(map[string]string)
	var names []string
	for _, entry := range env {
		name, value, found := strings.Cut(entry, "=")
		if !found || name == "" || strings.Contains(entry, "\x00") {
			t.Fatalf("entry %q", entry)
		}
		built[name] = value
		names = append(names, name)
	}
	if !slices.IsSorted(names) || len(built) != len(names) {
		t.Fatalf("not sorted, or a name twice: %q", names)
	}
	overrides := Overrides()
	for name, want := range overrides {
		set, is := policy.Set[name]
		if got, there := built[name]; !there || got != want && (!is || got != set) {
			t.Fatalf("%s is %q", name, got)
		}
	}
	for _, name := range names {
		_, isOverride := overrides[name]
		_, isSet := policy.Set[name]
		if !isOverride && len(policy.IncludeOnly) > 0 && !patterns(policy.IncludeOnly)(name) {
			t.Fatalf("%q is not included", name)
		}
		if !isOverride && !isSet && (patterns(policy.Exclude)(name) || policy.Inherit == messages.InheritNone) {
			t.Fatalf("%q should not be inherited", name)
		}
	}
}

func BenchmarkBuildEnvironment(b *testing.B) {
	policy := messages.EnvironmentPolicy{DropSecrets: true, Exclude: []string{"AWS_*"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := BuildEnvironment(hostEnvironment, policy, Overrides()); err != nil {
			b.Fatal(err)
		}
	}
}
