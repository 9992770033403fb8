package rules

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules/internal/bounded"
	"golang.org/x/sys/unix"
)

// files makes a directory with files.
func files(t *testing.T, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range contents {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoad(t *testing.T) {
	low := files(t, map[string]string{
		"b.rules":   "prefix_rule(['a', 'b'])\nhost_executable('a', ['/low/a'])",
		"a.rules":   "prefix_rule(['a'], decision='prompt')",
		"c.txt":     "prefix_rule(['a'], decision='forbidden')",
		"rules":     "nonsense!",
		"d.rules.x": "nonsense!",
	})
	high := files(t, map[string]string{"x.rules": "prefix_rule(['a', ['b', 'c']])\nhost_executable('a', ['/high/a'])"})
	single := filepath.Join(files(t, map[string]string{"mine": "prefix_rule(['a', 'b', 'c'])"}), "mine")
	missing := filepath.Join(t.TempDir(), "nothing")
	for _, test := range []struct {
		name, command, want string
		layers              []Layer
	}{
		{"none", "a", "", nil},
		{"a missing directory", "a", "", []Layer{{Dir: missing, Trusted: true}}},
		{"one directory", "a b", "prompt a; allow a b", []Layer{{Dir: low, Trusted: true}}},
		{"two", "a b", "prompt a; allow a b; allow a b", []Layer{{Dir: low, Trusted: true}, {Dir: high, Trusted: true}}},
		{"two, the other way round", "a b", "allow a b; prompt a; allow a b",
			[]Layer{{Dir: high, Trusted: true}, {Dir: low, Trusted: true}}},
		{"two, one trusted", "a b", "prompt a; allow a b", []Layer{{Dir: low, Trusted: true}, {Dir: high}}},
		{"two, none trusted", "a b", "", []Layer{{Dir: low}, {Dir: high, Files: []string{single}}}},
		{"a file", "a b c", "allow a b c", []Layer{{Files: []string{single}, Trusted: true}}},
		{"both", "a b c", "prompt a; allow a b; allow a b c", []Layer{{Dir: low, Files: []string{single}, Trusted: true}}},
		{"the list of the later", "/high/a b", "prompt a (/high/a); allow a b (/high/a); allow a b (/high/a)",
			[]Layer{{Dir: low, Trusted: true}, {Dir: high, Trusted: true}}},
		{"not that of the earlier", "/low/a b", "prompt a (/low/a)", []Layer{{Dir: low, Trusted: true}, {Dir: high, Trusted: true}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			rules, failures := Load(test.layers)
			if len(failures) > 0 {
				t.Fatal(failures)
			}
			if got := said(rules, strings.Fields(test.command)...); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestABadFileDisablesOnlyItself puts every kind of bad file among good ones.
func TestABadFileDisablesOnlyItself(t *testing.T) {
	dir := files(t, map[string]string{
		"a.rules": "prefix_rule(['rm'], decision='forbidden')",
		"b.rules": "prefix_rule(['rm'])\nprefix_rule(['ls'])\nhost_executable('rm', ['/bin/rm'])\nprefix_rule(['x'], decision='maybe')",
		"c.rules": strings.Repeat("#", bounded.MaxSource+1),
		"d.rules": "for i in range(1 << 60):\n  pass",
		"e.rules": "x = 'x' * (1 << 29)",
		"f.rules": "\xff",
		"z.rules": "prefix_rule(['rm', 'x'], decision='prompt')\n",
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(filepath.Join(dir, "g.rules"), 0o700))
	must(unix.Mkfifo(filepath.Join(dir, "h.rules"), 0o600))
	must(os.Symlink(filepath.Join(dir, "nothing"), filepath.Join(dir, "i.rules")))
	must(os.Symlink("/dev/zero", filepath.Join(dir, "j.rules")))
	notADir := filepath.Join(dir, "a.rules")
	missing := filepath.Join(dir, "missing")

	rules, failures := Load([]Layer{{Dir: notADir, Trusted: true}, {Dir: dir, Files: []string{missing}, Trusted: true}})
	if got, want := said(rules, "rm", "x"), "forbidden rm; prompt rm x"; got != want {
		t.Errorf("rm x: %q, want %q", got, want)
	}
	if got := said(rules, "ls"); got != "" {
		t.Errorf("a file with an error said %q", got)
	}
	wants := []string{notADir + ": ", "b.rules:4:12: invalid decision", "c.rules: ", "d.rules:1:", "e.rules:1:", "f.rules:1:",
		"g.rules: ", "h.rules: not a regular file", "i.rules: ", "j.rules: not a regular file", missing + ": "}
	if len(failures) != len(wants) {
		t.Errorf("%d errors, want %d", len(failures), len(wants))
	}
	for i, want := range wants[:min(len(wants), len(failures))] {
		if !strings.Contains(failures[i].Error(), want) || !errors.Is(failures[i], messages.ErrInvalidRequest) {
			t.Errorf("%v, want %q", failures[i], want)
		}
	}
}

func TestAnUnreadableFileIsAnError(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	dir := files(t, map[string]string{"a.rules": "prefix_rule(['a'])", "b.rules": "prefix_rule(['b'])"})
	if err := os.Chmod(filepath.Join(dir, "a.rules"), 0); err != nil {
		t.Fatal(err)
	}
	rules, failures := Load([]Layer{{Dir: dir, Trusted: true}})
	if len(failures) != 1 || !strings.Contains(failures[0].Error(), "a.rules: open: permission denied") ||
		said(rules, "b") != "allow b" {
		t.Errorf("%v, b: %q", failures, said(rules, "b"))
	}
}

func TestTooManyFiles(t *testing.T) {
	contents := map[string]string{"a.rules": "prefix_rule(['rm'], decision='forbidden')"}
	for i := range maxFiles {
		contents["b"+strings.Repeat("x", i%50)+string(rune('a'+i/50))+".rules"] = "prefix_rule(['ls'])"
	}
	rules, failures := Load([]Layer{{Dir: files(t, contents), Trusted: true}})
	if len(failures) != 1 || !strings.Contains(failures[0].Error(), "more than 128 rule files") {
		t.Errorf("%v", failures)
	}
	if got := len(rules.Match([]string{"ls"})); got != maxFiles-1 || said(rules, "rm") != "forbidden rm" {
		t.Errorf("%d files count, want %d", got, maxFiles-1)
	}
}
