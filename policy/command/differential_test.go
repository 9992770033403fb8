package command

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The differential test gives scripts that are understood to real shells and compares the commands that run with the
// list. The shells find nothing on PATH but stubs, which record their words. It is quiet about scripts that are not
// understood: nothing is promised about them, so they are not run.
//
// In bash the builtin commands that are taken for inert are disabled, so that they are recorded too, all but cd and ":".
// In sh and zsh they are left out of the comparison.

// stub records its words after their number. Two names fail, so that && and || go both ways.
const stub = `#!/bin/sh
printf '%s\0' "$#" "$0" "$@" >>"$STUB_LOG"
case ${0##*/} in false|no) exit 1;; esac
`

var stubNames = []string{"ls", "cat", "wc", "rm", "no", "git", "find", "make", "echo", "pwd", "true", "false", "grep", "sh",
	"bash", "env", "x",
	"a", "head", "uniq", "python3", "evil"}

// runner gives every script on descriptor 3 to a shell of its own; one process start from Go is enough.
const runner = `n=0
while IFS= read -r -d '' script <&3; do
	STUB_LOG=$LOGS/$n "$SHELL_UNDER_TEST" -c "$script" 3<&- </dev/null >/dev/null 2>&1
	n=$((n+1))
done
`

// stage is a directory with stubs, and one to work in that holds names that look like options and programs.
type stage struct{ root, bin, work string }

