package rules

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// modelRule is one call of prefix_rule, or one first word of it.
type modelRule struct {
	pattern  [][]string
	decision Decision
}

func (r modelRule) source() string {
	pattern, _ := json.Marshal(r.pattern)
	return fmt.Sprintf("prefix_rule(pattern=%s, decision=%q)\n", pattern, r.decision)
}

// modelMatches follows the manual word for word, and slowly: each rule is tried as written and under the base name.
func modelMatches(rules []modelRule, lists map[string][]string, command []string) []string {
	fits := func(rule modelRule, words []string) bool {
		if len(words) < len(rule.pattern) {
			return false
		}
		for i := range rule.pattern {
			if !slices.Contains(rule.pattern[i], words[i]) {
				return false
			}
		}
		return true
	}
	written := slices.ContainsFunc(rules, func(r modelRule) bool { return fits(r, command) })
	base := append([]string{filepath.Base(command[0])}, command[1:]...)
	list, listed := lists[base[0]]
	system := slices.Contains([]string{"/bin/a", "/usr/bin/a", "/bin/b", "/usr/bin/b"}, command[0])
	trusted := slices.Contains(list, command[0]) || !listed && system
	var found []string
	for _, rule := range rules {
		n := len(rule.pattern)
		switch {
		case fits(rule, command):
			found = append(found, fmt.Sprint(rule.decision, command[:n], ""))
		case !strings.Contains(command[0], "/") || !fits(rule, base):
		case rule.decision == Forbidden || !written && rule.decision == Prompt || !written && trusted:
			found = append(found, fmt.Sprint(rule.decision, base[:n], command[0]))
		}
	}
	slices.Sort(found)
	return found
}

func TestMatchAgainstAModel(t *testing.T) {
	words := rapid.SampledFrom([]string{"a", "b", "c"})
	programs := rapid.SampledFrom([]string{"a", "b", "/bin/a", "/usr/bin/b", "/opt/a", "/opt/b", "./a", "x/b", "/bin/../opt/a",
		"/bin//a"})
	paths := map[string][]string{"a": {"/bin/a", "/opt/a", "/usr/bin/a"}, "b": {"/opt/b", "/usr/bin/b"}}
	rapid.Check(t, func(t *rapid.T) {
		var rules []modelRule
		var source strings.Builder
		for range rapid.IntRange(0, 12).Draw(t, "rules") {
			rule := modelRule{decision: rapid.SampledFrom([]Decision{Allow, Prompt, Forbidden}).Draw(t, "decision")}
			rule.pattern = [][]string{rapid.SliceOfNDistinct(rapid.OneOf(words, programs), 1, 3, rapid.ID[string]).Draw(t, "first")}
			rule.pattern = append(rule.pattern, rapid.SliceOfN(rapid.SliceOfN(words, 1, 2), 0, 2).Draw(t, "rest")...)
			source.WriteString(rule.source())
			for _, first := range rule.pattern[0] {
				alone := modelRule{append([][]string{{first}}, rule.pattern[1:]...), rule.decision}
				rules = append(rules, alone)
			}
		}
		lists := map[string][]string{}
		for name := range paths {
			if rapid.Bool().Draw(t, "list "+name) {
				lists[name] = rapid.SliceOf(rapid.SampledFrom(paths[name])).Draw(t, "paths")
				list, _ := json.Marshal(lists[name])
				fmt.Fprintf(&source, "host_executable(%q, %s)\n", name, list)
			}
		}
		parsed, err := Parse("a", []byte(source.String()))
		if err != nil {
			t.Fatal(err)
		}
		command := append([]string{rapid.OneOf(words, programs).Draw(t, "program")}, rapid.SliceOfN(words, 0, 3).Draw(t, "arguments")...)
		var got []string
		for _, m := range parsed.Match(command) {
			got = append(got, fmt.Sprint(m.Decision, m.Prefix, m.Program))
		}
		slices.Sort(got)
		if want := modelMatches(rules, lists, command); !slices.Equal(got, want) {
			t.Fatalf("%s%q:\n%q, want\n%q", source.String(), command, got, want)
		}
	})
}

func benchRules(b *testing.B, first func(int) string) *Set {
	var source strings.Builder
	for i := range 500 {
		fmt.Fprintf(&source, "prefix_rule([%q, ['x%d', 'y%d']])\n", first(i), i, i)
	}
	rules, err := Parse("bench", []byte(source.String()))
	if err != nil {
		b.Fatal(err)
	}
	return rules
}

func BenchmarkMatch500(b *testing.B) {
	for _, bench := range []struct {
		name    string
		first   func(int) string
		command []string
	}{
		{"programs", func(i int) string { return fmt.Sprint("program", i) }, []string{"/usr/bin/program499", "x499", "z"}},
		{"one program", func(int) string { return "git" }, []string{"git", "x499", "z"}},
		{"no match", func(i int) string { return fmt.Sprint("program", i) }, []string{"git", "x499", "z"}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			rules := benchRules(b, bench.first)
			for b.Loop() {
				rules.Match(bench.command)
			}
		})
	}
}

func BenchmarkParse500(b *testing.B) {
	source := []byte(strings.Repeat("prefix_rule(pattern=[\"git\", \"push\"], decision=\"allow\", match=[\"git push x\"])\n", 500))
	for b.Loop() {
		if _, err := Parse("bench", source); err != nil {
			b.Fatal(err)
		}
	}
}
