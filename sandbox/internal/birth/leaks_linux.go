package birth

import (
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// leaks reports whether a descriptor stays open across an execution.
func leaks(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

// aboveLeaks is a number above all descriptors that this process inherited from its own parent without close-on-exec. Go itself
// opens none like that.
var aboveLeaks = sync.OnceValue(func() int {
	above := 3
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && leaks(fd) {
			above = max(above, fd+1)
		}
	}
	return above
})

// withLeaks adds places to a list of descriptors so that it closes those that would be inherited.
func withLeaks(fds []int) []int {
	fds = fds[:len(fds):len(fds)]
	for len(fds) < aboveLeaks() {
		fds = append(fds, -1)
	}
	return fds
}
