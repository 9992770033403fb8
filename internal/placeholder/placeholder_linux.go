package placeholder

import (
	"os"

	"golang.org/x/sys/unix"
)

// Kind is what a placeholder is.
type Kind int

// The kinds.
const (
	Socket Kind = iota
	Link
)

const (
	target = "/dev/null/" + Text
	socket = unix.S_IFSOCK | unix.S_ISVTX // a sticky bit and no permissions: nobody else makes such a socket
)

// Make makes one. If anything is there already, the error is unix.EEXIST.
func Make(path string, kind Kind) error {
	if kind == Link {
		return unix.Symlink(target, path)
	}
	return unix.Mknod(path, socket, 0)
}

// Is reports whether there is one at a path.
func Is(path string) bool {
	var stat unix.Stat_t
	return unix.Lstat(path, &stat) == nil && IsWith(path, &stat)
}

// IsWith does the same, given what lstat has said of the path.
func IsWith(path string, stat *unix.Stat_t) bool {
	if stat.Mode&unix.S_IFMT != unix.S_IFLNK {
		return stat.Mode == socket
	}
	to, err := os.Readlink(path)
	return err == nil && to == target
}
