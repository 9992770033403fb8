package command

import (
	"runtime"
	"strings"
	"testing"
)

// commands are one command a line, words apart by blanks.
func commands(text string) [][]string {
	var all [][]string
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			all = append(all, words)
		}
	}
	return all
}

func TestKnownSafeCommands(t *testing.T) {
	for _, words := range commands(`
		cat a b
		cd
		cut -d: -f1
		echo
		expr 1 + 2
		false
		grep -R Cargo.toml -n
		head -n 5 x
		id -u
		ls -la /
		/bin/ls
		/usr/bin/cat x
		nl
		paste
		pwd
		rev
		seq 1 3
		stat x
		tail -f x
		tr a b
		true
		uname -a
		wc -l
		which ls
		whoami
		uniq -c
		uniq -c a
		base64 -d x
		base64 --wrap=0 x
		find . -name file.txt
		find . -type f -print
		rg -n Cargo.toml
		rg --files --hidden
		rg --pre-glob x y
		sed -n 1,5p
		sed -n 12p file.txt
		sed -n 1,5p file.txt
		git status
		git status --short
		git log -p -n 3
		git diff --text HEAD
		git --no-pager show HEAD:file
		git -P log
		git branch
		git branch -a -vv
		git branch --format=%(refname)
		git branch --show-current
		git diff --output-indicator-new=x
	`) {
		if !Safe(words) {
			t.Errorf("%q is not safe", words)
		}
		if Dangerous(words) {
			t.Errorf("%q is dangerous", words)
		}
	}
	for _, program := range []string{"numfmt", "tac"} {
		if Safe([]string{program, "x"}) != (runtime.GOOS == "linux") {
			t.Error(program)
		}
	}
}

func TestNotKnownToBeSafe(t *testing.T) {
	for _, words := range commands(`
		cargo check
		rm x
		bash -lc ls
		sh
		env ls
		xargs cat
		./ls
		/tmp/ls
		bin/ls
		/bin/../tmp/ls
		LS
		ls\
		base64 -o out
		base64 -oout
		base64 -do out
		base64 --output out
		base64 --output=out
		base64 --out=x
		find . -exec rm {} ;
		find . -execdir x {} +
		find . -ok x
		find . -okdir x
		find . -name x -delete
		find . -fls out
		find . -fprint out
		find . -fprint0 out
		find . -fprintf out x
		rg --search-zip x
		rg -z x
		rg -nz x
		rg --pre cmd x
		rg --pre=cmd x
		rg --hostname-bin cmd
		rg --hostname-bin=cmd
		sed
		sed -n
		sed -n p
		sed -n 1,p
		sed -n ,1p
		sed -n 1,2,3p
		sed -n 1p a b
		sed -n 1p -i
		sed -n 1p -e1etouch_x
		sed -n 1p --expression=1etouch_x
		sed -n -i 1p
		sed -i 1p x
		sed 1p
		sed -n 1d
		sed -n 1pw_out
		sed -n $p
		uniq a b
		uniq - out
		uniq -- -a -b
		uniq a -c b
		uniq a -c
		uniq - -d
		git
		git fetch
		git commit
		git -C . status
		git -C. status
		git -c core.pager=x status
		git -ccore.pager=x log
		git -p log
		git --paginate log
		git --config-env=a=b log
		git --config-env a=b log
		git --exec-path=. status
		git --exec-path . status
		git --git-dir=x status
		git --git-dir x status
		git --namespace=x status
		git --super-prefix=x status
		git --work-tree=x status
		git --work-tree x status
		git --attr-source=x log
		git log --output x
		git log --output=x
		git diff --outp=x
		git diff --ext-diff
		git diff --ext
		git show --textconv
		git show --textc
		git log --exec=x
		git log --help
		git status --help
		git log --show-signature
		git log --format=%G?
		git show --pretty format:%h%x20%GS
		git log --format=%+GG
		git log --format=x%-GK
		git branch --format=%(signature:key)
		git branch --format=%(*signature)
		git branch new
		git branch -D x
		git branch --list x
		git branch -vvv
		git --no-pager
		git status-x
	`) {
		if Safe(words) {
			t.Errorf("%q is safe", words)
		}
	}
	for _, words := range [][]string{{""}, {"ls "}, {"", "ls"}, {"ｌｓ"}, {"l\u200bs"}, {"ls\x00"},
		{"sed", "-n", "1p;e x"}, {"git", "log", "--format=% GS"},
		{"sed", "-n", "1\np"}} {
		if Safe(words) {
			t.Errorf("%q is safe", words)
		}
	}
}

func TestSafeScripts(t *testing.T) {
	for _, text := range []string{
		"ls", "ls -l && pwd", "ls || pwd", "ls; pwd", "ls | wc -l", `grep -R "Cargo.toml" -n`, "git status && git log -n 1 | head -5",
		"ls *.go", "cat ~/x", "cd src && rg 'a|b' | head", "find . -name '*.go' | wc -l", "sed -n '1,5p' x",
	} {
		for _, shell := range []string{"bash", "zsh", "/bin/sh"} {
			if !allSafe(Understand(Line{Argv: []string{shell, "-lc", text}})) {
				t.Errorf("%q is not safe", text)
			}
		}
	}
	for _, text := range append([]string{
		"cargo check", "ls && rm x", "ls | sh", "find . -name *.go", "git log *", "uniq a*", "find . -delete", "cat <<'E'\na\nE",
		"ls && bash -c ls", "ls\nrm x", "ls; /tmp/ls", "sed -n 1p *", "find -exec{,dir} ls", "rg -e x --p\\re=y", "'fi'nd .",
	}, notPlain...) {
		if allSafe(Understand(script(text))) {
			t.Errorf("%q is safe", text)
		}
	}
}
