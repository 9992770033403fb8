package command

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// script is a request that gives a script to bash.
func script(text string) Line { return Line{Argv: []string{"bash", "-lc", text}} }

// shown lists, on one line, the commands that a script is understood to run: words in brackets, nothing for a script
// that is not plain.
func shown(u Understanding) string {
	if !u.Plain && !u.Complex {
		return ""
	}
	var parts []string
	for _, command := range u.Commands {
		parts = append(parts, fmt.Sprintf("%q", command))
	}
	return strings.Join(parts, " ")
}

func allSafe(u Understanding) bool {
	return u.Plain && !slices.ContainsFunc(u.Commands, func(words []string) bool { return !Safe(words, confined) })
}

func TestPlainScriptsAreTakenApart(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"ls -l", `["ls" "-l"]`},
		{"  ls \t -l  \n", `["ls" "-l"]`},
		{"ls;", `["ls"]`},
		{"ls && pwd; echo 'hi there' | wc -l || true", `["ls"] ["pwd"] ["echo" "hi there"] ["wc" "-l"] ["true"]`},
		{"ls\npwd\n\nwc", `["ls"] ["pwd"] ["wc"]`},
		{"ls &&\n pwd", `["ls"] ["pwd"]`},
		{"git log \\\n  --oneline", `["git" "log" "--oneline"]`},
		{"echo 'a\nb' \"c\nd\"", `["echo" "a\nb" "c\nd"]`},
		{`rg -g"*.py" 'a.*b' "c d"e`, `["rg" "-g*.py" "a.*b" "c de"]`},
		{`echo --flag='x'"y"z "" ''`, `["echo" "--flag=xyz" "" ""]`},
		{"head -n 20 -c5 a1", `["head" "-n" "20" "-c5" "a1"]`},
		{`find . ! -name x -exec wc {} \;`, `["find" "." "!" "-name" "x" "-exec" "wc" "{}" ";"]`},
		{`echo "\"q\" \\ \$ \a $"`, `["echo" "\"q\" \\ $ \\a $"]`},
		{`git diff HEAD~1 HEAD^ a@b:c%d`, `["git" "diff" "HEAD~1" "HEAD^" "a@b:c%d"]`},
		{`make FOO=bar a#b`, `["make" "FOO=bar" "a#b"]`},
		{"wc -l *.go", `["wc" "-l" "*.go"]`},
		{"ls ~/src", `["ls" "~/src"]`},
		{"cd /tmp && ls", `["cd" "/tmp"] ["ls"]`},
		{"./a b && /bin/ls", `["./a" "b"] ["/bin/ls"]`},
		{"echo if then fi", `["echo" "if" "then" "fi"]`},
		{`echo "größe"`, `["echo" "größe"]`},
		{"echo größe 版本 – ½", `["echo" "größe" "版本" "–" "½"]`},
		{"ls 2>&1", `["ls"]`},
		{"ls -l >/dev/null 2>&1 </dev/null a", `["ls" "-l" "a"]`},
		{"2>/dev/null ls && ls 1>&2 | wc 2>/dev/null", `["ls"] ["ls"] ["wc"]`},
		{"ls 1>/dev/null || exit 1", `["ls"] ["exit" "1"]`},
		{"set -e; set -euo pipefail; set -o errexit; ls", `["set" "-e"] ["set" "-euo" "pipefail"] ["set" "-o" "errexit"] ["ls"]`},
		{"ls || true; exit", `["ls"] ["true"] ["exit"]`},
		{"test -f x && [ ! -d 'a b' ] && test a != b && [ x -nt y ]",
			`["test" "-f" "x"] ["[" "!" "-d" "a b" "]"] ["test" "a" "!=" "b"] ["[" "x" "-nt" "y" "]"]`},
		{"[ -z '' ] || exit 255", `["[" "-z" "" "]"] ["exit" "255"]`},
	} {
		if u := Understand(script(c.text)); shown(u) != c.want || !u.Plain || u.Complex {
			t.Errorf("%q: %s (plain %v, complex %v), want %s", c.text, shown(u), u.Plain, u.Complex, c.want)
		}
	}
}

