package child

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Variables of a process that a test starts: at which of its changing system calls it is to be killed or to stop, counted from 1.
const (
	KillAt = "EXECBUS_TEST_KILL_AT"
	StopAt = "EXECBUS_TEST_STOP_AT"
	// Piece is how many bytes one call writes.
	Piece = "EXECBUS_TEST_PIECE"
)

// This happens before the package's init takes over.
var _ = arm()

func arm() bool {
	kill, stop := number(KillAt), number(StopAt)
	if n := number(Piece); n > 0 {
		piece = n
	}
	if kill+stop == 0 {
		return false
	}
	calls := 0
	before = func(string) {
		switch calls++; calls {
		case kill:
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		case stop:
			_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		}
	}
	return true
}

func number(variable string) int {
	for _, v := range os.Environ() {
		if text, found := strings.CutPrefix(v, variable+"="); found {
			n, _ := strconv.Atoi(text)
			return n
		}
	}
	return 0
}
