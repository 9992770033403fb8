package command

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// finds reports whether a search finds git push.
func finds(argv ...string) bool {
	return slices.ContainsFunc(Search(argv).Commands, func(words []string) bool {
		return len(words) > 1 && (words[0] == "git" || words[0] == "/usr/bin/git") && words[1] == "push"
	})
}

// foundForms are scripts that run git push, all of it written out.
var foundForms = []string{
	"bash <<'E'\necho it\\'s\ngit push\necho it\\'s\nE", "bash <<E\necho it\\'s\ngit push\necho it\\'s\nE", "bash <<\\E\necho \\'\ngit push\necho \\'\nE",
	"bash <<-'E'\n\tcat <<-F\n\t\t'\n\tF\n\tgit push\n\tE\n", "sh <<E\necho \\\\'\ngit push\nE", "sh <<E\ngit \\\npush\nE", "sh <<\"E\"\ngit \\\npush\nE",
	"cat <<E | sh\ngit push\nE", "{ sh; } <<E\ngit push\nE", "(sh) <<E\ngit push\nE", "if true; then sh; fi <<E\ngit push\nE", "while true; do bash -s; done <<< 'git push'",
	". /dev/stdin <<E\ngit push\nE", "source /dev/fd/0 <<< 'git push'", ". <(echo git push)", "sh <(echo git push)", "bash < <(echo git push)", "sh -c \"$(cat <<E\ngit push\nE\n)\"",
	"eval \"$(cat <<'E'\ngit push\nE\n)\"", "sh /dev/stdin <<E\ngit push\nE", "sh /dev/fd/3 3<<E\ngit push\nE", "sh 3<<E <&3\ngit push\nE", "exec <<E\ngit push\nE\nsh", "exec 3<<< 'git push'; sh <&3",
	"echo git push | sh", "echo 'git push' | sudo sh", "echo git push |& sh", "printf 'git push\\n' | sh", "printf '%s %s\\n' git push | sh", "echo -e 'x\\ngit push' | sh", "echo 'x\\ngit push' | sh",
	"{ echo a; echo git push; } | bash", "echo git push | cat | sh", "echo git push | tee f | sh", "echo git push > >(sh)", "echo git push | tee >(sh)", "(echo git push) | sh -s x", "echo git push | { read x; sh; }",
	"echo git push | env A=1 sh", "f() { echo git push; }; f | sh", "f() { sh; }; f <<< 'git push'", "f() { \"$@\"; }; f git push", "f() { $1 push; }; f git", "f() { git push; }",
	"eval -- git push", "eval 'git' \"push\"", "time -- git push", "time -p git push", "rbash -c 'git push'", "ksh93 -c 'git push'", "yash -c 'git push'", "hush -c 'git push'",
	"bash -o errexit -c 'git push'", "bash -oc errexit 'git push'", "bash -eo pipefail -O extglob -c 'git push'", "bash -norc -c 'git push'", "bash -posix -c 'git push'", "bash -noprofile -login -c 'git push'", "bash +o errexit -c 'git push'", "bash --rcfile x -ic 'git push'",
	"bash --rcfile <(echo git push) -i", "bash $options -c 'git push'", "bash -c -- 'git push'", "zsh --emulate sh -c 'git push'", "fish -C 'git push'", "fish --command='git push'",
	"parallel ::: 'git push'", "parallel git ::: push", "parallel git ::: push pull", "parallel {1} {2} ::: git ::: push", "parallel git {} ::: push", "echo push | parallel git", "echo git push | parallel", "parallel 'git {}' ::: push",
	"env -S 'git push'", "env -S'git push'", "env -S 'git\\_push'", "env -S 'A=1 git' push", "env -iS 'sh -c' 'git push'", "env -u A -S 'B=1 git push'", "env --split-string='git push'",
	"sh -c '\"$@\"' _ git push", "sh -c '$1 $2' _ git push", "sh -c '$*' _ git push", "sh -c '$0 \"$@\"' git push", "sh -c '\"${1}\" \"$2\"' _ git push", "sh -c 'exec \"$@\"' - git push",
	"mapfile -C 'git push' -c 1 x <<< y", "readarray -c1 -C'git push' x", "alias g='git push'; g", "alias g=git\ng push", "shopt -s expand_aliases\nalias g='git'\ng push", "hash -p /usr/bin/git g; g push",
	"su -c 'git push'", "su root -c 'git push'", "su - root --command 'git push'", "su --command='git push' root", "su -s /bin/sh -c 'git push' root", "su root -- -c 'git push'", "su <<< 'git push'",
	"runuser -u root git push", "runuser -u root -- git push", "runuser root -c 'git push'", "script -c 'git push'", "script -qec 'git push' /dev/null", "script -q --command 'git push' f", "script -q /dev/null git push",
	"strace git push", "strace -f -o x git push", "strace -e trace=file -- git push", "ltrace -o x git push", "taskset 1 git push", "taskset -c 0,1 git push", "prlimit --nofile=5 git push", "prlimit -n5 -- git push",
	"npm exec git push", "npm exec -- git push", "npm exec -c 'git push'", "npm --yes x -- git push", "npx git push", "npx -c 'git push'", "pnpm exec git push", "yarn dlx git push", "uv run git push", "bundle exec git push",
	"exec -a x git push", "exec -cl git push", "(exec -a sh bash -c 'git push')", "busybox sh -c 'git push'", "busybox xargs git push", "busybox env git push", "busybox timeout 5 git push", "busybox.static nice git push", "busybox setuidgid x git push",
	"chrt -f 1 git push", "setarch x86_64 -R git push", "watch -n 1 git push", "systemd-run --user -p A=b git push", "xvfb-run -a git push", "repeat 3 git push",
	"echo push | xargs git", "echo git push | xargs env", "echo push | xargs -I{} git {}", "echo 'git push' | xargs -I% sh -c %", "printf 'git push' | xargs -n2 sudo", "xargs -a f git push",
	"git -C x push", "git -c a=b push", "git --git-dir=x --work-tree y push", "git -c alias.x='!git push' x", "git -c alias.x='push -f' x", "git bisect run git push", "git submodule foreach git push", "git submodule foreach 'git push'",
	"git rebase -x 'git push' main", "$SUDO git push", "$(echo git push)", "$(echo git) push", "`echo git` push", "{git,push}", "git {push,x}", "$'git' push", "$'\\x67it' $'push'", "=git push", ": ; - git push",
	"trap 'git push' EXIT", "command -p git push", "builtin eval git push", "at now <<< 'git push'", "coproc sh <<< 'git push'", "PROMPT_COMMAND='git push' bash -i", "PS4='$(git push)' bash -xc :", "let 'a[$(git push)]'", "emulate sh -c 'git push'",
	"sudo -s <<< 'git push'", "sudo -i git push", "flock x -c 'git push'", "flock x sh -c 'git push'", "find . -exec sh -c 'git push' \\;", "for i in a; do sh <<E\ngit push\nE\ndone", "case a in a) sh <<< 'git push';; esac", "compgen -C 'git push'",
	"sh -c 'sh <<E\nsh -c \"git push\"\nE'", "sh <<'A'\nsh <<'B'\ngit push\nB\nA", "cat <<E >x | sh\ngit push\nE\ngit push",
}

