//go:build linux

package awaiting

import (
	"os"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

const (
	line   = messages.InputLine
	secret = messages.InputSecret
	keys   = messages.InputKeys
)

// bashPrompt and dashPrompt begin a dialogue with a shell.
var (
	bashArgv   = []string{"bash", "--norc", "--noprofile", "-i"}
	bashPrompt = step{shows: "ready> ", want: keys, by: "bash"}
	dashPrompt = step{shows: "ready> ", want: line, by: "dash"}
)

func bash(name string, steps ...step) testCase {
	return testCase{name: "bash: " + name, argv: bashArgv, steps: append([]step{bashPrompt}, steps...)}
}

func script(name, needs, text string, steps ...step) testCase {
	return testCase{name: name, needs: needs, script: text, steps: steps}
}

func piped(name, needs, text string, steps ...step) testCase {
	return testCase{name: "on pipes: " + name, needs: needs, script: text, pipes: true, steps: steps}
}

// works is a step in which a program shows "done" when it has worked.
var works = step{works: true, shows: "done"}

func shells() []testCase {
	return []testCase{
		bash("prompt"),
		bash("command", step{send: "sleep 0.3; echo do''ne\n", shows: "done", want: keys, by: "bash"}),
		bash("read", step{send: "read x\n", want: line, by: "bash"}, step{send: "y\n", shows: "ready> ", want: keys}),
		bash("read with a prompt", step{send: "read -p 'na''me: ' x\n", shows: "name: ", want: line}),
		bash("read a secret", step{send: "read -s x\n", want: secret, by: "bash"}),
		bash("read a key", step{send: "echo 1''2; read -n1 x\n", shows: "12\r\n", want: keys}),
		bash("here document", step{send: "cat <<E\n", shows: "> ", want: keys, by: "bash"}, step{send: "E\n", shows: "ready> ", want: keys}),
		bash("open quote", step{send: "echo 'a\n", shows: "> ", want: keys, by: "bash"}),
		bash("a job in the background", step{send: "sleep 100 &\n", shows: "[1] ", want: keys, by: "bash"}),
		bash("a job that is stopped", step{send: "cat\n", want: line, by: "cat"}, step{send: "\x1a", shows: "Stopped", want: keys, by: "bash"},
			step{send: "fg\n", shows: "cat\r\n", want: line, by: "cat"}),
		bash("a reader in the background", step{send: "cat & wait -n; echo 1''2\n", shows: "12\r\n", want: keys, by: "bash"}),
		bash("select", step{send: "select x in a b; do break; done\n", shows: "#? ", want: line, by: "bash"}),
		bash("search", step{send: "\x12", shows: "reverse", want: keys}),
		bash("stty", step{send: "stty -echo; cat\n", want: secret, by: "cat"}),
		script("read with a time limit", "", "read -t 100 x", step{want: line, by: "bash"}),
		script("cat", "", "cat", step{want: line, by: "cat"}, step{send: "one\n", shows: "one\r\none\r\n", want: line}),
		script("half a line", "", "cat", step{want: line}, step{send: "one", shows: "one", want: line}),
		script("first of a pipeline", "", "cat | tr a b | sort", step{want: line, by: "cat"}),
		script("raw cat", "", "stty raw; echo 12; cat", step{shows: "12", want: keys, by: "cat"}),
		script("of the terminal by name", "", "head -n1 </dev/tty >/dev/null; echo done; sleep 100", step{want: line, by: "head"}, step{send: "x\n", shows: "done", works: true}),
		script("of the terminal with input from elsewhere", "", "echo x | bash -c 'read y </dev/tty'", step{want: line, by: "bash"}),
		script("a pipeline that works", "", "(sleep 0.3; echo do; echo ne) | cat | paste -sd ''", works),
		script("a loop", "", "for i in 1 2 3 4 5; do sleep 0.05; echo $i; done; echo done", works),
		script("a tree", "", "bash -c 'bash -c \"sleep 0.3; echo done\"; true'; true", works),
		script("background without job control", "", "(cat; sleep 0.3; echo done) & wait", works),
		script("stopped", "", "(until grep -q State:.T /proc/$$/status; do sleep 0.05; done; kill -CONT $$) & kill -STOP $$; echo done", works),
		script("a copy", "", "sleep 0.3 | tee /dev/null; time sleep 0.1; timeout 10 sleep 0.1; nohup sleep 0.1; echo done", works),
		{name: "dash: prompt", argv: []string{"dash", "-i"}, steps: []step{dashPrompt, {send: "sleep 0.3; echo do''ne\n", shows: "done\r\nready> ", want: line, by: "dash"},
			{send: "read x\n", want: line, by: "dash"}}},
		{name: "zsh: prompt", argv: []string{"zsh", "-f", "-i"}, steps: []step{{shows: "ready> ", want: keys, by: "zsh"}, {send: "read -s x\n", want: secret}}},
		{name: "fish: prompt", argv: []string{"fish", "--no-config", "-i"}, steps: []step{{shows: "~", want: keys, by: "fish"}}},
		{name: "mksh: prompt", argv: []string{"mksh", "-i"}, steps: []step{{want: keys, plain: true, by: "mksh"}}},
	}
}

func interpreters() []testCase {
	python := func(name, text string, steps ...step) testCase {
		return testCase{name: "python: " + name, argv: []string{"python3", "-c", text}, steps: steps}
	}
	return []testCase{
		{name: "python: prompt", argv: []string{"python3", "-q"}, steps: []step{{shows: ">>> ", want: keys, plain: true}, {send: "import time; time.sleep(0.3); print('do'+'ne')\n", shows: "done", want: keys, plain: true},
			{send: "if 1:\n", shows: "... ", want: keys, plain: true}}},
		python("input", "input('name? ')", step{shows: "name? ", want: line}),
		python("readline", "import readline; input('name? ')", step{shows: "name? ", want: keys}),
		python("getpass", "import getpass; getpass.getpass()", step{shows: "Password: ", want: secret}),
		python("select", "import select, sys; print('12', flush=True); select.select([sys.stdin], [], [])", step{shows: "12", want: line}),
		python("poll", "import select; p = select.poll(); p.register(0, select.POLLIN); p.poll()", step{want: line}),
		python("poll with a time limit", "import select; p = select.poll(); p.register(0, select.POLLIN); p.poll(100000)", step{want: line}),
		python("poll for something else", "import select, os; p = select.poll(); r, w = os.pipe(); p.register(r, select.POLLIN); p.register(0, select.POLLPRI); p.poll(400); print('done')", works),
		python("epoll", "import select; p = select.epoll(); p.register(0, select.EPOLLIN); p.poll()", step{want: line, guess: true}),
		python("a thread that reads", "import threading, sys, time; threading.Thread(target=sys.stdin.readline).start(); time.sleep(100)", step{want: line}),
		python("a child that works", "import subprocess; p = subprocess.Popen(['sleep', '100'], stdin=subprocess.DEVNULL); input('name? ')", step{shows: "name? ", want: line}),
		python("a parent that waits", "import subprocess; subprocess.run(['sleep', '0.3']); print('done')", works),
		{name: "node: prompt", argv: []string{"node"}, steps: []step{{shows: "> ", want: keys, by: "node"}}},
		{name: "node: a question, and work after it", argv: []string{"node", "-e", `const rl = require('readline').createInterface({input: process.stdin, output: process.stdout});
			rl.question('name? ', () => { rl.close(); setTimeout(() => console.log('done'), 300) })`},
			steps: []step{{shows: "name? ", want: keys}, {send: "x\r", shows: "done", works: true}}},
		{name: "node: a question in line mode", argv: []string{"node", "-e", `require('readline').createInterface({input: process.stdin, output: process.stdout, terminal: false}).question('sure? [y/N] ', () => {})`},
			steps: []step{{shows: "sure? ", want: line, guess: true}}},
		{name: "node: timer", argv: []string{"node", "-e", "setTimeout(() => console.log('done'), 300)"}, steps: []step{works}},
		{name: "node: input", argv: []string{"node", "-e", "process.stdin.on('data', () => {})"}, steps: []step{{want: line, guess: true}}},
		{name: "perl: line", argv: []string{"perl", "-e", "print 'name? '; $| = 1; <STDIN>"}, steps: []step{{want: line, by: "perl"}}},
		{name: "bc", argv: []string{"bc", "-q"}, steps: []step{{want: keys, plain: true, by: "bc"}, {send: "6*7\n", shows: "42", want: keys, plain: true}}},
		{name: "sqlite3", argv: []string{"sqlite3"}, steps: []step{{shows: "sqlite> ", want: keys, plain: true, by: "sqlite3"}}},
		{name: "lua", argv: []string{"lua5.4", "-i"}, steps: []step{{shows: "> ", want: keys, plain: true}}},
		{name: "gdb", argv: []string{"gdb", "-q", "-nx"}, steps: []step{{shows: "(gdb) ", want: keys, plain: true, by: "gdb"}}},
		{name: "ed", argv: []string{"ed"}, steps: []step{{want: line, by: "ed"}, {send: "a\n", want: line}}},
	}
}

func questions() []testCase {
	return []testCase{
		{name: "ssh-keygen", argv: []string{"ssh-keygen", "-q", "-t", "ed25519", "-f", "key"}, steps: []step{{shows: "passphrase", want: secret, by: "ssh-keygen"},
			{send: "abcdef\n", shows: "again", want: secret}}},
		{name: "ssh-keygen: overwrite", needs: "ssh-keygen", script: "touch key; ssh-keygen -q -t ed25519 -f key", steps: []step{{shows: "(y/n)? ", want: line}}},
		{name: "openssl", argv: []string{"openssl", "passwd"}, steps: []step{{shows: "assword:", want: secret, by: "openssl"}}},
		script("git: user and password", "git", `printf 'protocol=https\nhost=example.com\n\n' | git credential fill`,
			step{shows: "Username for", want: line}, step{send: "a\n", shows: "Password for", want: secret}),
		script("git: a piece", "git", "git init -q; echo a >f; git add f; git commit -qm x; echo b >>f; git add -p", step{shows: "hunk", want: line}),
		script("rm -i", "", "touch x; rm -i x", step{shows: "remove", want: line, by: "rm"}),
		script("cp -i", "", "touch x y; cp -i x y; echo done", step{shows: "overwrite", want: line, by: "cp"}, step{send: "y\n", shows: "done", works: true}),
		script("xargs -p", "", "echo a b | xargs -p -n1 echo", step{shows: "?...", want: line, by: "xargs"}),
		script("yes or no", "", "sleep 0.1; read -r -p 'Do you want to continue? [Y/n] ' x; sleep 0.3; echo done", step{shows: "[Y/n] ", want: line}, step{send: "y\n", shows: "done", works: true}),
		{name: "dialog", argv: []string{"dialog", "--yesno", "sure?", "10", "30"}, steps: []step{{shows: "sure?", want: keys, by: "dialog"}}},
		{name: "whiptail", argv: []string{"whiptail", "--yesno", "sure?", "10", "30"}, steps: []step{{shows: "sure?", want: keys, by: "whiptail"}}},
	}
}

func screens() []testCase {
	return []testCase{
		script("less", "less", "seq 1000 >f; less f", step{shows: "10", want: keys, by: "less"}, step{send: " ", shows: "40", want: keys}),
		script("less of a pipe", "less", "seq 1000 | less", step{shows: "10", want: keys, by: "less"}),
		script("more", "more", "seq 1000 >f; more f", step{shows: "--More--", want: keys, by: "more"}),
		script("man", "man less", "man bash", step{shows: "BASH", want: keys}),
		script("git log", "git less", "git init -q; seq 100 >f; git add f; git commit -qm \"$(seq 100)\"; git log", step{shows: "commit", want: keys}),
		script("git commit", "git vim", "git init -q; touch f; git add f; git commit", step{shows: "Please enter", want: keys}),
		script("git rebase -i", "git vim", "git init -q; for i in 1 2; do git commit -q --allow-empty -m $i; done; git rebase -q -i --root", step{shows: "pick", want: keys}),
		{name: "vim", argv: []string{"vim", "-u", "NONE"}, steps: []step{{shows: "~", want: keys, by: "vim"}, {send: "ihello", shows: "hello", want: keys}, {send: "\x1b:!sleep 0.3; echo do''ne; read x\r", shows: "done", want: line}}},
		{name: "nano", argv: []string{"nano"}, steps: []step{{shows: "Exit", want: keys, by: "nano"}}},
		{name: "top", argv: []string{"top", "-d", "100"}, steps: []step{{shows: "PID", want: keys, by: "top"}}},
		{name: "htop", argv: []string{"htop", "-d", "100"}, steps: []step{{shows: "PID", want: keys, by: "htop"}}},
		script("tmux", "tmux", "unset TMUX; tmux -f /dev/null -S $PWD/s new 'echo 1''2; read x'", step{shows: "12", want: keys}),
		script("screen", "screen", "SCREENDIR=$PWD/s screen -c /dev/null sh -c 'echo 1''2; read x'", step{shows: "12", want: keys}),
		script("script", "script", "script -qc 'echo 1''2; read x' /dev/null", step{shows: "12", want: keys, by: "script"}),
		script("watch", "watch", `exec watch -n 0.1 'echo x >>f; test $(wc -l <f) -lt 4 || echo do""ne'`, works),
	}
}

func builds() []testCase {
	return []testCase{
		script("make", "make", `printf 'all: a b c d\n\techo do""ne\n%%:\n\tsleep 0.1; echo $@\n.PHONY: all a b c d\n' >Makefile; make -j4`, works),
		script("go build", "go", `printf 'module m\ngo 1.20\n' >go.mod; printf 'package m\nfunc F() {}\n' >m.go; go build .; echo done`, works),
		script("npm", "npm", `echo '{"scripts":{"x":"sleep 0.2; echo do\"\"ne"}}' >package.json; npm run x`, works),
		script("parallel", "", `seq 8 | xargs -P4 -I{} sleep 0.1; echo done`, works),
		script("strace", "strace", "strace -o /dev/null sleep 0.2; echo done", works),
		script("find", "", "find /usr/bin | sort >/dev/null; echo done", works),
	}
}

func pipes() []testCase {
	return []testCase{
		piped("cat", "", "cat", step{want: line, by: "cat"}, step{send: "one\n", shows: "one\n", want: line}),
		piped("read", "", "read x; sleep 0.3; echo done", step{want: line, by: "bash"}, step{send: "x\n", shows: "done", works: true}),
		piped("sort", "", "sort", step{want: line, by: "sort"}),
		piped("unread", "", "while sleep 0.3; do echo done; done", step{send: "x\n", shows: "done", works: true}),
		piped("last of a pipeline", "", "(sleep 0.3; echo done) | cat", works),
		piped("python", "python3", "python3 -c 'input()'", step{want: line}),
		piped("poll", "python3", "python3 -c 'import select; p = select.poll(); p.register(0, select.POLLIN); p.poll()'", step{want: line}),
		piped("node", "node", "node -e 'process.stdin.on(\"data\", () => {})'", step{want: line, guess: true}),
	}
}

func TestWhatProgramsWaitFor(t *testing.T) {
	spawner := newSpawner(t, sandbox.Options{})
	t.Run("table", func(t *testing.T) {
		for _, group := range [][]testCase{shells(), interpreters(), questions(), screens(), builds(), pipes()} {
			for _, c := range group {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					talk(t, spawner, nil, c).take(c.steps)
				})
			}
		}
	})
}

