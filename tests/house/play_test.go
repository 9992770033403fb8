package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"testing"
)

// The root's examples run as they stand on a documentation page: each is a whole program together with the parts of its file
// that it uses.
func TestExamplesAreWholePrograms(t *testing.T) {
	root := repositoryRoot(t)
	files, err := goFiles(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	var tests []*ast.File
	set := token.NewFileSet()
	for _, file := range files {
		if file.dir() == "." && file.isTest() && bytes.Contains([]byte(file.text), []byte("\nfunc Example")) {
			syntax, err := parser.ParseFile(set, file.name, file.text, parser.ParseComments) // with objects, for package doc
			if err != nil {
				t.Fatal(err)
			}
			tests = append(tests, syntax)
		}
	}
	examples := doc.Examples(tests...)
	if len(examples) < 20 {
		t.Errorf("only %d examples were found", len(examples))
	}
	dir, err := os.MkdirTemp(root, "play-") // below go.mod; removed at the end
	if err != nil {
		t.Skip("the checkout cannot be written to: ", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for i, example := range examples {
		if example.Play == nil {
			t.Errorf("Example%s is no whole program: it uses something of another file", example.Name)
			continue
		}
		var program bytes.Buffer
		if err := format.Node(&program, set, example.Play); err != nil {
			t.Fatal(err)
		}
		place := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(place, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(place, "main.go"), program.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if output, err := goTool(t, "vet", "./"+filepath.Base(dir)+"/...").CombinedOutput(); err != nil {
		t.Errorf("they do not compile: %v\n%s", err, output)
	}
}
