package house

import (
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// testFiles stands for test files and everything in tests/.
const testFiles = "tests"

// dependency is a module that we have chosen to depend on.
type dependency struct {
	reason string   // as the README's table says it
	rooms  []string // where files may import it; empty: anywhere
	hidden bool     // test files may import it only in these rooms, too
	tool   string   // the package that is run, if no code imports the module
}

// dependencies has all allowed modules. A new one needs a line here and the same in the README.
var dependencies = map[string]dependency{
	"github.com/asynkron/protoactor-go": {
		reason: "the actors: mailboxes and supervision",
		rooms:  []string{"actors/internal/system"},
		hidden: true,
	},
	"github.com/orcaman/concurrent-map": {
		reason: "protoactor's table of actors, which is made small",
		rooms:  []string{"actors/internal/system"},
		hidden: true,
	},
	"github.com/modelcontextprotocol/go-sdk": {
		reason: "the Model Context Protocol: messages, versions, streamable HTTP",
		rooms:  []string{"mcp"},
	},
	"github.com/pelletier/go-toml/v2": {
		reason: "the program's configuration file, with the line and column of each mistake",
		rooms:  []string{"cmd/execbus"},
	},
	"github.com/creack/pty": {
		reason: "opens pseudo-terminals on Linux and macOS",
		rooms:  []string{"ptyio"},
	},
	"github.com/coder/websocket": {
		reason: "websockets for the exec-server protocol and the window: frames, pings, limits",
		rooms:  []string{"execserver", "window", "examples"},
	},
	"github.com/segmentio/encoding": {
		reason: "reads JSON by tokens: bounds, names that occur twice; package json only",
		rooms:  []string{"execserver"},
	},
	"github.com/google/uuid": {reason: "session ids"},
	"go.starlark.net": {
		reason: "the language of rule files",
		rooms:  []string{"policy/rules"},
	},
	"go.opentelemetry.io/otel": {
		reason: "telemetry: attributes; the API only, the host brings the SDK or nothing",
		rooms:  []string{"actors/internal/shared", "actors", root},
	},
	"go.opentelemetry.io/otel/metric": {
		reason: "telemetry: counters and histograms",
		rooms:  []string{"actors/internal/shared", "actors", root},
	},
	"go.opentelemetry.io/otel/trace": {
		reason: "telemetry: spans",
		rooms:  []string{"actors/internal/shared", "actors", root},
	},
	"golang.org/x/net": {
		reason: "host names in ASCII; SOCKS5 for `execbus connect`; packages idna, proxy, dnsmessage only",
		rooms:  []string{"policy", "policy/hosts", "network", "cmd/execbus"},
	},
	"golang.org/x/sys": {reason: "pidfds, resource limits, prctl, terminal modes: what package `syscall` lacks"},
	"golang.org/x/term": {
		reason: "terminal modes, the demo's line editor; libraries with more take the terminal from commands",
		rooms:  []string{"cmd/demo", "cmd/execbus"},
	},
	"golang.org/x/text": {
		reason: "how wide characters are; package width only",
		rooms:  []string{"view"},
	},
	"go.uber.org/goleak": {
		reason: "tests: no goroutine is left behind",
		rooms:  []string{testFiles},
	},
	"pgregory.net/rapid": {
		reason: "tests: random operations against a simple model",
		rooms:  []string{testFiles},
	},
	"honnef.co/go/tools": {
		reason: "staticcheck, run by `.ci/run`; linked into nothing",
		rooms:  []string{testFiles},
		tool:   "honnef.co/go/tools/cmd/staticcheck",
	},
	"mvdan.cc/sh/v3": {
		reason: "parses shell scripts, to know what they run; packages syntax and expand only",
		rooms:  []string{"policy/command", "patch"},
	},
}

// row is the dependency's line in the README.
func (d dependency) row(name string) string { return fmt.Sprintf("| `%s` | %s |", name, d.reason) }

// goMod is what go.mod says.
type goMod struct {
	direct, tools []string
	replaced      bool
}

// parseGoMod reads directives, alone on a line or in blocks.
func parseGoMod(text string) goMod {
	var mod goMod
	block := ""
	for line := range strings.Lines(text) {
		line, comment, _ := strings.Cut(strings.TrimSpace(line), "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			continue
		case words[0] == ")":
			block = ""
			continue
		case block != "":
			words = append([]string{block}, words...)
		case words[len(words)-1] == "(":
			block = words[0]
			continue
		}
		if len(words) < 2 {
			continue
		}
		name := strings.Trim(words[1], `"`)
		switch words[0] {
		case "require":
			if !slices.Contains(strings.Fields(strings.ReplaceAll(comment, ";", " ")), "indirect") {
				mod.direct = append(mod.direct, name)
			}
		case "tool":
			mod.tools = append(mod.tools, name)
		case "replace":
			mod.replaced = true
		}
	}
	return mod
}

// checkDependencies compares go.mod, the README and the imports with the table.
func checkDependencies(repository fs.FS) ([]string, error) {
	text, err := fs.ReadFile(repository, "go.mod")
	if err != nil {
		return nil, err
	}
	readme, err := fs.ReadFile(repository, "README.md")
	if err != nil {
		return nil, err
	}
	files, err := goFiles(repository)
	if err != nil {
		return nil, err
	}
	complaints := checkGoMod(parseGoMod(string(text)))
	complaints = append(complaints, checkTable(string(readme))...)
	return append(complaints, checkForeignImports(files)...), nil
}

func checkGoMod(mod goMod) []string {
	var complaints []string
	if mod.replaced {
		complaints = append(complaints, "go.mod replaces a module: those who depend on us would get another one than we test")
	}
	for _, name := range mod.direct {
		if _, allowed := dependencies[name]; !allowed {
			complaints = append(complaints, fmt.Sprintf("go.mod requires %s, which the table does not allow", name))
		}
	}
	var tools []string
	for _, name := range slices.Sorted(maps.Keys(dependencies)) {
		d := dependencies[name]
		if d.tool != "" {
			tools = append(tools, d.tool)
		}
		if required := slices.Contains(mod.direct, name) || d.tool != "" && slices.Contains(mod.tools, d.tool); !required {
			complaints = append(complaints, fmt.Sprintf("the table allows %s, which go.mod does not require: remove it there", name))
		}
	}
	for _, tool := range mod.tools {
		if !slices.Contains(tools, tool) {
			complaints = append(complaints, fmt.Sprintf("go.mod names the tool %s, which the table does not allow", tool))
		}
	}
	return complaints
}

// rows of a Markdown table that begin with a module's path: something with a dot inside in code quotes.
var moduleRow = regexp.MustCompile("(?m)^\\| `([^` ]+\\.[^` ]+)` \\|.*$")

func checkTable(readme string) []string {
	var complaints []string
	found := map[string]bool{}
	for _, match := range moduleRow.FindAllStringSubmatch(readme, -1) {
		name := match[1]
		found[name] = true
		d, allowed := dependencies[name]
		if !allowed {
			complaints = append(complaints, fmt.Sprintf("the README lists %s, which the table does not allow", name))
		} else if match[0] != d.row(name) {
			complaints = append(complaints, fmt.Sprintf("the README gives %s another reason; want the row: %s", name, d.row(name)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(dependencies)) {
		if !found[name] {
			complaints = append(complaints, fmt.Sprintf("the README does not list %s; add the row: %s", name, dependencies[name].row(name)))
		}
	}
	return complaints
}

func checkForeignImports(files []goFile) []string {
	var complaints []string
	for _, file := range files {
		room, _ := roomOf(file.dir())
		test := file.isTest() || within(room, testFiles)
		for _, imported := range file.imports() {
			for name, d := range dependencies {
				if within(imported, name) && d.rooms != nil && !slices.Contains(d.rooms, room) && (d.hidden || !test) {
					complaints = append(complaints, fmt.Sprintf("%s imports %s, which only %q may", file.name, imported, d.rooms))
				}
			}
		}
	}
	return complaints
}

func TestDependenciesAreTheAllowedOnes(t *testing.T) { passes(t, checkDependencies) }

func TestWrongDependenciesAreFound(t *testing.T) {
	var requires, rows strings.Builder
	for name, d := range dependencies {
		if name != "github.com/google/uuid" && d.tool == "" {
			fmt.Fprintf(&requires, "\t%s v1.0.0\n", name)
		}
		if name != "github.com/creack/pty" && name != "golang.org/x/sys" {
			fmt.Fprintln(&rows, d.row(name))
		}
	}
	finds(t, checkDependencies, map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n\nrequire (\n" + requires.String() + "\texample.com/in v1.0.0 // indirect\n" +
			"\texample.com/block v1.0.0 // why not\n)\n\nrequire example.com/line v1.0.0\nrequire example.com/in2 v1.0.0 // indirect; x\n" +
			"replace example.com/line => ../line\ntool honnef.co/go/tools/cmd/staticcheck\ntool (\n\texample.com/cmd/tool\n)\n",
		"README.md": "| module | reason |\n|---|---|\n" + rows.String() +
			"| `golang.org/x/sys` | for fun |\n| `example.com/extra` | nice |\n| `bus/` | a room |\n",
		"bus/bad.go":            "package bus\nimport _ \"github.com/creack/pty\"\n",
		"ptyio/good.go":         "package ptyio\nimport _ \"github.com/creack/pty\"\n",
		"bus/readertest/bad.go": "package readertest\nimport _ \"pgregory.net/rapid\"\n",
		"bus/pty_test.go":       "package bus\nimport _ \"github.com/creack/pty\"\n",
		"bus/good_test.go":      "package bus\nimport _ \"pgregory.net/rapid\"\n",
		"tests/soak/good.go":    "package soak\nimport _ \"pgregory.net/rapid\"\n",
	},
		"requires example.com/block,", "requires example.com/line,", "allows github.com/google/uuid, which go.mod does not require",
		"replaces a module", "names the tool example.com/cmd/tool", "gives golang.org/x/sys another reason",
		"does not list github.com/creack/pty", "lists example.com/extra,", "bus/bad.go imports", "bus/readertest/bad.go imports")
}

func TestTheActorLibraryIsHiddenFromTestsToo(t *testing.T) {
	library := "package p\nimport _ \"github.com/asynkron/protoactor-go/actor\"\n"
	check := func(repository fs.FS) ([]string, error) {
		files, err := goFiles(repository)
		return checkForeignImports(files), err
	}
	finds(t, check, map[string]string{
		"bad.go":                              library,
		"actors/bad.go":                       library,
		"actors/bad_test.go":                  library,
		"tests/soak/bad.go":                   library,
		"actors/internal/system/good.go":      library,
		"actors/internal/system/good_test.go": library,
	}, "bad.go imports github.com/asynkron/protoactor-go/actor, which only [\"actors/internal/system\"] may", "actors/bad.go imports",
		"actors/bad_test.go imports", "tests/soak/bad.go imports")
}
