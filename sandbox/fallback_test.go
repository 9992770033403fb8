//go:build linux

package sandbox_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/sandbox/internal/refusetest"
)

// beEmulated runs this test binary with a kernel that refuses to start children in shared memory, as user-mode emulators do.
// Its arguments are those of the tests.
func beEmulated() {
	if refusetest.Clone(refusetest.EveryThread) != nil {
		os.Exit(98)
	}
	must(os.Unsetenv(roleVariable))
	must(os.Setenv(emulatedVariable, "1"))
	must(syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
}

const emulatedVariable = "EXECBUS_TEST_EMULATED"

// emulated runs a test in a process of its own whose clone is refused. It returns true in that process.
func emulated(t *testing.T) bool {
	t.Helper()
	if os.Getenv(emulatedVariable) != "" {
		return true
	}
	command := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	command.Env = append(os.Environ(), roleVariable+"=emulated")
	out, err := command.CombinedOutput()
	if failed, is := errors.AsType[*exec.ExitError](err); is && failed.ExitCode() == 98 {
		t.Skip("skipped: no seccomp here")
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

func TestNothingIsConfinedWhereTheCloneIsRefused(t *testing.T) {
	if !emulated(t) {
		return
	}
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		e, err := spawner.Enclose(t.Context(), workspace(t.TempDir()))
		l := launch(tty, "true")
		if err == nil {
			defer e.Release()
			l.Sandbox, l.Events = e, func(e ptyio.Event) { t.Errorf("event %T", e) }
			_, err = spawner.Spawn(t.Context(), l)
		}
		failed, is := errors.AsType[*messages.Error](err)
		if !is || failed.Code != messages.ErrUnsupported || failed.Enforceable != messages.AssuranceNone ||
			!strings.Contains(failed.Detail, "--sandbox danger-full-access") {
			t.Error(err)
		}
	})
	probed := sandbox.Probe()
	if probed.Level != messages.AssuranceNone {
		t.Errorf("%+v", probed)
	}
	for _, m := range probed.Mechanisms[:2] {
		if m.Works || !strings.Contains(m.Why, "clone") || !strings.Contains(m.Why, "--sandbox danger-full-access") {
			t.Errorf("%+v", m)
		}
	}
}

func TestNothingIsLimitedWhereTheCloneIsRefused(t *testing.T) {
	if !emulated(t) {
		return
	}
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		for _, limits := range []messages.Limits{{CPUTime: time.Hour}, {MemoryBytes: 1 << 30}, {Processes: 100}, {OpenFiles: 100}} {
			l := launch(tty, "true")
			l.Limits, l.Events = limits, func(e ptyio.Event) { t.Errorf("event %T", e) }
			_, err := spawner.Spawn(t.Context(), l)
			failed, is := errors.AsType[*messages.Error](err)
			if !is || failed.Code != messages.ErrUnsupported || failed.Subject != "limit "+string(limits.Set()[0]) ||
				!strings.Contains(failed.Detail, "--sandbox danger-full-access") {
				t.Error(err)
			}
		}
		if exit, _ := limited(t, spawner, tty, messages.Limits{OutputBytes: 1 << 20, WallTime: time.Hour}, "exit 3"); exit.Status != messages.StatusExited(3) {
			t.Errorf("%+v", exit)
		}
	})
}

func TestACommandWithoutASandboxRunsWhereTheCloneIsRefused(t *testing.T) {
	if !emulated(t) {
		return
	}
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		count := func() string { return counted(t, "/proc/self/fd") + " and " + below(t) }
		const script = `cd /proc/$$/fd && echo *; grep ^Sig[BI] /proc/self/status`
		first := said(t, spawner, nil, tty, script)
		none := strings.Repeat("0", 16)
		ignored := none
		if strings.Contains(t.Name(), "direct") { // Go's own start leaves ignored what the host ignores, such as SIGHUP under nohup
			ignored = ignoredSignals(t)
		}
		if !strings.Contains(first, "SigBlk:\t"+none+"\nSigIgn:\t"+ignored) {
			t.Errorf("%s\nwant %s to be ignored", first, ignored)
		}
		before := count()
		eventually(t, "nothing comes and goes by itself", func() bool {
			said(t, spawner, nil, tty, script)
			last := before
			before = count()
			return before == last
		})
		for range 10 {
			if again := said(t, spawner, nil, tty, script); again != first {
				t.Errorf("%q instead of %q", again, first)
			}
		}
		eventually(t, "there are "+before+" descriptors and children again", func() bool { return count() == before })
	})
}

func counted(t *testing.T, folder string) string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(len(entries))
}

// below lists the children of this process and of its wardens, with their open descriptors.
func below(t *testing.T) (all string) {
	t.Helper()
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, pid := range strings.Fields(string(text)) {
			all += pid + " with " + counted(t, "/proc/"+pid+"/fd")
			theirs, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
			for _, list := range theirs {
				text, _ := os.ReadFile(list)
				all += string(text)
			}
		}
	}
	return all
}

func TestNothingIsIsolatedWhereTheCloneIsRefused(t *testing.T) {
	if !emulated(t) {
		return
	}
	spawner := newSpawner(t, sandbox.Options{})
	c := workspace(t.TempDir())
	c.Least = messages.AssuranceIsolated
	e, err := spawner.Enclose(t.Context(), c)
	if err == nil {
		defer e.Release()
		_, err = spawner.Can(ptyio.Launch{Sandbox: e})
	}
	if err == nil || !strings.Contains(err.Error(), "clone") {
		t.Error(err)
	}
}

// ignoredSignals is the set of signals that this process ignores, as /proc says it.
func ignoredSignals(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nSigIgn:\t")
	set, _, _ := strings.Cut(rest, "\n")
	return set
}
