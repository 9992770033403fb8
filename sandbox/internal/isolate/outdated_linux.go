package isolate

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// How the names of steps begin that mount something over what Look or Namespaced has just found.
const (
	protecting = "protected "
	fastening  = "fasten "
	denying    = "denied "
	covering   = "cover "
)

// Outdated reports whether a step may have failed because something was removed or replaced after it was found. Repositories in a
// directory such as /tmp come and go all the time. A launch that is made again looks again.
func Outdated(step string, errno unix.Errno) bool {
	return slices.ContainsFunc([]string{protecting, fastening, denying, covering}, func(name string) bool { return strings.HasPrefix(step, name) }) &&
		slices.Contains([]unix.Errno{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EAGAIN}, errno) // EAGAIN: another file has this name now
}