// notPlain are scripts that nothing may be concluded from.
var notPlain = []string{
	"", "  \n", "# ls", "ls # x", "# x\nls", "ls\n# x",
	"ls $HOME", `ls "$HOME"`, `ls "${HOME}"`, "ls $(pwd)", "ls `pwd`", `ls "$(pwd)"`, "ls $((1))", "ls $'a'", `ls $"a"`, "$x",
	"ls $",
	"ls > x", "ls < x", "ls >&x", "ls &> x", "ls >> x", "<x ls", "ls <<< x", "ls <(pwd)", "ls >(pwd)",
	"ls 3>/dev/null", "ls >/dev/nul", "ls >/dev/null/x", "ls >/dev/tcp/a/1", "ls >> /dev/null", "ls >| /dev/null", "ls 2>x", "ls 2>&3",
	"ls >&-", "ls 2<&1", "ls <&1", "ls 1</dev/null", "ls {a}>/dev/null", "ls >$x", "ls &>/dev/null", "ls <>/dev/null", ">/dev/null",
	"2>&1", "(ls) 2>&1", "{ ls; } >/dev/null", "ls >/dev/nul?", "ls >~",
	"exit a", "exit 1 2", "exit 1000", "exit $(rm x)", "exit -1", "exit 'a[$(rm x)]'", "set", "set -x; ls", "set +e; ls", "set -ex; ls", "set -o",
	"set -e a; ls", "set -- x; ls", "set -o xtrace; ls", "set -o pipefail x; ls", "set pipefail; ls", "set -f; ls", "set -a; ls",
	"test", "test x", "[ x ]", "[ -f x", "[ -f x ] ]", "test -f x ]", "test -eq 1", "test 'a[$(rm x)]' -eq 1", "[ 1 -lt 2 ]", "test -t 1",
	"test -f x -a -f y", "test -o x", "test -R x", "test -N x", "test -f -v", "test -v = x", "test '(' x ')'", "test -f *", "[ -f * ]", "test ~ = x",
	"test ! x", "test a == b", "test a '<' b", "[ -f x ]y", "test $x = y", "'test' -f x", "'[' -f x ]", "'exit' 1",
	"ls \\é", "echo \u00a0", "echo \u3000", "echo \u200b", "echo \u202e", "echo \u2028", "echo \ue000",
	"ls &", "ls & pwd", "(ls)", "{ ls; }", "ls |& wc", "! ls", "ls | ! wc", "if ls; then pwd; fi", "for a in b; do ls; done",
	"while ls; do pwd; done", "case a in a) ls;; esac", "ls() { rm x; }; ls", "function ls { rm x; }; ls", "time ls", "coproc ls",
	"[[ a ]]", "((1))", "let a=1", "select a in b; do ls; done",
	"A=1 ls", "A=1", "A[1]=2", "a+=b", "PATH=/x ls", "ls && A=1",
	"&& ls", "ls &&", "ls ||", "ls |", "| ls", "ls ;; pwd", "; ls", ";", "ls && && pwd", "ls | | wc", "ls; ; pwd", "ls 'x",
	`ls "x`, ")", "}",
	"'ls'", `"ls" -l`, "'git status'", `l\s`, "l''s", "l*", "[l]s", "{ls,-l}", "~/ls", "é", "ls=x", "=ls", "%1", "-ls", "+ls",
	"*", `\ls`,
	"echo {a,b}", "echo {1..3}", "echo a\u00a0b", "echo =ls", `echo ""=ls`, `echo ""~/x`, `echo ''#x`, "echo a=~",
	"echo a:~/x", "rm *", "find *", "uniq a*",
	"git log -- *", "./ls *", "/tmp/ls ~", "make [a]", "echo @(a)", "echo !(a)",
	"echo a\x00b", "echo a\r", "echo a\r\npwd", "echo \x1b", "echo \x7f", "echo 'a\xff'", "echo \v", "l\x01s",
	"eval ls", "source x", ". x", "exec ls", "command ls", "builtin ls", "trap ls EXIT", "set -x; ls", "shopt -s expand_aliases",
	"alias ls=rm; ls x", "enable -f x ls; ls", "hash -p /tmp/evil ls; ls", "unset PATH", "export PATH=/tmp; ls", "declare x",
	"read PATH; ls", "printf -v PATH x; ls", "printf %n PATH; ls", "test -v 'a[$(rm x)]'", "[ -v 'a[$(rm x)]' ]", "exit $x",
	"noglob ls", "repeat 3 ls", "foreach a", "- ls", "mapfile x", "getopts a PATH", "wait -p PATH", "print -v PATH",
	"cd /tmp && ./ls", "cd /tmp; x/ls", "./ls | cd /tmp", "pushd /tmp; ls",
}

