//go:build !linux

package follow

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// Path follows an absolute path. Names at its end may be missing. It may block for as long as the file systems do.
func Path(path string) (End, error) {
	w, err := begin(path)
	if err != nil {
		return End{}, err
	}
	for name := w.next(); name != ""; name = w.next() {
		if err := w.step(name); err != nil {
			return End{}, &os.PathError{Op: "follow", Path: path, Err: err}
		}
	}
	existing := w.at[:len(w.at)-below(w.end.Below)]
	info, err := os.Lstat(existing + "/")
	if err != nil {
		info, err = os.Lstat(existing)
	}
	if err != nil {
		return End{}, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return End{}, &os.PathError{Op: "follow", Path: path, Err: syscall.ENOSYS}
	}
	w.end.Device, w.end.Inode, w.end.Mode = uint64(stat.Dev), stat.Ino, uint32(stat.Mode)
	return w.over(), nil
}

// below is the length of the names that do not exist.
func below(names []string) (length int) {
	for _, name := range names {
		length += 1 + len(name)
	}
	return length
}

// step goes one name further.
func (w *walk) step(name string) error {
	if name == ".." {
		w.enter(name)
		return nil
	}
	info, err := os.Lstat(w.at + "/" + name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return w.missing(name)
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink == 0:
		if w.more() && !info.IsDir() {
			return syscall.ENOTDIR
		}
		w.enter(name)
		return nil
	}
	target, err := os.Readlink(w.at + "/" + name)
	if err != nil {
		return err
	}
	dir, err := os.Lstat(w.at + "/")
	if err != nil {
		return err
	}
	stat, ok := dir.Sys().(*syscall.Stat_t)
	if !ok {
		return syscall.ENOSYS
	}
	_, err = w.cross(name, target, stat.Uid, uint32(stat.Mode))
	return err
}
