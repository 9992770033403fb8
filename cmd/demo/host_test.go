package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/execbus/execbus/cmd/internal/ask"
)

// Commands of these tests wait for a line or for a file. A shell may lose a SIGINT that comes while it reads its profile or starts
// a program, so what gets a Ctrl-C has said something and waits in read, which is a part of the shell.
const waits = "echo be''gun; read x; echo not this"

// gate is a file that a command waits for.
type gate struct {
	t    *testing.T
	path string
}

func newGate(t *testing.T) gate { return gate{t, filepath.Join(t.TempDir(), "gate")} }

// wait is the script that waits.
func (g gate) wait() string { return "until [ -e " + g.path + " ]; do sleep 0.02; done" }

func (g gate) open() {
	g.t.Helper()
	if err := os.WriteFile(g.path, nil, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func TestHost(t *testing.T) {
	t.Parallel()
	s := sit(t)
	s.send("echo he''llo; stty size; exit 3\r")
	s.expect(`(?m)^hello\n24 100$`)
	s.expect(`\[\d+\] exited, code\(3\)` + prompts)
	for line, says := range map[string]string{
		":nosuch":   "there is no :nosuch; :help",
		":fg":       "this is used as :fg ID",
		":list all": "this is used as :list\n",
		":fg 12345": "12345 does not run; :list lists what does",
		":list":     "Nothing runs",
		"echo tyx" + strings.Repeat("x", mostCharacters): "nothing of this runs",
		":help":      ":revoke GRANT",
		":cd nowher": "demo: update environment .*/nowher: there is no directory of this name",
	} {
		s.send(line + "\r")
		s.expect(says + prompts)
	}
	s.send(":cd /\r")
	s.expect("demo> ")
	s.send("pwd\r")
	s.expect(`(?m)^/$` + ended)
	s.send("half a line\x03")
	s.expect(`half a line\^C` + prompts)
	s.send("echo the''re\r")
	s.expect(`(?m)^there$` + ended)
	s.quit()
	s.restored()
}

// What the shell says after the end begins on a line of its own, and not behind what was typed.
func TestTheEndLeavesTheLineThatIsTyped(t *testing.T) {
	t.Parallel()
	s := sit(t)
	s.send("half a line")
	s.expect("half a line")
	s.signal(s.demo(), syscall.SIGTERM)
	s.expect(`\nthe demo ended with: 143\n`)
	s.restored()
}

// What is typed behind the Enter key is for the command, until it has ended and the prompt is shown again.
const (
	prompts = `(?s:.*?)demo> `
	ended   = `(?s:.*?)exited, code\(0\)` + prompts
	toBack  = `\[(\d+)\] goes on in the background` + prompts
)

func TestTheCommandInFrontGetsEveryKey(t *testing.T) {
	t.Parallel()
	s := sit(t)
	s.send("printf 'na''me? '; read n; echo \"hi <$n>\"\r")
	s.expect(`(?m)^name\? `)
	s.send("echo Bob; exit\r")
	s.expect(`(?m)^hi <echo Bob; exit>$` + ended)
	s.send("stty -echo; printf 'Pass''word: '; read p; stty echo; echo; echo \"len ${#p}\"\r")
	s.expect(`(?m)^Password: `)
	s.send("sesame\r")
	s.expect(`(?m)^len 6$` + ended)
	s.send("echo rea''dy; cat; echo th''rough\r")
	s.expect(`(?m)^ready$`)
	s.send("a line\r")
	s.expect(`a line\n(?s:.*)a line\n`) // of the terminal, and of cat
	s.send("\x04")
	s.expect(`(?m)^through$` + ended)
	s.send("stty raw -echo; echo rea''dy; dd bs=1 count=1 2>/dev/null | od -c; stty sane\r")
	s.expect(`ready`)
	s.send("\x1d")
	s.expect(`0000000 035` + ended)
	s.send("\x04")
	s.ends(0)
	if strings.Contains(s.shown(), "sesame") {
		t.Error("the password was shown")
	}
	s.restored()
}

func TestCtrlCInterruptsTheCommandAndNotTheDemo(t *testing.T) {
	t.Parallel()
	s := sit(t)
	s.send("\x03")
	s.expect(`\^C` + prompts)
	s.send(waits + "\r")
	s.expect(`(?m)^begun$`)
	s.send("\x03")
	s.expect(`\[\d+\] exited, signal\(2\)` + prompts)
	if strings.Contains(s.shown(), "\nnot this") {
		t.Error("the script went on")
	}
	s.quit()
	s.restored()
}

func TestWindowSizeReachesAllCommands(t *testing.T) {
	t.Parallel()
	s := sit(t)
	over := newGate(t)
	s.send("trap 'echo ba''ck $(stty size)' WINCH; echo rea''dy; " + over.wait() + "\r")
	s.expect(`(?m)^ready$`)
	s.send("\x1a")
	id := s.expect(toBack)[1]
	s.send("trap 'echo fro''nt $(stty size); exit' WINCH; echo rea''dy; while :; do sleep 0.02; done\r")
	s.expect(`(?m)^ready$`)
	s.resize(30, 90)
	s.expect(`(?m)^front 30 90$` + ended)
	s.send(":fg " + id + "\r")
	s.expect(`(?m)^back 30 90$`)
	over.open()
	s.expect(ended)
	s.quit()
}

// unseen waits until a command in the background has said so much that was not shown.
func (s *seat) unseen(id string, bytes int) {
	s.t.Helper()
	for want := fmt.Sprint(bytes); ; {
		s.send(":list\r")
		if got := s.expect(`(?m)^ *` + id + ` +\w+ +\w+ +(\d+) +bytes` + prompts)[1]; got == want {
			return
		}
	}
}

func TestNothingIsLostOrShownTwice(t *testing.T) {
	t.Parallel()
	s := sit(t)
	second, third := newGate(t), newGate(t)
	s.send("echo o''ne; " + second.wait() + "; echo t''wo; printf thr; " + third.wait() + "; echo ee; read x; echo \"four <$x>\"\r")
	s.expect(`(?m)^one\n`) // with its end, which would be counted below
	s.send("\x1a")
	id := s.expect(toBack)[1]
	s.send("echo an''other\r")
	s.expect(`(?m)^another$` + ended)
	second.open()
	s.unseen(id, len("two\r\nthr"))
	s.send(":fg " + id + "\r")
	s.expect(`(?m)^two\nthr`)
	s.send("\x1a")
	s.expect(toBack)
	third.open()
	s.unseen(id, len("ee\r\n"))
	s.send(":fg " + id + "\r")
	s.expect(`(?m)^ee$`)
	s.send("five\r")
	s.expect(`(?m)^four <five>$` + ended)
	s.quit()
	for _, said := range []string{"one", "two", "thr", "ee", "four <five>"} { // whole lines: what was typed wraps anywhere, by the length of the directory's name
		if n := len(regexp.MustCompile(`(?m)^`+said+`$`).FindAllString(s.shown(), -1)); n != 1 {
			t.Errorf("%q was shown %d times", said, n)
		}
	}
}

// What a command says behind its last visit to the front can still be read when it has ended. What is no longer remembered is counted.
func TestACommandThatEndsInTheBackground(t *testing.T) {
	t.Parallel()
	s := sit(t)
	begin := newGate(t)
	s.send("echo be''gun; " + begin.wait() + "; seq 1 300000; exit 7\r")
	s.expect(`(?m)^begun\n`) // with its end, which would be counted below
	s.send("\x1a")
	id := s.expect(toBack)[1]
	begin.open()
	s.expect(`\[` + id + `\] .* exited, code\(7\).* :fg ` + id + ` shows the rest of its output, 2288895 bytes` + prompts)
	s.send(":fg " + id + "\r")
	s.expect(`(?m)^1\n2\n3\n`)
	s.expect(`\[\d+ bytes of output are no longer remembered\]`)
	s.expect(`(?m)^299999\n300000\n`)
	s.expect(`\[` + id + `\] exited, code\(7\)` + prompts)
	s.send(":fg " + id + "\r")
	s.expect(id + ` does not run` + prompts)
	s.quit()
}

// A command that has left the front has changed nothing about how the demo's own lines look.
func TestACommandCannotDisguiseTheDemo(t *testing.T) {
	t.Parallel()
	s := sit(t)
	over := newGate(t)
	s.send("trap 'printf ag''ain' WINCH; printf '\\033[?1049h\\033[8m\\033[2;3r\\033(0 fu''ll'; " + over.wait() + " #\u202e\r")
	s.expect(`full`)
	s.send("\x1a")
	id := s.expect(toBack)[1]
	if text := s.written(); !strings.Contains(text[strings.LastIndex(text, "full"):], ask.Reset()) {
		t.Error("the terminal was not reset")
	}
	s.send(":list\r")
	s.expect(id + ` +running .*#\\u202e` + prompts)
	s.send(":fg " + id + "\r")
	s.expect(`\x1b\[\?1049h(?s:.*)again`) // the program draws everything again
	over.open()
	s.expect(ended)
	s.quit()
	h := &host{}
	if text := h.painted("%s", "a\x1b[2Jb\rc\u202e\nd"); strings.ContainsAny(text, "\x1b\r\u202e") && !strings.HasPrefix(text, "\x1b[2m") {
		t.Errorf("the demo would say %q", text)
	}
}

func TestItSaysWhatItHasEnded(t *testing.T) {
	t.Parallel()
	s := sit(t)
	var ids, pids []string
	for range 2 {
		s.send("echo pid $$ is rea''dy; read x\r")
		pids = append(pids, s.expect(`pid (\d+) is ready`)[1])
		s.send("\x1a")
		ids = append(ids, s.expect(toBack)[1])
	}
	s.send(":kill " + ids[0] + "\r")
	s.expect(`\[` + ids[0] + `\] echo pid .*terminated by user` + prompts)
	s.send(":quit\r")
	s.expect(`Ending everything that still runs`)
	s.expect(`\[` + ids[1] + `\] echo pid .*: terminated by shutdown`)
	s.ends(0)
	s.restored()
	for _, pid := range pids {
		gone(t, pid)
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	s := sit(t)
	s.send("echo o''ne\r")
	s.expect(`(?m)^one$` + ended)
	s.send("\r")
	s.expect("demo> ")
	s.send("echo t''wo\r")
	s.expect(`(?m)^two$` + ended)
	s.send("\x1b[A\x1b[A\r")
	s.expect(`(?m)^one$` + ended)
	if !strings.Contains(s.written(), pasteOn) {
		t.Error("the terminal does not mark what is pasted")
	}
	s.send("\x1b[200~for i in 1 2; do\r\techo \"n <$i>\"\rdone\x1b[201~")
	s.expect(`\.\.\. done`)
	s.send("\r")
	s.expect(`(?m)^n <1>\nn <2>$` + ended)
	s.send("x\x1a\x7f\x04") // Ctrl-Z means nothing here
	s.ends(0)
	if end := s.written(); strings.LastIndex(end, pasteOff) < strings.LastIndex(end, pasteOn) {
		t.Error("the terminal goes on marking what is pasted")
	}
}

func TestColours(t *testing.T) {
	t.Parallel()
	for says, more := range map[string][]string{`\x1b\[2m\[\d+\] exited`: nil, `(?m)^\[\d+\] exited`: {"NO_COLOR=1"}, `\n\[\d+\] exited`: {"TERM=dumb"}} {
		s := open(t, 24, 100)
		s.begin(append([]string{"NO_COLOR="}, more...))
		s.expect("demo> ")
		s.send("true\r")
		s.expect(says + prompts)
		s.quit()
		if more != nil && strings.Contains(s.shown(), "\x1b[") {
			t.Errorf("colours with %s", more)
		}
	}
}

// However the demo ends, the terminal is restored, and the command has ended.
func TestTerminalIsRestored(t *testing.T) {
	t.Parallel()
	const script = "echo pid $$ is rea''dy; read x"
	for name, c := range map[string]struct {
		end    func(s *seat)
		code   int
		single int // zero: a single command is not tried
	}{
		":quit":                 {func(s *seat) { s.send("\x1a:quit\r") }, 0, 0},
		"Ctrl-D":                {func(s *seat) { s.send("\x1a\x04") }, 0, 0},
		"SIGTERM":               {func(s *seat) { s.signal(s.demo(), syscall.SIGTERM) }, 143, 0},
		"SIGHUP":                {func(s *seat) { s.signal(s.demo(), syscall.SIGHUP) }, 129, 0},
		"SIGTERM for the host":  {func(s *seat) { s.signal(s.host(), syscall.SIGTERM) }, 143, 0},
		"SIGQUIT":               {func(s *seat) { s.signal(s.demo(), syscall.SIGQUIT) }, 2, 0},
		"SIGKILL for the host":  {func(s *seat) { s.signal(s.host(), syscall.SIGKILL) }, 137, 137},
		"SIGABRT for the host":  {func(s *seat) { s.signal(s.host(), syscall.SIGABRT) }, 2, 2},
		"SIGKILL for the guard": {func(s *seat) { s.signal(s.demo(), syscall.SIGKILL) }, 137, 137},
	} {
		check := func(t *testing.T, s *seat, code int) {
			pid := s.expect(`pid (\d+) is ready`)[1]
			if s.modes() == s.before {
				t.Error("the terminal is not raw")
			}
			c.end(s)
			s.ends(code)
			s.restored()
			gone(t, pid)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sit(t)
			s.send(script + "\r")
			check(t, s, c.code)
		})
		if c.single == 0 {
			continue
		}
		t.Run(name+" with one command", func(t *testing.T) {
			t.Parallel()
			s := open(t, 24, 100)
			s.begin(nil, "--", "sh", "-c", script)
			check(t, s, c.single)
		})
	}
}

// A shell that has taken the terminal back has set it up for itself.
func TestTheTerminalOfAnotherIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := open(t, 24, 100)
	shown, err := os.Create(filepath.Join(t.TempDir(), "shown"))
	if err != nil {
		t.Fatal(err)
	}
	defer shown.Close()
	restored := &terminal{in: s.master, out: shown, before: &s.before, pastes: true}
	restored.raw()
	raw := s.modes()
	other := exec.Command("cat")
	other.Stdin, other.SysProcAttr = s.slave, &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	restored.restore()
	_ = other.Process.Kill()
	_ = other.Wait()
	if written, _ := os.ReadFile(shown.Name()); raw == s.before || s.modes() != raw || len(written) != 0 {
		t.Errorf("the terminal got %q and the modes %+v, had %+v", written, s.modes(), raw)
	}
}

func TestLifelineIsNotForCommands(t *testing.T) {
	t.Parallel()
	s := sit(t)
	s.send("echo \"<$" + lifelineVariable + ">\" $(ls /dev/fd/ | wc -l)\r")
	if got := s.expect(`(?m)^<(.*)> *(\d+)\n`); got[1] != "" || len(got[2]) != 1 || got[2] > "4" {
		t.Errorf("a command has the lifeline %q and %s descriptors", got[1], got[2])
	}
	s.expect(ended)
	s.quit()
}

// A wait says what a command waits for, and can be given up, which leaves the command alone.
func TestAWaitForACommand(t *testing.T) {
	t.Parallel()
	s := sit(t)
	s.send(waits + "\r")
	s.expect(`begun`)
	s.send("\x1a")
	reads := s.expect(toBack)[1]
	s.send(":wait " + reads + "\r")
	s.expect(`Ctrl-C ends the wait(?s:.*)\[` + reads + `\]: waiting for input: a line` + prompts)
	g := newGate(t)
	s.send("echo be''gun; " + g.wait() + "\r")
	s.expect(`begun`)
	s.send("\x1a")
	works := s.expect(toBack)[1]
	s.send(":wait " + works + "\r")
	s.expect(`Ctrl-C ends the wait`)
	s.send("\x03")
	s.expect(`\[` + works + `\] goes on` + prompts)
	s.send(":list\r")
	s.expect(reads + `  running (?s:.*?)\(waits for input: a line\)(?s:.*?)` + works + `  running(?s:.*?)` + prompts)
	s.send(":wait 12345\r")
	s.expect(`12345 does not run` + prompts)
	s.send(":wait " + works + "\r")
	s.expect(`Ctrl-C ends the wait`)
	g.open()
	s.expect(`\[` + works + `\]: it exited`)
	s.quit()
	s.restored()
}
