//go:build linux

package awaiting

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/expect"
)

// job is a build, a test run or an installation that asks nothing. Its script begins in an empty directory, $D; $REPO is this repository.
type job struct {
	name   string
	needs  string // programs, separated by spaces
	probe  string // a script that fails where the job cannot be done
	script string
	long   bool // it is not run by a plain "go test"
	listen bool // something in it listens for a while and prints nothing, which by default is a reason to answer
}

// cProject makes a project of some C files.
const cProject = `for i in 1 2 3 4 5 6 7 8; do printf '#include <stdio.h>\n#include <string.h>\nint f%s(int x) { char s[99]; sprintf(s, "%%d", x); return strlen(s) + %s; }\n' $i $i >f$i.c; done
	printf 'int f1(int); int f8(int);\nint main(void) { return f1(1) + f8(1) != 11; }\n' >main.c
	printf 'prog: main.o f1.o f2.o f3.o f4.o f5.o f6.o f7.o f8.o\n\t$(CC) -o $@ $^\n%%.o: %%.c\n\t$(CC) -O2 -Wall -c $<\ncheck: prog\n\t./prog && echo passed\nclean:\n\trm -f *.o prog\n' >Makefile
	`

// pyTests makes tests of a Python program, which start programs that have the terminal.
const pyTests = `cat >test_it.py <<'E'
import multiprocessing, subprocess, sys, threading, time, unittest
def square(x): time.sleep(0.02); return x * x
class It(unittest.TestCase):
    def test_child(self): subprocess.run(["sleep", "0.2"], check=True)
    def test_captured(self): self.assertEqual(subprocess.run(["sh", "-c", "sleep 0.2; echo x"], capture_output=True, text=True).stdout, "x\n")
    def test_pool(self):
        with multiprocessing.Pool(3) as p: self.assertEqual(p.map(square, range(20))[3], 9)
    def test_threads(self):
        t = [threading.Thread(target=square, args=(i,)) for i in range(9)]
        for x in t: x.start()
        for x in t: x.join()
    def test_pipe(self): self.assertEqual(subprocess.run(["sort"], input="b\na\n", capture_output=True, text=True).stdout, "a\nb\n")
    def test_slow(self): time.sleep(0.4)
E
	`

