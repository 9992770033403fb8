package main

import (
	"strings"
	"syscall"
	"testing"
)

// untilInterrupted says "begun" and goes on forever. A shell may lose a SIGINT that comes while it reads its profile or
// starts a program; it then waits for that program. Here no program runs for long.
const untilInterrupted = "echo be''gun; while :; do sleep 0.1; done"

func TestInteractive(t *testing.T) {
	t.Parallel()
	s := stay(t)
	s.send("echo he''llo; stty size; exit 3\r")
	s.expect(`(?m)^hello$`)
	s.expect("24 100")
	id := s.expect(`\[(\d+)\] exited, code\(3\)`)[1]

	s.send(":read " + id + " 0-5\r")
	s.expect(`(?m)^hello\n-- bytes 0-5 of \d+; can be read: 0-\d+$`)
	s.send(":read " + id + " 5000-\r")
	s.expect(`demo: read output`)

	s.send(":stats\r")
	s.expect("ended: 1 exited")
	s.send(":events\r")
	s.expect("Events are shown")
	s.send("true\r")
	for _, kind := range []string{"exec_started", "exec_exited", "exec_ended"} {
		s.expect("event .* " + kind)
	}
	s.send(":nosuch\r")
	s.expect("there is no :nosuch; :help")
	s.send(":help\r")
	s.expect(":resize ID ROWSxCOLS")
	s.quit()
	s.restored()
}

func TestBackground(t *testing.T) {
	t.Parallel()
	s := stay(t)
	s.send("echo fi''rst; while read -r line; do echo \"got <$line> on $(stty size)\"; done; echo in''put ended; while :; do sleep 0.1; done\r")
	s.expect("first")
	s.expect(`\] reads> `)
	s.send("\x1a")
	id := s.expect(`\[(\d+)\] goes on in the background`)[1]
	prefix := `(?m)^(\x1b\[\d+m)?\[` + id + `\] (\x1b\[0m)?`
	s.send(":in " + id + " some text\r")
	s.expect(prefix + "got <some text> on 24 100")
	s.send("echo an''other\r")
	s.expect(`(?m)^another`)
	s.expect(`exited, code\(0\)`)
	s.send(":ps\r")
	s.expect(id + `\s+running\s+\d+\s+\d+s\s+echo fi''rst`)
	s.send(":resize " + id + " 40x120\r")
	s.expect("is 40x120 now")
	s.send(`:in ` + id + ` "quoted\n"` + "\r")
	s.expect(prefix + "got <quoted> on 40 120")
	s.send(":eof " + id + "\r")
	s.expect(prefix + "input ended")
	s.send(":kill " + id + "\r")
	s.expect(`\[` + id + `\] terminated by user, `)
	s.send(":ps\r")
	s.expect("Nothing runs")
	s.send("\x04")
	s.ends(0)
	s.restored()
}

func TestWindowSizeReachesTheCommands(t *testing.T) {
	t.Parallel()
	s := stay(t)
	s.send("trap 'echo si''ze $(stty size)' WINCH; echo rea''dy; while :; do sleep 0.1; done\r")
	s.expect(`(?m)^ready`)
	s.resize(30, 90)
	s.expect("size 30 90")
	s.send("\x1f") // Ctrl-_ has the code that stands for Ctrl-C in the editor
	s.send("\x1a")
	s.send("stty size\r")
	s.expect(`(?m)^30 90`)
	s.send(":ps\r")
	s.expect(`\d+\s+running`)
	s.quit()
}

func TestCtrlZSendsTheOneInFrontToTheBackground(t *testing.T) {
	t.Parallel()
	s := stay(t)
	s.send("echo fi''rst; while :; do sleep 0.1; done\r")
	s.expect("first")
	s.send("echo se''cond\r")
	s.expect(`, a line waits`)
	s.send("\x1a")
	id := s.expect(`\[(\d+)\] goes on in the background`)[1]
	s.expect(`(?m)^second`)
	s.expect(`exited, code\(0\)`)
	s.send("\x03") // no command is in front, so the one that was started last gets it
	s.expect(`\^C for \[` + id + `\]`)
	s.expect(`\[` + id + `\] exited, signal\(2\)`)
	s.quit()
}

