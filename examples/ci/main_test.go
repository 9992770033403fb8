package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// roleVariable makes this test binary the program.
const roleVariable = "EXECBUS_EXAMPLE_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "ci" {
		main()
		return
	}
	os.Exit(m.Run())
}

const jobs = 500

// script has different output in each job. Every 50th job writes 3 MiB, to both streams, and leaves a daemon behind.
const script = `
if [ $((JOB % 50)) = 0 ]; then
	(setsid sleep 1000 &)
	i=0; while [ $i -lt 48 ]; do head -c 65536 /dev/zero | tr '\0' "$((JOB / 50 % 10))"; i=$((i+1)); done
fi
printf 'job %s\r\n\000\377tail' "$JOB"; printf 'err' >&2; exit $((JOB % 7))`

func artifact(n int) []byte {
	var b bytes.Buffer
	if n%50 == 0 {
		b.Write(bytes.Repeat([]byte{byte('0' + n/50%10)}, 48*65536))
	}
	fmt.Fprintf(&b, "job %d\r\n\x00\xfftailerr", n)
	return b.Bytes()
}

func TestJobsSurviveTheRunner(t *testing.T) {
	dir := t.TempDir()
	ci := func() *exec.Cmd {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), self, "-out", dir, "-jobs", fmt.Sprint(jobs), script)
		c.Env = append(os.Environ(), roleVariable+"=ci", "EXECBUS_MARK="+dir)
		return c
	}
	done := func() int {
		found, _ := filepath.Glob(filepath.Join(dir, "*.status"))
		return len(found)
	}
	for _, enough := range []int{20, 150} { // killed twice, in the middle
		c := ci()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); done() < enough; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("only %d jobs are done", done())
			}
		}
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	if n := done(); n >= jobs {
		t.Fatalf("all %d jobs were done before the last run", n)
	}
	output, err := ci().CombinedOutput()
	if err != nil || !strings.Contains(string(output), "jobs done now") {
		t.Fatalf("the last run: %v, %s", err, output)
	}
	t.Logf("the last run: %s", output)
	for n := range jobs {
		got, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%d.log", n)))
		if err != nil || !bytes.Equal(got, artifact(n)) {
			t.Errorf("job %d: %d bytes, want %d; %v", n, len(got), len(artifact(n)), err)
		}
		status, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%d.status", n)))
		if want := fmt.Sprintf("code(%d)\n", n%7); err != nil || string(status) != want {
			t.Errorf("job %d: status %q, want %q; %v", n, status, want, err)
		}
	}
	left(t, dir)
}

// left waits until no process has the mark of this test in its environment.
func left(t *testing.T, mark string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		var found []string
		files, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte("EXECBUS_MARK="+mark)) {
				found = append(found, file)
			}
		}
		if len(found) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still alive: %v", found)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A runner that is asked to stop ends its jobs, and the next one does the rest.
func TestARunnerThatIsAskedToStop(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "-out", dir, "-jobs", "4", "-parallel", "2", "echo begun >begun$JOB; sleep 1000")
	c.Env = append(os.Environ(), roleVariable+"=ci", "EXECBUS_MARK="+dir)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if found, _ := filepath.Glob(filepath.Join(dir, "begun*")); len(found) == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no job began")
		}
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err = c.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v, want exit code 1", err)
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "*.status")); len(found) > 0 {
		t.Errorf("jobs that were stopped count as done: %v", found)
	}
	left(t, dir)
}
