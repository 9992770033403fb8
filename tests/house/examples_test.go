package house

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// exampleLines bounds the lines of an example, in all its files.
const exampleLines = 199

// checkExamples counts the lines of the example programs.
func checkExamples(repository fs.FS) ([]string, error) {
	files, err := goFiles(repository)
	if err != nil {
		return nil, err
	}
	lines := map[string]int{}
	var complaints []string
	for _, file := range files {
		if !within(file.dir(), "examples") || file.isTest() {
			continue
		}
		before := lines[file.dir()]
		lines[file.dir()] += strings.Count(file.text, "\n")
		if before <= exampleLines && lines[file.dir()] > exampleLines {
			complaints = append(complaints, file.dir()+"/ has 200 lines or more: an example is read in one go")
		}
	}
	return complaints, nil
}

func TestExamplesAreShort(t *testing.T) { passes(t, checkExamples) }

func TestLongExamplesAreFound(t *testing.T) {
	finds(t, checkExamples, map[string]string{
		"examples/a/main.go":      "package main\n" + strings.Repeat("//\n", 150),
		"examples/a/more.go":      "package main\n" + strings.Repeat("//\n", 50),
		"examples/a/main_test.go": "package main\n" + strings.Repeat("//\n", 300),
		"examples/b/main.go":      "package main\n" + strings.Repeat("//\n", 198),
		"cmd/a/main.go":           "package main\n" + strings.Repeat("//\n", 300),
	}, "examples/a/")
}

// The examples are a module of their own, so that their dependencies are not those of the library. A change of ours must not
// break them.
func TestExamplesCompile(t *testing.T) {
	root := repositoryRoot(t)
	command := goTool(t, "vet", "./...")
	command.Dir = filepath.Join(root, "examples")
	list := exec.Command("go", "list", "-deps", "-test", "./...")
	list.Dir, list.Env = command.Dir, append(os.Environ(), "GOPROXY=off", "GOFLAGS=")
	if output, err := list.CombinedOutput(); bytes.Contains(output, []byte("GOPROXY=off")) {
		unavailable(t, "the modules of the examples are not in the cache: "+err.Error())
	}
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("go vet in examples: %v\n%s", err, output)
	}
}