func newStage(t *testing.T) stage {
	root := t.TempDir()
	s := stage{root, filepath.Join(root, "bin"), filepath.Join(root, "work")}
	for _, dir := range []string{s.bin, s.work, filepath.Join(s.work, "0"), filepath.Join(s.work, "sub")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var stubs []string
	for _, name := range stubNames {
		stubs = append(stubs, filepath.Join(s.bin, name))
	}
	stubs = append(stubs, filepath.Join(s.work, "x"), filepath.Join(s.work, "ls"), filepath.Join(s.work, "0",
		"ls"), filepath.Join(s.work, "sub", "x"))
	for _, path := range stubs {
		if err := os.WriteFile(path, []byte(stub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"-rf", "--output=x", "-delete", "a.go", "b.go", "rm", "evil", "]", "{a,b}"} {
		if err := os.WriteFile(filepath.Join(s.work, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "disable"), []byte("enable -n echo pwd true false\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}

// run gives every script to the shell, and returns the commands of each.
func (s stage) run(t *testing.T, bash, shell string, scripts []string) [][][]string {
	logs := filepath.Join(s.root, "logs", filepath.Base(shell))
	input := filepath.Join(s.root, "scripts")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(input, []byte(strings.Join(scripts, "\x00")+"\x00"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := names(t, s.work)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, bash, "--noprofile", "--norc", "-c", runner, "runner")
	file, err := os.Open(input)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	command.ExtraFiles = []*os.File{file}
	command.Dir = s.work
	command.Env = []string{"PATH=" + s.bin, "LOGS=" + logs, "SHELL_UNDER_TEST=" + shell, "HOME=" + s.root, "LC_ALL=C.UTF-8",
		"BASH_ENV=" + filepath.Join(s.root, "disable")}
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if after := names(t, s.work); !slices.Equal(before, after) {
		t.Errorf("scripts that only run listed commands made files: %q, then %q", before, after)
	}
	var result [][][]string
	for n := range scripts {
		text, err := os.ReadFile(filepath.Join(logs, strconv.Itoa(n)))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		result = append(result, s.records(t, string(text)))
	}
	return result
}

// records are the commands in a stub's log.
func (s stage) records(t *testing.T, text string) [][]string {
	var result [][]string
	words := strings.Split(text, "\x00")
	for len(words) > 1 {
		n, err := strconv.Atoi(words[0])
		if err != nil || n+2 > len(words)-1 {
			t.Fatalf("a broken record: %q", words)
		}
		command := slices.Clone(words[1 : n+2])
		command[0] = strings.TrimPrefix(command[0], s.bin+"/")
		result = append(result, command)
		words = words[n+2:]
	}
	return result
}

func names(t *testing.T, dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var result []string
	for _, entry := range entries {
		result = append(result, entry.Name())
	}
	return result
}

// contradiction says where the commands that ran differ from the list; silent are commands that are not recorded.
func contradiction(script plainScript, ran [][]string, silent map[string]bool) string {
	var listed []plainCommand
	maybe, parallel := false, false // not all of it has to run; what runs may be recorded in any order
	for _, command := range script.commands {
		maybe = maybe || command.joint == "&&" || command.joint == "||" || idle[command.words[0]]
		parallel = parallel || command.joint == "|"
		if !silent[command.words[0]] {
			listed = append(listed, command)
		}
	}
	if parallel { // those that accept most come last
		pattern := func(c plainCommand) bool { return c.pattern }
		exact := slices.DeleteFunc(slices.Clone(listed), pattern)
		listed = append(exact, slices.DeleteFunc(listed, func(c plainCommand) bool { return !pattern(c) })...)
	}
	from := 0
	left := slices.Clone(listed)
	for _, record := range ran {
		at := slices.IndexFunc(left[from:], func(c plainCommand) bool {
			return c.words != nil && (slices.Equal(c.words, record) || c.pattern && c.words[0] == record[0])
		})
		if at < 0 {
			return fmt.Sprintf("%q ran, but was not listed (in this order)", record)
		}
		left[from+at].words = nil
		if !parallel {
			from += at + 1
		}
	}
	if !maybe && len(ran) != len(listed) {
		return fmt.Sprintf("%d commands were listed, %d ran", len(listed), len(ran))
	}
	return ""
}

// generator makes scripts, from pieces that mean something to a shell.
type generator struct{ *rand.Rand }

func (g generator) pick(from []string) string { return from[g.IntN(len(from))] }

var (
	pieceWords = []string{"a", "-l", "--flag=x", "a.go", "'q q'", `"d d"`, "''", `""`, `'*'`, `"$"`, `"a$ b"`, `"\$x"`, `"\\"`,
		`"\a"`, `\;`, `\ `, `\\`,
		`\*`, "HEAD~1", "a=b", "a@b", "x^", "%s", "1,5p", "{}", "!", "if", "done", "*", "?.go", "[a]*", "~", "~/x", "a*", "$x",
		`"$x"`, "$(x)", "`x`",
		"{a,b}", "#c", "a#b", "'\n'", "\"\n\"", "\\\n", "\"a\\\nb\"", "é", "'é'", "=x", "a:~", "]", "-", "--", "\"`x`\"", "$'a'",
		"<(x)", "a\\\nb", "2>&1", ">/dev/null", "2>/dev/null", "</dev/null", ">&2", ">x", "größe", "版本", "\u00a0", "=", "!="}
	pieceNames = []string{"ls", "cat", "wc", "rm", "no", "git", "find", "make", "echo", "pwd", "true", "false", "grep", "sh",
		"env", "x", "a", "head",
		"set -e;", "exit 1", "test -f", "test ! -d a", "[ -f a.go ]", "test a =", "uniq", "./x", "sub/x", "cd", ":", "eval", "command", "'ls'", `\ls`, "l's'", "if", "!", "x=1", "time", "{", "printf",
		"exec", "."}
	pieceJoints = []string{" && ", " || ", "|", " | ", ";", "; ", "\n", "&&\n", "|\n", " ; ", "&", "\n\n", " \\\n&& ", "||",
		"|&", ";;", " # c\n"}
	pieceBytes = " \t\n\"'\\$`{}()[]*?~!#=&|;<>^%@,+-.:/0aAlsé\r\x01\u00a0"
)

// structured is a script of commands.
func (g generator) structured() string {
	var b strings.Builder
	for n := g.IntN(4); n >= 0; n-- {
		b.WriteString(g.pick(pieceNames[:20+g.IntN(len(pieceNames)-19)]))
		for range g.IntN(4) {
			b.WriteString(" " + g.pick(pieceWords))
			for g.IntN(4) == 0 {
				b.WriteString(g.pick(pieceWords))
			}
		}
		if n > 0 || g.IntN(6) == 0 {
			b.WriteString(g.pick(pieceJoints))
		}
	}
	return b.String()
}

// damaged is a script with some characters more or less.
func (g generator) damaged(script string) string {
	text, bytes := []rune(script), []rune(pieceBytes)
	for range 1 + g.IntN(3) {
		at := g.IntN(len(text) + 1)
		if g.IntN(4) == 0 && at < len(text) {
			text = slices.Delete(text, at, at+1)
		} else {
			text = slices.Insert(text, at, bytes[g.IntN(len(bytes))])
		}
	}
	return string(text)
}

// nasty are scripts by hand: heredocs, and text that other parsers have misread.
var nasty = []string{
	"cat <<'EOF'\nrm x\nEOF", "cat <<EOF\nrm x\nEOF\n", "cat <<-EOF\n\tEOF\n", "cat <<EOF\nEO\\\nF\nrm x\nEOF",
	"cat <<'EOF'\nEO\\\nF\nrm x\nEOF",
	"cat <<A <<B\nrm\nA\nx\nB\n", "cat <<\"E\"\n$(rm x)\nE\n", "cat <<E\n$(rm x)\nE\n", "cat <<E\n`rm x`\nE",
	"cat <<E\n\\`rm x\\`\nE",
	"cat <<'E' \nE \nrm x\nE\n", "cat <<-'E'\n\t\tE\nrm x\n", "cat <<E\nE\nrm x", "cat <<E\n E\nE", "cat <<E # c\nrm\nE",
	"cat a <<E b\nrm\nE",
	"cat <<'E'\n\\\nE\nrm x\nE", "cat <<E\n\\\nE\nrm x\nE", "cat <<'E F'\nrm\nE F", "cat <<E''F\nrm\nEF", "cat <<$E\nrm\n$E",
	"cat <<'E'\n'\nE\n", "cat <<E\n'\nE\nrm x\n'",
	"cat \\\n<<E\nrm\nE", "cat <\\\n<E\nrm\nE", "cat <<\\\nE\nrm\nE", "python3 - <<'PY'\nprint(1)\nPY",
	"git commit -F - <<'E'\na\nE",
	"ls\\\n", "ls \\\n", "l\\\ns", "ls\\\n-l", "ls '\\\n'", "ls \"\\\n\"", "ls \"a\\\\\n\"", "ls \"a\\\\\\\n\"", "ls a\\\\",
	"ls a\\\\\nrm x", "ls a\\\\\\\nrm x", "ls 'a\\'\nrm x",
	"ls 'a' 'b'; rm 'c;d'", "ls \"'\" '\"'; rm x", "ls '\"' ; rm x; '\"'", "ls \"a;b\" | wc", "ls\trm", "ls\t\trm\t", "\tls",
	"\n\nls\n\n", "ls;rm;", "ls&&rm||x",
	"no && rm x", "no || rm x", "no; rm x", "no | rm x", "true && no && rm x || ls", "ls || rm x && a",
	"ls | wc | a && x; no | rm",
	"cd sub; ls", "cd sub && x", "cd nowhere || rm x", "cd sub | ls", ": rm x; ls", ": && ls", "echo rm x; ls",
	"pwd; true; false; ls",
	"ls *.go", "ls * ; rm x", "cat [ab].go ?.go", "ls ]", "ls [", "ls []", "ls {}", "ls !", "ls ! -l", "ls a!b",
	"ls \"!\" '!x'", "cat ~ ~/x ~root ~nobody/x", "ls a~b HEAD~ HEAD~~ x^~2",
	"ls %1 @x +y ^z ,a .b /c :d _e -f", "ls a=b --c=d =", "ls a=~b", "ls a:~b", "ls \"~\" '~'", "ls \"$\" \"a$\" \"$ b\" \"$\"",
	"ls \"$\"x", "ls \"$\"'x'", "ls \"a$\\\nx\"",
	"ls \"\\$x\" \"\\`x\\`\" \"\\\"\" \"\\\\\" \"\\x\" \"\\'\"",
	"ls \\a \\\" \\' \\\\ \\$x \\` \\; \\& \\| \\( \\) \\< \\> \\* \\? \\[ \\# \\~ \\! \\{a,b} \\=",
	"ls a\\ b", "ls \\\\\\ a", "ls '' \"\" ''\"\"", "ls ''a\"\"b''", "ls a#b #c", "ls #c", "ls a\\#b", "ls \\#b", "ls ''#b",
	"ls if then else fi do done esac in { } [[ ]] time function select coproc",
	"ls é 'é' \"é\"", "ls 'a\tb' \"a\tb\"", "ls '\u00a0' '\u202e' '\ufeff'", "ls\u00a0-l", "ls\u2003-l", "\ufeffls",
	"ls '\u2028'; rm x", "ls 1 2 3", "ls 1 2>3", "ls 2 >3", "ls 2\\>3",
	"+ls a", "+\nls", "-x\nls", "--\nls", "./x", "./x a && sub/x b", "sub/x", "a.b", "a-b", "x@y", "x+", "sub//x", "..", "...",
	"0", "1x", "ls; 2", "evil",
	"ls 2>&1", "ls >/dev/null a", "2>&1 ls | wc", "ls 1>&2 2>/dev/null", "cat </dev/null 2>&1", "no 2>/dev/null || rm x", "ls 2>&1 1>&2 >/dev/null b",
	"set -e; no; rm x", "set -eu; ls; no || rm x", "set -o pipefail\nls | no\nrm x", "exit 0; rm x", "ls; exit 3", "no || exit 1; ls",
	"test -f a.go && ls", "test ! -f a.go && ls", "[ -d sub ] && x", "[ a = b ] || ls", "[ 'a' != \"b\" ] && ls a", "test -z '' && ls", "test a.go -nt b.go; ls",
	"ls é 版本 ½ – ñ̃", "ls 'é'é\"é\"", "ls é=x x=é é~ é#x", "ls à\u0301",
	"env ls", "env PATH=0 ls", "find . -exec rm {} \\;", "git -c a=b x", "bash -c 'rm x'", "sh x", "make PATH=0; ls",
}

func TestShellsRunWhatIsListed(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash to compare with:", err)
	}
	const wanted = 450
	g := generator{rand.New(rand.NewPCG(1, 2))}
	var scripts []string
	var known []plainScript
	tried := map[string]bool{}
	add := func(text string) {
		if script, understood := readScript(text); understood && !tried[text] {
			scripts, known = append(scripts, text), append(known, script)
		}
		tried[text] = true
	}
	for _, text := range slices.Concat(nasty, notPlain) {
		add(text)
	}
	byHand := len(scripts)
	for len(scripts) < wanted {
		text := g.structured()
		add(text)
		add(g.damaged(text))
		add(g.damaged(nasty[g.IntN(len(nasty))]))
	}
	if byHand < 60 {
		t.Errorf("only %d of the scripts by hand are understood", byHand)
	}
	t.Logf("%d scripts, of which %d are understood and run", len(tried), len(scripts))
	s := newStage(t)
	compareWith(t, s, bash, bash, map[string]bool{"cd": true, ":": true}, scripts, known)
	for _, name := range []string{"sh", "zsh"} {
		if shell, err := exec.LookPath(name); err != nil {
			t.Log("not compared with:", err)
		} else {
			compareWith(t, s, bash, shell, inert, scripts, known)
		}
	}
}

// compareWith runs scripts in a shell. It wants programs that are stubs, or nothing is recorded.
func compareWith(t *testing.T, s stage, bash, shell string, silent map[string]bool, scripts []string, known []plainScript) {
	t.Helper()
	silent = s.absent(silent, known)
	recorded := 0
	for n, ran := range s.run(t, bash, shell, scripts) {
		recorded += len(ran)
		script := known[n]
		if filepath.Base(shell) == "zsh" && slices.ContainsFunc(script.commands, func(c plainCommand) bool { return c.pattern }) {
			script.commands = slices.Clone(script.commands)
			script.commands[0].joint = "&&" // it ends where a pattern matches nothing
		}
		if wrong := contradiction(script, ran, silent); wrong != "" {
			t.Errorf("%s -c %q: %s", shell, scripts[n], wrong)
		}
	}
	if recorded < len(scripts)/2 {
		t.Errorf("%s: of %d scripts only %d commands were recorded: the test sees nothing", shell, len(scripts), recorded)
	}
}

// absent adds the programs that there are no stubs for.
func (s stage) absent(silent map[string]bool, known []plainScript) map[string]bool {
	all := map[string]bool{}
	for _, script := range known {
		for _, command := range script.commands {
			name := command.words[0]
			stubbed := slices.Contains(stubNames, name)
			if path.IsAbs(name) {
				stubbed = false
			} else if strings.Contains(name, "/") {
				info, err := os.Stat(s.work + "/" + name)
				stubbed = err == nil && info.Mode().IsRegular()
			}
			all[name] = silent[name] || !stubbed
		}
	}
	return all
}

// TestTheComparisonSees: every mistake in these runs is noticed.
func TestTheComparisonSees(t *testing.T) {
	script, _ := readScript("ls a && rm b")
	ls, rm := []string{"ls", "a"}, []string{"rm", "b"}
	for _, ran := range [][][]string{{rm, ls}, {ls, rm, rm}, {{"ls", "b"}}, {{"ls"}}, {{"ls", "a", ""}}, {ls, {"evil"}}} {
		if contradiction(script, ran, nil) == "" {
			t.Errorf("%q passes", ran)
		}
	}
	both, _ := readScript("ls a; rm b")
	if contradiction(both, [][]string{ls}, nil) == "" || contradiction(both, [][]string{ls, rm}, nil) != "" ||
		contradiction(script, [][]string{ls}, nil) != "" {
		t.Error("a command that did not run is judged wrongly")
	}
}
