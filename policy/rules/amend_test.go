package rules

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules/internal/bounded"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestAppend(t *testing.T) {
	const line = `prefix_rule(pattern=["git", "push"], decision="allow")` + "\n"
	for _, test := range []struct{ name, before, want string }{
		{"empty", "", line},
		{"another", "# mine\n", "# mine\n" + line},
		{"no newline at the end", "# mine", "# mine\n" + line},
		{"there already", line, line},
		{"there already, among others", "# a\n" + line + "# b", "# a\n" + line + "# b"},
		{"there already, at the end", "# a\n" + strings.TrimSpace(line), "# a\n" + strings.TrimSpace(line)},
		{"nearly there", "# " + line, "# " + line + line},
		{"nearly there, with a blank", strings.TrimSpace(line) + " \n", strings.TrimSpace(line) + " \n" + line},
		{"a block at the end", "for x in ['a']:\n  prefix_rule([x])", "for x in ['a']:\n  prefix_rule([x])\n" + line},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(files(t, map[string]string{"default.rules": test.before}), "default.rules")
			for range 2 {
				if err := Append(path, []string{"git", "push"}); err != nil {
					t.Fatal(err)
				}
				if got := read(t, path); got != test.want {
					t.Errorf("%q, want %q", got, test.want)
				}
			}
		})
	}
}

func TestAppendingMakesOneDirectory(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, "rules", "default.rules")
	if err := Append(path, []string{"a", "b c", `"d"`, "é\n", "<&>"}); err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, path), `prefix_rule(pattern=["a", "b c", "\"d\"", "é\n", "<&>"], decision="allow")`+"\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	rules, failures := Load([]Layer{{Dir: filepath.Dir(path), Trusted: true}})
	if len(failures) > 0 || len(rules.Match([]string{"a", "b c", `"d"`, "é\n", "<&>", "more"})) != 1 {
		t.Errorf("it does not allow the prefix: %v", failures)
	}
	for _, path := range []string{path, filepath.Dir(path)} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %v", path, info.Mode())
		}
	}
	deep := filepath.Join(home, "a", "b", "default.rules")
	if err := Append(deep, []string{"a"}); err == nil || !strings.Contains(err.Error(), deep) {
		t.Errorf("two levels: %v", err)
	}
}

func TestWhatCannotBeAppended(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "default.rules")
	for _, prefix := range [][]string{nil, {}, {"a\xff"}, {"a", "\x00"}} {
		if err := Append(path, prefix); !errors.Is(err, messages.ErrInvalidRequest) {
			t.Errorf("%q: %v", prefix, err)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a refused prefix made a file")
	}
	full := strings.Repeat("#", bounded.MaxSource-20)
	if err := os.WriteFile(path, []byte(full), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Append(path, []string{"a"}); !errors.Is(err, messages.ErrRuntimeFailure) || read(t, path) != full {
		t.Errorf("a full file: %v", err)
	}
	for _, bad := range []struct{ content, want string }{
		{"prefix_rule(['rm'], decision='forbidden') \\\n", "with the new line"},
		{"prefix_rule(['rm'], decision='forbidden') \\", "cannot be read"},
		{"prefix_rule(['rm'], decision='forbidden')\nx = \"\"\"", "2:5: starlark error"},
		{"prefix_rule(['rm'], decision='forbidden')\nx = [", "cannot be read"},
		{"prefix_rule(['rm'], decision='maybe')", "1:12: invalid decision"},
		{"def prefix_rule(pattern, decision):\n  pass\n", "would not make the rule"},
		{"for i in range(10000):\n  prefix_rule([str(i)])\n", "more than 10000 rules"},
	} {
		if err := os.WriteFile(path, []byte(bad.content), 0o600); err != nil {
			t.Fatal(err)
		}
		err := Append(path, []string{"a"})
		if !errors.Is(err, messages.ErrRuntimeFailure) || read(t, path) != bad.content || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%q: %v, want %q; then %q", bad.content, err, bad.want, read(t, path))
		}
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, dir} {
		if err := Append(path, []string{"a"}); !errors.Is(err, messages.ErrRuntimeFailure) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

const (
	appenders = 8
	appended  = 30
)

// TestManyProcessesAppend starts processes that append lines of their own and lines that all have, to a file whose last
// line has no end.
func TestManyProcessesAppend(t *testing.T) {
	path := filepath.Join(files(t, map[string]string{"default.rules": "# no newline"}), "default.rules")
	var children []*exec.Cmd
	for i := range appenders {
		child := exec.Command(os.Args[0], "-test.run=^TestAppendingProcess$")
		child.Env = append(os.Environ(), "APPEND_TO="+path, "APPEND_AS="+strconv.Itoa(i))
		child.Stderr = os.Stderr
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, child)
	}
	for _, child := range children {
		if err := child.Wait(); err != nil {
			t.Errorf("a process failed: %v", err)
		}
	}
	got := slices.Sorted(strings.Lines(read(t, path)))
	want := []string{"# no newline\n"}
	for n := range appended {
		want = append(want, Line([]string{"all", strconv.Itoa(n)})+"\n")
		for i := range appenders {
			want = append(want, Line([]string{strconv.Itoa(i), strconv.Itoa(n)})+"\n")
		}
	}
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("%d lines, want %d; or others", len(got), len(want))
	}
}

