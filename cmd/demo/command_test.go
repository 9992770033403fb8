package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

func TestCommandOnPipes(t *testing.T) {
	t.Parallel()
	c := demo(t, "--", "sh", "-c", "tr a-z A-Z; echo done >&2; exit 4")
	input := bytes.Repeat([]byte("all of it\n"), 100_000)
	c.Stdin = bytes.NewReader(input)
	got := finish(t, c)
	if got.code != 4 || got.stdout != string(bytes.ToUpper(input)) || got.stderr != "done\n" {
		t.Errorf("ended with %d after %d bytes and %q", got.code, len(got.stdout), got.stderr)
	}
}

// begun starts a demo without a terminal and waits for its first line.
func begun(t *testing.T, arguments ...string) (c *exec.Cmd, said *bufio.Reader) {
	t.Helper()
	c = demo(t, arguments...)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	said = bufio.NewReader(out)
	if text, err := said.ReadString('\n'); err != nil || text != "ready\n" {
		t.Fatalf("it said %q: %v", text, err)
	}
	return c, said
}

// tooSlow reports whether a test has to be tried again, because the machine did not let a command handle SIGTERM before SIGKILL came.
func tooSlow(first time.Time, code string, want int) bool {
	return want == 7 && code == "137" && time.Since(first) < patience
}

func TestSignalsOnPipes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal syscall.Signal
		trap   string
		says   string
		code   int
	}{
		"INT to a command that handles it":  {syscall.SIGINT, `trap "echo trapped; exit 7" INT`, "trapped\n", 7},
		"INT to one that does not":          {syscall.SIGINT, "", "", 130},
		"QUIT":                              {syscall.SIGQUIT, "ulimit -c 0", "", 131},
		"TERM to a command that handles it": {syscall.SIGTERM, `trap "echo trapped; exit 7" TERM`, "trapped\n", 7},
		"TERM to one that does not":         {syscall.SIGTERM, "", "", 143},
		"TERM to one that ignores it":       {syscall.SIGTERM, `trap "" TERM`, "", 137},
		"HUP":                               {syscall.SIGHUP, "", "", 143},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for first := time.Now(); ; {
				command, said := begun(t, "--", "sh", "-c", c.trap+"\necho ready; while :; do sleep 0.1; done")
				if err := command.Process.Signal(c.signal); err != nil {
					t.Fatal(err)
				}
				rest, err := io.ReadAll(said)
				_ = command.Wait()
				code := command.ProcessState.ExitCode()
				if tooSlow(first, strconv.Itoa(code), c.code) {
					continue
				}
				if err != nil || string(rest) != c.says || code != c.code {
					t.Errorf("it said %q and ended with %d, want %q and %d; %v", rest, code, c.says, c.code, err)
				}
				return
			}
		})
	}
}

func TestCommandOnATerminal(t *testing.T) {
	t.Parallel()
	s := open(t, 31, 97)
	s.begin(nil, "--", "sh", "-c", `stty size; read -r line; echo "got <$line>"; trap "stty size; exit 9" WINCH; echo ready; while :; do sleep 0.1; done`)
	s.expect("31 97")
	if before, now := s.before, s.modes(); before == now {
		t.Error("the terminal was not put into raw mode")
	}
	s.send("text\r")
	s.expect("got <text>")
	s.expect("ready")
	s.resize(20, 50)
	s.expect("20 50")
	s.ends(9)
	s.restored()
}

func TestCtrlCOnATerminalGoesToTheCommand(t *testing.T) {
	t.Parallel()
	s := open(t, 24, 80)
	s.begin(nil, "--", "sh", "-c", `trap "echo trapped; exit 8" INT; echo ready; while :; do sleep 0.1; done`)
	s.expect("ready")
	s.send("\x03")
	s.expect("trapped")
	s.ends(8)
	s.restored()
}

func TestCommandThatIsTerminatedOnATerminal(t *testing.T) {
	t.Parallel()
	for first := time.Now(); ; {
		s := open(t, 24, 80)
		// Without the trap the command would die of SIGHUP or SIGTERM, whichever the kernel delivers first.
		s.begin(nil, "--", "sh", "-c", `trap "exit 7" TERM; echo ready; while :; do sleep 0.1; done`)
		s.expect("ready")
		s.signal(s.demo(), syscall.SIGTERM)
		code := s.ended()
		s.restored()
		if tooSlow(first, code, 7) {
			continue
		}
		if code != "7" {
			t.Errorf("the demo ended with %s, want 7", code)
		}
		return
	}
}

func TestCommandThatDoesNotExistOnATerminal(t *testing.T) {
	t.Parallel()
	s := open(t, 24, 80)
	s.begin(nil, "--", "execbus-no-such-program")
	s.expect("execbus-no-such-program")
	s.ends(127)
	s.restored()
}

// A terminal in line mode would hold the last output back. It must reach a pipe although the input is a terminal.
func TestOutputThatIsNoTerminal(t *testing.T) {
	t.Parallel()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer slave.Close()
	c := demo(t, "--", "sh", "-c", "test -t 1 || echo no terminal")
	c.Stdin = slave
	if got := finish(t, c); got.code != 0 || got.stdout != "no terminal\n" {
		t.Errorf("%+v", got)
	}
}

func TestKilledDemoLeavesNoCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "pid")
	c, _ := begun(t, "--", "sh", "-c", `echo $$ > "$0"; echo ready; while :; do sleep 0.1; done`, file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	gone(t, strings.TrimSpace(string(text)))
}