func TestWhatIsNotPlainIsOneUnknownCommand(t *testing.T) {
	for _, text := range notPlain {
		r := script(text)
		u := Understand(r)
		if u.Plain || u.Complex || len(u.Commands) != 1 || !slices.Equal(u.Commands[0], r.Argv) || !u.Script || Safe(u.Commands[0], confined) {
			t.Errorf("%q: %s %+v", text, shown(u), u)
		}
	}
}

func TestHeredocs(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"cat <<'EOF'\n$(rm x)\nEOF", `["cat"]`},
		{"cat <<\"EOF\"\n`rm x`\nEOF\n", `["cat"]`},
		{"python3 - -u <<EOF\nprint(1)\nEOF", `["python3" "-" "-u"]`},
		{"cat <<-EOF\n\ta\n\tEOF", `["cat"]`},
		{"cat <<A <<'B'\na\nA\nb\nB", `["cat"]`},
		{"cat <<EOF # why\na\nEOF", `["cat"]`},
		{"cat <<EOF\nEOF", `["cat"]`},
	} {
		u := Understand(script(c.text))
		if shown(u) != c.want || u.Plain || !u.Complex {
			t.Errorf("%q: %s (plain %v, complex %v), want %s", c.text, shown(u), u.Plain, u.Complex, c.want)
		}
	}
	for _, text := range []string{
		"cat <<EOF\n$(rm x)\nEOF", "cat <<EOF\n`rm x`\nEOF", "cat <<EOF\n$HOME\nEOF", "cat <<EOF\n\\$x\nEOF",
		"cat <<EOF\nEO\\\nF\nrm x\nEOF", "cat <<EOF > x\na\nEOF", "cat < x <<EOF\na\nEOF", "A=1 cat <<EOF\na\nEOF", "cat <<< a",
		"cat <<EOF | sh\na\nEOF", "cat <<EOF && rm x\na\nEOF", "cat <<EOF\na\nEOF\nrm x", "cat <<EOF; rm x\na\nEOF", "echo $((1<<2))",
		"cat 'x' <<EOF\na\nEOF", "cat $x <<EOF\na\nEOF", "cat * <<EOF\na\nEOF", "3<<EOF cat\na\nEOF", "cat <<$x\na\n$x",
		"cat <<E\\F\na\nEF",
		"cat <<EOF &\na\nEOF", "! cat <<EOF\na\nEOF", "bash <<EOF\nrm -rf x\nEOF", "sudo sh -s <<EOF\nrm -rf x\nEOF",
		"env /bin/zsh <<'EOF'\nrm -rf x\nEOF", "eval <<EOF\na\nEOF", "source x <<EOF\na\nEOF",
		"<<EOF\na\nEOF", "cat <<EOF\na", "(cat <<EOF\na\nEOF\n)", "cat 2>&1 <<EOF\na\nEOF", "cat <<EOF <<< a\nb\nEOF",
		`c\at <<EOF` + "\na\nEOF",
	} {
		if u := Understand(script(text)); u.Plain || u.Complex || len(u.Commands[0]) != 3 {
			t.Errorf("%q: %s", text, shown(u))
		}
	}
}

func TestOnlyTrustedShellsAreLookedInto(t *testing.T) {
	own := []string{"/home/me/bin/zsh", "/opt/bin/fish", "relative/bash"}
	for _, c := range []struct {
		shell, program string
		trusted        bool
	}{
		{"bash", "", true}, {"zsh", "", true}, {"sh", "", true}, {"/bin/bash", "", true}, {"/usr/local/bin/zsh", "", true},
		{"bash", "/usr/bin/bash", true}, {"/bin/sh", "/bin/sh", true}, {"zsh", "/home/me/bin/zsh", true},
		{"/home/me/bin/zsh", "", true}, {"/home/me/bin/zsh", "/home/me/bin/zsh", true},
		{"bash", "/workspace/bash", false}, {"./bash", "", false}, {"./bash", "/workspace/bash", false}, {"./bash",
			"/bin/bash", false},
		{"/workspace/bash", "", false}, {"/workspace/bash", "/bin/bash", false}, {"/bin/bash", "/workspace/bash", false},
		{"bin/bash", "", false}, {"/bin/../tmp/bash", "", false}, {"/bin//bash", "", false}, {"/bin/x/bash", "", false},
		{"fish", "/opt/bin/fish", false}, {"relative/bash", "", false}, {"relative/bash", "relative/bash", false},
		{"dash", "", false}, {"BASH", "", false}, {"bash ", "", false}, {"", "", false}, {"bash", "/bin/zsh", false},
		{"bаsh", "", false}, // a Cyrillic а
	} {
		argv := []string{c.shell, "-lc", "ls -l"}
		u := Understand(Line{Argv: argv, Program: c.program, TrustedShells: own})
		want := argv
		if c.trusted {
			want = []string{"ls", "-l"}
		}
		if u.Script != c.trusted || !slices.Equal(u.Commands[0], want) || !slices.Equal(u.Canonical, want) || c.trusted != allSafe(u) {
			t.Errorf("%q at %q: %+v", c.shell, c.program, u)
		}
	}
	for _, argv := range [][]string{{"bash", "-lc"}, {"bash", "-lc", "ls", "x"}, {"bash", "-xc", "ls"}, {"bash", "-c", "-l",
		"ls"}, {"bash"}} {
		if u := Understand(Line{Argv: argv}); u.Script || !slices.Equal(u.Commands[0], argv) || allSafe(u) {
			t.Errorf("%q: %+v", argv, u)
		}
	}
}

