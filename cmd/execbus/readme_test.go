package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/execbus/execbus/tools"
)

// readme returns the README, which must contain some text.
func readme(t *testing.T, promise string) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), promise) {
		t.Errorf("the README does not say %s", promise)
	}
	return string(text)
}

func TestTheRulesOfTheREADMEDecide(t *testing.T) {
	readme(t, "go run ./cmd/execbus policy check --rules examples/git.rules -- bash -lc 'git status && git push'\n")
	var out, errors bytes.Buffer
	code := run([]string{"policy", "check", "--rules", "../../examples/git.rules", "--", "bash", "-lc", "git status && git push"},
		streams{strings.NewReader(""), &out, &errors})
	if code != exitCodes["prompt"] || !strings.Contains(out.String(), "git status\n") || !strings.Contains(out.String(), "git push\n") {
		t.Errorf("exit code %d, %s%s", code, out.String(), errors.String())
	}
}

func TestTheSandboxedCommandOfTheREADMERuns(t *testing.T) {
	confinedHere(t)
	readme(t, "`execbus run --sandbox read-only -- ls`")
	if code, out, errors := runs(t, "", "--sandbox", "read-only", "--", "ls"); code != 0 || !strings.Contains(out, "readme_test.go\n") {
		t.Errorf("exit code %d, %s%s", code, out, errors)
	}
}

func TestTheREADMENamesTheTools(t *testing.T) {
	text := strings.Join(strings.Fields(readme(t, "`execbus mcp`")), " ")
	var names []string
	for _, tool := range tools.List(tools.Options{}) {
		names = append(names, "`"+tool.Name+"`")
	}
	last := len(names) - 1
	if want := "offers " + strings.Join(names[:last], ", ") + " and " + names[last] + " to clients"; !strings.Contains(text, want) {
		t.Errorf("the README does not say that the server %s", want)
	}
}
