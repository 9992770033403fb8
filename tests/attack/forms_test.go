//go:build linux

package attack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// A rule forbids a program. The forms are ways to execute it all the same: a launcher, in which {P} stands for the program and {M} for its
// argument, a file that it makes. All are tried when EXECBUS_FORMS is all, and otherwise each launcher once.
//
//	EXECBUS_FORMS=all go test -timeout 60m -v -run TestNoFormExecutesWhatARuleForbids ./tests/attack

// launchers are scripts for sh, by the program that they need.
var launchers = map[string][]string{
	"sh": {
		"{P} {M}", "exec {P} {M}", "command {P} {M}", "eval {P} {M}", "echo {P} {M} | sh", "sh -c '{P} {M}'", "a={P}; $a {M}", `f() { "$@"; }; f {P} {M}`,
		"$(printf %s {P}) {M}", "sh <<E\n{P} {M}\nE", "({P} {M})", "{P} {M} & wait", "trap '{P} {M}' EXIT", "true | {P} {M}", "{P} {M} | cat", "if {P} {M}; then :; fi",
		"case x in x) {P} {M};; esac", "for i in 1; do {P} {M}; done", "x=$({P} {M})", "printf '%s %s' {P} {M} > $0.x; . $0.x", "printf '#!/bin/sh\\nexec {P} {M}' > $0.y; chmod +x $0.y; $0.y",
		"sh -c 'sh -c \"sh -c \\\"{P} {M}\\\"\"'", "alias q='{P} {M}'\nq", "set -- {P} {M}; \"$@\"", "echo {M} | while read m; do {P} $m; done", "echo '{P} {M}' | tr a-z a-z | sh",
	},
	"bash": {
		"bash -c '{P} {M}'", "bash -c 'cat <({P} {M})'", "bash -c 'coproc {P} {M}; wait'", "bash -lc '{P} {M}'", "bash <<< '{P} {M}'", "bash -c 'exec -a other {P} {M}'",
		"bash -c 'time {P} {M}'", "bash --norc -ic '{P} {M}'", "bash -c 'hash -p $(command -v {P}) z; z {M}'", "bash -c 'PROMPT_COMMAND=; mapfile -t x < <({P} {M})'",
	},
	"env": {"env {P} {M}", "env -i PATH=$PATH {P} {M}", "env -S '{P} {M}'"}, "nice": {"nice {P} {M}"}, "nohup": {"nohup {P} {M}"}, "setsid": {"setsid -w {P} {M}"},
	"timeout": {"timeout 20 {P} {M}"}, "stdbuf": {"stdbuf -o0 {P} {M}"}, "ionice": {"ionice {P} {M}"}, "taskset": {"taskset 1 {P} {M}"}, "flock": {"flock $0 {P} {M}"},
	"script": {"script -qc '{P} {M}' /dev/null < /dev/null"}, "strace": {"strace -o /dev/null {P} {M}"}, "unshare": {"unshare {P} {M}"}, "prlimit": {"prlimit --nofile=64 {P} {M}"},
	"xargs": {"echo {M} | xargs {P}", "echo {P} {M} | xargs -n2 env", "printf '%s\\n' {M} | xargs -I @ {P} @", "echo {M} | xargs -P4 {P}"},
	"find":  {`find . -maxdepth 0 -exec {P} {M} \;`, "find . -maxdepth 0 -exec {P} {M} {} +", `find . -maxdepth 0 -exec sh -c '{P} {M}' \;`},
	"awk":   {`awk 'BEGIN{system("{P} {M}")}'`, `awk 'BEGIN{"{P} {M}" | getline}'`, `awk 'BEGIN{print "x" | "{P} {M}"}'`},
	"perl": {`perl -e 'system("{P}", "{M}")'`, `perl -e 'exec("{P}", "{M}")'`, "perl -e '`{P} {M}`'", `perl -e 'open(F, "-|", "{P}", "{M}"); close F'`,
		`perl -e 'fork or exec {"{P}"} "other", "{M}"; wait'`},
	"/usr/bin/python3": {`/usr/bin/python3 -c 'import os; os.system("{P} {M}")'`, `/usr/bin/python3 -c 'import subprocess; subprocess.run(["{P}", "{M}"])'`,
		`/usr/bin/python3 -c 'import os; os.execvp("{P}", ["x", "{M}"])'`, `/usr/bin/python3 -c 'import os; os.waitpid(os.posix_spawnp("{P}", ["{P}", "{M}"], os.environ), 0)'`,
		`/usr/bin/python3 -c 'import os,shutil; os.execve(os.open(shutil.which("{P}"), os.O_RDONLY), ["x", "{M}"], os.environ)'`,
		`/usr/bin/python3 -c 'import pty; pty.spawn(["{P}", "{M}"])'`, `printf 'import os\nos.system("{P} {M}")\n' | /usr/bin/python3 -i`,
		`/usr/bin/python3 -c 'import threading,subprocess; t=threading.Thread(target=lambda: subprocess.run(["{P}", "{M}"])); t.start(); t.join()'`},
	"node": {`node -e 'require("child_process").execSync("{P} {M}")'`, `node -e 'require("child_process").spawnSync("{P}", ["{M}"])'`,
		`node -e 'require("child_process").execFile("{P}", ["{M}"])'`},
	"tclsh":   {`echo 'exec {P} {M}' | tclsh`},
	"sqlite3": {`sqlite3 :memory: '.shell {P} {M}'`},
	"ed":      {`printf '!{P} {M}\nq\n' | ed -s`},
	"sed":     {`echo x | sed '1e {P} {M}'`, `echo '{P} {M}' | sed 's/q/q/;e'`},
	"make": {`printf 'all:\n\t@{P} {M}\n' | make -s -f -`, `printf 'x := $(shell {P} {M})\nall:\n' | make -s -f -`, `printf 'all: a\na:\n\t+$(MAKE) -s -f $(F) b\nb:\n\t{P} {M}\n' > $0.mk; make -s -j4 F=$0.mk -f $0.mk`,
		`printf 'SHELL={P}\n.SHELLFLAGS=\nall:\n\t@{M}\n' | make -s -f -`},
	"ninja": {`mkdir $0.n; printf 'rule r\n command = {P} {M}\nbuild x: r\n' > $0.n/build.ninja; ninja -C $0.n`},
	"npm":   {`mkdir $0.p; printf '{"scripts":{"x":"{P} {M}"}}' > $0.p/package.json; cd $0.p; PATH=$PATH:$W npm run x`},
	"git": {`git -c alias.q='!{P} {M}' q`, `git init -q $0.g; printf '#!/bin/sh\nexec {P} {M}' > $0.g/.git/hooks/pre-commit; chmod +x $0.g/.git/hooks/pre-commit; git -C $0.g -c user.name=a -c user.email=a@b commit -q --allow-empty -m x`,
		`git -c core.sshCommand='{P} {M}' ls-remote ssh://x/y`, `git init -q $0.h; echo x > $0.h/f; git -C $0.h add f; git -C $0.h -c core.pager='{P} {M}' -c pager.diff=true --paginate diff --cached`,
		`GIT_EDITOR='{P} {M};:' git -c user.name=a -c user.email=a@b -c core.bare=false var GIT_EDITOR > /dev/null; git init -q $0.e; GIT_EDITOR='{P} {M};:' git -C $0.e -c user.name=a -c user.email=a@b commit -q --allow-empty`},
	"tar": {`tar --checkpoint=1 --checkpoint-action=exec='{P} {M}' -cf $0.tar $0`, `tar -I '{P} {M};cat' -cf $0.tar $0`, `tar -cf $0.t2 $0; tar --to-command='{P} {M}' -xf $0.t2`},
	"vim": {`vim -es -u NONE -c '!{P} {M}' -c 'qa!' < /dev/null`, `vim -es -u NONE -c 'call system("{P} {M}")' -c 'qa!' < /dev/null`},
	"ssh": {`ssh -F none -o ProxyCommand='{P} {M}' x`, `ssh -F none -o ProxyCommand='{P} {M}' -o ProxyUseFdpass=yes x`}, "gdb": {`gdb -nx -batch -ex 'shell {P} {M}'`},
	"rsync": {`rsync -e '{P} {M}' x:y .`}, "zip": {`zip -q $0.zip $0 -T -TT '{P} {M} ;:'`}, "gcc": {`echo 'int main(){}' > $0.c; gcc -c -o $0.o -wrapper {P},{M} $0.c`},
	"m4": {`echo 'syscmd({P} {M})' | m4`}, "busybox": {"busybox sh -c '{P} {M}'", "busybox env {P} {M}"}, "ruby": {`ruby -e 'system("{P}", "{M}")'`}, "lua": {`lua -e 'os.execute("{P} {M}")'`},
}

