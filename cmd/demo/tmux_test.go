package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// pane is a terminal emulator, as a person would use it.
type pane struct {
	t      *testing.T
	socket string
}

// openPane starts a shell in tmux. Without tmux the test is skipped; the tests on a bare terminal remain.
func openPane(t *testing.T, variables ...string) *pane {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not installed: the demo was tried on a bare terminal only")
	}
	dir, err := os.MkdirTemp("", "demo") // the name is short because the path of a socket has at most 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	p := &pane{t, filepath.Join(dir, "s")}
	start := p.command("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "40", "sh")
	start.Env = append(environment(t, "PS1=shell> ", "SHELL=/bin/sh", "DEMO="+self(t)), variables...)
	if output, err := start.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		t.Skipf("tmux does not work here: %v: %s", err, output)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the pane shows:\n%s", p.look())
		}
		_ = p.command("kill-server").Run()
		os.RemoveAll(dir)
	})
	return p
}

func (p *pane) command(arguments ...string) *exec.Cmd {
	return exec.Command("tmux", append([]string{"-S", p.socket}, arguments...)...)
}

// keys presses keys. tmux has names for them.
func (p *pane) keys(keys ...string) {
	p.t.Helper()
	if output, err := p.command(append([]string{"send-keys"}, keys...)...).CombinedOutput(); err != nil {
		p.t.Fatalf("%v: %s", err, output)
	}
}

// enter types a line.
func (p *pane) enter(text string) {
	p.t.Helper()
	p.keys("-l", "--", text)
	p.keys("Enter")
}

// look returns the text of the pane. tmux leaves out the spaces at the ends of lines.
func (p *pane) look() string {
	output, _ := p.command("capture-pane", "-p", "-S", "-200").Output()
	return strings.TrimRight(string(output), "\n")
}

// expect waits until the pane shows the pattern, and returns its groups.
func (p *pane) expect(pattern string) []string {
	p.t.Helper()
	compiled := regexp.MustCompile("(?m)" + pattern)
	deadline := time.Now().Add(patience)
	for {
		if match := compiled.FindStringSubmatch(p.look()); match != nil {
			return match
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%q is not shown", pattern)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestInTmux(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(p *pane)
		code int
	}{
		":quit":   {func(p *pane) { p.enter(":quit") }, 0},
		"Ctrl-D":  {func(p *pane) { p.keys("C-d") }, 0},
		"SIGTERM": {func(p *pane) { p.enter("kill -TERM " + p.guard()) }, 143},
		"panic":   {func(p *pane) { p.enter(":panic") }, 2},
		"SIGKILL": {func(p *pane) { p.enter("kill -KILL $(cat /proc/" + p.guard() + "/task/*/children)") }, 137},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := openPane(t, panicVariable+"=1", "NO_COLOR=")
			p.expect(`^shell>$`)
			p.enter(`before=$(stty -a); sh -c 'echo guard $$; exec "$DEMO" -yield 4s'; echo "ended: $?"`)
			p.expect(`^demo>$`)
			useInTmux(p)
			c.end(p)
			if got := p.expect(`^ended: (\d+)`)[1]; got != fmt.Sprint(c.code) {
				t.Errorf("ended with %s, want %d", got, c.code)
			}
			p.enter(`[ "$before" = "$(stty -a)" ] && echo the sa''me || stty -a`)
			p.expect(`^(shell> )?the same`)
		})
	}
}

// guard returns the pid that the shell has printed.
func (p *pane) guard() string { return p.expect(`^guard (\d+)`)[1] }

// useInTmux uses the demo as a person would.
func useInTmux(p *pane) {
	p.t.Helper()
	p.enter("echo t''ick; echo tock; exit 3")
	p.expect(`^tick\n+tock\n\[\d+\] exited, code\(3\).*\ndemo>$`)
	p.enter("while :; do sleep 0.1; done")
	id := p.expect(`\[(\d+)\] goes on in the background`)[1]
	p.enter(untilInterrupted)
	p.expect(`^begun`)
	p.keys("C-c")
	p.expect(`\[\d+\] exited, signal\(2\)`)
	p.enter(":ps")
	p.expect(`^` + id + `\s+running`)
	p.enter(":kill " + id)
	p.expect(`^\[` + id + `\] terminated by user, `)
	p.keys("Up", "Up", "Up", "Up", "Up")
	p.expect(`^demo> echo t''ick; echo tock; exit 3$`)
	p.keys("C-c")
	p.expect(`nothing runs|^demo>$`)
	p.enter("echo a''gain")
	again := p.expect(`(?:^|\] )again\n\[(\d+)\] exited`)[1] // on a slow machine the id stands in front of it
	p.enter(":read " + again)
	p.expect(`^again\n-- bytes 0-7 of 7`)
}
