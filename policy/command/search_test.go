package command

import (
	"strings"
	"testing"
)

func TestDangerousCommands(t *testing.T) {
	for _, words := range commands(`
		rm -f x
		rm -rf /
		rm -fr x
		rm x -rf
		rm -r -f x
		rm --force x
		rm --for x
		rm -v --recursive --force x
		/bin/rm -f x
		./rm -f
		sudo rm -rf x
		sudo -u root -n rm -rf x
		sudo -uroot rm -f x
		sudo --user root A=1 rm -f x
		sudo -- rm -f x
		doas -u root rm -f x
		env rm -f x
		env -i rm -f x
		env - rm -f x
		env --ignore-environment A=1 B=2 rm -f x
		env A=1 -- rm -f x
		env -- A=1 rm -f x
		env -u A rm -f x
		env --unset A rm -f x
		env -S rm -f x
		env -Srm -f x
		env -iS rm -f x
		env -uSHELL rm -f x
		env --unset SHELL -S rm -f x
		env -iC /tmp --split-string=rm -f x
		env -a name rm -f x
		env --argv0 name rm -f x
		env --split-string=rm -f x
		nice rm -f x
		nice -n 5 rm -f x
		nice -5 rm -f x
		nohup rm -f x
		timeout 5 rm -f x
		timeout -s KILL -k 3 5 rm -f x
		timeout --signal KILL 5 rm -f x
		stdbuf -oL rm -f x
		stdbuf -o L rm -f x
		setsid -w rm -f x
		xargs rm -f
		xargs -0 -n 1 -I {} rm -f {}
		xargs --max-args 1 rm -rf
		command rm -f x
		command -p rm -f x
		exec rm -f x
		exec -a name rm -f x
		busybox rm -f x
		busybox sh -c eval\ rm\ -f\ x
		find . -exec rm -f {} ;
		find . -name x -exec ls {} ; -exec rm -rf {} +
		find . -okdir sudo rm -f {} ;
		ionice -c 3 rm -f x
		flock /tmp/lock rm -f x
		flock -w 5 -n /tmp/lock rm -f x
		chroot /x rm -f y
		chroot --userspec a:b /x rm -f y
		unshare -rm rm -f x
		pkexec --user root rm -f x
		parallel rm -f ::: x
		parallel -j 4 rm -f {} ::: x
		ld.so --library-path /x /bin/rm -f x
		/lib64/ld-linux-x86-64.so.2 /bin/rm -f x
		setpriv --reuid 5 rm -f x
		time -f x rm -f y
		sudo env A=1 nice -n 5 nohup timeout 5 rm -f x
		sudo sudo sudo sudo sudo sudo sudo sudo rm -f x
	`) {
		for i, word := range words {
			words[i] = strings.ReplaceAll(word, `\`, "")
		}
		if words[0] == "busybox" && words[1] == "sh" {
			words[3] = "eval rm -f x"
		}
		if !Dangerous(words) {
			t.Errorf("%q is not dangerous", words)
		}
		if Safe(words, confined) {
			t.Errorf("%q is safe", words)
		}
	}
}

func TestDangerousScripts(t *testing.T) {
	for _, text := range []string{
		"rm -rf x", "ls; rm -f x", "ls && rm -f x", "ls || rm -f x", "ls | rm -f x", "rm -f x &", "! rm -f x", "(rm -f x)",
		"{ rm -f x; }",
		"if ls; then rm -f x; fi", "if rm -f x; then ls; fi", "for a in b c; do rm -rf $a; done", "while true; do rm -f x; done",
		"case a in a) rm -f x;; esac", "f() { rm -f x; }; f", "echo $(rm -f x)", "echo `rm -f x`", `echo "a $(rm -f x)"`,
		"a=$(rm -f x)",
		"cat <(rm -f x)", "rm -rf x > /dev/null 2>&1", "ls > $(rm -f x)", "cat <<EOF\n$(rm -f x)\nEOF", "[[ $(rm -f x) ]]",
		"echo ${a:-$(rm -f x)}",
		"time rm -f x", "coproc rm -f x", "A=1 rm -f x", "rm $x -f", `rm -rf"$x"`, `'rm' -f x`, `r\m -f x`, `"rm" "-f" x`,
		`rm '-f' x`, `rm -"f" x`,
		"trap 'rm -f x' EXIT", "trap -- 'rm -f x' EXIT", "eval 'rm -f x'", "eval rm -f x", "sh -c 'rm -f x'", `bash -lc "rm -f x"`,
		"zsh -xc 'rm -f x'",
		"sh -e -c 'rm -f x'", "bash -o pipefail -ec 'rm -f x'", "bash --norc -c 'rm -f x'", "sh -c -- 'rm -f x'",
		"sudo sh -c 'ls; rm -f x'",
		"bash -c \"bash -c 'rm -f x'\"", "sh <<EOF\nrm -f x\nEOF", "bash -s <<'EOF'\nrm -f x\nEOF", "timeout $t rm -f x",
		"echo x | xargs rm -f",
		"find . -exec sh -c 'rm -f x' \\;", "find . -exec rm -f {} \\;", "rm \\\n -f x", "# why\nrm -f x", "rm -f x\n)",
		"rm -f x\necho 'a",
		"rm -f x; echo \xff", "sudo $opts; rm -f $x", "if true; then (while false; do ls | { rm -f x; }; done); fi",
		"rm -f x <<< y", "sh <<< 'rm -f x'", "sudo bash -s <<E\nrm -f x\nE",
		// Errors for our parser that zsh does not see, and bash sees only when it gets there.
		"rm -rf build(N)", "for f (a b) rm -f $f", "rm -f ${(f)names}", "names=(${(f)x})\nrm -rf $names", "[[ a ]] && { rm -f x }",
		"rm -f x; echo ${a b}", "rm -f x; echo $((1 2))", "sudo rm -rf x; ((1 2))", "sh -c 'rm -f x'; let a+",
		"fish -c 'rm -rf x'", "fish -lc 'if test -e x; rm -rf x; end'", "csh -c 'rm -f x'", "tcsh -fc 'rm -f x'",
		"zsh --emulate sh -c 'rm -f x'", "fish <<E\nrm -f x\nE",
		"env -u A -S 'rm -f x'", "env -iu A -vS 'rm -f x'", "env -C /tmp --split 'rm -f x'", "env -S 'rm -f x'",
		"flock /tmp/lock -c 'rm -f x'", "parallel 'ls; rm -f {}' ::: a",
	} {
		for _, shell := range [][]string{{"bash", "-lc"}, {"/bin/sh", "-c"}, {"./bash", "-c"}} {
			if !Dangerous(append(shell, text)) {
				t.Errorf("%q is not dangerous", text)
			}
		}
	}
}

func TestNotDangerous(t *testing.T) {
	for _, words := range commands(`
		rm x
		rm -r x
		rm -r -- -f
		rm --recursive x
		rm --foo x
		rmdir -f x
		git rm -f x
		echo rm -f x
		env A=1
		env
		sudo
		sudo ls -f
		timeout 5
		find . -name rm -f
		find . -exec
		trap
		trap -
		bash x.sh -f
		bash rm -f
		eval
		busybox
		docker run --rm -f x
		xargs echo rm -f
		flock rm -f
		flock /tmp/lock echo rm -f
		parallel echo ::: rm -f
		chroot rm -f x
		ls
	`) {
		if Dangerous(words) {
			t.Errorf("%q is dangerous", words)
		}
	}
	for _, text := range []string{
		"rm x", "rm -r x", "rm -- -f", `echo "rm -rf x"`, "echo 'rm -f x'", "$rm -f x", `"$x" -rf y`, "# rm -f x", "rm x; (",
		"cat <<EOF\nrm -f x\nEOF", "x=rm; $x -f y", "echo rm; ls -f", "git commit -m 'rm -f'", "", " ",
	} {
		if Dangerous([]string{"bash", "-lc", text}) {
			t.Errorf("%q is dangerous", text)
		}
	}
}

// TestBeyondTheBounds: a command in too many wrappers is dangerous; a script that is too long is judged by its lines.
func TestBeyondTheBounds(t *testing.T) {
	sudo := func(n int, words ...string) []string {
		return append(strings.Fields(strings.Repeat("sudo ", n)), words...)
	}
	if !Dangerous(sudo(maxWrapped, "rm", "-f", "x")) || Dangerous(sudo(maxWrapped, "ls")) || !Dangerous(sudo(maxWrapped+1, "ls")) {
		t.Error("the depth of wrappers is not bounded where it is said to be")
	}
	long := strings.Repeat("echo 'a long line of text'\n", maxScript/20)
	for text, want := range map[string]bool{
		long: false, long + "rm -f x": true, long + "/bin/rm x -rf;": true, long + "(rm --force x)": true, long + "rm x\nls -f": false,
		"cat > x <<'EOF'\n" + strings.Repeat("f(x)[0]{}", maxOpeners) + "\nEOF\n": false,
	} {
		if got := Dangerous([]string{"bash", "-c", text}); got != want {
			t.Errorf("%q…: %v", text[len(text)-20:], got)
		}
	}
	again := strings.Fields("find . " + strings.Repeat("-exec find ", 40) + "-exec sh -c")
	if !Dangerous(append(again, "$(("+strings.Repeat("a+", 2000))) {
		t.Error("a search of one script again and again is not given up")
	}
	if !Dangerous(strings.Fields("find . " + strings.Repeat("-exec find ", 20_000))) {
		t.Error("a search without end is not given up")
	}
}

func TestFunctionsThatNothingCallsAreSearchedInOneOrder(t *testing.T) {
	for range 50 { // a map has another order each time
		found := Search([]string{"sh", "-c", `a() { eval "$x"; }; b() { $y; }; c() { PS4=$z; }; d() { e() { f() { rm -rf x; }; }; }`})
		if found.Unreadable != hiddenText || !found.Dangerous {
			t.Fatalf("unreadable: %q, dangerous: %v", found.Unreadable, found.Dangerous)
		}
	}
}
