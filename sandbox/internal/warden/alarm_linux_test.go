package warden

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if after := os.Getenv("EXECBUS_TEST_ALARM"); after != "" {
		a, wait := newAlarm(), 10*time.Second
		a.in(200 * time.Millisecond)
		if after == "stopped" {
			a.in(0)
			wait = 300 * time.Millisecond
		}
		time.Sleep(wait)
		return
	}
	os.Exit(m.Run())
}

func TestTheAlarmKillsUnlessItIsStopped(t *testing.T) {
	for after, want := range map[string]syscall.Signal{"set": syscall.SIGKILL, "stopped": 0} {
		command := exec.Command("/proc/self/exe")
		command.Env = append(os.Environ(), "EXECBUS_TEST_ALARM="+after)
		err := command.Run()
		got := syscall.Signal(0)
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			got = failed.Sys().(syscall.WaitStatus).Signal()
		}
		if got != want {
			t.Errorf("%s: %v instead of %v (%v)", after, got, want, err)
		}
	}
}
