package rules

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules/internal/bounded"
)

func parse(t *testing.T, source string) *Set {
	t.Helper()
	rules, err := Parse("test.rules", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// attacks are files that would cost a naive evaluation much time or memory.
var attacks = map[string]string{
	"a long list":              `x = [0] * (1 << 28)`,
	"a very long list":         `x = [0] * 1000000000`,
	"a long string":            `x = "x" * (1 << 29)`,
	"a longer string":          `x = "x" * (1 << 40)`,
	"the longest string":       `x = (1 << 400) * "x"`,
	"doubling":                 "x = 'ab'\nfor i in range(40):\n  x += x\n",
	"doubling a list":          "x = [1]\nfor i in range(40):\n  x += x\n",
	"doubling with +":          "x = [1]\nfor i in range(40):\n  x = x + x\n",
	"extending":                "x = [1]\nfor i in range(40):\n  x.extend(x)\n",
	"an endless loop":          "for i in range(1 << 40):\n  pass\n",
	"nested loops":             "r = range(100000)\nfor i in r:\n  for j in r:\n    pass\n",
	"nested comprehension":     "r = range(50000)\nx = [0 for i in r for j in r]",
	"many dicts":               "x = [[" + strings.Repeat("{},", 100) + "] for i in range(20000)]",
	"unpacked list":            "def f(*a):\n  pass\nx = [0] * 50000\nfor i in range(20000):\n  f(*x)\n",
	"unpacked small list":      "def f(*a):\n  pass\nx = [0] * 5000\nfor i in range(50000):\n  f(*x)\n",
	"a comprehension":          `x = [i for i in range(1 << 40)]`,
	"comprehended strings":     `x = ["x" * 60000 + str(i) for i in range(100000)]`,
	"comprehended dicts":       `x = [{} for i in range(1 << 40)]`,
	"comprehended lists":       `x = [[i, i, i, i] for i in range(1 << 40)]`,
	"comprehended functions":   `x = [lambda: i for i in range(1 << 40)]`,
	"a set":                    `x = set(range(1 << 40))`,
	"a dict":                   `x = {i: [] for i in range(1 << 40)}`,
	"list of range":            `x = list(range(1 << 40))`,
	"sorted range":             `x = sorted(range(1 << 30))`,
	"max of range":             `x = max(range(1 << 50))`,
	"any of range":             `x = any(range(0, -(1 << 50), -1))`,
	"unpacked range":           `print(*range(1 << 40))`,
	"big numbers":              "x = 3\nfor i in range(60):\n  x = x * x\n",
	"a shift":                  "x = 1\nfor i in range(10000):\n  x = x << 500\n",
	"a long literal":           `x = ` + strings.Repeat("9", 200_000),
	"a long hex literal":       `x = 0x` + strings.Repeat("f", 200_000),
	"a long number":            `x = int("9" * 4000000)`,
	"a long number in text":    `x = int("` + strings.Repeat("9", 250_000) + `")`,
	"a long number by name":    `x = int(x = "` + strings.Repeat("9", 250_000) + `")`,
	"joining":                  `x = ("x" * 10000).join(["y"] * 10000)`,
	"joining doubled":          "x = ['xxxxxxxxxx']\nfor i in range(20):\n  x = ['-'.join(x + x)]\nfor i in range(9):\n  x = ['-'.join(x * 100)]\n",
	"replacing":                `x = ("x" * 10000).replace("", "y" * 10000)`,
	"formatting":               `x = ("{0}" * 10000).format("y" * 10000)`,
	"percent":                  `x = ("%(a)s" * 10000) % {"a": "y" * 10000}`,
	"percent in place":         "x = '%(a)s' * 10000\nx %= {'a': 'y' * 10000}\n",
	"repeating in place":       "x = [0]\nx *= 1 << 28\n",
	"repeating in place twice": "x = 1 << 28\nx *= 'x'\n",
	"many new dicts":           "x = [dict() for i in range(1 << 40)]",
	"many new sets":            "x = [set() for i in range(1 << 40)]",
	"many names of methods":    "x = [dir('') for i in range(1 << 40)]",
	"many unions":              "x = {}\nfor i in range(100000):\n  x |= {i << 32: i}\nfail()",
	"a value of a dict":        "x = {1: 'x' * 100000}\ny = [str(x) for i in range(100000)]",
	"lookups in a long list":   "x = list(range(10000))\ny = [1 for i in range(100000) if -1 in x]\nfail()",
	"a negated literal":        "x = " + strings.Repeat("9", 200) + "\ny = [-x for i in range(100000)]\nfail()",
	"a shared tree":            "x = [0]\nfor i in range(60):\n  x = [x, x]\ny = str(x)\n",
	"a shared tree compared":   "x = [0]\ny = [0]\nfor i in range(9):\n  x = [x] * 1000\n  y = [y] * 1000\nz = x == y\n",
	"a shared tree hashed":     "x = (0,)\nfor i in range(60):\n  x = (x, x)\ny = {x: 1}\n",
	"a shared tree as key":     "x = (0,)\nfor i in range(60):\n  x = (x, x)\ny = {}\ny[x] = 1\n",
	"a shared tree looked up":  "x = (0,)\nfor i in range(60):\n  x = (x, x)\ny = {1: 1}[x]\n",
	"a list in itself":         "x = []\nx.append(x)\ny = str(x) + str(x == x)\nx += x\nfail(x)\n",
	"recursion":                "def f(n):\n  return f(n + 1)\nf(0)\n",
	"recursion by value":       "def f(g):\n  return g(g)\nf(f)\n",
	"a chain of functions":     chain(5000),
	"big frames":               "def f():\n  if False:\n    x = [" + strings.Repeat("0,", 100_000) + "]\nfor i in range(100000):\n  f()\n",
	"nesting":                  "x = " + strings.Repeat("[", 100_000),
	"closed nesting":           "x = " + strings.Repeat("[", 900) + strings.Repeat("]", 900),
	"a chain of sums":          "x = 0" + strings.Repeat("+0", 100_000),
	"a chain of calls":         "x = f" + strings.Repeat("()", 100_000),
	"a chain of indices":       "x = []" + strings.Repeat("[0]", 80_000),
	"a chain of dots":          "x = []" + strings.Repeat(".a", 100_000),
	"a chain of nots":          "x = " + strings.Repeat("not ", 60_000) + "1",
	"a chain of minuses":       "x = " + strings.Repeat("-", 200_000) + "1",
	"a chain of ifs":           "x = 0" + strings.Repeat(" if 1 else 0", 20_000),
	"a chain of elifs":         "if 0:\n  pass\n" + strings.Repeat("elif 0:\n  pass\n", 15_000),
	"a chain of ors":           "x = 0" + strings.Repeat(" or 0", 40_000),
	"a chain of lambdas":       "x = " + strings.Repeat("lambda:", 30_000) + "0",
	"a big list":               "x = [" + strings.Repeat("0,", 130_000) + "]\nfail()",
	"many statements":          strings.Repeat("a=0\n", 65_000) + "fail()",
	"many short statements":    strings.Repeat("0\n", 130_000) + "fail()",
	"many names":               many(20_000),
	"many strings":             strings.Repeat("''\n", 85_000) + "fail()",
	"many f-strings":           strings.Repeat(" (f'')\n", 37_000)[1:] + "fail()",
	"many rules":               "for i in range(100000):\n  prefix_rule(pattern=[str(i)])\n",
	"many alternatives":        "x = [str(i) for i in range(5000)]\nfor i in range(1000):\n  prefix_rule(pattern=[x, x])\n",
	"many examples": "x = [str(i) for i in range(3000)]\nprefix_rule(pattern=[x])\nfor i in range(1000):\n" +
		"  prefix_rule(pattern=[x], match=x)\n",
	"many opposite examples":  "x = [str(i) for i in range(10000, 22000)]\nprefix_rule(['a', x], not_match = ['a zzzzz'] * 40000)",
	"a while":                 "while True:\n  pass\n",
	"load":                    `load("x.rules", "x")`,
	"sorted with key":         "def f(x):\n  return x\nx = sorted(range(10), key=f)\n",
	"elems":                   `x = list(("x" * 100000).elems())`,
	"split":                   `x = [(("," * 100000).split(",")) for i in range(1000)]`,
	"a big split":             "s = '" + strings.Repeat(",", 250_000) + "'\ns = s * 10\nx = s.split(',')\nx = s.split(',')\n",
	"a big repr":              "s = '" + strings.Repeat("\\0", 80_000) + "'\ns = s * 20\nx = repr(s)\nx = repr(x)\nx = repr(x)",
	"many reprs":              "s = '" + strings.Repeat("\x7f", 250_000) + "'\nx = [repr(s) for i in range(1000)]",
	"many texts of a list":    "s = ['" + strings.Repeat("\x7f", 250_000) + "']\nx = [str(s) for i in range(1000)]",
	"printed lists":           "s = ['" + strings.Repeat("\x7f", 250_000) + "']\nx = [print(s) for i in range(1000)]",
	"formatted reprs":         "s = '" + strings.Repeat("\x7f", 250_000) + "'\nx = ['{!r}'.format(s) for i in range(1000)]",
	"f-strings with reprs":    "s = '" + strings.Repeat("\x7f", 250_000) + "'\nx = [f'{s!r}' for i in range(1000)]",
	"reprs by percent":        "s = ['" + strings.Repeat("\x7f", 250_000) + "']\nx = ['%s' % s for i in range(1000)]",
	"reprs in place":          "s = ['" + strings.Repeat("\x7f", 250_000) + "']\nx = []\nfor i in range(1000):\n  y = '%s'\n  y %= s\n  x += [y]\n",
	"joining by print":        "print(sep='" + strings.Repeat("x", 100_000) + "', *['a'] * 1000)\nfail()",
	"joining by fail":         "fail(sep='" + strings.Repeat("x", 100_000) + "', *['a'] * 1000)",
	"finding":                 "x = '" + strings.Repeat("b", 120_000) + "'.find('" + strings.Repeat("b", 60_000) + "c')",
	"finding with in":         "x = '" + strings.Repeat("b", 60_000) + "c' in '" + strings.Repeat("b", 120_000) + "'",
	"finding bytes":           "x = bytes('" + strings.Repeat("b", 60_000) + "c') in bytes('" + strings.Repeat("b", 120_000) + "')",
	"stripping":               "x = '" + strings.Repeat("a", 120_000) + "'.strip('" + strings.Repeat("b", 120_000) + "éa')",
	"many parameters":         manyParameters(15_000),
	"many keywords":           "def f(**more):\n  pass\nd = {str(i): i for i in range(20000)}\nfor i in range(50000):\n  f(**d)\n",
	"colliding keys":          "x = {}\nfor i in range(100000):\n  x[i << 32] = i\nfail()",
	"comprehended collisions": "x = {i << 32: i for i in range(100000)}\nfail()",
	"a colliding set":         "x = [i << 32 for i in range(100000)]\ny = set(x)\nfail()",
	"colliding get":           "x = {}\nfor i in range(100000):\n  x.setdefault(i << 32)\nfail()",
	"many braces":             "a = 1\nb = f'" + strings.Repeat("{a}", 80000) + "'\n",
	"strings left open":       strings.Repeat("\\\"\"\"\n", 50000),
	"colliding tuples":        "x = {}\nfor i in range(100000):\n  x[(i << 32,)] = i\nfail()",
	"slices":                  "x = [0] * 50000\nfor i in range(50000):\n  y = x[1:]\n",
	"pop":                     "x = [0] * 50000\nfor i in range(50000):\n  x.insert(0, 1)\n",
	"too big":                 "#" + strings.Repeat("x", bounded.MaxSource),
	"failing with lot":        `fail("x" * 1000000)`,
}

func chain(n int) string {
	var b strings.Builder
	b.WriteString("def f0():\n  return 1\n")
	for i := range n {
		fmt.Fprintf(&b, "def f%d():\n  return f%d()\n", i+1, i)
	}
	fmt.Fprintf(&b, "f%d()\n", n)
	return b.String()
}

func manyParameters(n int) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint("a", i))
	}
	return "def f(" + strings.Join(names, ", ") + "):\n  pass\nd = {'a' + str(i): i for i in range(" + fmt.Sprint(n) + ")}\n" +
		"for i in range(50000):\n  f(**d)\n"
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d=0\n", i)
	}
	return b.String() + "fail()\n"
}

