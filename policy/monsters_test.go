package policy

import (
	"runtime"
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
