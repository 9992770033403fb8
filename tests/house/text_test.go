package house

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns bounds the lines of the README.
const maxColumns = 120

// readmeLines bounds the README: it is read in one go, and the package docs have the rest.
const readmeLines = 249

// marks must not appear anywhere. They are spelt so that this file has none.
var marks = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`), "do it, or open an issue"},
	{regexp.MustCompile(`(?i)\.\./` + `shared`), "the repository must be readable by itself"},
	{regexp.MustCompile(`DESIGN` + `\.md`), "the repository must be readable by itself"},
}

func checkText(repository fs.FS) ([]string, error) {
	files, err := textFiles(repository)
	if err != nil {
		return nil, err
	}
	var complaints []string
	for _, file := range files {
		lines := strings.Split(strings.TrimSuffix(file.text, "\n"), "\n")
		if file.name == "README.md" && len(lines) > readmeLines {
			complaints = append(complaints, fmt.Sprintf("README.md has %d lines, more than %d: move some to a package doc", len(lines), readmeLines))
		}
		for i, line := range lines {
			for _, mark := range marks {
				if found := mark.pattern.FindString(line); found != "" {
					complaints = append(complaints, fmt.Sprintf("%s:%d: %q: %s", file.name, i+1, found, mark.why))
				}
			}
			if columns := utf8.RuneCountInString(line); file.name == "README.md" && columns > maxColumns {
				complaints = append(complaints, fmt.Sprintf("README.md:%d: %d columns, more than %d", i+1, columns, maxColumns))
			}
		}
	}
	return complaints, nil
}

func TestFilesAreDone(t *testing.T) { passes(t, checkText) }

func TestUnfinishedFilesAreFound(t *testing.T) {
	finds(t, checkText, map[string]string{
		"a/todo.go":        "package a\n// TO" + "DO: finish\nvar TO" + "DOs, AXX" + "X int\n",
		"a/todo_test.go":   "package a // FIX" + "ME\n",
		".ci/run":          "mktemp x.XXXX" + "XX # XX" + "X\n",
		"README.md":        "See ../" + "shared/DESIGN" + ".md.\n" + strings.Repeat("ä", maxColumns+1) + "\n" + strings.Repeat("ä", maxColumns) + strings.Repeat("\n.", readmeLines-2),
		".git/description": "TO" + "DO\n",
		"built":            "\x00 TO" + "DO\n",
		"go.sum":           "h1:+XX" + "X/=\n",
	}, "a/todo.go:2: \"TO"+"DO\"", "a/todo_test.go:1: \"FIX"+"ME\"", ".ci/run:1: \"XX"+"X\"",
		"README.md:1: \"../"+"shared\"", "README.md:1: \"DESIGN"+".md\"", "README.md:2: 121 columns", "README.md has 250 lines")
}
