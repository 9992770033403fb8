package isolate

import (
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/internal/placeholder"
	"github.com/execbus/execbus/sandbox/internal/confine"
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
	for _, rule := range plan.Rules {
		if rule.Access == confine.Write && rule.Missing() {
			if err := free(rule.Path); err != nil {
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

// Look returns the plan with what is at its paths now: people make, move and remove repositories while commands run.
func (p *Placeholders) Look(plan confine.Plan) (confine.Plan, error) {
	var kept []confine.Rule
	for _, rule := range plan.Rules {
		if rule.Access == confine.Write {
			kept = append(kept, rule)
			continue
		}
		now, stays, err := p.look(&plan, rule)
		if err != nil {
			return plan, err
		}
		if stays {
			kept = append(kept, now)
		}
	}
	plan.Rules = kept
	return plan, nil
}

// look returns a path as it is now, and whether it has to stay in the plan.
func (p *Placeholders) look(plan *confine.Plan, rule confine.Rule) (now confine.Rule, stays bool, err error) {
	var stat unix.Stat_t
	err = unix.Lstat(rule.Path, &stat)
	if err != nil && err != unix.ENOENT && err != unix.ENOTDIR {
		return rule, false, &os.PathError{Op: "protect", Path: rule.Path, Err: err}
	}
	here := err == nil
	ours := here && placeholder.IsWith(rule.Path, &stat)
	link := here && !ours && newLink(rule, &stat) // or a placeholder that was removed while we looked
	switch {
	case link && !rule.IfThere && Writable(plan, path.Dir(rule.Path)):
		now, err = p.hold(rule) // unless it is the same under the lock
	case here && !ours || ours && p.paths[rule.Path] == identity{stat.Dev, stat.Ino}:
		now, err = seen(rule, &stat)
	case rule.IfThere: // it has gone, and one that is made later is not protected
		return rule, false, nil
	case Writable(plan, path.Dir(rule.Path)):
		now, err = p.hold(rule)
	default:
		now, err = rule, nil
	}
	return now, true, err
}

// newLink reports whether there is a symbolic link that leads elsewhere than when the policy was set. What it leads to is not protected.
func newLink(rule confine.Rule, stat *unix.Stat_t) bool {
	if stat.Mode&unix.S_IFMT != unix.S_IFLNK {
		return false
	}
	to, err := os.Readlink(rule.Path)
	return err != nil || to != rule.Link
}

// seen returns a path with what is there.
func seen(rule confine.Rule, stat *unix.Stat_t) (confine.Rule, error) {
	if newLink(rule, stat) && !rule.IfThere && !placeholder.IsWith(rule.Path, stat) {
		return rule, &os.PathError{Op: "protect", Path: rule.Path, Err: unix.ELOOP}
	}
	rule.Device, rule.Inode, rule.Directory = stat.Dev, stat.Ino, stat.Mode&unix.S_IFMT == unix.S_IFDIR
	return rule, nil
}

// hold makes sure that something exists at a path, and returns the path as it then is. If no command can create anything
// there, nothing need exist.
func (p *Placeholders) hold(rule confine.Rule) (confine.Rule, error) {
	dir := path.Dir(rule.Path)
	var stat unix.Stat_t
	if unix.Lstat(rule.Path, &stat) == unix.ENOENT && closed(dir) {
		rule.Device, rule.Inode = 0, 0
		return rule, nil
	}
	if p.locks[dir] == nil {
		lock, err := os.Open(dir)
		if err != nil {
			return rule, err
		}
		if !share(lock) {
			p.unshared = append(p.unshared, dir)
		}
		p.locks[dir] = lock
	}
	if err := placeholder.Make(rule.Path, kindOf(rule)); err != nil && err != unix.EEXIST {
		return rule, &os.PathError{Op: "make", Path: rule.Path, Err: err}
	}
	if err := unix.Lstat(rule.Path, &stat); err != nil {
		return rule, &os.PathError{Op: "protect", Path: rule.Path, Err: err}
	}
	if placeholder.IsWith(rule.Path, &stat) {
		p.paths[rule.Path] = identity{stat.Dev, stat.Ino}
	}
	return seen(rule, &stat)
}

// kindOf returns the kind of placeholder for a path. A link cannot be covered, so a path that must not be read gets
// another kind.
func kindOf(rule confine.Rule) placeholder.Kind {
	if rule.Access == confine.Read && path.Base(rule.Path) == ".git" {
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