func jobs() []job {
	return []job{
		{name: "loop", script: `for i in $(seq 20); do printf '\r%s%%' $((i * 5)); sleep 0.05; done; echo`},
		{name: "loop over a file", script: `seq 30 >f; while read -r x; do echo "$x"; sleep 0.02; done <f; seq 30 | while read -r x; do sleep 0.02; done`},
		{name: "jobs in the background", script: `for i in 1 2 3; do (sleep 0.$i; echo $i) & done; wait; echo all`},
		{name: "modes that nobody reads by", script: `stty -echo; sleep 0.7; stty echo; stty raw -echo; sleep 0.7; stty sane; echo`},
		{name: "pipelines", script: `seq 20000 | sort -R | sort -n | tee f | gzip | gunzip | md5sum; yes | head -n 100000 | wc -l; tar -c f | tar -t; seq 9 | xargs -P 3 -I{} sleep 0.1`},
		{name: "time limits and locks", needs: "flock timeout", script: `timeout 5 sleep 0.3; (flock 9; sleep 0.3) 9>lock & flock lock sleep 0.1; wait`},
		{name: "a pipe with a name", script: `mkfifo p; (sleep 0.5; seq 10 >p) & sort -n p; wait`},
		{name: "progress", script: `dd if=/dev/zero of=f bs=1M count=100 status=progress; tput cols; stty size; cp f g; cmp f g`, needs: "tput"},
		{name: "make", needs: "make gcc", script: cProject + `make -j4 && make check && make clean`},
		{name: "make in makes", needs: "make gcc", long: true, script: `for d in a b c; do mkdir $d; (cd $d; ` + cProject + `); done
			printf 'all: a b c\na b c:\n\t$(MAKE) -C $@ check\n.PHONY: all a b c\n' >Makefile; make -j6`},
		{name: "configure", needs: "gcc", script: `for h in stdio unistd pthread nothere; do printf 'checking for %s.h... ' $h; echo "#include <$h.h>" >c.c; if gcc -c c.c 2>>log; then echo yes; else echo no; fi; done`},
		{name: "unittest", needs: "python3", script: pyTests + `python3 -m unittest -v`},
		{name: "venv", needs: "python3", long: true, script: `python3 -m venv v && . v/bin/activate && python -c 'import sys; print(sys.prefix)' && python -m compileall -q v/lib`},
		{name: "pip", needs: "python3", probe: "python3 -m pip --version && python3 -c 'import ensurepip, venv'", long: true, script: `python3 -m venv v && python3 - <<'E' &&
import zipfile
with zipfile.ZipFile("it-1-py3-none-any.whl", "w") as z:
    z.writestr("it.py", "x = 1\n")
    z.writestr("it-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: it\nVersion: 1\n")
    z.writestr("it-1.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: it\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    z.writestr("it-1.dist-info/RECORD", "it.py,,\nit-1.dist-info/METADATA,,\nit-1.dist-info/WHEEL,,\nit-1.dist-info/RECORD,,\n")
E
			v/bin/pip install --no-index --disable-pip-version-check ./it-1-py3-none-any.whl && v/bin/python -c 'import it' && v/bin/pip uninstall -y it`},
		{name: "npm", needs: "npm node", script: `mkdir dep; echo '{"name":"dep","version":"1.0.0","scripts":{"install":"sleep 0.2; echo built"}}' >dep/package.json
			echo '{"name":"it","version":"1.0.0","scripts":{"test":"node test.js","build":"node -e 1; sleep 0.2"},"dependencies":{"dep":"file:./dep"}}' >package.json
			echo 'require("child_process").spawnSync("sleep", ["0.3"], {stdio: "inherit"}); setTimeout(() => console.log("passed"), 300)' >test.js
			npm install --cache "$D/c" --offline --no-audit --no-fund && npm run build --cache "$D/c" && npm test --cache "$D/c"`},
		{name: "node --test", needs: "node", long: true, probe: "node --test --help", script: `for i in 1 2 3; do echo 'const t = require("node:test"); t("waits", async () => { await new Promise(r => setTimeout(r, 300)) }); t("child", (c, done) => { require("child_process").exec("sleep 0.2", done) })' >it$i.test.js; done; node --test`},
		{name: "node: children and workers", needs: "node", script: `cat >m.js <<'E'
const { spawn } = require('child_process'), { Worker } = require('worker_threads')
for (let i = 0; i < 3; i++) spawn('sh', ['-c', 'sleep 0.3; echo child'], { stdio: 'inherit' })
new Worker('setTimeout(() => {}, 400)', { eval: true })
process.stdout.write(process.stdin.isTTY + '\n')
E
			node m.js`},
		{name: "cargo", needs: "cargo", long: true, script: `export CARGO_NET_OFFLINE=true; cargo init --name it --vcs none . && printf '#[test]\nfn slow() { std::thread::sleep(std::time::Duration::from_millis(400)); }\n#[test]\nfn fast() {}\n' >>src/main.rs &&
			cargo build && cargo test && cargo run && cargo clean`},
		{name: "javac", needs: "javac java", long: true, script: `echo 'public class A { public static void main(String[] a) throws Exception { Thread.sleep(300); System.out.println("passed"); } }' >A.java; javac A.java && java A`},
		{name: "git", needs: "git", script: gitIdentity + `git init -q o; cd o; for i in $(seq 8); do echo $i >f; git add f; git commit -qm $i; done; git bisect start -q HEAD HEAD~7 && git bisect run sh -c 'sleep 0.05; test $(cat f) -lt 4'; git bisect reset
			git checkout -q -b side HEAD~3; git commit -q --allow-empty -m side; git rebase --exec 'sleep 0.1' master || git rebase --exec 'sleep 0.1' main; git gc; cd ..; git clone --progress "file://$D/o" c; git -C c fsck`},
		{name: "git clone", needs: "git", probe: `test -d "$REPO/.git"`, long: true, script: `git -c safe.directory='*' clone --progress --no-local "$REPO" c && cd c && git log --stat -n 50 | cat >/dev/null && git repack -ad`},
		{name: "archives", needs: "tar xz", script: `tar -C "$REPO" -cf - messages bus | xz -T2 -v >a.xz; xz -dc a.xz | tar -xvf - >list; wc -l list; find . -name '?.xz' -exec md5sum {} + | sort >sums; md5sum -c --quiet sums`},
		{name: "keys without questions", needs: "ssh-keygen openssl", script: `ssh-keygen -q -t ed25519 -N '' -f k; openssl genrsa -out r 2048; openssl passwd -6 x`},
		{name: "packages of the system", needs: "apt-get", long: true, script: `apt-get -s install hello; dpkg -l | tail -n 3; true`},
		{name: "go build", needs: "go", script: `cd "$REPO" && go build -o "$D/x" ./policy/command && go vet ./messages`},
		{name: "go test", needs: "go", long: true, script: `cd "$REPO" && go test -count=1 ./messages ./internal/...`},
		{name: "go test where it is", needs: "go", long: true, script: `cd "$REPO/bus" && go test -count=1 -v . && go test -count=1 -run NONE -bench . -benchtime 50x .`},
		{name: "go test of terminals", needs: "go", long: true, script: `cd "$REPO" && go test -count=1 -run 'Split|Ring|Position|Key|Environment' ./ptyio`},
		{name: "go build from nothing", needs: "go", long: true, script: `cd "$REPO" && GOCACHE="$D/cache" go build -o "$D/x" ./messages && GOCACHE="$D/cache" go vet ./messages`},
		{name: "go build of the program", needs: "go", long: true, script: `cd "$REPO" && go build -o "$D/x" ./cmd/execbus && go vet ./... && "$D/x" version`},
		{name: "a server that is tested", needs: "python3", listen: true, long: true, script: `cat >test_it.py <<'E'
import http.server, threading, time, unittest, urllib.request
class It(unittest.TestCase):
    def test_it(self):
        s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
        s.RequestHandlerClass.log_message = lambda *a: None
        threading.Thread(target=s.serve_forever).start()
        time.sleep(0.7)
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open("http://127.0.0.1:%d/" % s.server_port).read()
        s.shutdown()
E
			python3 -m unittest -v`},
		{name: "go test of servers", needs: "go", listen: true, long: true, script: `cd "$REPO" && go test -count=1 ./network`},
	}
}

