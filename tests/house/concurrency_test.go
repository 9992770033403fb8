package house

import (
	"fmt"
	"go/ast"
	"io/fs"
	"path"
	"slices"
	"testing"
)

// ban forbids names of a package in the non-test files of some rooms.
type ban struct {
	imported string
	names    []string // none: the whole package
	only     string   // the room it holds in; empty: all
	except   string   // a room it does not hold in
	why      string
}

const shareNothing = "actors share nothing; send a message"

var bans = []ban{
	{imported: "sync", names: []string{"Mutex", "RWMutex", "Locker", "Cond", "NewCond", "Map"}, only: "actors", why: shareNothing},
	{imported: "sync/atomic", only: "actors", why: shareNothing},
	{imported: "time", names: []string{"Sleep"}, except: "tests", why: "wait for what you wait for, with a bound"},
}

func (b ban) holds(dir string) bool {
	return (b.only == "" || within(dir, b.only)) && (b.except == "" || !within(dir, b.except))
}

func checkBans(repository fs.FS) ([]string, error) {
	files, err := goFiles(repository)
	if err != nil {
		return nil, err
	}
	var complaints []string
	for _, file := range files {
		for _, b := range bans {
			if !file.isTest() && b.holds(file.dir()) {
				complaints = append(complaints, b.uses(file)...)
			}
		}
	}
	return complaints, nil
}

// uses finds what the ban forbids in one file.
func (b ban) uses(file goFile) []string {
	var complaints []string
	complain := func(at ast.Node, what string) {
		complaints = append(complaints, fmt.Sprintf("%s: %s: %s", file.at(at.Pos()), what, b.why))
	}
	for _, spec := range file.syntax.Imports {
		if spec.Path.Value != `"`+b.imported+`"` {
			continue
		}
		local := path.Base(b.imported)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if b.names == nil || local == "." {
			complain(spec, "imports "+b.imported)
			continue
		}
		ast.Inspect(file.syntax, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok {
				if x, ok := selector.X.(*ast.Ident); ok && x.Name == local && slices.Contains(b.names, selector.Sel.Name) {
					complain(selector, b.imported+"."+selector.Sel.Name)
				}
			}
			return true
		})
	}
	return complaints
}

func TestActorsShareNothingAndNobodySleeps(t *testing.T) { passes(t, checkBans) }

func TestLocksAndSleepsAreFound(t *testing.T) {
	lock := "package p\nimport \"sync\"\ntype a struct { mu sync.Mutex }\n"
	sleep := "package p\nimport \"time\"\nfunc f() { time.Sleep(1); f := time.Sleep; f(time.Second) }\n"
	finds(t, checkBans, map[string]string{
		"actors/lock.go":       lock,
		"actors/lock_test.go":  lock,
		"bus/lock.go":          lock,
		"actors/renamed.go":    "package p\nimport s \"sync\"\nvar mu s.RWMutex\nvar once s.Once\n",
		"actors/dot.go":        "package p\nimport . \"sync\"\nvar mu Mutex\n",
		"actors/sub/atomic.go": "package p\nimport _ \"sync/atomic\"\n",
		"actors/fine.go":       "package p\nvar sync struct{ Mutex int }\nvar x = sync.Mutex\n",
		"ptyio/sleep.go":       sleep,
		"ptyio/sleep_test.go":  sleep,
		"tests/soak/sleep.go":  sleep,
	}, "actors/lock.go:3:20: sync.Mutex", "actors/renamed.go:3:8: sync.RWMutex", "actors/dot.go:2:8: imports sync",
		"actors/sub/atomic.go:2:8: imports sync/atomic", "ptyio/sleep.go:3:12: time.Sleep", "ptyio/sleep.go:3:32: time.Sleep")
}
