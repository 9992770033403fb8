package isolate

import (
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/placeholder"
)

// Placeholders stand for protected names that do not exist: a mount needs something to cover, so that nothing can be created
// there. Each of our processes holds a lock on the directories of its placeholders; the kernel releases it if the process dies. The
// process that releases the last lock removes the placeholders. If one is left behind after all, the next process that needs it takes
// it over. A file that does not look like one of our placeholders stays. The methods must not be called at the same time, and may
// block for as long as the file systems do.
type Placeholders struct {
	paths    map[string]identity
	locks    map[string]*os.File // by directory
	unshared []string
}

// Unshared returns, once, the directories whose placeholders others may remove: a program has pretended for too long to be removing
// some.
func (p *Placeholders) Unshared() (dirs []string) {
	dirs, p.unshared = p.unshared, nil
	return dirs
}

type identity struct{ device, inode uint64 }

// Hold makes the placeholders that a plan needs, and returns the plan as Look does. After an error nothing is held.
func Hold(plan confine.Plan) (*Placeholders, confine.Plan, error) {
	p := &Placeholders{paths: map[string]identity{}, locks: map[string]*os.File{}}
	for _, place := range plan.Places {
		if place.Access == confine.Write && place.Missing() {
			if err := free(place.Path); err != nil {
				return nil, plan, err
			}
		}
	}
	plan, err := p.Look(plan)
	if err != nil {
		p.Release()
		return nil, plan, err
	}
	return p, plan, nil
}

// Look returns the plan with what is at its places now: people make, move and remove repositories while commands run.
func (p *Placeholders) Look(plan confine.Plan) (confine.Plan, error) {
	var kept []confine.Place
	for _, place := range plan.Places {
		if place.Access == confine.Write {
			kept = append(kept, place)
			continue
		}
		now, stays, err := p.look(&plan, place)
		if err != nil {
			return plan, err
		}
		if stays {
			kept = append(kept, now)
		}
	}
	plan.Places = kept
	return plan, nil
}

// look returns a place as it is now, and whether it has to stay in the plan.
func (p *Placeholders) look(plan *confine.Plan, place confine.Place) (now confine.Place, stays bool, err error) {
	var stat unix.Stat_t
	err = unix.Lstat(place.Path, &stat)
	if err != nil && err != unix.ENOENT && err != unix.ENOTDIR {
		return place, false, &os.PathError{Op: "protect", Path: place.Path, Err: err}
	}
	here := err == nil
	ours := here && placeholder.IsWith(place.Path, &stat)
	link := here && !ours && newLink(place, &stat) // or a placeholder that was removed while we looked
	switch {
	case link && !place.IfThere && Writable(plan, path.Dir(place.Path)):
		now, err = p.hold(place) // unless it is the same under the lock
	case here && !ours || ours && p.paths[place.Path] == identity{stat.Dev, stat.Ino}:
		now, err = seen(place, &stat)
	case place.IfThere: // it has gone, and one that is made later is not protected
		return place, false, nil
	case Writable(plan, path.Dir(place.Path)):
		now, err = p.hold(place)
	default:
		now, err = place, nil
	}
	return now, true, err
}

// newLink reports whether there is a symbolic link that leads elsewhere than when the policy was set. What it leads to is not protected.
func newLink(place confine.Place, stat *unix.Stat_t) bool {
	if stat.Mode&unix.S_IFMT != unix.S_IFLNK {
		return false
	}
	to, err := os.Readlink(place.Path)
	return err != nil || to != place.Link
}

// seen returns a place with what is there.
func seen(place confine.Place, stat *unix.Stat_t) (confine.Place, error) {
	if newLink(place, stat) && !place.IfThere && !placeholder.IsWith(place.Path, stat) {
		return place, &os.PathError{Op: "protect", Path: place.Path, Err: unix.ELOOP}
	}
	place.Device, place.Inode, place.Directory = stat.Dev, stat.Ino, stat.Mode&unix.S_IFMT == unix.S_IFDIR
	return place, nil
}

