package warden

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if os.Getenv("EXECBUS_TEST_ALARM") != "" {
		newAlarm().in(20 * time.Millisecond)
		time.Sleep(time.Minute)
		return
	}
	os.Exit(m.Run())
}

func TestTheAlarmKills(t *testing.T) {
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), "EXECBUS_TEST_ALARM=1")
	failed, ok := errors.AsType[*exec.ExitError](command.Run())
	if !ok || failed.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Error(failed)
	}
}

func TestAnAlarmIsStopped(t *testing.T) {
	a := newAlarm()
	left := func() (left time.Duration) {
		var now itimerspec
		if _, _, errno := unix.Syscall(unix.SYS_TIMER_GETTIME, uintptr(a.id), uintptr(unsafe.Pointer(&now)), 0); errno != 0 {
			t.Fatal(errno)
		}
		return time.Duration(now.value.Nano())
	}
	if a.in(time.Hour); left() == 0 {
		t.Error("it is not set")
	}
	if a.in(0); left() != 0 {
		t.Error("it is not stopped")
	}
}
