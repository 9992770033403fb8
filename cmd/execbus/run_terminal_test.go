package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
)

// seat is a terminal on which execbus runs.
type seat struct {
	t      *testing.T
	master *os.File
	slave  *os.File // keeps the terminal open, so that its modes can be read
	before *term.State
	c      *exec.Cmd
	shown  chan string // what was shown, in pieces
	text   string      // what was shown and not expected yet
}

// sit runs a script on a terminal of its own. In the script, run is "execbus run" in the directory $DIR, and free is the same without
// a sandbox.
func sit(t *testing.T, script string) *seat {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	s := &seat{t: t, master: master, slave: slave, shown: make(chan string, 1024)}
	if s.before, err = term.GetState(int(slave.Fd())); err != nil {
		t.Fatal(err)
	}
	s.resize(24, 80)
	dir := t.TempDir()
	s.c = exec.Command("sh", "-c", `run() { "$SELF" run --cd "$DIR" --assurance none "$@"; }; free() { run --sandbox danger-full-access "$@"; }; `+script+`; echo "ended with $?."; cat`)
	s.c.Env = append(os.Environ(), roleVariable+"=execbus", "HOME="+dir, "SELF="+self, "DIR="+dir)
	s.c.Stdin, s.c.Stdout, s.c.Stderr = slave, slave, slave
	s.c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		buffer := make([]byte, 32<<10)
		for {
			n, err := master.Read(buffer)
			s.shown <- string(buffer[:n])
			if err != nil {
				close(s.shown)
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-s.c.Process.Pid, syscall.SIGKILL) // its children, too: the terminal must have no user left
		_ = s.c.Wait()
		_, _ = slave.Close(), master.Close()
		for range s.shown {
		}
	})
	return s
}