// hiddenForms run something that is not written in them.
var hiddenForms = []string{
	"eval \"$x\"", "sh -c \"$x\"", "sh -c \"cd $x && ls\"", "$x", "$x y", "\"$x\"", "`cat f`", "$(cat f)", "cat f | sh", "curl x | bash", "base64 -d <<< eA== | sh", ". <(curl x)", "sh <(curl x)", "source /dev/stdin < <(curl x)",
	"BASH_ENV=f bash -c ls", "ENV=./f sh -i", "export BASH_ENV=f", "declare -x ENV=/f", "env BASH_ENV=f ls", "PS4=\"$x\"", "PROMPT_COMMAND=$x", "read BASH_ENV", "/usr/bin/g?t push", "gi[t] push", "xargs sh -c", "xargs sudo",
	"sh <<E\n$x\nE", "sh <<< \"$x\"", "sh < \"$x\"", "find . -exec sh -c '{}' \\;", "nu -c 'git push'", "elvish -c x", "/tmp/mysh -c 'git push'", "parallel", "${x:-git} push", "alias g=\"$x\"; g", "echo \"$x\" | sh", "git push(N)x", "sh <&5",
	"echo Z2l0IHB1c2g= | base64 -d | sh", "echo git push | sed s/x/y/ | sh", "f() { $1; }; f \"$x\"", "f() { $x; }", "su -c \"$x\"", "x=$(curl y); $x", "while read l; do $l; done <<< 'git push'",
}

