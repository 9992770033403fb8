package house

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// quickStart takes the commands out of the fenced blocks of the README's section "Quick start".
func quickStart(readme string) []string {
	var commands []string
	section, fenced := false, false
	for line := range strings.Lines(readme) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced && section && line != "" && !strings.HasPrefix(line, "#"):
			commands = append(commands, line)
		case !fenced && strings.HasPrefix(line, "#"):
			section = strings.TrimLeft(line, "# ") == "Quick start"
		}
	}
	return commands
}

// calls reports whether a shell script has the command, word by word and not in a comment. Only the end of the line, a
// redirection or a closing parenthesis may follow it.
func calls(script, command string) bool {
	pattern := regexp.MustCompile(`(^|[\s(;&|])` + regexp.QuoteMeta(command) + `($|\)|\s+\d*>|\s*[;&|])`)
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "#") && pattern.MatchString(line) {
			return true
		}
	}
	return false
}

// promised reads the README, and the script .ci/run that keeps its promises.
func promised(repository fs.FS) (readme, script string, err error) {
	text, err := fs.ReadFile(repository, "README.md")
	if err != nil {
		return "", "", err
	}
	run, err := fs.ReadFile(repository, ".ci/run")
	return string(text), string(run), err
}

// checkQuickStart complains about commands of the quick start that .ci/run does not run.
func checkQuickStart(repository fs.FS) ([]string, error) {
	readme, script, err := promised(repository)
	if err != nil {
		return nil, err
	}
	var complaints []string
	commands := quickStart(readme)
	if len(commands) == 0 {
		complaints = append(complaints, "README.md has no commands in a section \"Quick start\"")
	}
	for _, command := range commands {
		if !calls(script, command) {
			complaints = append(complaints, fmt.Sprintf("README.md says %q, which .ci/run does not run", command))
		}
	}
	return complaints, nil
}

func TestQuickStartIsWhatCIRuns(t *testing.T) { passes(t, checkQuickStart) }

func TestUntriedCommandsAreFound(t *testing.T) {
	fence := "```"
	readme := "# x\n" + fence + "\nother thing\n" + fence + "\n## Quick start\nSay:\n" + fence + "sh\n# the tests\ngo test ./...\n" +
		"go vet ./...\n\ngo run ./demo -- a 'b; c'\n" + fence + "\n## Next\n" + fence + "\nnot this\n" + fence + "\n"
	finds(t, checkQuickStart, map[string]string{
		"README.md": readme,
		".ci/run":   "run \"a\" go test ./...\nx=$(go run ./demo -- a 'b; c' 2>/dev/null)\ngo vet ./...\n",
	})
	finds(t, checkQuickStart, map[string]string{
		"README.md": readme,
		".ci/run":   "# go test ./...\ngo test ./... -run x\ngo test -race ./...\ngo vet ./...x\ngo run ./demo -- a b",
	}, "\"go test ./...\"", "\"go vet ./...\"", "\"go run ./demo -- a 'b; c'\"")
	finds(t, checkQuickStart, map[string]string{"README.md": "# Quick start\nJust do it.\n", ".ci/run": ""}, "has no commands")
}

// goTool makes a command of the go tool that stays offline. If the tool cannot work, the test is skipped, or fails if
// EXECBUS_NEED_GO says that it can.
func goTool(t *testing.T, arguments ...string) *exec.Cmd {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		unavailable(t, "there is no go tool: "+err.Error())
	}
	list := exec.Command("go", "list", "-deps", "-test", "./...")
	prepare(t, list)
	if output, err := list.CombinedOutput(); err != nil {
		unavailable(t, fmt.Sprintf("our modules are not in the cache, or it cannot be used: %v\n%.2000s", err, output))
	}
	command := exec.Command("go", arguments...)
	prepare(t, command)
	return command
}

func prepare(t *testing.T, command *exec.Cmd) {
	command.Dir = repositoryRoot(t)
	command.Env = append(os.Environ(), "GOPROXY=off")
}

func unavailable(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("EXECBUS_NEED_GO") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

func TestModulesAreTidy(t *testing.T) {
	output, err := goTool(t, "mod", "tidy", "-diff").CombinedOutput()
	switch {
	case err == nil:
	case bytes.Contains(output, []byte("GOPROXY=off")): // tidying also reads the modules of our modules' tests
		unavailable(t, fmt.Sprintf("modules are not in the cache:\n%.2000s", output))
	default:
		t.Errorf("go mod tidy would change go.mod or go.sum: %v\n%s", err, output)
	}
}

// TestDemoRuns runs the quick start's demo command with the built binary, through a shell as a reader would.
func TestDemoRuns(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(repositoryRoot(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	const goRun = "go run ./cmd/demo"
	arguments, found := "", false
	for _, command := range quickStart(string(readme)) {
		if rest, ok := strings.CutPrefix(command, goRun); ok {
			arguments, found = rest, true
		}
	}
	if !found {
		t.Fatalf("the quick start has no %q", goRun)
	}
	binary := filepath.Join(t.TempDir(), "demo")
	build := goTool(t, "build", "-o", binary, "./cmd/demo")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, output)
	}
	demo := exec.Command("sh", "-c", `exec "$DEMO"`+arguments)
	demo.Env = append(os.Environ(), "DEMO="+binary, "HOME="+t.TempDir())
	var stdout, stderr bytes.Buffer
	demo.Stdout, demo.Stderr = &stdout, &stderr
	err = demo.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 3 {
		t.Errorf("it ended with %v, want exit code 3", err)
	}
	if stdout.String() != "hi\n" {
		t.Errorf("it said %q, want %q", stdout.String(), "hi\n")
	}
	if t.Failed() {
		t.Logf("stderr: %s", stderr.String())
	}
}

// goBlock takes the first Go program out of a text.
func goBlock(readme string) string {
	_, rest, found := strings.Cut(readme, "```go\n")
	program, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		return ""
	}
	return program
}

func TestTheReadmesProgramRuns(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(repositoryRoot(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	program := goBlock(string(readme))
	if program == "" {
		t.Fatal("README.md has no Go program")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	output, err := goTool(t, "run", file).CombinedOutput()
	for _, fact := range []string{`output "hi\n"`, "exited, code(3) - background processes ended: 1"} {
		if !strings.Contains(string(output), fact) {
			t.Errorf("its output has no %q", fact)
		}
	}
	if err != nil || t.Failed() {
		t.Errorf("it ended with %v and said:\n%s", err, output)
	}
}

func TestAReadmeWithoutAProgramIsFound(t *testing.T) {
	if got := goBlock("```sh\nls\n```\n```go\npackage main\n```\n"); got != "package main\n" {
		t.Errorf("found %q", got)
	}
	if got := goBlock("```sh\nls\n```\n"); got != "" {
		t.Errorf("found %q", got)
	}
}
