//go:build linux

package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// desk is a directory that the commands can write to. It has their home, caches and temporary files.
type desk struct {
	t       *testing.T
	dir     string
	spawner ptyio.Spawner
	sandbox ptyio.Enclosure
	level   messages.Assurance
	cache   string // of the compiler; empty for none
}

// desks runs a test with confined commands, and with isolated ones.
func desks(t *testing.T, test func(t *testing.T, d *desk), programs ...string) {
	t.Helper()
	t.Parallel() // tools wait for themselves now and then
	for _, level := range []messages.Assurance{messages.AssuranceConfined, messages.AssuranceIsolated} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			test(t, newDesk(t, level, programs...))
		})
	}
}

func newDesk(t *testing.T, level messages.Assurance, programs ...string) *desk {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("skipped: %v", err)
		}
	}
	d := &desk{t: t, dir: t.TempDir(), level: level, spawner: newSpawner(t, sandbox.Options{WithoutNamespaces: level == messages.AssuranceConfined})}
	for _, name := range []string{"home", "tmp", "work"} {
		if err := os.Mkdir(filepath.Join(d.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := workspace(d.dir)
	c.Least = level
	if out, err := exec.Command("go", "env", "GOCACHE").Output(); err == nil { // this cache is full
		d.cache = strings.TrimSpace(string(out))
		c.Policy.WritableRoots = []string{d.cache}
	}
	d.sandbox = enclose(t, d.spawner, c)
	return d
}

func (d *desk) launch(tty bool, argv ...string) ptyio.Launch {
	l := launch(tty, argv...)
	l.Dir, l.Sandbox = filepath.Join(d.dir, "work"), d.sandbox
	l.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.dir + "/home", "TMPDIR=" + d.dir + "/tmp", "TERM=xterm", "LC_ALL=C", "PS1=ready> ",
		"GOPROXY=off", "GOCACHE=" + d.cache, "GOTOOLCHAIN=local", "GOFLAGS=-mod=mod"}
	return l
}

// does runs a script that must succeed, and returns its output.
func (d *desk) does(script string) string {
	d.t.Helper()
	_, r := run(d.t, d.spawner, d.launch(false, "bash", "-ec", script))
	for range 10 { // a compiler with an empty cache
		r.mu.Lock()
		_, ended := find[ptyio.TreeEnded](r)
		changed := r.changed
		r.mu.Unlock()
		if ended >= 0 {
			break
		}
		select {
		case <-changed:
		case <-time.After(patience):
		}
	}
	r.awaitEnd(d.t)
	exit := awaitEvent[ptyio.Exited](d.t, r)
	r.mu.Lock()
	defer r.mu.Unlock()
	if exit.Status != messages.StatusExited(0) {
		d.t.Errorf("%v: %s", exit.Status, r.output.String())
	}
	return r.output.String()
}

func (d *desk) write(name, text string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, "work", name), []byte(text), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

func TestGoWorks(t *testing.T) {
	desks(t, func(t *testing.T, d *desk) {
		d.write("go.mod", "module m\n\ngo 1.20\n")
		d.write("main.go", "package main\n\nfunc main() { println(answer()) }\n\nfunc answer() int { return 42 }\n")
		d.write("main_test.go", "package main\n\nimport \"testing\"\n\nfunc TestAnswer(t *testing.T) {\n\tif answer() != 42 {\n\t\tt.Fatal()\n\t}\n}\n")
		if said := d.does("go build -o m . && ./m && go test ."); !strings.Contains(said, "42") || !strings.Contains(said, "ok") {
			t.Error(said)
		}
	}, "go")
}

func TestGitWorks(t *testing.T) {
	desks(t, func(t *testing.T, d *desk) {
		d.write("file", "one\n")
		said := d.does(`git init -q . && git config user.email a@b && git config user.name n && git add file && git commit -qm first
		echo two >>file; git status --short; git diff | tail -1; git log --oneline | cat`)
		if !strings.Contains(said, " M file") || !strings.Contains(said, "+two") || !strings.Contains(said, "first") {
			t.Error(said)
		}
	}, "git")
}

func TestMakeWorks(t *testing.T) {
	desks(t, func(t *testing.T, d *desk) {
		d.write("Makefile", "all: a b\na b:\n\techo made $@ > $@\n")
		if said := d.does("make -s -j2 && cat a b"); said != "made a\nmade b\n" {
			t.Error(said)
		}
	}, "make")
}

func TestMktempWorks(t *testing.T) {
	desks(t, func(t *testing.T, d *desk) {
		if said := d.does(`f=$(mktemp); g=$(mktemp -d); echo x >"$f"; echo y >"$g/y"; cat "$f" "$g/y"; rm -r "$f" "$g"; unset TMPDIR; mktemp 2>/dev/null || echo refused`); said != "x\ny\nrefused\n" {
			t.Error(said)
		}
	}, "mktemp")
}

func TestJobControlWorks(t *testing.T) {
	desks(t, func(t *testing.T, d *desk) {
		child, r := run(t, d.spawner, d.launch(true, "bash", "--norc", "--noprofile", "-i"))
		typed := func(text, answer string) {
			t.Helper()
			child.Write([]byte(text), time.Time{}, func(ptyio.Taken, error) {})
			r.awaitOutput(t, answer)
		}
		r.awaitOutput(t, "ready> ")
		// The output of the job shows that it is in the foreground.
		typed("bash -c 'trap \"echo con''tinued\" CONT; trap \"echo inter''rupted; exit\" INT; echo $((40+2)); while :; do read -t 1; done'\n", "42")
		typed("\x1a", "Stopped")
		typed("fg\n", "continued")
		typed("\x03", "interrupted")
		typed("sleep 1000 & jobs -r | wc -l; echo $((1000+1))\n", "1001")
		typed("kill %1; wait; echo $((2000+2))\n", "2002")
		typed("echo writ''ten >/dev/tty; exit $((3+4))\n", "written")
		r.awaitEnd(t)
		if exit := awaitEvent[ptyio.Exited](t, r); exit.Status != messages.StatusExited(7) {
			t.Errorf("%v: %v", exit.Status, r)
		}
	}, "bash", "sleep")
}

// full runs a full-screen program and types at it. Each pair is a text that it must show and the keys that are typed then.
func (d *desk) full(argv []string, dialogue ...string) {
	d.t.Helper()
	l := d.launch(true, argv...)
	l.Size = messages.Size{Rows: 24, Cols: 80}
	child, r := run(d.t, d.spawner, l)
	for i := 0; i < len(dialogue); i += 2 {
		r.awaitOutput(d.t, dialogue[i])
		child.Write([]byte(dialogue[i+1]), time.Time{}, func(ptyio.Taken, error) {})
	}
	r.awaitEnd(d.t)
	if exit := awaitEvent[ptyio.Exited](d.t, r); exit.Status != messages.StatusExited(0) {
		d.t.Errorf("%v: %v: %v", argv, exit.Status, r)
	}
}

func TestLessWorks(t *testing.T) {
	desks(t, func(_ *testing.T, d *desk) {
		d.write("text", strings.Repeat("a line\n", 200))
		d.full([]string{"less", "text"}, "a line", "G", "(END)", "q")
	}, "less")
}

func TestVimWorks(t *testing.T) {
	desks(t, func(t *testing.T, d *desk) {
		d.full([]string{"vim", "-u", "NONE", "-i", "NONE", "new"}, "\"new\" [New", "iwritten\x1b:r !echo by a sh''ell\r", "by a shell", ":wq\r")
		if said := d.does("cat new"); said != "written\nby a shell\n" {
			t.Errorf("%q", said)
		}
	}, "vim")
}

func TestTopWorks(t *testing.T) {
	desks(t, func(_ *testing.T, d *desk) { d.full([]string{"top", "-d", "60"}, "COMMAND", "q") }, "top")
}

func TestNpmInstallsALocalPackage(t *testing.T) {
	desks(t, func(t *testing.T, d *desk) {
		d.write("package.json", `{"name": "m", "version": "1.0.0", "scripts": {"answer": "node -p \"require('dep')\""}}`)
		if said := d.does(`mkdir dep && echo '{"name": "dep", "version": "1.0.0"}' >dep/package.json && echo 'module.exports = 40 + 2' >dep/index.js
			npm pack --silent ./dep >/dev/null && npm install --offline --no-audit --no-fund --silent ./dep-1.0.0.tgz && npm run --silent answer`); said != "42\n" {
			t.Error(said)
		}
	}, "npm", "node")
}

func TestPythonMakesAVirtualEnvironment(t *testing.T) {
	desks(t, func(t *testing.T, d *desk) {
		arguments := "" // with pip, if python3 has it, at the level that denies most: pip takes half a minute of both processors
		if d.level == messages.AssuranceConfined {
			arguments = "--without-pip"
		} else if err := exec.Command("python3", "-c", "import ensurepip").Run(); err != nil {
			t.Logf("skipped pip: python3 has no ensurepip: %v", err)
			arguments = "--without-pip"
		}
		if said := d.does("python3 -m venv " + arguments + " v && v/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'"); said != "True\n" {
			t.Error(said)
		}
	}, "python3")
}

func TestSharedMemoryWorksInIsolation(t *testing.T) {
	d := newDesk(t, messages.AssuranceIsolated, "python3")
	if said := d.does(`echo x >/dev/shm/x && cat /dev/shm/x; python3 -c '
import multiprocessing, sys
with multiprocessing.Pool(2) as pool: print(pool.map(abs, [-1, -2]))'`); said != "x\n[1, 2]\n" {
		t.Error(said)
	}
}

func TestLoopbackWorksInIsolation(t *testing.T) {
	d := newDesk(t, messages.AssuranceIsolated, "python3", "bash")
	d.write("file", "served\n")
	if said := d.does(`exec 3< <(exec python3 -u -m http.server --bind 127.0.0.1 0 2>/dev/null); read -r line <&3
		port=${line##*port }; exec 4<>/dev/tcp/127.0.0.1/${port%% *}; printf 'GET /file HTTP/1.0\r\n\r\n' >&4; tail -n 1 <&4; kill %1 2>/dev/null || kill $!`); said != "served\n" {
		t.Error(said)
	}
}
