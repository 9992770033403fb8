package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// needsProbe skips the test if the demo cannot see who reads a terminal. The demo then passes every key on.
func needsProbe(t *testing.T) {
	t.Helper()
	if newProbe(os.Getpid()) == nil {
		if _, err := os.Stat("/proc/self/syscall"); err != nil {
			t.Skip("/proc/PID/syscall is missing: nobody can tell who reads a terminal")
		}
	}
}

func TestTheCommandThatReadsGetsTheLine(t *testing.T) {
	t.Parallel()
	needsProbe(t)
	s := stay(t)
	s.send("printf 'na''me? '; read n; echo \"hi <$n>\"\r")
	id := s.expect(`\[(\d+)\] name\? `)[1] // the prompt says who gets the line
	s.send("echo Bob; exit\r")
	s.expect(`(?m)^name\? echo Bob; exit$`)
	s.expect(`(?m)^hi <echo Bob; exit>$`)
	s.expect(`\[` + id + `\] exited, code\(0\)`)
	s.send(":stats\r")
	s.expect("processes: 0 running, 1 started") // no shell got the line
	s.quit()
	s.restored()
}

func TestAPasswordIsNotShown(t *testing.T) {
	t.Parallel()
	needsProbe(t)
	s := stay(t)
	s.send("stty -echo; printf 'Pass''word: '; read p; stty echo; echo; echo \"len ${#p}\"\r")
	s.expect(`\[\d+\] gets what you type, and it is not shown`)
	s.expect(`Password: `)
	s.send("sesame\r")
	s.expect(`len 6`)
	s.expect(`exited, code\(0\)`)
	s.send("\x1b[A")
	s.expect(`demo> stty -echo`) // the newest line in the history
	s.send("\x03:stats\r")
	s.expect("processes: 0 running, 1 started")
	s.quit()
	if strings.Contains(s.shown(), "sesame") {
		t.Error("the password was shown")
	}
	s.restored()
}

// If nobody reads, a line waits. The next reader gets it, or the shell when the command has ended.
func TestLinesTypedAheadWait(t *testing.T) {
	t.Parallel()
	needsProbe(t)
	s := stay(t)
	gate := filepath.Join(t.TempDir(), "gate")
	s.send("until [ -e " + gate + " ]; do sleep 0.02; done; read n; echo \"got <$n>\"\recho for the reader\recho th''en\r")
	s.expect(`2 lines wait \(Ctrl-Z runs them\)`)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.expect(`got <echo for the reader>`)
	s.expect(`(?m)^then$`)
	s.quit()
}

// A line that was begun as an answer does not become a command when the command has ended.
func TestAnAnswerIsNoCommand(t *testing.T) {
	t.Parallel()
	needsProbe(t)
	s := stay(t)
	gone := filepath.Join(t.TempDir(), "gone")
	s.send("(until [ -e " + gone + " ]; do sleep 0.02; done; kill $$) & read n\r")
	s.expect(`reads> `)
	s.send("echo not")
	s.expect("echo not")
	if err := os.WriteFile(gone, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	id := s.expect(`\[(\d+)\] exited, signal\(15\)`)[1]
	s.send(" th''is\r")
	s.expect(`\[` + id + `\] ended without reading this line`)
	s.quit()
	if strings.Contains(s.shown(), "\nnot this") {
		t.Error("the shell got the answer")
	}
}

func TestCtrlDEndsTheInputOfTheReader(t *testing.T) {
	t.Parallel()
	needsProbe(t)
	s := stay(t)
	s.send("cat; echo th''rough\r")
	s.expect(`reads> `)
	s.send("a line\r")
	s.expect(`(?m)^a line\n(?s:.*)reads> `)
	s.send("\x04") // it works before the command reads, too
	s.expect(`(?m)^through$`)
	s.expect(`exited, code\(0\)(?s:.*)demo> `)
	s.send("\x04")
	s.ends(0)
}

// A program that wants each key gets it without being asked for, and Ctrl-] leaves it.
func TestAProgramThatWantsEachKeyGetsIt(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]string{
		"raw":              "stty raw -echo; ",
		"alternate screen": "stty -icanon -echo -isig; printf '\\033[?1049h'; ",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stay(t)
			s.send(begin + "dd bs=1 count=1 2>/dev/null | od -c; echo key''ed; dd bs=1 count=1 2>/dev/null | od -c; stty sane\r")
			id := s.expect(`\[(\d+)\] gets every key\. Ctrl-\] brings you back here`)[1]
			s.send("\x03")
			s.expect(`0000000 003`)
			s.expect(`keyed`)
			s.send("\x1d")
			s.expect(`\[` + id + `\] goes on in the background`)
			s.expect(`demo> `)
			s.send("echo back a''gain\r")
			s.expect(`back again`)
			s.send(":fg " + id + "\r")
			s.expect(`gets every key`)
			s.send("q")
			s.expect(`0000000   q`)
			s.expect(`\[` + id + `\] exited, code\(0\)`)
			s.quit()
			s.restored()
		})
	}
}

func TestForegroundOfNothing(t *testing.T) {
	t.Parallel()
	s := stay(t)
	s.send(":fg 12345\r")
	s.expect(`12345 does not run; :ps lists what does`)
	s.send("\x1a")
	s.expect(`\^Z: no command is in front`)
	s.quit()
}