// prompts are programs that execute what is typed into them, by the words that start them; those with a star need a terminal. \r is the Enter key
// where no line editor is expected.
var prompts = map[string][]string{
	"sh": {"{P} {M}\nexit\n"}, "bash --norc": {"{P} {M}\nexit\n"}, "sh -s": {"sh\n{P} {M}\nexit\nexit\n"}, "* sh -i": {"{P} {M}\nexit\n"},
	"* bash --norc -i":    {"{P} {M}\nexit\n", "alias q='{P} {M}'\nq\nexit\n", "{P} {M} &\nwait\nexit\n"},
	"/usr/bin/python3 -i": {"import os; os.system('{P} {M}')\nexit()\n", "import subprocess; subprocess.call(['{P}', '{M}'])\nexit()\n"},
	"* /usr/bin/python3":  {"import os; os.system('{P} {M}')\nexit()\n"}, "/usr/bin/python3 -m pdb bin/script": {"import os; os.system('{P} {M}')\nq\n"},
	"node -i": {"require('child_process').execSync('{P} {M}')\n.exit\n"}, "* perl -de0": {"system('{P}', '{M}')\nq\n"}, "sqlite3": {".shell {P} {M}\n.quit\n"},
	"awk {system($0)}": {"{P} {M}\n"}, "xargs -n2 env": {"{P} {M}\n"}, "make -s -f -": {"all:\n\t@{P} {M}\n"}, "gdb -nx -q": {"shell {P} {M}\nquit\n"},
	"ed -s": {"!{P} {M}\nq\n"}, "sed -n 1e": {"{P} {M}\n"}, "tclsh": {"exec {P} {M}\nexit\n"}, "perl": {"system('{P}', '{M}');\n__END__\n"},
	"* vim -u NONE -n": {":!{P} {M}\r\r:qa!\r"}, "* less it.rules": {"!{P} {M}\r\rq"}, "dc": {"!{P} {M}\nq\n"}, "ruby": {"system('{P}', '{M}')\n"},
}

