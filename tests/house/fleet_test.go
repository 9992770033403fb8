package house

import (
	"fmt"
	"io/fs"
	"slices"
	"testing"
)

// checkFleet compares what the fleet's module requires with the table of its README. A replaced module would keep the program from being
// installed by version.
func checkFleet(repository fs.FS) ([]string, error) {
	text, err := fs.ReadFile(repository, "fleet/go.mod")
	if err != nil {
		return nil, err
	}
	readme, err := fs.ReadFile(repository, "fleet/README.md")
	if err != nil {
		return nil, err
	}
	mod := parseGoMod(string(text))
	var complaints, listed []string
	if mod.replaced {
		complaints = append(complaints, "fleet/go.mod replaces a module: go install takes no such program by version; fleet/go.work has the replacement")
	}
	for _, match := range moduleRow.FindAllStringSubmatch(string(readme), -1) {
		if listed = append(listed, match[1]); !slices.Contains(mod.direct, match[1]) {
			complaints = append(complaints, fmt.Sprintf("fleet/README.md lists %s, which fleet/go.mod does not require", match[1]))
		}
	}
	for _, name := range mod.direct {
		if !slices.Contains(listed, name) {
			complaints = append(complaints, fmt.Sprintf("fleet/README.md gives no reason for %s", name))
		}
	}
	return complaints, nil
}

func TestTheFleetsModuleIsAsItsREADMESays(t *testing.T) { passes(t, checkFleet) }

func TestWhatTheFleetsREADMEDoesNotSayIsFound(t *testing.T) {
	finds(t, checkFleet, map[string]string{
		"fleet/go.mod":    "module m\nrequire example.com/a v1.0.0\nrequire example.com/b v1.0.0\nrequire example.com/d v1.0.0 // indirect\nreplace example.com/a => ..\n",
		"fleet/README.md": "| `example.com/a` | good |\n| `example.com/c` | gone |\n",
	}, "replaces a module", "no reason for example.com/b", "lists example.com/c")
}