func TestASilentCommandIsVisible(t *testing.T) {
	t.Parallel()
	s := stay(t)
	s.send("sleep 100; :\r")
	id := s.expect(`\[(\d+)\] sleep 100; :, 1s> `)[1]
	s.expect(`\[` + id + `\] sleep 100; :, 2s> `)
	s.send(":kill " + id + "\r")
	s.expect(`terminated by user`)
	s.expect(`demo> `)
	s.quit()
}

func TestVimInTmux(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("vim"); err != nil {
		t.Skip("vim is not installed: full-screen programs were tried by their sequences only")
	}
	p := openPane(t, "NO_COLOR=")
	p.expect(`^shell>$`)
	p.enter(`"$DEMO"`)
	p.expect(`^demo>$`)
	file := filepath.Join(t.TempDir(), "file")
	p.enter("vim -u NONE -i NONE " + file)
	p.expect(`(?s)\n~\n~\n~.*"` + file) // vim has the whole screen
	p.keys("i", "h", "e", "l", "l", "o", "Escape")
	p.expect(`^hello\n~`)
	p.keys("C-]")
	id := p.expect(`^\[(\d+)\] goes on in the background`)[1]
	p.enter("echo be''side")
	p.expect(`^beside`)
	p.enter(":fg " + id)
	p.expect(`^hello\n~\n~(?s:.*)~$`) // the screen was drawn again
	p.enter(":wq")
	p.expect(`^\[` + id + `\] exited, code\(0\)`)
	p.enter("echo th''en")
	p.expect(`^then`)
	p.enter(":quit")
	p.expect(`^shell>$`)
	if text, err := os.ReadFile(file); err != nil || string(text) != "hello\n" {
		t.Errorf("vim has written %q; %v", text, err)
	}
}

func TestLastingChanges(t *testing.T) {
	t.Parallel()
	s := stay(t)
	dir := t.TempDir()
	s.send("cd " + dir + "\rpwd\r") // the second line waits for the first
	s.expect(`in ` + dir + "\n")
	s.expect(`(?m)^` + dir + `$`)
	s.send("export WORD='a b' OTHER=c\recho \"<$WORD> <$OTHER>\"\r")
	s.expect(`<a b> <c>`)
	s.send("unset OTHER && export WORD=\"$WORD c\"\recho \"<$WORD> <$OTHER>\"\r")
	s.expect(`<a b c> <>`)
	s.send("cd / && pwd\r")
	s.expect(`cd holds for this line only`)
	s.expect(`(?m)^/$`)
	s.send("cd nowhere\r")
	s.expect(`demo: .*nowhere`)
	s.send(":cd nowhere\r")
	s.expect(`demo: update environment ` + dir + `/nowhere: there is no directory of this name`)
	s.send("pwd\r")
	s.expect(`(?m)^` + dir + `$`)
	s.send("cd /\rcd -\rpwd\r")
	s.expect(`in ` + dir + "\n")
	s.expect(`(?m)^` + dir + `$`)
	s.quit()
}

func TestAProfileTakesAChangeBack(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".profile"), []byte("WORD=always; export WORD\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := stay(t, "HOME="+home, "SHELL=/bin/sh")
	s.send("export WORD=new\r")
	s.expect(`WORD does not last: the profile of your shell, which each line's shell reads, sets it to always`)
	s.quit()
}

func TestLastingChangesInAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := demo(t)
	c.Stdin = strings.NewReader(fmt.Sprintf("cd %s\nexport WORD=x\necho $PWD $WORD\ncd nowhere\n", dir))
	if got := finish(t, c); got.stdout != dir+" x\n" || got.code != 1 || !strings.Contains(got.stderr, "nowhere") {
		t.Error(got)
	}
}

func TestAPastedLoopIsOneCommand(t *testing.T) {
	t.Parallel()
	s := stay(t)
	if !strings.Contains(s.shown(), pasteOn) {
		t.Error("the terminal does not mark what is pasted")
	}
	s.send("\x1b[200~for i in 1 2; do\r\n\techo \"n <$i>\"\rdone\n\x1b[201~")
	s.expect(`for i in 1 2; do⏎⇥echo "n <\$i>"⏎done`)
	s.send("\r")
	s.expect(`(?m)^n <1>$(?s:.*)^n <2>$`)
	s.send(":stats\r")
	s.expect("1 started")
	s.quit()
	if end := s.shown(); !strings.Contains(end, pasteOff) {
		t.Error("the terminal goes on marking what is pasted")
	}
}

func TestTabAndSearch(t *testing.T) {
	t.Parallel()
	s := stay(t)
	dir := t.TempDir()
	for _, name := range []string{"first-file", "first-other"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.send("cd " + dir + "\r")
	s.expect("in " + dir)
	s.send("ls fi\t")
	s.expect(`ls first-`)
	s.send("\t")
	s.expect(`first-file   first-other`)
	s.send("o\t\r")
	s.expect(`(?m)^first-other`)
	s.send(":res\t\x03")
	s.expect(`:resize `)
	s.send("echo o''ne\r")
	s.expect(`(?m)^one`)
	s.send("echo t''wo\r")
	s.expect(`(?m)^two`)
	s.send("echo\x12\x12\r")
	s.expect(`(?m)^one`)
	s.quit()
}