// TestABadFileIsCheap counts the memory that a file makes. The steps and the work of a file are counted by package bounded.
func TestABadFileIsCheap(t *testing.T) {
	for name, source := range attacks {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Parse("bad.rules", []byte(source))
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Error("no error")
			} else if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 64 {
				t.Errorf("it took %d MiB", made)
			}
			t.Logf("%d KiB: %v", (after.TotalAlloc-before.TotalAlloc)>>10, err)
		})
	}
}

// FuzzParse wants no panic, an error that names the file, and matching that can be done.
func FuzzParse(f *testing.F) {
	for _, source := range attacks {
		if len(source) < 1000 {
			f.Add(source)
		}
	}
	for _, source := range []string{
		`prefix_rule(pattern=["git", ["push", "pull"]], decision="prompt", match=["git push"], not_match=[["git"]], justification="x")`,
		`network_rule(host="[::1]:80", protocol="https", decision="deny")`, `host_executable(name="git", paths=["/usr/bin/git"])`,
		"x = 1\ny = f'{x!r}{{}}'\nz = rf'''\\{x}\n'''\nprefix_rule([y, z])", "def f(*a, **k):\n  prefix_rule(*a, **k)\nf(['a'], decision='allow')",
	} {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		rules, err := Parse("fuzz.rules", []byte(source))
		if err != nil {
			var e *messages.Error
			if !errors.As(err, &e) || !strings.HasPrefix(e.Subject, "fuzz.rules") || len(e.Detail) > maxDetail+3 {
				t.Errorf("%#v", err)
			}
			return
		}
		for first, list := range rules.byFirst {
			command := []string{first}
			for _, words := range list[0].rest {
				command = append(command, words[0])
			}
			matches := rules.Match(command)
			if len(matches) == 0 || list[0].place == "" {
				t.Errorf("a rule does not match its own pattern, %q", command)
			}
			rules.Match(append([]string{filepath.Join("/usr/bin", first)}, command[1:]...))
		}
	})
}