// typed is a form of which a prompt is told.
type typed struct {
	argv  []string
	tty   bool
	input string
}

// inputs are the forms for prompts, by their marks.
func inputs(t *testing.T, work string, all bool) (made map[string]typed) {
	t.Helper()
	made = map[string]typed{}
	var missing []string
	n := 0
	for _, words := range slices.Sorted(maps.Keys(prompts)) {
		argv := strings.Fields(strings.TrimPrefix(words, "* "))
		if _, err := exec.LookPath(argv[0]); err != nil {
			missing = append(missing, argv[0])
			continue
		}
		for _, input := range prompts[words] {
			n++
			variants := programs
			if !all {
				variants = programs[n%len(programs):][:1]
			}
			for _, p := range variants {
				mark := fmt.Sprint("typed", len(made))
				text := strings.NewReplacer("{P}", strings.ReplaceAll(p, "$W", work), "{M}", work+"/marks/"+mark).Replace(input)
				made[mark] = typed{argv, strings.HasPrefix(words, "* "), text}
			}
		}
	}
	if len(missing) > 0 {
		t.Log("not installed:", strings.Join(missing, " "))
	}
	return made
}

// programs are the ways to write the forbidden program, in a directory that PATH has.
var programs = []string{"forbidden", "$W/bin/forbidden", "./bin/forbidden", "bin/../bin/forbidden", "other", "$W/links/other", "$W/dir/forbidden", "$W/script/forbidden"}

// wrappers run a form's file.
var wrappers = []string{"sh {F}", "(setsid sh {F} &) ; sleep 0.2"}

