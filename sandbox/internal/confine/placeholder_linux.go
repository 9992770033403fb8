package confine

import "golang.org/x/sys/unix"

// PlaceholderMode is that of what stands for a protected name that does not exist: a socket that nobody listens on. The sticky bit,
// which means nothing there, and that nobody may use it tell it from everybody else's sockets.
const PlaceholderMode = unix.S_IFSOCK | unix.S_ISVTX

// IsPlaceholder reports whether there is one at a path.
func IsPlaceholder(path string) bool {
	var stat unix.Stat_t
	return unix.Lstat(path, &stat) == nil && stat.Mode == PlaceholderMode
}