// What is added to or looked up in a long list or a big dict costs no reading of all of it.
func TestLongListsAndBigDictsAreUsable(t *testing.T) {
	for _, source := range []string{
		"x = []\nfor i in range(2000):\n  x.append('a')\nprefix_rule([x[1999]])",
		"x = []\nfor i in range(2000):\n  x += ['a']\nprefix_rule([x[1999]])",
		"d = {str(i): 'a' for i in range(300)}\nx = [1 for i in range(600) if str(i) in d]\nprefix_rule([d[str(len(x) - 1)]])",
		"d = {str(i): 'a' for i in range(300)}\nx = [d.get(str(i)) for i in range(600)]\nprefix_rule([x[299]])",
		"d = {}\nfor i in range(100):\n  d |= {str(i): 'a'}\nprefix_rule([d['99']])",
		"s = set()\nfor i in range(600):\n  s.add(i)\nprefix_rule(['a' if len(s) == 600 and 5 in s else 'b'])",
		"x = ['a'] * 2000\ny = [i for i in range(2000) if x and bool(x) and type(x) == 'list' and i < len(x)]\nprefix_rule([x[y[1999]]])",
	} {
		if got := said(parse(t, source), "a"); got != "allow a" {
			t.Errorf("%s\n%q", source, got)
		}
	}
}

func TestALargeFileOfEverydayRules(t *testing.T) {
	var source strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&source, "prefix_rule(pattern=[\"program%d\", \"sub command\"], decision=\"allow\")\n", i)
	}
	path := filepath.Join(t.TempDir(), "default.rules")
	if err := os.WriteFile(path, []byte(source.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	rules, failures := Load([]Layer{{Files: []string{path}, Trusted: true}})
	if len(failures) > 0 || said(rules, "program1999", "sub command") != "allow program1999 sub command" {
		t.Error(failures)
	}
}
