package bounded

import (
	"fmt"
	"strings"
	"testing"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// programs use everything that is guarded. Each calls say with its results.
var programs = []string{
	`say(1 + 2, 2 - 5, 3 * 4, 7 // 2, 7 % 4, -7 // 2, 7 / 2, 1 << 9, 512 >> 3, 6 & 3, 6 | 3, 6 ^ 3, ~5, -5, +5)`,
	`say("a" + "b", "ab" * 3, 3 * "ab", -1 * "ab", [1] * 3, 0 * [1], (1, 2) * 2, [1] + [2], (1,) + (2,))`,
	`say("%s-%d-%r-%%" % ("a", 3, "b"), "%s" % "x", "%(a)s%(b)s" % {"a": 1, "b": [2]}, "{}{}{x}{{}}".format(1, "a", x = "b"))`,
	`say(1 == 1.0, 1 != 2, 1 < 2, "a" >= "b", [1, 2] <= [1, 3], (1, [2]) == (1, [2]), {"a": 1} == {"a": 1}, 1 == "1")`,
	`say(1 in [1], "a" in "bab", "x" not in {"y": 1}, 3 in range(5), 9 in range(5), 1 in (2,), 1 in set([1]))`,
	`say(True and 3, 0 and fail("x"), 0 or 4, 5 or fail("x"), not 0, 1 if 0 else 2)`,
	"x = [1]\ny = x\nx += [2]\nx += (3,)\nx += range(2)\nsay(x, y)",
	"x = [1]\ny = x\nx = x + [2]\nsay(x, y)",
	"x = {'a': 1}\ny = x\nx |= {'b': 2}\nsay(x, y)\nz = x | {'c': 3}\nsay(x, z)",
	"x = set([1])\ny = x\nx |= set([2])\nsay(x, y)\nx -= set([1])\nx &= set([2, 3])\nx ^= set([5])\nsay(x, y)",
	"x = 5\nx += 2\nx -= 1\nx *= 3\nx //= 2\nx %= 5\nx <<= 3\nx >>= 1\nx |= 64\nx &= 127\nx ^= 1\nsay(x)\nx /= 4\nsay(x)\ns = 'a'\ns += 'b'\ns *= 2\ns %= ()\nsay(s)",
	"def f(a, b = [1], *args, c, d = 4, **kwargs):\n  return [a, b, args, c, d, kwargs]\nsay(f(1, c = 2), f(1, 2, 3, 4, c = 5, d = 6, e = 7))",
	"def f(*args, **kwargs):\n  return (args, kwargs)\nsay(f(*[1, 2], **{'a': 3}), f(*range(3)), f(*(), x = 1))",
	"def outer(n):\n  def inner(m):\n    return n + m\n  return inner\nsay(outer(2)(3), (lambda x, y = 2: x * y)(4))",
	"x = [i * j for i in range(4) if i % 2 for j in (1, 2)]\ny = {k: v for k, v in [('a', 1), ('b', 2)]}\nsay(x, y)",
	"a, (b, c), [d] = 1, (2, [3]), [4]\nx = [0, 0]\nx[1], y = 5, 6\nx[0] = x[1] + 1\nd2 = {}\nd2[(1, 'a')] = x\nsay(a, b, c, d, x, y, d2)",
	"s = 'hello, world'\nsay(s[1], s[1:4], s[::-1], s[-3:], s.split(', '), s.upper(), s.replace('o', '0'), s.find('w'), '-'.join(['a', 'b']))",
	"x = [3, 1, 2]\nx.append(4)\nx.insert(0, 9)\nx.remove(1)\ny = x.pop()\nx.extend([7])\nsay(x, y, sorted(x), reversed(x), max(x), min(3, 1), x.index(2), len(x), x[1:3])",
	"d = {'a': 1}\nd.update(b = 2)\nd.setdefault('c', 3)\nsay(d.get('a'), d.get('z', 0), d.keys(), d.values(), d.items(), d.pop('a'), d, len(d))",
	"for i in range(10):\n  if i == 2:\n    continue\n  elif i == 5:\n    break\n  else:\n    pass\n  say(i)\nfor k in {'x': 1}:\n  say(k)",
	`say(str(1), repr("a"), int("12"), int("ff", 16), float("1.5"), bool([]), type({}), any([0, 1]), all([0, 1]), list((1,)), tuple([1]))`,
	`say(zip([1, 2], "ab".split("a")), enumerate(["a"], 3), dict([("a", 1)], b = 2), set([1, 1]), abs(-3), chr(65), ord("A"))`,
	"f = '-'.join\nsay(f(['a', 'b']), 'x'.startswith('x'), 'a-b-c'.rsplit('-', 1), ' a '.strip(), 'ab'.partition('b'))",
	"def f():\n  return\nsay(f(), None, print('x'))",
	`say("a" + 1)`, `say([][0])`, `say({}["x"])`, `say(1 // 0)`, `say(nothing)`, `say("a".nothing)`, `fail("x", 1)`, "x = 1\nx()", "say([1] < 2)",
	"def f(a):\n  return a\nf()", "def f():\n  x += 1\n  return x\nx = 1\nf()", "a, b = 1, 2, 3", "x = (1, 2)\nx[0] = 3", "say(*3)", "say(-'a')",
	`say("%d" % "x")`, `say("{}".format())`, "for x in 3:\n  pass", "d = {[]: 1}", "d = {}\nd[{}] = 1", "for i in range(3):\n  say(i)\n  i += 2\n",
}

// TestGuardedStarlarkIsStarlark compares the results of the programs with and without our guards.
func TestGuardedStarlarkIsStarlark(t *testing.T) {
	for _, source := range programs {
		plain, plainErr := runPlain(source)
		ours, oursErr := runGuarded(source)
		if plain != ours || (plainErr == nil) != (oursErr == nil) {
			t.Errorf("%s\nwith guards %s, %v\nwithout     %s, %v", source, ours, oursErr, plain, plainErr)
		}
	}
}

func saying(said *strings.Builder) *starlark.Builtin {
	return starlark.NewBuiltin("say", func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple,
	) (starlark.Value, error) {
		fmt.Fprintln(said, args.String())
		return starlark.None, nil
	})
}