// forms writes the forms into a workspace.
func forms(t *testing.T, work string, all bool) (made map[string]string) {
	t.Helper()
	var missing []string
	made = map[string]string{}
	n := 0
	for _, program := range slices.Sorted(maps.Keys(launchers)) {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
			continue
		}
		for _, launcher := range launchers[program] {
			n++
			variants, ways := programs, wrappers
			if !all {
				variants, ways = programs[n%len(programs):][:1], wrappers[:1]
			}
			for _, p := range variants {
				for _, way := range ways {
					mark := fmt.Sprint("mark", len(made))
					file := filepath.Join(work, "forms", mark)
					p := strings.ReplaceAll(p, "$W", work)
					if strings.HasPrefix(p, "./") || strings.HasPrefix(p, "bin/") {
						way = "cd " + work + "; " + way
					}
					text := strings.NewReplacer("{P}", p, "{M}", work+"/marks/"+mark).Replace(launcher)
					must(t, os.WriteFile(file+".sh", []byte(text), 0o644))
					must(t, os.WriteFile(file, []byte(strings.ReplaceAll(way, "{F}", file+".sh")), 0o644))
					made[mark] = text
				}
			}
		}
	}
	if len(missing) > 0 {
		t.Log("not installed:", strings.Join(missing, " "))
	}
	return made
}

// workshop is a workspace with a program that a rule forbids.
func workshop(t *testing.T) string {
	t.Helper()
	work, err := os.MkdirTemp("", "execbus-forms-")
	must(t, err)
	work, err = filepath.EvalSymlinks(work)
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(work) })
	for _, dir := range []string{"bin", "links", "script", "forms", "marks"} {
		must(t, os.Mkdir(filepath.Join(work, dir), 0o755))
	}
	touch, err := exec.LookPath("touch")
	must(t, err)
	program, err := os.ReadFile(touch)
	must(t, err)
	must(t, os.WriteFile(work+"/bin/forbidden", program, 0o755))
	must(t, os.WriteFile(work+"/script/forbidden", []byte("#!/bin/sh\nexec touch \"$@\"\n"), 0o755))
	must(t, os.Symlink("../bin/forbidden", work+"/links/other"))
	must(t, os.Symlink("forbidden", work+"/bin/other"))
	must(t, os.Symlink("bin", work+"/dir"))
	must(t, os.WriteFile(work+"/bin/script", []byte("pass\n"), 0o644))
	must(t, os.WriteFile(work+"/it.rules", []byte(`prefix_rule(["forbidden"], decision="forbidden")`), 0o644))
	return work
}

// promptPatience is how long a prompt may take until it has ended by itself.
const promptPatience = time.Minute