func (s *seat) resize(rows, columns uint16) {
	s.t.Helper()
	if err := pty.Setsize(s.master, &pty.Winsize{Rows: rows, Cols: columns}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *seat) send(keys string) {
	s.t.Helper()
	if _, err := s.master.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// expect waits until a pattern has been shown, and returns what was shown until its end.
func (s *seat) expect(pattern string) string {
	s.t.Helper()
	compiled := regexp.MustCompile(pattern)
	deadline := time.After(patience)
	for {
		if at := compiled.FindStringIndex(s.text); at != nil {
			until := s.text[:at[1]]
			s.text = s.text[at[1]:]
			return until
		}
		select {
		case piece := <-s.shown:
			s.text += piece
		case <-deadline:
			s.t.Fatalf("%q was not shown, but %q", pattern, s.text)
		}
	}
}

// answer presses a key until it counts: a key that comes too soon after the question is no answer, and the program says so.
func (s *seat) answer(key string) {
	s.t.Helper()
	for {
		s.send(key)
		if said := s.expect(`That was no answer: press one key, alone\.\r?\n|(?:^|> )[a-z]+\r?\n`); !strings.Contains(said, "no answer") {
			return
		}
	}
}

// restored checks the terminal's modes.
func (s *seat) restored() {
	s.t.Helper()
	if after, err := term.GetState(int(s.slave.Fd())); err != nil || *after != *s.before {
		s.t.Errorf("the terminal's modes are %+v, %v; want %+v", after, err, s.before)
	}
}

func TestRunPassesTheTerminalOn(t *testing.T) {
	s := sit(t, `free -- sh -c 'stty size; until [ "$(stty size)" = "30 90" ]; do sleep 0.02; done; echo resized; exec cat'`)
	s.expect(`24 80\r\n`)
	s.resize(30, 90)
	s.expect(`resized\r\n`)
	s.send("line\r")
	s.expect(`line\r\nline\r\n`)
	s.send("\x03") // a key like any other: the command's own terminal makes a signal of it
	s.expect(`ended with 130\.`)
	s.restored()
}

func TestRunOnATerminalOrOnPipes(t *testing.T) {
	for script, want := range map[string]string{
		`free -- test -t 0 -a -t 1`:                 "0",
		`free --no-tty -- test -t 0 -o -t 1`:        "1",
		`free -- test -t 1 | cat; free -- true`:     "0",
		`echo x | free -- test -t 0`:                "1",
		`echo x | free --tty -- test -t 0 -a -t 1`:  "0",
		`EXECBUS_TTY=false free -- test -t 0`:       "1",
		`EXECBUS_TTY=false free --tty -- test -t 0`: "0",
	} {
		s := sit(t, script)
		s.expect(`ended with ` + want + `\.`)
		s.restored()
	}
}

// The question comes on the terminal, and the answer decides. Asking does not read the command's input.
func TestRunAsksOnTheTerminal(t *testing.T) {
	s := sit(t, `echo input | run --approval untrusted --sandbox danger-full-access -- sh -c 'cat; echo $((6*7)); exit 3' | cat`)
	asked := s.expect(`(?s)Run this command\?.*> $`)
	for _, fact := range []string{"sh -c", "Directory: ", "  y  Run it this once.", "  n  Do not run it"} {
		if !strings.Contains(asked, fact) {
			t.Errorf("%q is not in %q", fact, asked)
		}
	}
	s.send("perhaps\r")
	s.expect(`That was no answer: press one key, alone`)
	s.answer("y")
	s.expect(`input\r\n42\r\n`)
	s.expect(`ended with 0\.`)
	s.restored()
	for _, no := range []string{"n", "\x04", "\x03"} {
		s := sit(t, `trap : INT; run --approval untrusted --sandbox danger-full-access -- touch x`)
		s.expect(`(?s)Run this command\?.*> $`)
		s.answer(no)
		s.expect(`rejected`)
		s.expect(`ended with 125\.`)
		s.restored()
	}
}

// Text that was typed before the question does not answer it.
func TestRunTakesNoAnswerFromBeforeTheQuestion(t *testing.T) {
	s := sit(t, `echo first; read -r x; run --approval untrusted --sandbox danger-full-access -- sh -c 'echo $((6*7))'`)
	s.expect(`first\r\n`)
	s.send("go\ry\ry\r")
	s.expect(`(?s)Run this command\?.*> `)
	s.answer("n")
	s.expect(`ended with 125\.`)
}

// A question comes in the middle of a command: the sandbox has stopped it. After approval it runs again and gets the keys.
func TestRunAsksBeforeASecondAttempt(t *testing.T) {
	confinedHere(t)
	outside := filepath.Join(t.TempDir(), "file")
	s := sit(t, `run --approval on-failure --sandbox read-only --assurance confined -- sh -c 'echo $((6*7)) > `+outside+` || exit 1; stty size; cat'`)
	s.expect(`(?s)stopped this command\. Run it again without a sandbox\?.*> $`)
	s.answer("y")
	s.expect(`24 80`)
	s.send("keys\r")
	s.expect(`keys\r\nkeys\r\n`)
	s.send("\x04")
	s.expect(`ended with 0\.`)
	s.restored()
	if content, err := os.ReadFile(outside); err != nil || string(content) != "42\n" {
		t.Errorf("%q, %v", content, err)
	}
}

// The question comes after all that the first attempt wrote, although a pipe does not hold that, and its reader is late.
func TestRunAsksAfterTheOutputOfTheFirstAttempt(t *testing.T) {
	confinedHere(t)
	outside := filepath.Join(t.TempDir(), "file")
	s := sit(t, `run --approval on-failure --sandbox read-only --assurance confined -- sh -c 'head -c 100000 /dev/zero; echo > `+outside+`' | { sleep 0.3; echo reading; cat >/dev/null; }`)
	if before := s.expect(`(?s)Run it again without a sandbox\?.*> $`); !strings.Contains(before, "reading") {
		t.Errorf("the question came before the output: %q", before)
	}
	s.answer("n")
	s.expect(`ended with 0\.`)
}

// The command has drawn on the terminal before it is asked about: text behind the question, and what would hide or forge one.
func TestACommandCannotHideAQuestion(t *testing.T) {
	confinedHere(t)
	outside := filepath.Join(t.TempDir(), "file")
	for name, attack := range map[string]string{
		"concealed":              `\033[8m`,
		"a scroll region":        `\033[1;3r\033[1;1H`,
		"the other screen":       `\033[?1049h\033[2J`,
		"black on black":         `\033]4;0;#000;7;#000\007\033]10;#000\007\033]11;#000\007`,
		"another set of letters": `\033(0\016`,
		"withheld updates":       `\033[?2026h`,
		"an unfinished string":   `\033P1$r`,
		"an unfinished title":    `\033]2;`,
		"an unfinished sequence": `\033[38;5`,
		"VT52":                   `\033[?2l`,
		"a forged question":      `\033[H\033[2Jexecbus: Run this command?\n\nls\n\n  y  Run it this once.\none key: y> \033[20;1Hbelow\033[5;40H`,
		"reports":                `\033[?1003h\033[?1006h\033[?1004h\033[?2004h\033[>1u`,
		"questions to it":        `\033[c\033[6n\033[?2026$p\033]11;?\007`,
	} {
		t.Run(name, func(t *testing.T) {
			s := sit(t, `run --approval on-failure --sandbox read-only --assurance confined -- sh -c 'printf "`+attack+`"; echo > `+outside+`'`)
			all := s.expect(`(?s)\x1b\[J.*> $`)
			drawn, question, _ := strings.Cut(all, "\x1b<")
			if !strings.HasSuffix(drawn, "\x18\x1b\\") { // nothing is left unfinished
				t.Errorf("%q", drawn)
			}
			for _, undone := range []string{"\x1b[?2026l", "\x1b[?1049l", "\x1b[r", "\x1b[?7h", "\x1b[?5l", "\x1b(B", "\x0f", "\x1b[?1003l", "\x1b[?1006l", "\x1b[?1004l",
				"\x1b[?2004l", "\x1b[<99u", "\x1b]104\x07", "\x1b]110\x07", "\x1b]111\x07", "\x1b[0m", "\r\n\x1b[J"} {
				_, rest, found := strings.Cut(question, undone)
				if !found {
					t.Fatalf("%q is not behind the output, or not in its place: %q", undone, question)
				}
				question = rest
			}
			if strings.Contains(question, "\x1b") || !strings.HasPrefix(question, "execbus: The sandbox stopped this command") || !strings.Contains(question, "printf") {
				t.Errorf("the question is %q", question)
			}
			if name == "questions to it" { // what a terminal sends by itself
				s.send("\x1b[?62;4y")
				s.expect(`no answer`)
			}
			s.send("\x03")
			s.expect(`ended with \d+\.`)
			s.restored()
			if _, err := os.Stat(outside); err == nil {
				t.Error("the command ran without a sandbox")
			}
		})
	}
}

// What a program asks its terminal is answered by the caller's terminal if that shows the output, and else by execbus.
func TestAProgramThatAsksItsTerminalIsAnswered(t *testing.T) {
	const asks = ` -- sh -c 'stty -icanon -echo; printf "\033[6n"; dd bs=1 count=6 2>/dev/null | tr "\033" E'`
	s := sit(t, "free"+asks)
	s.expect(`\x1b\[6n`)
	s.send("\x1b[9;9R")
	s.expect(`E\[9;9R`)
	for _, elsewhere := range []string{"free --tty" + asks + ` >"$DIR/out"; tail -c 6 "$DIR/out"`, "free --tty --json" + asks + ` | grep -o '"exit.*code":0'`} {
		s := sit(t, elsewhere)
		s.expect(`E\[1;1R|"code":0`)
		s.expect(`ended with 0\.`)
	}
}

// Output waits until the question is answered.
func TestNoOutputWhileAQuestionStands(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = slave.Close(), master.Close() }()
	p := &person{screen: make(chan struct{}, 1)}
	w := p.behind(slave)
	if other := p.behind(&strings.Builder{}); other == nil || w == io.Writer(slave) {
		t.Fatal("the terminal is written to directly")
	}
	p.screen <- struct{}{} // a question stands
	begun, done := make(chan struct{}), make(chan error, 1)
	go func() {
		close(begun)
		_, err := io.WriteString(w, "output")
		done <- err
	}()
	<-begun
	if _, err := slave.WriteString("question,"); err != nil {
		t.Fatal(err)
	}
	<-p.screen
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	shown := make([]byte, len("question,output"))
	if _, err := io.ReadFull(master, shown); err != nil || string(shown) != "question,output" {
		t.Errorf("%q, %v", shown, err)
	}
}

func TestRunRemembersAnAnswerAsARule(t *testing.T) {
	s := sit(t, `run --approval untrusted --sandbox danger-full-access -- sort /dev/null -o /dev/null; run --approval untrusted --sandbox danger-full-access -- sort /dev/null -o /dev/null; echo "second $?"`)
	s.expect(`(?s)  p  Run it, and allow.*> $`)
	s.answer("p")
	s.expect(`second 0`)
}

// Without a terminal, run cannot ask, and rejects the command at once.
func TestRunWithoutATerminalAsksNobody(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, "run", "--approval", "untrusted", "--sandbox", "danger-full-access", "--json", "--", "touch", "x")
	c.Dir, c.Env = t.TempDir(), append(os.Environ(), roleVariable+"=execbus", "HOME="+t.TempDir())
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := c.Output()
	if !isExit(err) || c.ProcessState.ExitCode() != exitRefused {
		t.Fatalf("%v\n%s", err, out)
	}
	var last struct {
		Kind  string
		Error messages.Error
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Kind != "error" || last.Error.Code != messages.ErrRejected {
		t.Errorf("%v\n%s", err, out)
	}
}

// The caller's terminal is the command's: its job control, its keys and its modes, at the strongest level here.
func TestRunGivesAShellItsTerminal(t *testing.T) {
	s := sit(t, `run -- env PS1='ready> ' bash --norc --noprofile -i`)
	for _, step := range []struct{ shown, keys string }{
		{`ready> $`, "bash -c 'trap \"echo con''tinued\" CONT; echo $((40+2)); while :; do read -t 1; done'\r"},
		{`42\r\n`, "\x1a"},
		{`Stopped`, "fg\r"},
		{`continued`, "\x03"},
		{`ready> $`, "stty -echo; tty </dev/tty | grep -c /dev/; echo writ''ten >/dev/tty\r"},
		{`1\r\nwritten\r\n`, "exit 7\r"},
	} {
		s.expect(step.shown)
		s.send(step.keys)
	}
	s.expect(`ended with 7\.`)
	s.restored()
}

func TestRunEndsOnATerminalAsShellsDo(t *testing.T) {
	for script, want := range map[string]string{
		`run -- no-such-program`: "127",
		`run -- "$DIR"`:          "126",
		`run --sandbox read-only -- sh -c 'echo x >"$DIR/x"'`:  "[12]",
		`run -- sh -c 'kill -9 $$'`:                            "137",
		`run -- yes | head -n 1`:                               "0",
		`run -- sh -c 'echo ready; exec cat' </dev/null | cat`: "0",
	} {
		s := sit(t, script)
		s.expect(`ended with ` + want + `\.`)
		s.restored()
	}
}

func TestRunForwardsSignalsToACommandOnPipes(t *testing.T) {
	s := sit(t, `trap : INT; run --no-tty -- sh -c 'trap "echo trap''ped; exit 5" INT; echo ready; while :; do sleep 0.05; done'`)
	s.expect(`ready`)
	s.send("\x03") // the caller's terminal makes a signal of it
	s.expect(`trapped`)
	s.expect(`ended with 5\.`)
}

func TestRunWarnsAboutAWorkspaceThatIsTheHome(t *testing.T) {
	s := sit(t, `run -- true; run --cd /tmp -- true; HOME=/elsewhere run -- true; run --sandbox read-only -- true; echo all`)
	if said := s.expect(`all\r\n`); strings.Count(said, "can write everything below") != 1 {
		t.Errorf("%q", said)
	}
}

// The message names the permission that would help, and with that permission the command works.
func TestRunNamesWhatWouldAllowACommit(t *testing.T) {
	if sandbox.Probe().Level != messages.AssuranceIsolated {
		t.Skip("skipped: nothing can be isolated here")
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("skipped: %v", err)
	}
	s := sit(t, `cd "$DIR"; git init -q; commit='git -c user.name=n -c user.email=a@b commit -q --allow-empty -m first'
		run -- $commit; run --writable .git -- $commit; echo again $?; git --no-pager log --format=%s`)
	s.expect(`the sandbox denied write .*/\.git/.*; this would allow it: write .*/\.git\r\n`)
	s.expect(`again 0\r\nfirst\r\n`)
}

// A command may ask about a host before the event of its start has come: its question must not be shown on a raw terminal, where a line
// does not begin at the left, and whose keys would be the command's.
func TestKeysAreNotPassedOnWhileAQuestionStands(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = slave.Close(), master.Close() }()
	modes := func() term.State {
		state, err := term.GetState(int(slave.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		return *state
	}
	before := modes()
	caller := &terminal{fd: int(slave.Fd()), in: slave, before: &before}
	resume := caller.pause()
	caller.pass()
	if modes() != before {
		t.Error("the terminal is raw while a question stands")
	}
	resume()
	if raw := modes(); raw == before {
		t.Error("no key is passed on behind the question")
	}
	caller.pause()()
	if modes() == before {
		t.Error("no key is passed on behind the second question")
	}
	caller.detach()
	if modes() != before {
		t.Error("the terminal is raw in the end")
	}
}
