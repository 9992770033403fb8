package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
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

// confined is the setting in which safe commands most often run.
var confined = Setting{Confined: true, Dir: "/work"}

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
		git log --oneline --stat -n 3
		git log -3 --format=%h --since=yesterday HEAD -- a
		git log -p --no-textconv --no-ext-diff -n 3
		git diff --no-textconv --no-ext-diff --text HEAD
		git blame --no-ext-diff -w --no-textconv a -- b
		git rev-parse --show-toplevel
		git rev-parse HEAD~1
		git ls-files -m -- src
		sort -k2,2n -t : --reverse a
		sort --parallel=2 a b
		diff -ru a b
		diff --color=always --brief a b
		date
		date -u +%F
		date --iso-8601=seconds
		date -Iseconds
		date --rfc-3339=ns --utc
		du -sh src
		du --max-depth 1 --exclude=x
		jq .
		jq -rc .a[0].environment|keys a.json
		jq -n --arg a b --argjson c 1 --tab [$a,$c]
		jq --sort-keys --indent 2 . package.json
		cat proc
		cat processes/x sysctl/y
		grep -rn x src/proc
		cat a/../b
		ls /
		du -sh /home
		stat /usr/proc/x
		echo /proc/1/environ
		git --no-pager show --no-textconv --no-ext-diff HEAD:file
		cat /dev/null dev/x ../dev.txt
		git -P log
		git branch
		git branch -a -vv
		git branch --format=%(refname)
		git branch --show-current
		git diff --no-ext-diff --no-textconv --output-indicator-new=x
	`) {
		if !Safe(words, confined) {
			t.Errorf("%q is not safe", words)
		}
		if Dangerous(words) {
			t.Errorf("%q is dangerous", words)
		}
	}
	for _, program := range []string{"numfmt", "tac"} {
		if Safe([]string{program, "x"}, confined) != (runtime.GOOS == "linux") {
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
		if Safe(words, confined) {
			t.Errorf("%q is safe", words)
		}
	}
	for _, words := range [][]string{{""}, {"ls "}, {"", "ls"}, {"ｌｓ"}, {"l\u200bs"}, {"ls\x00"},
		{"sed", "-n", "1p;e x"}, {"git", "log", "--format=% GS"},
		{"sed", "-n", "1\np"}} {
		if Safe(words, confined) {
			t.Errorf("%q is safe", words)
		}
	}
}

// TestGitIsSafeOnlyInASandbox: a repository may say what git status runs.
func TestGitIsSafeOnlyInASandbox(t *testing.T) {
	for _, words := range commands(`
		git status
		git log
		git --no-pager show --no-ext-diff --no-textconv HEAD
		git branch
		git rev-parse HEAD
		git ls-files
		git diff --no-textconv --no-ext-diff
	`) {
		if Safe(words, Setting{Dir: "/work"}) || !Safe(words, confined) {
			t.Errorf("%q: without a sandbox %t, with one %t", words, Safe(words, Setting{}), Safe(words, confined))
		}
	}
	for _, words := range commands("ls\ncat x\nsort x\nrg x") {
		if !Safe(words, Setting{}) {
			t.Errorf("%q is safe only in a sandbox", words)
		}
	}
}

func TestOptionsThatWriteOrRun(t *testing.T) {
	for _, words := range commands(`
		git diff
		git diff --no-textconv
		git diff --no-ext-diff HEAD
		git diff -- --no-textconv --no-ext-diff
		git diff --no-textconv --no-ext-diff --textconv
		git diff --no-textconv --no-ext-diff --ext-diff
		git blame x
		git log -p
		git log -u
		git log --patch-with-stat
		git log --pat
		git log -U5
		git log -L1,5:x
		git log -Gx
		git log --cc
		git log --word-diff
		git log -p --no-textconv
		git log -p -- --no-textconv --no-ext-diff
		git show
		git show HEAD:file
		git show --stat HEAD
		git show --no-textconv HEAD
		git show HEAD -- --no-textconv --no-ext-diff
		git status -v
		git status --verb
		git blame --no-textconv x
		git rev-parse --output=x
		git ls-tree HEAD
		sort -o out a
		sort -oout a
		sort -ro out a
		sort --output out a
		sort --output=out a
		sort --out=out a
		sort a -o a
		sort -T /work a
		sort --temporary-directory=x a
		sort --temp=x a
		sort -S 1k --compress-program=./x a
		sort --comp ./x a
		sort --files0-from=list
		diff -l a b
		diff -ul a b
		diff --paginate a b
		diff --pag a b
		date -s tomorrow
		date -stomorrow
		date -us tomorrow
		date --set=tomorrow
		date --se tomorrow
		date 010100002030
		date -u 01010000
		date -f list
		date --file=list
		date -d
		date -d x 01010000
		jq env
		jq -n env.HOME
		jq -n $ENV.HOME
		jq .a|$ENV|.x
		jq "\\(env)" a
		jq -f x a
		jq -nf x
		jq --from-file x
		jq --rawfile a x .
		jq --slurpfile a x .
		jq -L x .
		jq --library-path x .
		jq -nrL. include
		jq import.x.as.y;.
		jq --seqx .
	`) {
		if Safe(words, confined) {
			t.Errorf("%q is safe", words)
		}
	}
	for _, words := range commands("date -d tomorrow +%F\ndate --date=@0\ndate --reference=x\ndate -r x") {
		if Safe(words, confined) != (runtime.GOOS == "linux") {
			t.Errorf("%q", words)
		}
	}
}

func TestTheKernelsFilesAreNotSafeToRead(t *testing.T) {
	for _, words := range commands(`
		cat /proc/1/environ
		cat /proc
		cat //proc/1/environ
		cat /./proc/1/environ
		cat /usr/../proc/1/environ
		cat ../../proc/1/environ
		cat x/../../../proc/self/environ
		cat /sys/kernel/x
		head -c9 /proc/self/environ
		tail -n1 -f /proc/kmsg
		grep -f/proc/1/environ x
		grep --file=/proc/1/environ x
		grep -f../../proc/1/environ x
		grep -fproc/1/environ x
		grep -nf/proc/1/environ x
		ls ../../proc
		ls ~/../proc
		ls ~root/../sys
		grep -r x /
		grep -r x //
		rg x /
		rg x /..
		find / -name x
		diff -r / x
		cd /proc
		cat proc/1/environ
		cat */../../proc/1/environ
		cat /*/1/environ
		cat /p*/1/environ
		cat /[p]roc/1/environ
		cat /pro?/1/environ
		cat ~/../proc/1/environ
		cat ~/../../proc/1/environ
		cat ~root/../proc/1/environ
		sort /proc/1/environ
		base64 /proc/1/environ
		jq -R . /proc/1/environ
		git diff --no-textconv --no-ext-diff --no-index x /proc/1/environ
		ls /proc/1/fd
		stat -c %N /proc/1/cwd
		sed -n 1p /proc/1/environ
		uniq /proc/1/environ
		wc --files0-from=/proc/1/environ
		cat /var/run/../proc/1/environ
		cat link/../../sys/x
		cat /dev/sda
		head -c 5 /dev/../dev/mem
		find /dev
	`) {
		for _, at := range []Setting{confined, {}, {Dir: "/"}} {
			if Safe(words, at) {
				t.Errorf("%q is safe in %+v", words, at)
			}
		}
	}
	for _, words := range commands("cd x\ncat x\nls x\ncat ./a/b") {
		if !Safe(words, Setting{Dir: "/"}) {
			t.Errorf("%q is not safe in the root", words)
		}
	}
	for dir, list := range map[string]string{
		"/":         "grep -r x\nrg x\nfind\ndu\ncat proc\ngrep -r x .\ncat ./proc/1/environ\ncat a/../proc/x",
		"/proc":     "cat cpuinfo\ncat 1/environ\nls\nrg x",
		"/proc/1":   "cat environ\ngrep -z x environ\nhead ./environ",
		"/a":        "cat ../proc/1/environ\ngrep -r x ..\nfind ..\ncd ../proc",
		"/sys/a/./": "cat b",
	} {
		for _, words := range commands(list) {
			if dir == "/proc" && words[0] == "ls" || words[0] == "du" && runtime.GOOS != "linux" {
				continue // ls shows names
			}
			if Safe(words, Setting{Dir: dir}) {
				t.Errorf("%q is safe in %s", words, dir)
			}
		}
	}
}

// TestWhereFilesLeadDecides: with a lookup a command is safe only if all that it may read leads to files that are nobody's secret.
func TestWhereFilesLeadDecides(t *testing.T) {
	at := Setting{Confined: true, Dir: "/work", Leads: func(path string) string {
		return map[string]string{"/work/a": "/work/a", "/work/link": "/proc/1/environ", "/work/dir/x": "/sys/x", "/work/root": "/", "/work/.": "/work",
			"/work/disk": "", "/work/-n": "/work/-n", "/work/-r": "/work/-r", "/work/r": "/work/r", "/work/n": "/work/n", "/work/x": "/work/x", "/etc/hosts": "/etc/hosts", "/work/*.go": "/dev/mem", "/work/y=a": "/work/y=a"}[path]
	}}
	for text, want := range map[string]bool{"cat a": true, "cat /etc/hosts": true, "grep x a": true, "cat /dev/null": true, "pwd": true, "ls": true, "cat -n a": true, "cat link": false,
		"cat dir/x": false, "cat disk": false, "cat unknown": false, "cat *.go": false, "ls root": true, "grep -r x root": false, "grep -r x a": true, "cat ~": false, "cat a link": false, "wc y=a": true,
		"git diff --no-ext-diff --no-textconv link": false, "stat link": false} {
		if words := strings.Fields(text); Safe(words, at) != want {
			t.Errorf("%q is safe: %v", text, !want)
		}
	}
	at.Dir = "/moved"
	if Safe([]string{"cat", "a"}, at) {
		t.Error("a file in another directory is the same file")
	}
	if got := Files([]string{"grep", "-fx", "y=a"}); !slices.Equal(got, []string{".", "-fx", "x", "y=a", "a"}) || Files([]string{"make", "a"}) != nil || Files([]string{"echo", "a"}) != nil {
		t.Errorf("files: %q", got)
	}
}

// reviewed are the long options of programs that somebody has looked at, besides those that are refused: none of them writes
// a file, runs a program or reads names of files from a file.
var reviewed = map[string]string{
	"sort": `--ignore-leading-blanks --dictionary-order --ignore-case --general-numeric-sort --ignore-nonprinting --month-sort
		--human-numeric-sort --numeric-sort --random-sort --random-source --reverse --sort --version-sort --batch-size --check --debug
		--key --merge --stable --buffer-size --field-separator --parallel --unique --zero-terminated --help --version`,
	"diff": `--normal --brief --report-identical-files --context --unified --ed --rcs --side-by-side --width --left-column
		--suppress-common-lines --show-c-function --show-function-line --label --expand-tabs --initial-tab --tabsize
		--suppress-blank-empty --recursive --no-dereference --new-file --unidirectional-new-file --ignore-file-name-case
		--no-ignore-file-name-case --exclude --exclude-from --starting-file --from-file --to-file --ignore-case
		--ignore-tab-expansion --ignore-trailing-space --ignore-space-change --ignore-all-space --ignore-blank-lines
		--ignore-matching-lines --text --strip-trailing-cr --ifdef --minimal --horizon-lines --speed-large-files --color --palette
		--help --version --GTYPE-group-format --line-format --LTYPE-line-format`,
	"du": `--null --all --apparent-size --block-size --bytes --total --dereference-args --max-depth --files0-from --human-readable
		--inodes --count-links --dereference --no-dereference --separate-dirs --si --summarize --threshold --time --time-style
		--exclude-from --exclude --one-file-system --help --version`,
}

// TestTheOptionsOfTheRealPrograms asks the programs here which options they have.
func TestTheOptionsOfTheRealPrograms(t *testing.T) {
	for program, list := range reviewed {
		help, err := exec.Command(program, "--help").Output()
		if err != nil || !strings.Contains(string(help), "--help") {
			t.Logf("there is no %s whose options could be compared: %v", program, err)
			continue
		}
		known := wordSet(list)
		for _, word := range strings.FieldsFunc(string(help), func(r rune) bool { return !strings.ContainsRune(letters+digits+"-", r) }) {
			if strings.HasPrefix(word, "--") && len(word) > 3 && !known[word] && Safe([]string{program, word}, confined) {
				t.Errorf("%s has an option %s that is not reviewed", program, word)
			}
		}
	}
}

// TestRealProgramsOnlyLook runs commands that are known to be safe, and compares the directory before and after.
func TestRealProgramsOnlyLook(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "list"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("1 2\n0 \n"), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	ran := 0
	for _, words := range commands(`
		sort -k2,2n -t : --reverse a
		sort -u -S 1k a b
		sort --check a
		diff -ru a b
		diff --side-by-side --from-file=a b list
		date -u +%F
		date --iso-8601=seconds
		du -sh . --time
		jq -R . a
		jq -n --arg a b [$a]
	`) {
		if !Safe(words, confined) {
			t.Errorf("%q is not safe", words)
		}
		program, err := exec.LookPath(words[0])
		if err != nil {
			t.Log("not run:", err)
			continue
		}
		command := exec.Command(program, words[1:]...)
		command.Dir = dir
		if err := command.Run(); err == nil || words[0] == "sort" && words[1] == "--check" {
			ran++
		}
		if after := names(t, dir); !slices.Equal(after, []string{"a", "b", "list"}) {
			t.Fatalf("%q made files: %q", words, after)
		}
	}
	if ran == 0 {
		t.Error("nothing ran: the test shows nothing")
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
