package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestTour(t *testing.T) {
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
	for i, step := range steps() {
		if !strings.Contains(got.stdout, step.about) {
			t.Errorf("step %d, %s, is not told", i+1, step.name)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v; %v", left, err)
	}
}

func TestTourForMachines(t *testing.T) {
	got := finish(t, demo(t, "tour", "-json"))
	decoder := json.NewDecoder(strings.NewReader(got.stdout))
	decoder.DisallowUnknownFields()
	for i, step := range steps() {
		var s scene
		if err := decoder.Decode(&s); err != nil {
			t.Fatalf("step %d: %v\n%s", i+1, err, got.stdout)
		}
		if s.Step != i+1 || s.Name != step.name || s.About != step.about || !s.OK && s.Skipped == "" {
			t.Errorf("%+v", s)
		}
		if s.Skipped != "" {
			t.Logf("%s is not shown: %s", s.Name, s.Skipped)
		}
	}
	var sum total
	if err := decoder.Decode(&sum); err != nil || !sum.OK || sum.Steps != len(steps()) || sum.Failed != 0 {
		t.Errorf("%+v, %v", sum, err)
	}
	if got.code != 0 || decoder.More() {
		t.Errorf("ended with %d and %q", got.code, got.stderr)
	}
}

// If the programs that the tour runs are missing, its steps fail.
func TestTourFailsWithItsSteps(t *testing.T) {
	t.Parallel()
	c := demo(t, "tour", "-json")
	c.Env = append(c.Env, "PATH="+t.TempDir())
	got := finish(t, c)
	if got.code != 1 || !strings.Contains(got.stdout, `"name":"flood","about":"`) || !strings.Contains(got.stdout, `"ok":false`) {
		t.Errorf("%+v", got)
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
		sent := false
		for {
			n, err := progress.Read(buffer)
			told.Write(buffer[:n])
			if !sent && strings.Contains(told.String(), "Third call") {
				_ = c.Process.Signal(number)
				sent = true
			}
			if err != nil {
				break
			}
		}
		_ = c.Wait()
		if code := c.ProcessState.ExitCode(); code != 128+int(number) || !strings.Contains(stderr.String(), "interrupted") {
			t.Errorf("ended with %d and %q", code, stderr.String())
		}
		if strings.Contains(told.String(), "error:") || strings.Contains(told.String(), "hold.") {
			t.Errorf("an interruption is no failure:\n%s", told.String())
		}
	}
}

func TestTourWithoutPython(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	for _, name := range []string{"sh", "seq", "sleep", "setsid"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("there is no %s", name)
		}
		if err := syscall.Symlink(path, bin+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	c := demo(t, "tour")
	c.Env = append(c.Env, "PATH="+bin)
	if got := finish(t, c); got.code != 0 || !strings.Contains(got.stdout, "start sh on a terminal") {
		t.Errorf("ended with %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// A single scene is shown with those that it continues.
func TestOneScene(t *testing.T) {
	t.Parallel()
	for number, want := range map[string][]int{"1": {1}, "3": {2, 3}} {
		got := finish(t, demo(t, "tour", "-json", number))
		decoder := json.NewDecoder(strings.NewReader(got.stdout))
		for _, step := range want {
			var s scene
			if err := decoder.Decode(&s); err != nil || s.Step != step || !s.OK && s.Skipped == "" {
				t.Errorf("%+v, %v; want step %d", s, err, step)
			}
		}
		var sum total
		if err := decoder.Decode(&sum); err != nil || !sum.OK || sum.Steps != len(want) {
			t.Errorf("%+v, %v", sum, err)
		}
	}
}

func TestTheTourWaitsOnATerminal(t *testing.T) {
	t.Parallel()
	s := open(t, 24, 100)
	s.begin(nil, "tour", "3")
	s.expect(`2\. session`)
	s.expect(`Enter shows the next scene`)
	if strings.Contains(s.shown(), "3. interrupt") {
		t.Error("it did not wait")
	}
	s.send("\r")
	s.expect(`3\. interrupt`)
	s.ends(0)
	s.restored()
	s = open(t, 24, 100)
	s.begin(nil, "tour", "3")
	s.expect(`Enter shows the next scene`)
	s.send("\x03") // the shell gets this, too
	s.expect(`demo: interrupted; everything has been ended`)
	if strings.Contains(s.shown(), "3. interrupt") {
		t.Error("it went on")
	}
}
