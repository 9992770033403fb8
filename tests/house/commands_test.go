package house

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// goCommand is a command of the go tool on one of our packages.
var goCommand = regexp.MustCompile(`go (run|build|test)(?: -[a-z]+)* (\./[a-z/]+)`)

// commandTexts are the texts whose commands readers try. Sub-commands and flags have tests in the packages of the programs.
var commandTexts = []string{"README.md", "CONTRIBUTING.md", "tests/bench/doc.go", "tests/soak/doc.go"}

// checkCommands complains about commands on packages that do not exist, or that are to be run and are not programs.
func checkCommands(repository fs.FS) ([]string, error) {
	var complaints []string
	for _, name := range commandTexts {
		text, err := fs.ReadFile(repository, name)
		if err != nil {
			return nil, err
		}
		for _, command := range goCommand.FindAllStringSubmatch(string(text), -1) {
			files, err := fs.Glob(repository, strings.TrimPrefix(command[2], "./")+"/*.go")
			if err != nil {
				return nil, err
			}
			program := false
			for _, file := range files {
				source, err := fs.ReadFile(repository, file)
				if err != nil {
					return nil, err
				}
				program = program || strings.Contains(string(source), "\nfunc main() {")
			}
			switch {
			case len(files) == 0:
				complaints = append(complaints, fmt.Sprintf("%s says %q, and there is no such package", name, command[0]))
			case command[1] == "run" && !program:
				complaints = append(complaints, fmt.Sprintf("%s says %q, and that is no program", name, command[0]))
			}
		}
	}
	return complaints, nil
}

func TestCommandsOfTheTextsExist(t *testing.T) { passes(t, checkCommands) }

func TestCommandsThatDoNotExistAreFound(t *testing.T) {
	finds(t, checkCommands, map[string]string{
		"README.md":          "`go run ./cmd/there` and `go test -v ./lib`, but `go run ./lib`",
		"CONTRIBUTING.md":    "`go build ./cmd/gone`",
		"tests/bench/doc.go": "// go run ./tests/bench",
		"tests/soak/doc.go":  "package main",
		"cmd/there/main.go":  "package main\n\nfunc main() {}\n",
		"lib/lib.go":         "package lib\n",
	}, `"go run ./lib", and that is no program`, `"go build ./cmd/gone", and there is no such package`, `"go run ./tests/bench", and that is no program`)
}

// The package docs of bench and soak show how to use them. Each such command must be accepted; with -list and -h, it measures nothing.
func TestTheCommandsOfBenchAndSoakAreAccepted(t *testing.T) {
	for name, harmless := range map[string]string{"bench": "-list", "soak": "-h"} {
		binary := filepath.Join(t.TempDir(), name)
		if output, err := goTool(t, "build", "-o", binary, "./tests/"+name).CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, output)
		}
		doc, err := os.ReadFile(filepath.Join(repositoryRoot(t), "tests", name, "doc.go"))
		if err != nil {
			t.Fatal(err)
		}
		shown := regexp.MustCompile(`(?m)^//\tgo run \./tests/`+name+`\b(.*)$`).FindAllStringSubmatch(string(doc), -1)
		if len(shown) < 2 {
			t.Errorf("the doc of %s shows %d commands", name, len(shown))
		}
		for _, command := range shown {
			arguments, _, _ := strings.Cut(command[1], "#")
			run := exec.Command("sh", "-c", `exec "$0" `+arguments+" "+harmless, binary)
			if output, err := run.CombinedOutput(); err != nil || len(output) == 0 {
				t.Errorf("%s%s %s: %v\n%s", name, arguments, harmless, err, output)
			}
		}
	}
}
