package main

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/tests/harness"
)

// signalChild signals a process if it is still the child of that parent. It checks this after opening the pidfd, so it cannot
// hit a stranger with the same number.
func signalChild(sig syscall.Signal, pid, parent int) (sent bool, err error) {
	if pid == 0 || parent == 0 {
		return false, nil
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false, ignoreGone(err)
	}
	defer unix.Close(fd)
	p, err := harness.ReadProc(pid)
	if err != nil || p.Dead() || p.PPID != parent {
		return false, nil // it has ended
	}
	err = unix.PidfdSendSignal(fd, sig, nil, 0)
	return err == nil, ignoreGone(err)
}

func ignoreGone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
