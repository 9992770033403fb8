package isolate

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/confine"
)

// Placeholders stand for protected names that do not exist: a mount needs something to cover, so that nothing can be created there.
// They are sockets that nobody listens on, because all programs ignore those: git takes an empty file for a broken repository, and
// go does the same with an empty directory. Each of our processes holds a shared lock on the directories of its placeholders; the
// kernel releases it if the process dies. The process that releases the last lock removes the placeholders. If one is left behind
// after all, the next process that needs it takes it over. A file that is not as we make it is somebody else's, and stays.
type Placeholders struct {
	mu    sync.Mutex // guards the rest: starts renew what an end releases
	paths map[string]identity
	locks map[string]*os.File // by directory; nil after Release
}

type identity struct{ device, inode uint64 }

// Hold makes the placeholders that a plan needs. It also returns an updated plan, which names anything that somebody else has made
// there since. It may block for as long as the file systems do. After an error nothing is held.
func Hold(plan confine.Plan) (*Placeholders, confine.Plan, error) {
	p := &Placeholders{paths: map[string]identity{}, locks: map[string]*os.File{}}
	plan.Places = slices.Clone(plan.Places)
	for i, place := range plan.Places {
		if place.Access == confine.Write || place.Inode != 0 || !Writable(&plan, filepath.Dir(place.Path)) {
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

// Renew looks at the protected places again: people make, move and remove repositories while commands run. It may block for as
// long as the file systems do.
func (p *Placeholders) Renew(plan confine.Plan) (confine.Plan, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var kept []confine.Place
	for _, place := range plan.Places {
		if place.Access != confine.Read || place.Inode == 0 && !isTop(&plan, place) {
			kept = append(kept, place)
			continue
		}
		var stat unix.Stat_t
		err := unix.Lstat(place.Path, &stat)
		switch {
		case err == nil:
			place = seen(place, &stat)
		case err != unix.ENOENT && err != unix.ENOTDIR || p.locks == nil:
			return plan, &os.PathError{Op: "protect", Path: place.Path, Err: err}
		case !isTop(&plan, place): // a nested repository; one that is made there later is not protected
			continue
		default:
			if place, err = p.hold(place); err != nil {
				return plan, err
			}
		}
		kept = append(kept, place)
	}
	plan.Places = kept
	return plan, nil
}

// isTop reports whether a place is a name in a directory that the policy lets commands write.
func isTop(plan *confine.Plan, place confine.Place) bool {
	dir := filepath.Dir(place.Path)
	return slices.ContainsFunc(plan.Places, func(p confine.Place) bool { return p.Access == confine.Write && p.Path == dir })
}

func seen(place confine.Place, stat *unix.Stat_t) confine.Place {
	place.Device, place.Inode, place.Directory = stat.Dev, stat.Ino, stat.Mode&unix.S_IFMT == unix.S_IFDIR
	return place
}

// hold makes sure that something exists at a place, and says what. If no command can create anything there, nothing need exist.
func (p *Placeholders) hold(place confine.Place) (confine.Place, error) {
	dir := filepath.Dir(place.Path)
	var stat unix.Stat_t
	if unix.Lstat(place.Path, &stat) == unix.ENOENT && closed(dir) {
		place.Device, place.Inode = 0, 0
		return place, nil
	}
	if p.locks[dir] == nil {
		lock, err := os.Open(dir)
		if err != nil {
			return place, err
		}
		if err := share(lock); err != nil {
			_ = lock.Close()
			return place, &os.PathError{Op: "lock", Path: dir, Err: err}
		}
		p.locks[dir] = lock
	}
	err := unix.Mknod(place.Path, confine.PlaceholderMode, 0)
	if err != nil && err != unix.EEXIST {
		return place, &os.PathError{Op: "mknod", Path: place.Path, Err: err}
	}
	if err := unix.Lstat(place.Path, &stat); err != nil {
		return place, err
	}
	switch {
	case stat.Mode == confine.PlaceholderMode:
		p.paths[place.Path] = identity{stat.Dev, stat.Ino}
	case stat.Mode&unix.S_IFMT == unix.S_IFLNK:
		return place, &os.PathError{Op: "protect", Path: place.Path, Err: unix.ELOOP}
	}
	return seen(place, &stat), nil
}

// closed reports whether this user can neither create anything in a directory nor get the right to: it is another user's, or on
// a read-only file system. A command has no more rights than we have.
func closed(dir string) bool {
	var stat unix.Stat_t
	switch unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS) {
	case unix.EROFS:
		return true
	case unix.EACCES:
		return unix.Stat(dir, &stat) == nil && int(stat.Uid) != os.Geteuid() && os.Geteuid() != 0
	}
	return false
}

// Bounds of the wait for an exclusive lock. One of our processes holds it only briefly, to release; a stranger may hold it for ever.
const (
	lockTries = 100
	lockPause = 10 * time.Millisecond
)

func share(file *os.File) (err error) {
	for range lockTries {
		if err = flock(file, unix.LOCK_SH|unix.LOCK_NB); err != unix.EWOULDBLOCK {
			return err
		}
		<-time.After(lockPause)
	}
	return unix.EBUSY
}

func flock(file *os.File, how int) error {
	for {
		if err := unix.Flock(int(file.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

// Release gives up the locks, and removes the placeholders in directories that no other process has locked.
func (p *Placeholders) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for dir, lock := range p.locks {
		if flock(lock, unix.LOCK_EX|unix.LOCK_NB) == nil {
			for path, made := range p.paths {
				var stat unix.Stat_t
				if filepath.Dir(path) == dir && unix.Lstat(path, &stat) == nil && stat.Mode == confine.PlaceholderMode &&
					made == (identity{stat.Dev, stat.Ino}) {
					_ = os.Remove(path)
				}
			}
		}
		_ = lock.Close()
	}
	p.paths, p.locks = nil, nil
}