func runPlain(source string) (string, error) {
	var said strings.Builder
	options := &syntax.FileOptions{Set: true, TopLevelControl: true, GlobalReassign: true}
	_, err := starlark.ExecFileOptions(options, quiet(), "plain", source, starlark.StringDict{"say": saying(&said)})
	return said.String(), err
}

func runGuarded(source string) (string, error) {
	var said strings.Builder
	err := New("guarded").Run([]byte(source), starlark.StringDict{"say": saying(&said)})
	return said.String(), err
}

func quiet() *starlark.Thread { return &starlark.Thread{Print: func(*starlark.Thread, string) {}} }

// All keys here have one hash, so each costs a comparison with all others.
func TestKeysThatCollideAreFew(t *testing.T) {
	for _, c := range []struct {
		loop string
		most int
	}{
		{"for i in range(4000):\n  s.add((" + strings.Repeat("0,", 64) + "i << 32))\n  say()\n", 100},
		{"for i in range(4000):\n  d[(" + strings.Repeat("0,", 64) + "i << 32)] = 1\n  say()\n", 100},
		{"for i in range(1500):\n  s.add(i << 32)\nfor i in range(100):\n  s | s\n  say()\n", 2},
		{"for i in range(1500):\n  d[i << 32] = i\nfor i in range(100):\n  d == d\n  say()\n", 2},
	} {
		said, err := runGuarded("s = set()\nd = {}\n" + c.loop)
		if n := strings.Count(said, "\n"); n > c.most || err == nil {
			t.Errorf("%q did %d, want at most %d; %v", c.loop[:40], n, c.most, err)
		}
	}
}

// FuzzFormats compares where we see f-strings with where Starlark sees literals.
func FuzzFormats(f *testing.F) {
	for _, source := range append(programs, "'''a\n\"'''\n", "r'\\'' # f'\n'f\"'", "\r\n'a'\r'b'\n\"\\\n\" 'é' b'x' rb\"y\"",
		"x = f'' if 0 else rf'f\"\\'' # f'", "f\"\"\"f''\n\\\"\"\"\"; fr'''f''\"'''", "[b'', rb'', f'', f'', f'''\n''', 'f']") {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		text, formats, err := readText("a", []byte(source))
		if err != nil {
			return
		}
		options := &syntax.FileOptions{}
		tree, err := options.Parse("a", text, 0)
		if err != nil {
			return
		}
		syntax.Walk(tree, func(n syntax.Node) bool {
			if literal, ok := n.(*syntax.Literal); ok && literal.Token == syntax.BYTES {
				formats--
			}
			return true
		})
		if formats != 0 {
			t.Errorf("%d literals of %q are no f-strings for Starlark", formats, text)
		}
	})
}
