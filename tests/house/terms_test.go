package house

import (
	"fmt"
	"go/ast"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// images are words that once stood for a thing that the field has a term for. The term is behind the colon.
var images = map[string]string{
	"parcel": "envelope", "hands": "what it holds", "heir": "what comes next", "guest": "a start above the cap", "surroundings": "environment",
	"aftermath": "teardown", "sweep": "removal of what is stale", "outlet": "queue", "crier": "waker", "stretch": "extent", "brood": "children",
	"newborn": "child before exec", "slab": "launch block", "silence": "time without output", "parcels": "envelopes", "heirs": "what comes next",
	"guests": "starts above the cap", "sweeps": "removals", "outlets": "queues", "stretches": "extents", "broods": "children", "newborns": "children before exec",
	"slabs": "launch blocks",
}

var nameParts = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// checkTerms finds images in the names of files and in names that the code outside of tests declares.
func checkTerms(repository fs.FS) ([]string, error) {
	files, err := goFiles(repository)
	if err != nil {
		return nil, err
	}
	var complaints []string
	judge := func(at, name string) {
		for _, part := range nameParts.FindAllString(name, -1) {
			if term, found := images[strings.ToLower(part)]; found {
				complaints = append(complaints, fmt.Sprintf("%s: %q in %s is an image: say %s", at, part, name, term))
			}
		}
	}
	for _, file := range files {
		if file.isTest() {
			continue
		}
		judge(file.name, strings.TrimSuffix(path.Base(file.name), ".go"))
		ast.Inspect(file.syntax, func(node ast.Node) bool {
			var names []*ast.Ident
			switch n := node.(type) {
			case *ast.FuncDecl:
				names = []*ast.Ident{n.Name}
			case *ast.TypeSpec:
				names = []*ast.Ident{n.Name}
			case *ast.ValueSpec:
				names = n.Names
			case *ast.Field:
				names = n.Names
			}
			for _, name := range names {
				judge(file.at(name.Pos()), name.Name)
			}
			return true
		})
	}
	return slices.Compact(complaints), nil
}

func TestNamesAreTheFieldsTerms(t *testing.T) { passes(t, checkTerms) }

func TestImagesAreFound(t *testing.T) {
	finds(t, checkTerms, map[string]string{
		"a/parcel.go": "package a\n",
		"a/a.go":      "package a\n\ntype newbornChild struct{ heirs int }\n\nfunc handsOf(stretched, outlet int) {}\n",
		"a/a_test.go": "package a\n\nvar heir int\n",
	}, "a/a.go:3:6", "a/a.go:3:27", "a/a.go:5:6", "a/a.go:5:25", "a/parcel.go")
}
