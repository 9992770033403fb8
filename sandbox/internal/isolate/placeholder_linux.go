package isolate

import (
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/confine"
)

// Placeholders are the empty directories that stand for protected names which do not exist: a mount needs something to cover, so
// that nothing can be created there. Each of us holds a shared lock on those that it uses, which the kernel gives up when it dies;
// who gives up the last one removes the directory. One that is left behind after all is taken over by the next one that needs it:
// it is empty and has the sticky bit, which nobody else gives to such a directory.
type Placeholders struct{ held []placeholder }

type placeholder struct {
	path string
	lock *os.File
}

// Hold makes what a plan needs. It may block for as long as the file systems do. After an error nothing is held.
func Hold(plan *confine.Plan) (*Placeholders, error) {
	p := &Placeholders{}
	for _, place := range plan.Places {
		if place.Access == confine.Write || !Writable(plan, filepath.Dir(place.Path)) {
			continue
		}
		var err error
		switch {
		case place.Inode == 0:
			err = p.hold(place.Path, true)
		case place.Directory && abandoned(place.Path):
			err = p.hold(place.Path, false)
		}
		if err != nil {
			p.Release()
			return nil, err
		}
	}
	return p, nil
}

// hold locks a placeholder. What somebody else has made there meanwhile is covered and stays.
func (p *Placeholders) hold(path string, create bool) error {
	for {
		if create {
			if err := unix.Mkdir(path, unix.S_ISVTX|0o755); err != nil && err != unix.EEXIST {
				return &os.PathError{Op: "mkdir", Path: path, Err: err}
			}
		}
		lock, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			if os.IsNotExist(err) && create {
				continue // it was removed by who held it last
			}
			return ignoreMissing(err)
		}
		err = flock(lock, unix.LOCK_SH)
		switch {
		case err != nil:
			_ = lock.Close()
			return err
		case !same(lock, path): // it was removed before we had the lock
			_ = lock.Close()
		case isPlaceholder(lock):
			p.held = append(p.held, placeholder{path, lock})
			return nil
		default:
			return lock.Close()
		}
	}
}

func flock(file *os.File, how int) error {
	for {
		if err := unix.Flock(int(file.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

// ignoreMissing is for a placeholder that was removed meanwhile.
func ignoreMissing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

// same reports whether a path still leads to an open directory.
func same(file *os.File, path string) bool {
	ours, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(ours, there)
}

// abandoned reports whether a directory is a placeholder.
func abandoned(path string) bool {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	return isPlaceholder(file)
}

func isPlaceholder(file *os.File) bool {
	info, err := file.Stat()
	if err != nil || !info.IsDir() || info.Mode()&os.ModeSticky == 0 {
		return false
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return false
	}
	names, err := file.Readdirnames(1)
	return len(names) == 0 && err == io.EOF
}

// Release removes those that nobody else holds. What is not empty any more stays.
func (p *Placeholders) Release() {
	for _, held := range p.held {
		if flock(held.lock, unix.LOCK_EX|unix.LOCK_NB) == nil && same(held.lock, held.path) && isPlaceholder(held.lock) {
			_ = os.Remove(held.path)
		}
		_ = held.lock.Close()
	}
	p.held = nil
}
