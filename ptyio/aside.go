package ptyio

import "golang.org/x/sys/unix"

// The host's ends of terminals and pipes have high numbers where there are many: a host that forks copies the descriptors up to the
// highest that the child gets, and those are then low.
const (
	manyFiles = 128
	highFiles = 256
)

// aside moves a descriptor with a number above manyFiles to one above highFiles, if the limit of open files allows that.
func aside(fd int) int {
	if fd < manyFiles || fd >= highFiles {
		return fd
	}
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, highFiles)
	if err != nil {
		return fd
	}
	_ = unix.Close(fd)
	return high
}
