package policy

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"golang.org/x/sys/unix"
)

// TestMonstersAreBounded plans for scripts that are made to be slow.
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
			took := time.Duration(1 << 62)
			for range 5 { // the machine may be busy with something else
				began, worked := time.Now(), processorTime(t)
				plan := MakePlan(request, under(untrusted, workspace, rules))
				took = min(took, time.Since(began), processorTime(t)-worked)
				if plan.Decision == Run && plan.Source != messages.DecidedByRule {
					t.Errorf("%s: %.80s: %s", name, quote(request.Argv), outcome(plan, true))
				}
				if took < 100*time.Millisecond {
					break
				}
			}
			runtime.ReadMemStats(&after)
			if took > 100*time.Millisecond*slower {
				t.Errorf("%s: %.80s took %v", name, quote(request.Argv), took)
			}
			if grown := int64(after.Sys) - int64(before.Sys); grown > 128<<20 {
				t.Errorf("%s: %.80s took %d MiB", name, quote(request.Argv), grown>>20)
			}
		}
	}
}

// processorTime is the processor time of this process; unlike a clock it does not depend on the load of the machine.
func processorTime(t *testing.T) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
