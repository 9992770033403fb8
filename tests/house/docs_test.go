package house

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
)

// docLines is the least number of lines in a package doc.
const docLines = 2

// checkDocs complains about packages that do not explain themselves.
func checkDocs(repository fs.FS) ([]string, error) {
	files, err := goFiles(repository)
	if err != nil {
		return nil, err
	}
	type manual struct{ name, doc string }
	packages := map[string]manual{} // by directory
	for _, file := range files {
		name := strings.TrimSuffix(file.syntax.Name.Name, "_test")
		m := manual{name, file.syntax.Doc.Text()}
		if known, met := packages[file.dir()]; !met || len(m.doc) > len(known.doc) {
			packages[file.dir()] = m
		}
	}
	var complaints []string
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		m := packages[dir]
		first := "Package " + m.name + " "
		if m.name == "main" {
			first = "Command " + dir[strings.LastIndex(dir, "/")+1:] + " "
		}
		lines := strings.Count(strings.TrimSpace(m.doc), "\n") + 1
		switch {
		case m.doc == "":
			complaints = append(complaints, fmt.Sprintf("%s/ has no package doc: begin one with %q", dir, first))
		case !strings.HasPrefix(m.doc, first):
			complaints = append(complaints, fmt.Sprintf("%s/: the package doc does not begin with %q", dir, first))
		case lines < docLines:
			complaints = append(complaints, fmt.Sprintf("%s/: the package doc has %d lines, want %d: what is it for, how is "+
				"it used, what may one not assume?", dir, lines, docLines))
		}
	}
	return complaints, nil
}

func TestPackagesExplainThemselves(t *testing.T) { passes(t, checkDocs) }

func TestMissingPackageDocsAreFound(t *testing.T) {
	finds(t, checkDocs, map[string]string{
		"good/a.go":           "package good\n",
		"good/doc.go":         "// Package good does\n// what it says\n// on the tin.\npackage good\n",
		"good/c_test.go":      "package good_test\n",
		"only/tests_test.go":  "// Package only is\n// for\n// tests.\npackage only_test\n",
		"cmd/good/main.go":    "// Command good has\n// three\n// lines.\npackage main\n",
		"none/a.go":           "// A detached comment\n// of three\n// lines.\n\npackage none\n",
		"short/a.go":          "// Package short is short.\npackage short\n",
		"wrong/a.go":          "// Package right\n// has another\n// name.\npackage wrong\n",
		"cmd/wrong/main.go":   "// Package main\n// is no way\n// to begin.\npackage main\n",
		"good/testdata/no.go": "package no\n",
	}, "none/ has no package doc", "short/: the package doc has 1 lines", "wrong/: the package doc does not begin with \"Package wrong",
		"cmd/wrong/: the package doc does not begin with \"Command wrong")
}
