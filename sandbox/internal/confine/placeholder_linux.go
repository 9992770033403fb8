package confine

import "golang.org/x/sys/unix"

// PlaceholderMode is the mode of a placeholder for a protected name that does not exist: a socket that nobody listens on. Two
// things tell it from other sockets: the sticky bit, which means nothing on a socket, and the lack of all permissions.
const PlaceholderMode = unix.S_IFSOCK | unix.S_ISVTX

// IsPlaceholder reports whether there is one at a path.
func IsPlaceholder(path string) bool {
	var stat unix.Stat_t
	return unix.Lstat(path, &stat) == nil && stat.Mode == PlaceholderMode
}
