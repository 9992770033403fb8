package warden

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
)

// checkGreeting says why this process is not a warden. A privileged executable must not be one: its caller could use the
// privileges.
func checkGreeting() error {
	if birth.Privileged() {
		return errors.New("this executable gives rights")
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	have, err := unix.FcntlInt(greetingFD, unix.F_GET_SEALS, 0)
	if err != nil || have&seals != seals {
		return errors.New("descriptor 3 is not our sealed greeting")
	}
	var text [64]byte
	n, err := unix.Pread(greetingFD, text[:], 0)
	if err != nil || string(text[:n]) != Greeting {
		return errors.New("descriptor 3 does not hold our greeting")
	}
	return unix.Close(greetingFD)
}