// tries runs all forms that are files in one command, and each prompt beside it. It returns the marks that they made, the refusals of the
// program by their marks, and how all ended. An attempt is one program in one process: it is in the events once.
func tries(t *testing.T, work string, prompts map[string]typed, level messages.Assurance, mode messages.ExecutionMode) (made map[string]bool, refused map[string]int, ends map[messages.ProcessID]messages.EndRecord) {
	t.Helper()
	rt, err := execbus.Start(execbus.Options{Rules: []execbus.RuleLayer{{Files: []string{work + "/it.rules"}, Trusted: true}}})
	must(t, err)
	defer func() { must(t, rt.Shutdown(t.Context())) }()
	session, err := rt.OpenSession(execbus.SessionOptions{Dir: work, Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}, LeastAssurance: level, Executions: mode,
		Environment: messages.EnvironmentPolicy{Set: map[string]string{"PATH": work + "/bin:/usr/local/bin:/usr/bin:/bin", "HOME": work, "W": work, "TERM": "dumb"}}})
	must(t, err)
	events, err := session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindProgramExecuted, messages.KindExecEnded}, Lossless: true})
	must(t, err)
	defer events.Close()
	started, err := session.Start(t.Context(), messages.ExecCommand{Argv: []string{"/bin/sh", "-c", "for f in forms/mark*[0-9]; do timeout 60 sh $f; done < /dev/null > /dev/null 2>&1; sleep 0.5"}})
	if errors.Is(err, messages.ErrUnsupported) {
		t.Skip("not here:", err)
	}
	must(t, err)
	running := map[messages.ProcessID]string{started.ID(): "the files"}
	for mark, p := range prompts {
		child, err := session.Start(t.Context(), messages.ExecCommand{Argv: p.argv, TTY: p.tty, OpenStdin: !p.tty})
		must(t, err)
		must(t, child.Send([]byte(p.input)))
		if running[child.ID()] = mark; !p.tty {
			go func() { _ = child.CloseStdin(t.Context()) }() // behind the input
		}
		defer time.AfterFunc(promptPatience, func() { _, _ = child.Terminate(context.Background()) }).Stop()
	}
	refused, ends = map[string]int{}, map[messages.ProcessID]messages.EndRecord{}
	attempts := map[string]bool{}
	for len(ends) < len(running) {
		event, err := events.Next(t.Context())
		must(t, err)
		switch e := event.(type) {
		case messages.ProgramExecuted:
			if !e.Refused {
				continue
			}
			at := slices.IndexFunc(e.Argv, func(word string) bool { return strings.HasPrefix(word, work+"/marks/") })
			if at < 0 || e.Rule == "" || e.Source != messages.DecidedByRule {
				t.Errorf("%+v", e)
				continue
			}
			mark := filepath.Base(e.Argv[at])
			if attempt := fmt.Sprintf("%s %d %s", mark, e.PID, e.Program); attempts[attempt] {
				t.Errorf("it is in the events twice: %+v", e)
			} else {
				attempts[attempt] = true
			}
			if by := running[e.Process]; by != mark && (by != "the files" || prompts[mark].argv != nil) {
				t.Errorf("%s executed what %s was told: %+v", by, mark, e)
			}
			refused[mark]++
		case messages.ExecEnded:
			ends[e.Process] = e.EndRecord
		}
	}
	made = map[string]bool{}
	files, err := os.ReadDir(work + "/marks")
	must(t, err)
	for _, file := range files {
		made[file.Name()] = true
		must(t, os.Remove(work+"/marks/"+file.Name()))
	}
	return made, refused, ends
}

func TestNoFormExecutesWhatARuleForbids(t *testing.T) {
	all := os.Getenv("EXECBUS_FORMS") == "all"
	if testing.Short() {
		t.Skip("short")
	}
	first := workshop(t) // each run has a workspace of its own: what a form leaves behind can be protected from the next
	forms(t, first, all)
	works, _, _ := tries(t, first, inputs(t, first, all), messages.AssuranceConfined, messages.ExecutionsOff)
	for _, level := range []messages.Assurance{messages.AssuranceConfined, messages.AssuranceIsolated} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel() // they wait for programs most of the time
			work := workshop(t)
			texts := forms(t, work, all)
			prompts := inputs(t, work, all)
			for mark, p := range prompts {
				texts[mark] = fmt.Sprintf("%q, told %q", p.argv, p.input)
			}
			made, refused, ends := tries(t, work, prompts, level, messages.ExecutionsEnforce)
			for mark := range made {
				t.Errorf("a form executes it: %s", texts[mark])
			}
			total := 0
			for _, n := range refused {
				total += n
			}
			counted := 0
			for _, end := range ends {
				if end.Executions == nil || end.Denial != nil {
					t.Errorf("%+v", end)
				} else {
					counted += int(end.Executions.Refused)
				}
			}
			if counted != total {
				t.Errorf("%d are refused in events, and %d in records", total, counted)
			}
			var idle []string
			for mark, text := range texts {
				switch {
				case !works[mark]:
					idle = append(idle, text)
				case refused[mark] == 0:
					t.Errorf("no event says that this was refused: %s", text)
				}
			}
			slices.Sort(idle)
			t.Logf("%d forms, of which %d execute it without the rule; %d refusals", len(texts), len(works), total)
			if len(idle) > 0 && all {
				t.Logf("these execute nothing here anyway:\n%s", strings.Join(slices.Compact(idle), "\n"))
			}
			if len(works) < len(texts)/2 {
				t.Error("most forms execute nothing")
			}
		})
	}
}