func TestAProgramIsKnownWhereItLies(t *testing.T) {
	for _, c := range []struct {
		name, program string
		safe          bool
	}{
		{"ls", "", true}, {"ls", "/usr/bin/ls", true}, {"/bin/ls", "/bin/ls", true}, {"/usr/sbin/ls", "", true},
		{"ls", "/workspace/ls", false}, {"./ls", "", false}, {"/tmp/ls", "", false}, {"dir/ls", "", false},
		{"/bin/../tmp/ls", "", false}, {"/bin/./ls", "", false}, {"ls", "/bin/../tmp/ls", false}, {"/bin/ls", "/workspace/ls", false},
	} {
		if u := Understand(Line{Argv: []string{c.name, "-l"}, Program: c.program}); allSafe(u) != c.safe || u.Script {
			t.Errorf("%q at %q: %+v", c.name, c.program, u)
		}
	}
}

func TestAnEmptyCommandIsNotUnderstood(t *testing.T) {
	if u := Understand(Line{}); u.Plain || u.Complex || len(u.Commands) > 0 || len(u.Canonical) > 0 {
		t.Errorf("%+v", u)
	}
	if Safe(nil, confined) || Dangerous(nil) {
		t.Error("an empty command is safe or dangerous")
	}
}

func TestCanonicalForms(t *testing.T) {
	equal := [][][]string{
		{{"bash", "-lc", "ls -l"}, {"/bin/bash", "-lc", "ls -l"}, {"sh", "-c", " ls   '-l' "}, {"zsh", "-lc", "ls -l;"}, {"ls",
			"-l"}, {"sh", "-c", "ls -l 2>&1"}},
		{{"bash", "-lc", "ls && pwd; wc"}, {"/usr/bin/bash", "-lc", "ls  &&\n\"pwd\"\nwc"}, {"sh", "-c", "ls && pwd; wc"}},
		{{"bash", "-lc", "cat <<'E'\na\nE"}, {"/bin/bash", "-lc", "cat <<'E'\na\nE"}},
		{{"bash", "-lc", "ls > x"}, {"/usr/local/bin/bash", "-lc", "ls > x"}},
		{{"bash", "-lc", "rm *"}, {"/bin/bash", "-lc", "rm *"}},
		{{"make", "x"}, {"make", "x"}},
	}
	equal[1][1][2] = "ls  &&\npwd\nwc"
	differ := [][]string{
		{"bash", "-lc", "ls *"}, {"bash", "-lc", "ls '*'"}, {"bash", "-lc", "ls | pwd; wc"}, {"bash", "-lc", "ls || pwd; wc"},
		{"bash", "-lc", "ls '&&' pwd; wc"}, {"bash", "-c", "ls > x"}, {"zsh", "-lc", "ls > x"}, {"bash", "-lc", "ls >  x"},
		{"./bash", "-lc", "ls -l"}, {"/workspace/bash", "-lc", "ls -l"}, {"\x00script", "bash", "-lc", "ls > x"},
		{"\x00plain", "ls", "\x00&&", "pwd", "\x00;", "wc"}, {"\x00argv", "\x00script", "bash", "-lc", "ls > x"}, {"ls -l"},
		{"/bin/ls", "-l"},
		{"rm", "*"}, {"bash", "-lc", "ls\n-l"}, {"bash", "-lc", "ls ~"}, {"ls", "~"}, {"cat"}, {"make"}, {"make", "x", ""},
		{"bash", "-lc", "ls -l 2>/dev/null"}, {"bash", "-lc", "ls -l >/dev/null"}, {"bash", "-lc", "ls -l </dev/null"},
		{"bash", "-lc", "ls -l 2>/dev/null >/dev/null"},
		{"bash", "-lc", "ls -l 2>&1 >/dev/null"}, {"bash", "-lc", "ls -l >/dev/null 2>&1"}, {"bash", "-lc", "ls 2>/dev/null && pwd; wc"}, {"bash", "-lc", "exit 0"}, {"exit", "0"},
		{"bash", "-lc", "cat <<'E'\nb\nE"}, {"bash", "-lc", "ls; pwd && wc"}, {"bash", "-lc", "ls; pwd"},
	}
	seen := map[string]string{}
	for _, class := range equal {
		first := fmt.Sprintf("%q", Understand(Line{Argv: class[0]}).Canonical)
		for _, argv := range class[1:] {
			if got := fmt.Sprintf("%q", Understand(Line{Argv: argv}).Canonical); got != first {
				t.Errorf("%q: %s, but %q: %s", class[0], first, argv, got)
			}
		}
		differ = append(differ, class[0])
	}
	for _, argv := range differ {
		form := fmt.Sprintf("%q", Understand(Line{Argv: argv}).Canonical)
		if other, found := seen[form]; found {
			t.Errorf("%q and %s are both %s", argv, other, form)
		}
		seen[form] = fmt.Sprintf("%q", argv)
	}
}