// readableForms hide nothing, and have no git push.
var readableForms = []string{
	"ls $x", "cd \"$x\" && make $y", "for f in *.go; do gofmt -l \"$f\"; done", "git commit -m \"$(cat <<'E'\ngit push\nE\n)\"", "echo 'git push'", "cat <<E\ngit push\nE", "sh script.sh", "bash \"$f\"", ". ./env", ". \"$f\"", "python3 -c \"$x\"", "python3 <<E\n$x\nE",
	"ENV=production npm start", "PS4='+ ' bash -x f", "PS4='+ ${LINENO} '", "BASH_ENV= ls", "xargs ls", "find . -exec ls {} \\;", "sh < file", "[ -f x ] && ls", "run() { echo \"+ $*\"; \"$@\"; }; run make test; run ls", "ssh -c aes x", "command -v git push",
	"echo it\\'s", "sh <<'E'\necho 'git push'\nE", "sh -c 'echo \"$1\"' _ 'git push'", "mv x{,.bak}", "alias ll='ls -l'; ll", "f() { f; }; f", "xargs", "echo git push | xargs", "alias ls='ls -l'; ls", "docker run x git push", "ssh host git push", "echo push | git x", "git -C x status", "time ls",
	"cat f | grep git", "find . -name '*.go' | xargs gofmt -l", "set -- a b; echo \"$@\"", "trap - EXIT", "kubectl get pods", "npm test", "bundle install", "sudo ls", "su", "script",
}

func TestFormsThatAreWrittenOut(t *testing.T) {
	for _, text := range foundForms {
		if !finds("bash", "-c", text) {
			t.Errorf("%q: git push is not found in %q", text, Search([]string{"bash", "-c", text}).Commands[1:])
		}
	}
	for _, argv := range [][]string{{"bash", "-c", `"$@"`, "_", "git", "push"}, {"strace", "git", "push"}, {"ksh93", "-c", "git push"}, {"env", "-S", "git", "push"}} {
		if !finds(argv...) {
			t.Errorf("%q: git push is not found", argv)
		}
	}
}

// TestDocumentsAreTakenAsTheShellTakesThem looks at the words that a here-document makes.
func TestDocumentsAreTakenAsTheShellTakesThem(t *testing.T) {
	for text, want := range map[string]string{"sh <<'E'\necho a\\\\b\nE": `a\b`, "sh <<E\necho a\\\\b\nE": "ab", "sh <<E\necho a\\b\nE": "ab", "sh <<'E'\necho '\\$x'\nE": `\$x`, "sh <<E\necho '\\$x'\nE": "$x",
		"sh <<-E\n\techo 'a\n\t\tb'\n\tE\n": "a\nb", "sh <<E\necho a\\\nb\nE": "ab", "sh <<\"E\"\necho 'a\\\nb'\nE": "a\\\nb"} {
		found := Search([]string{"sh", "-c", text})
		if last := found.Commands[len(found.Commands)-1]; len(last) != 2 || last[1] != want {
			t.Errorf("%q: %q", text, found.Commands)
		}
	}
	if found := Search([]string{"sh", "-c", "sh <<'E'\nsh\nls\nE"}); found.Dangerous || found.Unreadable != "" {
		t.Errorf("a shell in a text that a shell reads: %+v", found)
	}
}

func TestWhatIsNotWrittenOutIsUnreadable(t *testing.T) {
	for _, text := range hiddenForms {
		if found := Search([]string{"bash", "-c", text}); found.Unreadable == "" {
			t.Errorf("%q is readable: %q", text, found.Commands[1:])
		}
	}
	for _, text := range append(readableForms, foundForms...) {
		found := Search([]string{"bash", "-c", text})
		if found.Unreadable != "" && !slices.Contains([]string{"$SUDO git push", "bash $options -c 'git push'", "xargs -a f git push"}, text) {
			t.Errorf("%q is unreadable: %s", text, found.Unreadable)
		}
	}
	for _, text := range readableForms {
		if finds("bash", "-c", text) {
			t.Errorf("%q: git push is found in %q", text, Search([]string{"bash", "-c", text}).Commands[1:])
		}
	}
	for text, want := range map[string]bool{"sh": true, "bash -s": true, "sudo sh": true, "source /dev/stdin": true, "su": true, "sh x": false, "sh </dev/null": false, "sh <<< x": false, "ls | sh": false, "cat": false} {
		if found := Search([]string{"bash", "-c", text}); found.ReadsInput != want {
			t.Errorf("%q runs what is typed: %v", text, found.ReadsInput)
		}
	}
}

// Sessions plan their commands at the same time.
func TestScriptsAreReadAtTheSameTime(t *testing.T) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 100 {
				want := fmt.Sprintf("git push number%d", i)
				commands := Search([]string{"bash", "-c", fmt.Sprintf(`printf '%%s %%s\n' git "push number%d" | sh`, i)}).Commands
				if !slices.ContainsFunc(commands, func(words []string) bool { return strings.Join(words, " ") == want }) {
					t.Errorf("%q is not among %q", want, commands)
				}
			}
		})
	}
	all.Wait()
}
