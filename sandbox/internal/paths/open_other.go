//go:build !linux

package paths

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// identity is what a path led to.
type identity struct{ device, inode uint64 }

func identify(info fs.FileInfo) identity {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return identity{uint64(stat.Dev), stat.Ino}
	}
	return identity{}
}

// opened is what a path leads to. Nothing holds it open here.
type opened struct {
	path string // absolute, without symbolic links
	identity
	directory, socket bool
	file              *os.File // none
}

func (opened) close() {}

// openPath follows a path to its end.
func openPath(path string) (opened, error) {
	full, err := filepath.EvalSymlinks(path)
	if err != nil {
		return opened{}, err
	}
	info, err := os.Lstat(full)
	if err != nil {
		return opened{}, err
	}
	return opened{path: full, identity: identify(info), directory: info.IsDir(), socket: info.Mode()&fs.ModeSocket != 0}, nil
}

func duplicate(file *os.File) (*os.File, error) { return file, nil }