// looks is the work of a search, in words and bytes of scripts.
func looks(argv []string) int {
	s := search{left: maxLooks}
	s.command(argv, place{scope: newScope(nil, nil)})
	return maxLooks - s.left
}

// TestLongAndDeepScripts: the work is bounded whatever the script, and nothing is concluded from it.
func TestLongAndDeepScripts(t *testing.T) {
	for _, unit := range []string{"(", "((", "$(", "`", `"$(`, "${a:-", "if ", "{ ", "! ", "a&&", "a|", "a;", "a\n",
		"case a in a) ", "<(", "f() ",
		"time ", "coproc ", "@(", "cat <<a;", "$[", "[[ ( ", "[[ ! ", "while ", "a[", "$((", "function f ", "a=(", "'", "\\\n",
		"<<a ", "x<<'a'\n",
		"`\\`", "((a?", "((-", "let a=", "$(<", "for i in a;do ", "sh -c 'x' ;", "\\", "\"", "a ", "\xff"} {
		for _, prefix := range []string{"", "((", "[[ "} {
			text := prefix + strings.Repeat(unit, (maxScript-len(prefix))/len(unit))
			u := Understand(script(text))
			if looks := looks([]string{"bash", "-c", text}); looks > 8*maxScript {
				t.Errorf("%q took %d looks", prefix+unit, looks)
			}
			if len(u.Commands) > maxCommands {
				t.Errorf("%q: %d commands", prefix+unit, len(u.Commands))
			}
		}
	}
	for opener, closer := range map[string]string{"if a;then ": "\nfi", "{ ": ";}", "( ": ")", "$(": ")", `"$(`: `)"`,
		"${a:-": "}", "while a;do ": "\ndone"} {
		n := maxOpeners / 2
		text := strings.Repeat(opener, n) + "rm -f x" + strings.Repeat(closer, n)
		if u := Understand(script(text)); u.Plain {
			t.Errorf("%q is plain", opener)
		}
		if opener != "${a:-" && !Dangerous([]string{"sh", "-c", text}) {
			t.Errorf("the command behind %d of %q is not seen", n, opener)
		}
	}
	if u := Understand(script("echo " + strings.Repeat("a", maxScript))); u.Plain {
		t.Error("a script beyond the bound is plain")
	}
	if u := Understand(script(strings.Repeat("ls;", maxCommands))); !u.Plain || len(u.Commands) != maxCommands {
		t.Error("the bound on commands is not where it is said to be")
	}
	if u := Understand(script(strings.Repeat("ls;", maxCommands+1))); u.Plain {
		t.Error("a script of more commands than the bound is plain")
	}
}

func BenchmarkUnderstand200Bytes(b *testing.B) {
	text := `cd /srv/app && git log --oneline -n 20 | head -n 5 && ls -la src/main | grep -v "test data" | wc -l; `
	text += `cat README.md 'a file.txt' && git log --stat HEAD~1 -- src/parser/lexer.go src/x.go | tail -n 30`
	request := script(text)
	if len(text) < 198 || !allSafe(Understand(request)) {
		b.Fatal(len(text), Understand(request))
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		u := Understand(request)
		for _, words := range u.Commands {
			if !Safe(words, confined) || Dangerous(words) {
				b.Fatal(words)
			}
		}
	}
}
