package child

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Variables of a process that a test starts: at which of its changing system calls it is to be killed or to stop, counted from 1, or
// at the first call of a name.
const (
	KillAt = "EXECBUS_TEST_KILL_AT"
	StopAt = "EXECBUS_TEST_STOP_AT"
	// Piece is how many bytes one call writes.
	Piece = "EXECBUS_TEST_PIECE"
	// NoFlags is 1 where the file system can neither exchange names nor keep what stands at a new one, as NFS and 9p, and 2 where a
	// file cannot have two names either, as in many that are programs.
	NoFlags = "EXECBUS_TEST_NO_FLAGS"
)

// This happens before the package's init takes over.
var _ = arm()

func arm() bool {
	kill, stop := value(KillAt), value(StopAt)
	if n, err := strconv.Atoi(value(Piece)); err == nil {
		piece = n
	}
	if value(NoFlags) != "" {
		renameat2 = func(from int, old string, to int, name string, flags uint) error {
			if flags != 0 {
				return unix.EINVAL
			}
			return unix.Renameat(from, old, to, name)
		}
	}
	if value(NoFlags) == "2" {
		linkat = func(int, string, int, string, int) error { return unix.EPERM }
	}
	if kill+stop == "" {
		return false
	}
	calls := 0
	before = func(call string) {
		calls++
		switch number := strconv.Itoa(calls); {
		case kill == number, kill == call:
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		case stop == number:
			_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		}
	}
	return true
}

func value(variable string) string {
	for _, v := range os.Environ() {
		if text, found := strings.CutPrefix(v, variable+"="); found {
			return text
		}
	}
	return ""
}