const gitIdentity = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1\n"

// waits are the ways to wait for a job: as the tools do by default, and for input.
var waits = map[string]*messages.Until{"default": {Early: true}, "awaiting_input": {AwaitingInput: true}}

// live runs jobs on terminals.
type live struct {
	*testing.T
	session *execbus.Session
	repo    string

	mu    sync.Mutex // guards what workers count
	runs  int
	total time.Duration
}

// TestLiveBuilds runs each short job with each way to wait. With AWAITING_BUILDS=1h it runs all jobs for so long, again and again, two
// at a time. No call may be answered before its job has ended.
func TestLiveBuilds(t *testing.T) {
	lasts := time.Duration(0)
	if text := os.Getenv("AWAITING_BUILDS"); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	session, err := expect.Runtime(t).OpenSession(execbus.SessionOptions{Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	l := &live{T: t, session: session, repo: repo}
	chosen := l.possible(lasts > 0)
	if lasts == 0 {
		t.Run("jobs", func(t *testing.T) {
			for _, j := range chosen {
				t.Run(j.name, func(t *testing.T) {
					t.Parallel()
					l.each(t, j)
				})
			}
		})
		return
	}
	next, workers := make(chan job), sync.WaitGroup{}
	for range 2 {
		workers.Go(func() {
			for j := range next {
				began := time.Now()
				l.each(t, j)
				t.Logf("%s: %s", j.name, time.Since(began).Round(time.Millisecond))
			}
		})
	}
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		for _, i := range rand.Perm(len(chosen)) {
			if time.Now().Before(end) {
				next <- chosen[i]
			}
		}
	}
	close(next)
	workers.Wait()
	t.Logf("%d runs of %d jobs, %s on terminals", l.runs, len(chosen), l.total.Round(time.Second))
}

// possible leaves out jobs whose programs are missing.
func (l *live) possible(long bool) (chosen []job) {
	for _, j := range jobs() {
		if j.long && !long {
			continue
		}
		missing := ""
		for _, program := range strings.Fields(j.needs) {
			if _, err := exec.LookPath(program); err != nil {
				missing = program
			}
		}
		if missing == "" && j.probe != "" {
			probe := exec.Command("bash", "-c", j.probe)
			probe.Env = append(os.Environ(), "REPO="+l.repo)
			if probe.Run() != nil {
				missing = "what it tries first"
			}
		}
		if missing != "" {
			l.Logf("skipped: %s: there is no %s", j.name, missing)
			continue
		}
		chosen = append(chosen, j)
	}
	return chosen
}

// each does one job with each way to wait, at the same time.
func (l *live) each(t *testing.T, j job) {
	var ways sync.WaitGroup
	for name, until := range waits {
		if !j.listen || !until.Early {
			ways.Go(func() { l.run(t, j, name, until) })
		}
	}
	ways.Wait()
}

// run does one job. What the calls return before its end is a failure, with who was reading.
func (l *live) run(t *testing.T, j job, way string, until *messages.Until) {
	dir, err := os.MkdirTemp("", "builds-")
	if err != nil {
		t.Error(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx, began := context.Background(), time.Now()
	result, err := l.session.Exec(ctx, messages.ExecCommand{Shell: "bash", Login: new(false), TTY: true, Dir: dir, Until: until, Yield: new(messages.DefaultMaxPoll),
		Script: fmt.Sprintf("export D=%q REPO=%q\n%s", dir, l.repo, j.script)})
	var output strings.Builder
	for {
		if err != nil {
			t.Errorf("%s, %s: %v", j.name, way, err)
			return
		}
		output.Write(result.Output)
		if !result.Running {
			break
		}
		if m := result.Met; m != nil && m.Reason != messages.MetNothing {
			t.Errorf("%s, %s: an early answer after %s: %s\n%s%.2000s", j.name, way, time.Since(began).Round(time.Millisecond), m, evidence(m), &output)
		}
		result, err = l.session.Poll(ctx, messages.Poll{Process: result.Process, Until: until, Yield: new(messages.DefaultMaxPoll)})
	}
	if result.Status != messages.StatusExited(0) {
		t.Errorf("%s: the job itself failed, which proves nothing: %s\n%.2000s", j.name, result.Status, output.String()[max(0, output.Len()-2000):])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs, l.total = l.runs+1, l.total+time.Since(began)
}

// evidence is what the kernel says of a program that was said to read.
func evidence(m *messages.Met) (text string) {
	if m.Input == nil {
		return ""
	}
	text = fmt.Sprintf("%+v\n", *m.Input)
	for _, name := range []string{"cmdline", "stat", "syscall", "wchan"} {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", m.Input.PID, name))
		text += fmt.Sprintf("%s: %q %v\n", name, content, err)
	}
	return text
}
