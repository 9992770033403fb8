package main

import (
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

func TestTour(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := demo(t, "tour")
	dir := t.TempDir()
	c.Env = append(c.Env, "TMPDIR="+dir, "HOME="+dir, "XDG_CONFIG_HOME="+dir)
	got := finish(t, c)
	t.Logf("the tour took %v; the usage says half a minute, which a slow machine need not keep", time.Since(began))
	if got.code != 0 || strings.Contains(got.stdout, "DOES NOT HOLD") || got.stderr != "" {
		t.Errorf("ended with %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if strings.Contains(got.stdout, "\x1b") {
		t.Error("it coloured what is no terminal")
	}
	skipped := regexp.MustCompile("not shown here: .*").FindAllString(got.stdout, -1)
	if len(skipped) > 0 {
		t.Log(skipped)
	}
	for _, s := range scenes() {
		if !strings.Contains(got.stdout, s.about) {
			t.Errorf("%s is not told", s.name)
		}
		for _, step := range s.steps {
			for _, c := range append(step.see, step.unseen...) {
				if !strings.Contains(got.stdout, "holds: "+c.sentence+"\n") && len(skipped) == 0 {
					t.Errorf("%s: %q is not told", s.name, c.sentence)
				}
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v; %v", left, err)
	}
}

// Where the programs that the tour runs are missing, its scenes fail or are not shown.
func TestTourWithoutPrograms(t *testing.T) {
	t.Parallel()
	c := demo(t, "tour")
	c.Env = append(c.Env, "PATH="+t.TempDir())
	got := finish(t, c)
	if got.code != 1 || !strings.Contains(got.stdout, "error: ") || !strings.Contains(got.stdout, "not shown here: ") || !strings.Contains(got.stdout, " scenes did not hold.") {
		t.Errorf("%v", got)
	}
}

// A scene holds only if everything is seen that must be, and nothing else.
func TestAClaimThatDoesNotHold(t *testing.T) {
	t.Parallel()
	echo := sh("echo said")
	for name, s := range map[string]step{
		"seen":     {do: echo, see: []claim{{"it is", "said"}}},
		"unseen":   {do: echo, unseen: []claim{{"it is not", "said"}}},
		"an error": {do: argv("/execbus-no-such-program")},
		"no error": {do: echo, fails: messages.ErrRejected},
	} {
		err := (&scene{steps: []step{s}}).play(t.Context())
		if held := err == nil; held != (name == "seen") {
			t.Errorf("%s: %v", name, err)
		}
	}
	g := &stage{output: []byte("this was\nsaid")}
	if g.missing([]claim{{"a", "was.said"}}) != "" || g.missing([]claim{{"a", "said"}, {"b", "nothing"}}) != "b" {
		t.Error("what was not seen is not missed")
	}
}

func TestTourInterrupted(t *testing.T) {
	t.Parallel()
	for _, number := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		c := demo(t, "tour")
		progress, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		c.Stderr = &stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		var told strings.Builder
		buffer := make([]byte, 4096)
		for sent := false; err == nil; {
			var n int
			n, err = progress.Read(buffer)
			told.Write(buffer[:n])
			if !sent && strings.Contains(told.String(), "Second call") {
				_ = c.Process.Signal(number)
				sent = true
			}
		}
		_ = c.Wait()
		if code := c.ProcessState.ExitCode(); code != 128+int(number) || !strings.Contains(stderr.String(), "interrupted") {
			t.Errorf("ended with %d and %q", code, stderr.String())
		}
		if strings.Contains(told.String(), "error:") || strings.Contains(told.String(), " hold.") {
			t.Errorf("an interruption is no failure:\n%s", told.String())
		}
	}
}

func TestOneScene(t *testing.T) {
	t.Parallel()
	got := finish(t, demo(t, "tour", "1"))
	if got.code != 0 || !strings.Contains(got.stdout, "1. short command") || strings.Contains(got.stdout, "2. ") || !strings.Contains(got.stdout, "Scenes that held: 1, in") {
		t.Error(got)
	}
}

func TestTheTourWaitsOnATerminal(t *testing.T) {
	t.Parallel()
	s := open(t, 24, 100)
	s.begin(nil, "tour")
	s.expect(`1\. short command`)
	s.expect(`Enter shows the next scene`)
	if strings.Contains(s.shown(), "2. session") {
		t.Error("it did not wait")
	}
	s.send("\r")
	s.expect(`2\. session`)
	s.expect(`Enter shows the next scene`)
	s.send("\x03") // the shell gets this, too
	s.expect(`demo: interrupted; everything has been ended`)
	if strings.Contains(s.shown(), "3. flood") {
		t.Error("it went on")
	}
	s.restored()
}