// hold makes sure that something exists at a place, and returns the place as it then is. If no command can create anything
// there, nothing need exist.
func (p *Placeholders) hold(place confine.Place) (confine.Place, error) {
	dir := path.Dir(place.Path)
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
		if !share(lock) {
			p.unshared = append(p.unshared, dir)
		}
		p.locks[dir] = lock
	}
	if err := placeholder.Make(place.Path, kindOf(place)); err != nil && err != unix.EEXIST {
		return place, &os.PathError{Op: "make", Path: place.Path, Err: err}
	}
	if err := unix.Lstat(place.Path, &stat); err != nil {
		return place, &os.PathError{Op: "protect", Path: place.Path, Err: err}
	}
	if placeholder.IsWith(place.Path, &stat) {
		p.paths[place.Path] = identity{stat.Dev, stat.Ino}
	}
	return seen(place, &stat)
}

// kindOf returns the kind of placeholder for a place. A link cannot be covered, so a place that must not be read gets
// another kind.
func kindOf(place confine.Place) placeholder.Kind {
	if place.Access == confine.Read && path.Base(place.Path) == ".git" {
		return placeholder.Link
	}
	return placeholder.Socket
}

// OpCreate is the Op of an *os.PathError that says that a name cannot be created while other commands run.
const OpCreate = "create"

// free removes a placeholder where a command may create the name. If other commands rely on the placeholder, it fails with
// EBUSY: they would have access to the file that this command creates.
func free(name string) error {
	if !placeholder.Is(name) {
		return nil
	}
	lock, err := os.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer lock.Close()
	if !alone(lock) {
		return &os.PathError{Op: OpCreate, Path: name, Err: unix.EBUSY}
	}
	return os.Remove(name)
}

// closed reports whether this user can neither create anything in a directory nor get the right to: another user owns it, or
// it is on a read-only file system. A command has no more rights than this process.
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

// The locks on a directory are shared locks on bytes that do not exist. Nobody can hold an exclusive one, because no directory can be
// opened for writing, so nobody can keep us from locking. A user of placeholders locks first, and then waits until nobody removes
// any; a process that removes some locks first, and then looks whether somebody uses them. So at least one of two sees the other.
const (
	uses = iota
	removes
)

// Bounds of the wait until nobody removes placeholders. Our own processes take no time for it; a stranger may pretend to do it forever.
const (
	lockTries = 50
	lockPause = 2 * time.Millisecond
)

// share locks a directory for a user of its placeholders, and reports whether nobody removes any now.
func share(dir *os.File) bool {
	lock(dir, uses, unix.F_RDLCK)
	for range lockTries {
		if !locked(dir, removes) {
			return true
		}
		<-time.After(lockPause)
	}
	return false
}

// alone locks a directory for the removal of placeholders, gives up its use, and reports whether nobody else uses them. The lock lasts
// until the file is closed.
func alone(dir *os.File) bool {
	lock(dir, removes, unix.F_RDLCK)
	lock(dir, uses, unix.F_UNLCK)
	return !locked(dir, uses)
}

// lock does nothing on a file system without such locks: there nobody sees the others.
func lock(dir *os.File, what int64, kind int16) {
	_ = unix.FcntlFlock(dir.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Start: what, Len: 1})
}

// locked reports whether another open file has the lock.
func locked(dir *os.File, what int64) bool {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: what, Len: 1}
	return unix.FcntlFlock(dir.Fd(), unix.F_OFD_GETLK, &lock) == nil && lock.Type != unix.F_UNLCK
}

// Release releases the locks, and removes the placeholders in directories that no other process has locked.
func (p *Placeholders) Release() {
	for dir, lock := range p.locks {
		if alone(lock) {
			for name, made := range p.paths {
				var stat unix.Stat_t
				if path.Dir(name) == dir && unix.Lstat(name, &stat) == nil && made == (identity{stat.Dev, stat.Ino}) &&
					placeholder.IsWith(name, &stat) {
					_ = os.Remove(name)
				}
			}
		}
		_ = lock.Close()
	}
	p.paths, p.locks = nil, nil
}
