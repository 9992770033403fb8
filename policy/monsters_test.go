package policy

import (
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
)

// TestMonstersAreBounded plans for scripts that are made to be slow. What it counts is memory: all that a plan makes on the way
// has to be read or written, so it bounds the work as well, on every machine alike.
func TestMonstersAreBounded(t *testing.T) {
	const size = (1 << 20) / smaller
	monsters := map[string]string{"one word": "npm " + strings.Repeat("a", size), "blanks": "npm" + strings.Repeat(" ",
		size) + "x",
		"no end": strings.Repeat("if a; then ", size/11), "a deep no end": strings.Repeat("if a; then ", 10_000)}
	for name, unit := range map[string]string{"commands": "npm test; ", "words": "a ", "quotes": "'a'", "double quotes": `"a"`,
		"pipes": "a | ",
		"lists": "a && ", "lines": "npm test\n", "substitutions": "$(", "backquotes": "`", "groups": "( ", "braces": "{ ",
		"arithmetic": "$((1+",
		"brackets":   "[", "parameters": "${a:-", "quoted": `"$(`, "documents": "cat <<E\n", "escapes": `\a`, "stars": "*",
		"wide":   "字",
		"broken": "\xff", "zero": "a\x01", "functions": "f() ", "cases": "case a in a) ", "negations": "! ", "times": "time ",
		"comments": "#\n",
		"wrappers": "env ", "shells": "sh -c ", "force": "rm ", "options": "rm -- -f; ", "evals": "eval ", "assignments": "a[",
		"extended": "@("} {
		monsters[name+", long"] = strings.Repeat(unit, size/len(unit))
		monsters[name+", 10,000 deep"] = strings.Repeat(unit, 10_000)
		monsters[name+", 60 KiB"] = strings.Repeat(unit, 60<<10/len(unit))
	}
	rules, err := tableRules().With([]string{"npm", "test"})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range monsters {
		requests := []Request{shell(text), words(append([]string{"env"}, strings.Fields(text)...)...), words("bash", "-c", text)}
		if smaller > 1 {
			requests = requests[:1]
		}
		for _, request := range requests {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			plan := MakePlan(request, under(untrusted, workspace, rules))
			runtime.ReadMemStats(&after)
			if plan.Decision == Run && plan.Source != messages.DecidedByRule {
				t.Errorf("%s: %.80s: %s", name, quote(request.Argv), outcome(plan, true))
			}
			if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 64 {
				t.Errorf("%s: %.80s took %d MiB", name, quote(request.Argv), made)
			}
			if grown := int64(after.Sys) - int64(before.Sys); grown > 128<<20 {
				t.Errorf("%s: %.80s kept %d MiB", name, quote(request.Argv), grown>>20)
			}
		}
	}
}

// TestShortScriptsThatGrowAreBounded plans for command lines that are short and stand for much: words that are put together from
// themselves, functions that call each other, and lists of lists.
func TestShortScriptsThatGrowAreBounded(t *testing.T) {
	chain := ""
	for name := 'a'; name < 'z'; name++ {
		chain += string(name) + "(){ " + string(name+1) + ";" + string(name+1) + ";};"
	}
	doubled, listed := `sh -c "$1" "`+strings.Repeat("$0", 12)+`" "$1"`, `sh -c "$1"`+strings.Repeat(` "$@"`, 12)
	monsters := map[string][]string{
		"a parameter":       {"sh", "-c", doubled, "a", doubled},
		"all parameters":    {"sh", "-c", listed, "a", listed},
		"a wide format":     {"sh", "-c", "printf '" + strings.Repeat("%99999d", 3000) + "' | sh"},
		"a replaced word":   {"sh", "-c", "echo " + strings.Repeat("a", 20_000) + " | xargs -I% x " + strings.Repeat("%", 20_000)},
		"a template":        {"parallel", strings.Repeat("{}", 20_000), ":::", strings.Repeat("a", 20_000)},
		"many lists":        append([]string{"parallel", "x"}, strings.Fields(strings.Repeat("::: a ", 20_000))...),
		"a long word again": {"sh", "-c", "f(){ x '" + strings.Repeat("a", 30_000) + "'; }\n" + strings.Repeat("f\n", 10_000)},
		"an input again":    {"sh", "-c", "cat " + strings.Repeat("- ", 10_000) + "<<E | sh\n" + strings.Repeat("a\n", 10_000) + "E\n"},
		"functions copied":  {"sh", "-c", numbered("f%(){ x;};", 1900) + strings.Repeat("sh -c x;", 2500)},
		"globals in a line": {"sh", "-c", strings.Repeat("git -a ", 9000) + "\n;;)"},
		"each command":      {"sh", "-c", strings.Repeat("sh -c '"+chain+"a'\n", 60)},
	}
	for name, argv := range monsters {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		plan := MakePlan(words(argv...), under(untrusted, workspace, nil))
		runtime.ReadMemStats(&after)
		if plan.Decision == Run {
			t.Errorf("%s: %s", name, outcome(plan, true))
		}
		if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 400 {
			t.Errorf("%s took %d MiB", name, made)
		}
	}
}

// numbered repeats a text with numbers in the place of %.
func numbered(text string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(text, "%", strconv.Itoa(i)))
	}
	return b.String()
}
