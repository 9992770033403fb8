package execserver

import (
	"io/fs"
	"syscall"
	"time"
)

// createdMs returns when a file was created, in milliseconds since 1970; 0 if its file system does not say.
func createdMs(_ string, info fs.FileInfo) int64 {
	birth := info.Sys().(*syscall.Stat_t).Birthtimespec
	return max(0, time.Unix(birth.Unix()).UnixMilli())
}
