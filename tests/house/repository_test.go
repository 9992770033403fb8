package house

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// module is our import path.
const module = "github.com/execbus/execbus"

// repositoryRoot is the directory of go.mod.
func repositoryRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the working directory: run this in the repository")
		}
		dir = filepath.Dir(dir)
	}
}

// passes runs a check on the repository.
func passes(t *testing.T, check func(fs.FS) ([]string, error)) {
	t.Helper()
	complaints, err := check(os.DirFS(repositoryRoot(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, complaint := range complaints {
		t.Error(complaint)
	}
}

// finds runs a check on a sample. There must be one complaint for each element of want, and it must contain that text.
func finds(t *testing.T, check func(fs.FS) ([]string, error), sample map[string]string, want ...string) {
	t.Helper()
	files := fstest.MapFS{}
	for name, text := range sample {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	complaints, err := check(files)
	if err != nil {
		t.Fatal(err)
	}
	if len(complaints) != len(want) {
		t.Errorf("%d complaints, want %d", len(complaints), len(want))
	}
	for _, part := range want {
		if !slices.ContainsFunc(complaints, func(c string) bool { return strings.Contains(c, part) }) {
			t.Errorf("no complaint says %q", part)
		}
	}
	if t.Failed() {
		t.Logf("complaints:\n%s", strings.Join(complaints, "\n"))
	}
}

// textFile is a file of the repository that people write.
type textFile struct {
	name string // slash-separated, from the root
	text string
}

// published is a directory with files of others, as they publish them.
const published = "examples/webterm/xterm"

// textFiles reads all text files but test data. Of the hidden files only those in .ci and the dot files of the root are
// ours. A file with a NUL byte is a binary that somebody built.
func textFiles(repository fs.FS) ([]textFile, error) {
	var files []textFile
	err := fs.WalkDir(repository, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() {
			if base == "testdata" || name == published || strings.HasPrefix(base, ".") && name != "." && name != ".ci" {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || base == "go.sum" {
			return nil
		}
		text, err := fs.ReadFile(repository, name)
		if err == nil && bytes.IndexByte(text, 0) < 0 {
			files = append(files, textFile{name, string(text)})
		}
		return err
	})
	return files, err
}

// goFile is a parsed file, whatever its build constraints say.
type goFile struct {
	textFile
	set    *token.FileSet
	syntax *ast.File
}

func goFiles(repository fs.FS) ([]goFile, error) {
	files, err := textFiles(repository)
	if err != nil {
		return nil, err
	}
	var parsed []goFile
	for _, file := range files {
		if path.Ext(file.name) != ".go" {
			continue
		}
		set := token.NewFileSet()
		syntax, err := parser.ParseFile(set, file.name, file.text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, goFile{file, set, syntax})
	}
	return parsed, nil
}

func (f goFile) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

// dir is the package's directory, "." for the root.
func (f goFile) dir() string { return path.Dir(f.name) }

// at names a place for complaints.
func (f goFile) at(pos token.Pos) string { return f.set.Position(pos).String() }

// imports returns the paths that this file imports.
func (f goFile) imports() []string {
	var paths []string
	for _, spec := range f.syntax.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, "`\""))
	}
	return paths
}

// within reports whether dir is parent or lies below it.
func within(dir, parent string) bool { return dir == parent || strings.HasPrefix(dir, parent+"/") }

func TestTextFilesAreFound(t *testing.T) {
	files, err := textFiles(os.DirFS(repositoryRoot(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", ".ci/run", ".gitignore", "go.mod", "doc.go", "tests/house/doc.go"} {
		if !slices.ContainsFunc(files, func(f textFile) bool { return f.name == name }) {
			t.Errorf("%s was not looked at", name)
		}
	}
}