func TestCtrlCInterruptsTheCommandAndNotTheDemo(t *testing.T) {
	t.Parallel()
	s := stay(t)
	s.send("\x03")
	s.expect("nothing runs")
	s.send(untilInterrupted + "; echo not this\r")
	s.expect(`(?m)^begun`)
	s.send("\x03")
	id := s.expect(`\^C for \[(\d+)\]`)[1]
	s.expect(`\[` + id + `\] exited, signal\(2\)`)
	if strings.Contains(s.shown(), "\nnot this") {
		t.Error("the script went on")
	}
	s.send("half a line\x03echo the''re\r")
	s.expect(`(?m)^there`)
	s.quit()
	s.restored()
}

func TestHistory(t *testing.T) {
	t.Parallel()
	s := stay(t)
	s.send("echo o''ne\r")
	s.expect(`(?m)^one`)
	s.send("echo t''wo\r")
	s.expect(`(?m)^two`)
	s.send("\x1b[A\x1b[A\r")
	s.expect(`(?m)^one`)
	s.send("\x1b[A\x7f\x7f\x7f\x7f\x7fe''dited\r") // an earlier line, "echo o''ne", is edited
	s.expect(`(?m)^edited`)
	s.quit()
}

func TestColours(t *testing.T) {
	t.Parallel()
	say := `printf '\033[35mco''loured\033[0m\033[2J\n'` + "\r"
	s := stay(t)
	s.send(say)
	s.expect(`\x1b\[35mcoloured`)
	s.expect(`\x1b\[2m\[\d+\] exited`)
	s.quit()
	if strings.Contains(s.shown(), "\x1b[2J") {
		t.Error("a command cleared the screen")
	}
	for _, variables := range [][]string{{"NO_COLOR=1"}, {"TERM=dumb"}} {
		s := stay(t, variables...)
		s.send(say)
		s.expect(`(?m)^coloured`)
		s.expect(`(?m)^\[\d+\] exited`)
		s.quit()
		if strings.Contains(strings.NewReplacer(pasteOn, "", pasteOff, "").Replace(s.shown()), "\x1b[") {
			t.Errorf("colours with %s", variables)
		}
	}
}

// However the demo ends, the terminal is restored, and the command has ended.
func TestTerminalIsRestored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(s *seat)
		code int
	}{
		":quit":                 {func(s *seat) { s.send(":quit\r") }, 0},
		"Ctrl-D":                {func(s *seat) { s.send("\x1a\x04") }, 0},
		"SIGTERM":               {func(s *seat) { s.signal(s.demo(), syscall.SIGTERM) }, 143},
		"SIGHUP":                {func(s *seat) { s.signal(s.demo(), syscall.SIGHUP) }, 129},
		"SIGTERM for the host":  {func(s *seat) { s.signal(s.host(), syscall.SIGTERM) }, 143},
		"SIGQUIT":               {func(s *seat) { s.signal(s.demo(), syscall.SIGQUIT) }, 2},
		"a panic":               {func(s *seat) { s.send(":panic\r") }, 2},
		"SIGKILL for the host":  {func(s *seat) { s.signal(s.host(), syscall.SIGKILL) }, 137},
		"SIGABRT for the host":  {func(s *seat) { s.signal(s.host(), syscall.SIGABRT) }, 2},
		"SIGKILL for the guard": {func(s *seat) { s.signal(s.demo(), syscall.SIGKILL) }, 137},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sit(t, panicVariable+"=1")
			s.send("echo pid $$ is rea''dy; while :; do sleep 0.1; done\r")
			pid := s.expect(`pid (\d+) is ready`)[1]
			if s.modes() == s.before {
				t.Error("the terminal is not in the editor's modes")
			}
			c.end(s)
			s.ends(c.code)
			s.restored()
			gone(t, pid)
		})
	}
}

func TestLifelineIsNotForCommands(t *testing.T) {
	t.Parallel()
	s := stay(t)
	s.send("echo \"<$" + lifelineVariable + ">\" $(ls /dev/fd/ | wc -l)\r")
	if got := s.expect(`(?m)^<(.*)> *(\d+)`); got[1] != "" || len(got[2]) != 1 || got[2] > "4" {
		t.Errorf("a command has the lifeline %q and %s descriptors", got[1], got[2])
	}
	s.quit()
}
