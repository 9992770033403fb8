//go:build linux

package sandbox_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestWherePidfdsAreDeniedTreesAreEndedAndLessIsClaimed(t *testing.T) {
	t.Parallel() // it waits most of the time
	token := newToken()
	out := says(t, []string{self(t)}, "DENIED=pidfds", "SCRIPT=(setsid sleep "+token+" </dev/null >/dev/null 2>&1 &); sleep 0.2")
	if strings.Contains(out, "no seccomp") {
		t.Skip(out)
	}
	if !strings.Contains(out, "Ended:1 Survivors:[] Airtight:false") {
		t.Errorf("it says %s", out)
	}
	noneLeft(t, token)
	if out := says(t, []string{self(t)}, "SCRIPT=(setsid sleep "+token+" </dev/null >/dev/null 2>&1 &); sleep 0.2"); !strings.Contains(out, "Ended:1 Survivors:[] Airtight:true") {
		t.Errorf("with pidfds it says %s", out)
	}
}

// sudoer runs a host, as an ordinary user, after the given commands. A command of the host becomes root.
func sudoer(t *testing.T, before string) (lines []string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make what an ordinary user cannot end")
	}
	folder, err := os.MkdirTemp("/tmp", "execbus-test") // where an ordinary user can look
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	host, sudo, token := filepath.Join(folder, "host"), filepath.Join(folder, "sudo"), newToken()
	copyFile(t, self(t), host)
	copyFile(t, self(t), sudo)
	if err := errors.Join(os.Chmod(sudo, 0o755|os.ModeSetuid), os.Chmod(folder, 0o755)); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("unshare", "--mount", "sh", "-c", before+` exec setpriv --reuid=65534 --regid=65534 --clear-groups "$0"`, host)
	command.Env = environment(roleVariable+"=sudoer", "SUDO="+sudo, "TOKEN="+token)
	out, err := command.CombinedOutput()
	for _, p := range observe(token) {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
	lines = strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(lines) != 3 {
		t.Skipf("this system does not let a test do that: %v %s", err, out)
	}
	return lines
}

func TestWhatSurvivedOneCommandIsNotBlamedOnTheNext(t *testing.T) {
	t.Parallel() // it waits most of the time
	lines := sudoer(t, "")
	if !strings.Contains(lines[0], "cannot be signalled") {
		t.Errorf("of what cannot be ended the report says %s", lines[0])
	}
	for _, next := range lines[1:] { // it would be named if it had been waited for
		if !strings.Contains(next, "Survivors:[] Airtight:true") {
			t.Errorf("the next command: %s", next)
		}
	}
}

func TestWhatCannotBeSeenIsNamedAndNothingIsClaimed(t *testing.T) {
	t.Parallel() // it waits most of the time
	lines := sudoer(t, "mount -t proc -o hidepid=2 proc /proc &&")
	if !strings.Contains(lines[0], "cannot be seen") || !strings.Contains(lines[0], "Airtight:false") {
		t.Errorf("of what cannot be seen the report says %s", lines[0])
	}
	if !strings.Contains(lines[1], "Survivors:[] Airtight:true") {
		t.Errorf("the next command: %s", lines[1])
	}
}