func TestAppendingProcess(t *testing.T) {
	path := os.Getenv("APPEND_TO")
	if path == "" {
		t.Skip("only as a child")
	}
	for n := range appended {
		for _, first := range []string{os.Getenv("APPEND_AS"), "all"} {
			err := Append(path, []string{first, strconv.Itoa(n)})
			for err != nil && strings.Contains(err.Error(), "lock") { // on a busy machine the others may hold it that long, one after the other
				err = Append(path, []string{first, strconv.Itoa(n)})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestAppendingFollowsAReplacedFile replaces the file while its lock is waited for, as an editor would.
func TestAppendingFollowsAReplacedFile(t *testing.T) {
	dir := files(t, map[string]string{"default.rules": "# old\n", "new": "# new\n"})
	path := filepath.Join(dir, "default.rules")
	old, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if err := unix.Flock(int(old.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- Append(path, []string{"a"}) }()
	if err := os.Rename(filepath.Join(dir, "new"), path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(old.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, path), "# new\n"+Line([]string{"a"})+"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAReplacedFileIsNoticed(t *testing.T) {
	dir := files(t, map[string]string{"default.rules": "# old\n", "new": "# new\n"})
	path := filepath.Join(dir, "default.rules")
	file, err := openLocked(path, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if !isAt(file, path) {
		t.Error("an unchanged file counts as replaced")
	}
	if err := os.Rename(filepath.Join(dir, "new"), path); err != nil {
		t.Fatal(err)
	}
	if isAt(file, path) {
		t.Error("replaced, and not noticed")
	}
	if err := os.Remove(path); err != nil || isAt(file, path) {
		t.Errorf("removed, and not noticed; %v", err)
	}
}

func TestTheWaitForAHeldLockIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "default.rules")
	file, err := openLocked(path, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := openLocked(path, 20*time.Millisecond); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("the lock was there twice: %v", err)
	}
}

// TestHalfALineIsRemoved lets a process write only a part of the line, as on a full disk.
func TestHalfALineIsRemoved(t *testing.T) {
	const before = "# no newline"
	path := filepath.Join(files(t, map[string]string{"default.rules": before}), "default.rules")
	child := exec.Command(os.Args[0], "-test.run=^TestAppendingOnAFullDisk$", "-test.v")
	child.Env = append(os.Environ(), "APPEND_FULL="+path)
	output, err := child.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "file too large") {
		t.Fatalf("%v\n%s", err, output)
	}
	if got := read(t, path); got != before {
		t.Errorf("%q, want %q", got, before)
	}
}

func TestAppendingOnAFullDisk(t *testing.T) {
	path := os.Getenv("APPEND_FULL")
	if path == "" {
		t.Skip("only as a child")
	}
	signal.Ignore(unix.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 20, Max: 20}); err != nil {
		t.Fatal(err)
	}
	err := Append(path, []string{"a"})
	if !errors.Is(err, messages.ErrRuntimeFailure) {
		t.Fatalf("it was written: %v", err)
	}
	t.Log(err)
}

// TestAmendmentsMeanThePrefix: a line allows commands that begin with exactly these words, for any words.
func TestAmendmentsMeanThePrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nasty := rapid.SampledFrom([]string{`"`, `\`, `")`, "\n", "\u2028", "f'{x}'", "#", "'''"})
		prefix := rapid.SliceOfN(rapid.OneOf(rapid.String(), nasty), 1, 4).Draw(t, "prefix")
		if CheckPrefix(prefix) != nil {
			t.Skip("not a prefix")
		}
		line := Line(prefix)
		if strings.ContainsAny(line, "\n\r") {
			t.Fatalf("more than a line: %q", line)
		}
		rules, err := Parse("a", []byte(line+"\n"))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if len(rules.byFirst) != 1 || len(rules.network)+len(rules.executables) != 0 {
			t.Fatalf("%s: more than a rule", line)
		}
		matches := rules.Match(append(slices.Clone(prefix), "more"))
		if len(matches) != 1 || matches[0].Decision != Allow || !slices.Equal(matches[0].Prefix, prefix) {
			t.Fatalf("%s: %v", line, matches)
		}
		if len(prefix) > 1 && rules.Match(prefix[:len(prefix)-1]) != nil {
			t.Fatalf("%s: also allows less", line)
		}
	})
}

func ExampleAppend() {
	dir, _ := os.MkdirTemp("", "rules")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "default.rules")
	fmt.Println(Append(path, []string{"git", "push"}))
	content, _ := os.ReadFile(path)
	fmt.Print(string(content))
	// Output:
	// <nil>
	// prefix_rule(pattern=["git", "push"], decision="allow")
}
