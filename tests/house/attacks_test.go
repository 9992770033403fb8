package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// attacksOnHosts is how many ways out there are for a command that may talk to named hosts. A name or a comment of a test says which one
// it tries.
const attacksOnHosts = 68

// inTLS is what nobody sees, and so no test can try. The threat model says it.
const inTLS = 48

// Each of the attacks on named hosts is tried. The test prints which, and where: go test -v -run TheAttacks ./tests/house
func TestTheAttacksOnNamedHostsAreAllThere(t *testing.T) {
	type trial struct{ what, where string }
	trials := map[int][]trial{}
	numbered, commented := regexp.MustCompile(`^([0-9]{1,2}) (.*)`), regexp.MustCompile(`^Attack ([0-9]{1,2})[:,] ([^.]*)`)
	files, err := filepath.Glob("../../network/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range append(files, "../../tests/attack/hosts_test.go") {
		positions := token.NewFileSet()
		tree, err := parser.ParseFile(positions, file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		note := func(found []string, at token.Pos) {
			if found == nil {
				return
			}
			number, _ := strconv.Atoi(found[1])
			place := positions.Position(at)
			trials[number] = append(trials[number], trial{strings.TrimSpace(found[2]), fmt.Sprintf("%s:%d", strings.TrimPrefix(place.Filename, "../../"), place.Line)})
		}
		for _, declaration := range tree.Decls {
			function, is := declaration.(*ast.FuncDecl)
			if !is {
				continue
			}
			if strings.HasPrefix(function.Name.Name, "Test") {
				note(commented.FindStringSubmatch(strings.ReplaceAll(function.Doc.Text(), "\n", " ")), function.Pos())
			}
			if name := function.Name.Name; name != "attacks" && name != "namedHosts" { // the tables
				continue
			}
			ast.Inspect(function.Body, func(n ast.Node) bool {
				if literal, is := n.(*ast.BasicLit); is && literal.Kind == token.STRING {
					if text, err := strconv.Unquote(literal.Value); err == nil {
						note(numbered.FindStringSubmatch(text), literal.Pos())
					}
				}
				return true
			})
		}
	}
	threats, err := os.ReadFile("../../THREATS.md")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(threats), "other names under one certificate") {
		trials[inTLS] = append(trials[inTLS], trial{"another host inside of TLS: nobody sees it", "THREATS.md"})
	}
	for number := range trials {
		if number < 1 || number > attacksOnHosts {
			t.Errorf("there is no attack %d: %v", number, trials[number])
		}
	}
	for number := 1; number <= attacksOnHosts; number++ {
		if len(trials[number]) == 0 {
			t.Errorf("nothing tries attack %d", number)
		}
		slices.SortFunc(trials[number], func(a, b trial) int { return strings.Compare(a.where, b.where) })
		for _, one := range trials[number] {
			t.Logf("%2d  %-60s  %s", number, one.what, one.where)
		}
	}
}