// levels are the ways in which a command may be started.
func levels() map[string]struct {
	options sandbox.Options
	level   messages.Assurance
} {
	type way = struct {
		options sandbox.Options
		level   messages.Assurance
	}
	return map[string]way{
		"warden, isolated":   {sandbox.Options{}, messages.AssuranceIsolated},
		"warden, confined":   {sandbox.Options{WithoutNamespaces: true}, messages.AssuranceConfined},
		"direct, confined":   {sandbox.Options{Direct: true}, messages.AssuranceConfined},
		"direct, no sandbox": {sandbox.Options{Direct: true}, ""},
	}
}

func TestWhatProgramsWaitForAtEachLevel(t *testing.T) {
	for name, way := range levels() {
		t.Run(name, func(t *testing.T) {
			spawner := newSpawner(t, way.options)
			var enclosure ptyio.Enclosure
			if way.level != "" {
				enclosure = enclose(t, spawner, way.level)
			}
			t.Run("table", func(t *testing.T) {
				for _, c := range []testCase{
					bash("read", step{send: "read x\n", want: line, by: "bash"}, step{send: "y\n", shows: "ready> ", want: keys}),
					bash("read a secret", step{send: "read -s x\n", want: secret, by: "bash"}),
					bash("command", step{send: "sleep 0.3; echo do''ne\n", shows: "done", want: keys, by: "bash"}),
					script("cat", "", "cat", step{want: line, by: "cat"}, step{send: "one\n", shows: "one\r\none\r\n", want: line}),
					script("a child", "", "bash -c 'cat'; true", step{want: line, by: "cat"}),
					script("of the terminal by name", "", "read x </dev/tty", step{want: line, by: "bash"}),
					script("select", "python3", "python3 -c 'import select; select.select([0], [], [])'", step{want: line}),
					script("poll", "python3", "python3 -c 'import select; p = select.poll(); p.register(0, select.POLLIN); p.poll()'", step{want: line}),
					script("work", "", "sleep 0.3; echo done", works),
					script("another terminal of the same number", "script", "script -qc 'echo 1''2; sleep 100' /dev/null | (read x; echo $x; sleep 0.3; echo done)", works),
					piped("cat", "", "cat", step{want: line, by: "cat"}),
					piped("work", "", "sleep 0.3; echo done", works),
				} {
					t.Run(c.name, func(t *testing.T) {
						t.Parallel()
						talk(t, spawner, enclosure, c).take(c.steps)
					})
				}
			})
		})
	}
}

// An ordinary user's host may not look at a program that is set-user-id.
func TestAReaderThatCannotBeLookedAtIsAGuess(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("skipped: root may look at every program")
	}
	spawner := newSpawner(t, sandbox.Options{})
	talk(t, spawner, nil, testCase{argv: []string{"su", "root", "-c", "true"}}).take([]step{{shows: ": ", want: secret, guess: true, by: "su"}})
}

// BenchmarkLook is the cost of a look at a command that waits for nothing.
func BenchmarkLook(b *testing.B) {
	spawner, err := sandbox.New(sandbox.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer spawner.Close()
	child, err := spawner.Spawn(b.Context(), ptyio.Launch{Argv: []string{"sleep", "1000"}, Dir: "/", TTY: true, Events: func(event ptyio.Event) {
		if output, is := event.(ptyio.Output); is {
			output.Release()
		}
	}})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if awaited, err := child.(ptyio.Inquirer).AwaitedInput(); awaited != nil || err != nil {
			b.Fatal(awaited, err)
		}
	}
}
