// Command compare measures two of the examples beside the programs whose work they do: watch beside reflex, and webterm beside
// gotty. It prints a table in Markdown. The originals come from the Go module proxy; an original that cannot be downloaded is
// reported, and its column stays empty. Run it in the directory of the examples, on Linux: go run ./compare
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/execbus/execbus/examples/compare/measure"
)

// program is a column of the table, and measure the part of it that needs the program to run.
type program struct {
	name            string
	module, version string // of an original
	measure         func(binary string) []string
}

func main() {
	log.SetFlags(0)
	programs := []program{
		{"watch", "", "", func(binary string) []string { return measure.Watcher(binary) }},
		{"reflex", "github.com/cespare/reflex", "v0.3.1", func(binary string) []string {
			return measure.Watcher(binary, "-d", "none")
		}},
		{"webterm", "", "", measure.Webterm},
		{"gotty", "github.com/sorenisanerd/gotty", "v1.5.0", measure.Gotty},
	}
	lines := []string{"| |", "|---|", "| output lost, of commands that exit at once |", "| output lost, of a service that is restarted |",
		"| daemons left when it was stopped |", "| daemons left when it was killed |", "| binary without symbols |",
		"| lines of Go of its own |"}
	scratch, err := os.MkdirTemp("", "compare-")
	check(err)
	for _, p := range programs {
		cells, err := p.column(scratch)
		if err != nil {
			log.Printf("%s: %v", p.name, err)
			cells = append([]string{p.name, "---"}, make([]string, len(lines)-2)...)
		}
		for i, cell := range cells {
			lines[i] += " " + cell + " |"
		}
	}
	fmt.Printf("%s\n\n%s/%s, %s, %s\n", strings.Join(lines, "\n"), runtime.GOOS, runtime.GOARCH, runtime.Version(),
		time.Now().UTC().Format(time.DateOnly))
	check(os.RemoveAll(scratch))
}

// check ends the measurement of one program.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// column builds a program and measures it.
func (p program) column(scratch string) (cells []string, err error) {
	defer func() {
		if failed := recover(); failed != nil {
			err = fmt.Errorf("not measured: %v", failed)
		}
	}()
	title, source, build := p.name, p.name, exec.Command("go", "build", "./"+p.name)
	if p.module != "" {
		title = p.name + " " + p.version
		if source, err = p.download(); err != nil {
			return nil, err
		}
		build = exec.Command("go", "build", "-mod=mod", p.module)
		if build.Dir, err = p.host(scratch); err != nil {
			return nil, err
		}
	}
	build.Args = append(build.Args[:2:2], append([]string{"-trimpath", "-ldflags=-s -w", "-o", scratch}, build.Args[2:]...)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if output, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("does not build: %w: %s", err, output)
	}
	binary := filepath.Join(scratch, p.name)
	info, err := os.Stat(binary)
	check(err)
	cells = append([]string{title, "---"}, p.measure(binary)...)
	return append(cells, fmt.Sprintf("%.1f MB", float64(info.Size())/1e6), fmt.Sprint(count(source))), nil
}

// download returns the directory with the source of an original.
func (p program) download() (dir string, err error) {
	var module struct{ Dir, Error string }
	output, err := exec.Command("go", "mod", "download", "-json", p.module+"@"+p.version).Output()
	if json.Unmarshal(output, &module) != nil || err != nil {
		return "", fmt.Errorf("not available: %w: %s", err, module.Error)
	}
	return module.Dir, nil
}

// host makes a module that requires an original. "go install" would do if every module proxy listed the versions of a module.
func (p program) host(scratch string) (dir string, err error) {
	dir = filepath.Join(scratch, "module-"+p.name)
	text := fmt.Sprintf("module %s.compare\n\nrequire %s %s\n", p.name, p.module, p.version)
	return dir, errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o600))
}

// count counts the lines of Go below a directory, without tests and without what is vendored.
func count(dir string) (lines int) {
	check(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && entry.Name() == "vendor" {
			return fs.SkipDir
		}
		if filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			check(err)
			lines += strings.Count(string(text), "\n")
		}
		return nil
	}))
	return lines
}
