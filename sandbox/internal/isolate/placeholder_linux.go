package isolate

import (
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/confine"
)

// Placeholders stand for protected names that do not exist: a mount needs something to cover, so that nothing can be created there.
// They are sockets that nobody listens on, for all look past these: git takes an empty file for a broken repository, and go an empty
// directory. Each of us holds a shared lock on the directories that they are in, which the kernel gives up when it dies; who gives up
// the last one removes them. One that is left behind after all is taken over by the next one that needs it.
type Placeholders struct {
	paths []string
	locks map[string]*os.File // by directory
}

// Hold makes what a plan needs, and a plan for which that is enough: it names what somebody else has made there since. It may block
// for as long as the file systems do. After an error nothing is held.
func Hold(plan confine.Plan) (*Placeholders, confine.Plan, error) {
	p := &Placeholders{locks: map[string]*os.File{}}
	plan.Places = slices.Clone(plan.Places)
	for i, place := range plan.Places {
		if place.Access == confine.Write || place.Directory || !Writable(&plan, filepath.Dir(place.Path)) ||
			place.Inode != 0 && !isPlaceholder(place.Path) {
			continue
		}
		found, err := p.hold(place)
		if err != nil {
			p.Release()
			return nil, plan, err
		}
		plan.Places[i] = found
	}
	return p, plan, nil
}

// hold sees to it that there is something at a place, and says what.
func (p *Placeholders) hold(place confine.Place) (confine.Place, error) {
	dir := filepath.Dir(place.Path)
	if p.locks[dir] == nil {
		lock, err := os.Open(dir)
		if err != nil {
			return place, err
		}
		if err := flock(lock, unix.LOCK_SH); err != nil {
			_ = lock.Close()
			return place, err
		}
		p.locks[dir] = lock
	}
	err := unix.Mknod(place.Path, unix.S_IFSOCK|0o600, 0)
	if err != nil && err != unix.EEXIST {
		return place, &os.PathError{Op: "mknod", Path: place.Path, Err: err}
	}
	var stat unix.Stat_t
	if err := unix.Lstat(place.Path, &stat); err != nil {
		return place, err
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		p.paths = append(p.paths, place.Path)
	case unix.S_IFLNK:
		return place, &os.PathError{Op: "protect", Path: place.Path, Err: unix.ELOOP}
	}
	place.Device, place.Inode, place.Directory = stat.Dev, stat.Ino, stat.Mode&unix.S_IFMT == unix.S_IFDIR
	return place, nil
}

func flock(file *os.File, how int) error {
	for {
		if err := unix.Flock(int(file.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

func isPlaceholder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().Type() == os.ModeSocket
}

// Release removes those in directories of which nobody else holds any.
func (p *Placeholders) Release() {
	for dir, lock := range p.locks {
		if flock(lock, unix.LOCK_EX|unix.LOCK_NB) == nil {
			for _, path := range p.paths {
				if filepath.Dir(path) == dir && isPlaceholder(path) {
					_ = os.Remove(path)
				}
			}
		}
		_ = lock.Close()
	}
	p.paths, p.locks = nil, nil
}
