package warden

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// alarm is a kernel timer that kills this process even if it cannot run.
type alarm struct {
	id  int32
	set bool
}

// sigevent is the kernel's struct sigevent. Its notification is SIGEV_SIGNAL, which is zero.
type sigevent struct {
	_      uint64
	signal int32
	_      [52]byte
}

type itimerspec struct{ interval, value unix.Timespec }

func newAlarm() *alarm {
	a := &alarm{}
	event := sigevent{signal: int32(unix.SIGKILL)}
	_, _, errno := unix.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&a.id)))
	a.set = errno == 0
	return a
}

// in sets the alarm to go off after d; zero stops it.
func (a *alarm) in(d time.Duration) {
	if !a.set {
		return
	}
	when := itimerspec{value: unix.NsecToTimespec(int64(d))}
	_, _, _ = unix.RawSyscall6(unix.SYS_TIMER_SETTIME, uintptr(a.id), 0, uintptr(unsafe.Pointer(&when)), 0, 0, 0)
}
