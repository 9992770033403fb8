package warden

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// checkGreeting says why this process is not a warden: unless the socket was made by our parent, which has put the greeting into it,
// this program only has the name of one. A privileged executable must not be a warden: its caller could use the privileges.
func checkGreeting() error {
	if privileged() {
		return errors.New("this executable gives rights")
	}
	peer, err := unix.GetsockoptUcred(socketFD, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return errors.New("descriptor 3 is not a socket of our parent: " + err.Error())
	}
	if peer.Pid <= 0 || int(peer.Pid) != os.Getppid() {
		return errors.New("descriptor 3 is not a socket of our parent")
	}
	var text [len(Greeting)]byte
	n, _, err := unix.Recvfrom(socketFD, text[:], unix.MSG_DONTWAIT)
	if err != nil || string(text[:n]) != Greeting {
		return errors.New("our parent has not greeted us on descriptor 3")
	}
	return nil
}

// privileged reports whether this process has privileges from its executable.
func privileged() bool {
	const secure = 23 // AT_SECURE
	vector, err := unix.Auxv()
	if err != nil {
		return true
	}
	for _, entry := range vector {
		if entry[0] == secure {
			return entry[1] != 0
		}
	}
	return os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid()
}
