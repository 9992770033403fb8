package child

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/internal/follow"
	"github.com/execbus/execbus/internal/placeholder"
)

// transaction is a list of changes on their way. A change has no descriptors: each step opens its directory anew, so that their number
// has no bound in the number of descriptors, and what was replaced meanwhile is noticed.
type transaction struct {
	changes   []*Change
	protected []guard
	made      []Made // by the position of the change; nil if it is not known
}

// prepare checks all changes, and then writes what is new beside its place. If that fails it removes what it has written.
func (t *transaction) prepare() ([]Made, *Failed) {
	for _, c := range t.changes {
		if err := t.check(c); err != nil {
			return nil, &Failed{c.Path, cause(err)}
		}
	}
	t.made = make([]Made, len(t.changes))
	for _, step := range []func(int, *Change) error{t.write, t.sync} { // all are on their way to the disk before the first is waited for
		for i, c := range t.changes {
			if t.late(c) {
				continue
			}
			if err := step(i, c); err != nil {
				t.settle(undo)
				return nil, &Failed{c.Path, cause(err)}
			}
		}
	}
	for i, c := range t.changes {
		t.made[i].Old = c.Stamp.ID
	}
	return t.made, nil
}

// commit puts everything in place, or nothing.
func (t *transaction) commit() []Result {
	for i, c := range t.changes {
		if err := t.put(i, c); err != nil {
			report := t.settle(undo)
			if report[i].Why == "" {
				report[i].Why = cause(err)
			}
			return report
		}
	}
	return t.settle(finish)
}

var errReserved = errors.New("its name is protected as long as a sandboxed command runs there; wait until that has ended")

var errChanged = errors.New("it has changed since the patch was made for it; read it again")

// walk opens a directory by its path. No link is followed. The names at the end may be missing. A directory that was seen
// before must be the same.
func (t *transaction) walk(dir string, seen Dir) (fd int, missing []string, err error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err = unix.Open("/", flags, 0)
	if err != nil {
		return -1, nil, err
	}
	at := "/"
	for names := split(dir); ; names = names[1:] {
		s, err := stamp(fd, Dir{})
		if err == nil && at == seen.Path && s.ID != seen.ID {
			err = errors.New("the directory " + at + " is not the one that it was")
		}
		if err == nil {
			err = t.guarded(at, s.ID)
		}
		if err != nil {
			_ = unix.Close(fd)
			return -1, nil, err
		}
		if len(names) == 0 {
			return fd, nil, nil
		}
		next, err := unix.Openat(fd, names[0], flags, 0)
		for err == unix.EINTR {
			next, err = unix.Openat(fd, names[0], flags, 0)
		}
		if err == unix.ENOENT && len(at) >= len(seen.Path) {
			return fd, names, nil
		}
		_ = unix.Close(fd)
		at = path.Join(at, names[0])
		if placeholder.Is(at) {
			return -1, nil, errReserved
		}
		if err == unix.ELOOP {
			err = unix.ENOTDIR
		}
		if err != nil {
			return -1, nil, &os.PathError{Op: "open", Path: at, Err: err}
		}
		fd = next
	}
}

func split(dir string) []string {
	return strings.FieldsFunc(dir, func(r rune) bool { return r == '/' })
}

// guard is a directory or file that is not changed, nor anything below it.
type guard struct {
	path string // without links
	id   ID     // zero if it does not exist
}

// protect guards paths, the links in their places, and what they lead to.
func (t *transaction) protect(paths []string) {
	for _, name := range paths {
		g := guard{path: path.Clean(name)}
		if end, err := follow.Path(name); err == nil {
			if len(end.Below) == 0 {
				g.id = ID{end.Device, end.Inode}
			}
			t.protected = append(t.protected, guard{end.Path, g.id})
			end.Close()
		}
		if dir, err := follow.Path(path.Dir(g.path)); err == nil {
			t.protected = append(t.protected, guard{path.Join(dir.Path, path.Base(g.path)), g.id})
			dir.Close()
		}
		t.protected = append(t.protected, g)
	}
}

// guarded returns an error for a protected file or directory.
func (t *transaction) guarded(name string, id ID) error {
	for _, g := range t.protected {
		if name == g.path || strings.HasPrefix(name, g.path+"/") || id == g.id && id != (ID{}) {
			return errors.New("it is protected by the sandbox policy (" + g.path + ")")
		}
	}
	return nil
}

// late reports whether a change has to wait until another one has removed the file that stands where its directory will be. Which file
// is then made for it the journal does not know; its content has to do.
func (t *transaction) late(c *Change) bool {
	return slices.ContainsFunc(t.changes, func(other *Change) bool { return other.Remove && strings.HasPrefix(c.Path, other.Path+"/") })
}

// in calls do with the directory of a change, which it makes if it is to.
func (t *transaction) in(c *Change, makeMissing bool, do func(dir int, name string) error) error {
	dir, missing, err := t.walk(path.Dir(c.Path), c.Stamp.Dir)
	if err != nil {
		return err
	}
	for _, name := range missing {
		if !makeMissing {
			_ = unix.Close(dir)
			return unix.ENOENT
		}
		next, err := directoryIn(dir, name)
		_ = unix.Close(dir)
		if err != nil {
			return errors.New("the directory " + name + " for it cannot be made: " + err.Error())
		}
		dir = next
	}
	defer unix.Close(dir)
	return do(dir, path.Base(c.Path))
}

func directoryIn(dir int, name string) (int, error) {
	if err := mkdir(dir, name); err != nil && err != unix.EEXIST {
		return -1, err
	}
	return unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// check looks whether a change can be made, and changes nothing.
func (t *transaction) check(c *Change) error {
	err := t.in(c, false, func(dir int, name string) error {
		if err := t.guarded(c.Path, c.Stamp.ID); err != nil {
			return err
		}
		if c.Remove {
			if err := removable(dir, c); err != nil {
				return err
			}
		}
		file, err := t.verified(dir, name, c, writes(c))
		if file >= 0 {
			_ = unix.Close(file)
		}
		return err
	})
	if !c.Exists && (err == unix.ENOENT || t.late(c) && errors.Is(err, unix.ENOTDIR)) { // its directory is missing
		return t.guarded(c.Path, ID{})
	}
	return err
}

func writes(c *Change) int {
	if c.Remove {
		return unix.O_RDONLY
	}
	return unix.O_RDWR
}

// removable reports why a name cannot be removed from its directory, as far as that can be known before.
func removable(dir int, c *Change) error {
	if err := unix.Faccessat(dir, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return errors.New("its directory cannot be written: " + err.Error())
	}
	if mounted(dir, path.Base(c.Path)) {
		return errors.New("something is mounted there")
	}
	return nil
}

// verified opens what stands at a name, if it is what it was. The descriptor is -1 if nothing was there, and for a link.
func (t *transaction) verified(dir int, name string, c *Change, flags int) (int, error) {
	only, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case err == unix.ENOENT && !c.Exists:
		return -1, nil
	case err == unix.ENOENT:
		return -1, errors.New("it is not there any more")
	case err != nil:
		return -1, err
	}
	defer unix.Close(only)
	if !c.Exists && placeholder.Is(c.Path) {
		return -1, errReserved
	}
	if !c.Exists {
		return -1, errors.New("something was made there meanwhile")
	}
	now, err := stamp(only, c.Stamp.Dir)
	if err != nil {
		return -1, err
	}
	if now != c.Stamp && !copiedUp(only, now, c.Stamp) {
		return -1, errChanged
	}
	if c.Link != "" {
		if text, err := linkText(only, ""); err != nil || text != c.Link {
			return -1, errChanged
		}
		c.Stamp = now
		return -1, nil
	}
	if now.Mode&unix.S_IFMT != unix.S_IFREG || !stores(only) {
		return -1, errors.New("it is no regular file")
	}
	file, err := reopen(only, flags)
	if err != nil {
		return -1, err
	}
	if data, err := contents(file, now.Size); err != nil || !bytes.Equal(data, c.Old) {
		_ = unix.Close(file)
		return -1, errChanged
	}
	if flags == unix.O_RDWR { // this has copied it up
		if now, err = stamp(file, c.Stamp.Dir); err != nil {
			_ = unix.Close(file)
			return -1, err
		}
	}
	if now.ID != c.Stamp.ID {
		if err := t.guarded(c.Path, now.ID); err != nil {
			_ = unix.Close(file)
			return -1, err
		}
		c.Stamp.ID = now.ID
	}
	return file, nil
}

// copiedUp reports whether the only difference is one that an overlay makes: a file that has several names in a lower layer gets another
// inode when it is first opened for writing, or renamed. fd is in that file system.
func copiedUp(fd int, now, was Stamp) bool {
	var s unix.Statfs_t
	now.ID = was.ID
	return now == was && unix.Fstatfs(fd, &s) == nil && int64(s.Type) == unix.OVERLAYFS_SUPER_MAGIC
}

// write makes the new file of a change beside its place.
func (t *transaction) write(i int, c *Change) error {
	if c.Remove {
		return nil
	}
	return t.in(c, true, func(dir int, name string) error {
		old, err := t.verified(dir, name, c, unix.O_RDWR)
		if err != nil {
			return err
		}
		if old >= 0 {
			defer unix.Close(old)
		}
		if old >= 0 && (c.InPlace || cannotExchange(dir, name, old, c.Created)) {
			return overwritable(c)
		}
		file, err := create(dir, c)
		if old >= 0 && (err == unix.EACCES || err == unix.EPERM || err == unix.EROFS) {
			return overwritable(c)
		}
		if err != nil {
			return err
		}
		defer unix.Close(file)
		s, err := stamp(file, Dir{})
		if err != nil {
			return err
		}
		t.made[i].ID = s.ID
		if err := writeAll(file, c.New); err != nil {
			return err
		}
		if !t.keep(c, file, old) {
			if old >= 0 {
				t.made[i].ID = ID{}
				return errors.Join(unlink(dir, c.Temp), overwritable(c))
			}
			if err := chmod(file, c.Mode&0o777); err != nil {
				return err
			}
		}
		startSync(file)
		return nil
	})
}

// sync waits until the disk has the new file of a change. Else a failure of power could leave a name with an empty file.
func (t *transaction) sync(i int, c *Change) error {
	if t.made[i].ID == (ID{}) {
		return nil
	}
	return t.in(c, false, func(dir int, _ string) error {
		file, err := unix.Openat(dir, c.Temp, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == unix.EACCES { // it may be that nobody can read it
			return nil
		}
		if err != nil {
			return err
		}
		defer unix.Close(file)
		return sync(file)
	})
}

// create makes the temporary file.
func create(dir int, c *Change) (int, error) {
	mode := uint32(0o600)
	if c.Created {
		mode = 0o666
	}
	return makeFile(dir, c.Temp, mode)
}

// cannotExchange reports whether an exchange would lose something, or is refused by the kernel: other names of the file, or a
// directory where only the owners of files may rename them, or a mount.
func cannotExchange(dir int, name string, old int, created bool) bool {
	var file, in unix.Stat_t
	return unix.Fstat(old, &file) != nil || unix.Fstat(dir, &in) != nil || file.Nlink > 1 && !created || in.Mode&unix.S_ISVTX != 0 || mounted(dir, name)
}

// mounted reports whether a name is the place of a mount.
func mounted(dir int, name string) bool {
	var at, below unix.Statx_t
	const mask = unix.STATX_MNT_ID
	if unix.Statx(dir, "", unix.AT_EMPTY_PATH, mask, &at) != nil || unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW, mask, &below) != nil {
		return false // the exchange will fail
	}
	return at.Mnt_id != below.Mnt_id
}

// overwritable refuses to write a file in place that would lose rights by that.
func overwritable(c *Change) error {
	if c.Mode&unix.S_ISUID != 0 || c.Mode&(unix.S_ISGID|unix.S_IXGRP) == unix.S_ISGID|unix.S_IXGRP {
		return errors.New("it has the set-user-id or set-group-id bit, which would be lost")
	}
	return nil
}

// keep gives a new file the owner, mode and attributes that it is to have, and reports whether it has them.
func (t *transaction) keep(c *Change, file, old int) bool {
	if c.Created {
		return true
	}
	like := old
	if like < 0 && c.Like >= 0 && c.Like < len(t.changes) {
		from := t.changes[c.Like]
		if t.in(from, false, func(dir int, name string) (err error) {
			like, err = t.verified(dir, name, from, unix.O_RDONLY)
			return err
		}) == nil && like >= 0 {
			defer unix.Close(like)
		}
	}
	if like < 0 {
		return chmod(file, c.Mode&0o7777) == nil
	}
	var want, has unix.Stat_t
	if unix.Fstat(like, &want) != nil || unix.Fstat(file, &has) != nil {
		return false
	}
	if (want.Uid != has.Uid || want.Gid != has.Gid) && chown(file, int(want.Uid), int(want.Gid)) != nil {
		return false
	}
	return sameAttributes(like, file) && chmod(file, c.Mode&0o7777) == nil // the mode comes last: it is part of an access control list
}

// sameAttributes gives a file the extended attributes of another, among them its access control lists.
func sameAttributes(from, to int) bool {
	want, ok := attributes(from)
	has, known := attributes(to)
	if !ok || !known {
		return false
	}
	for name, value := range want {
		if now, there := has[name]; (!there || now != value) && setAttribute(to, name, []byte(value)) != nil {
			return false
		}
	}
	for name := range has {
		if _, wanted := want[name]; !wanted && removeAttribute(to, name) != nil {
			return false
		}
	}
	return true
}

// maxAttribute is the kernel's bound for a list of names and for a value.
const maxAttribute = 64 << 10

func attributes(fd int) (map[string]string, bool) {
	size, err := unix.Flistxattr(fd, nil)
	if err == unix.EOPNOTSUPP || err == nil && size == 0 {
		return nil, true
	}
	names := make([]byte, maxAttribute)
	if size, err = unix.Flistxattr(fd, names); err != nil {
		return nil, false
	}
	all := map[string]string{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:size]), "\x00"), "\x00") {
		value := make([]byte, maxAttribute)
		n, err := unix.Fgetxattr(fd, name, value)
		if err != nil {
			return nil, false
		}
		all[name] = string(value[:n])
	}
	return all, true
}

// put brings a change to its place.
func (t *transaction) put(i int, c *Change) error {
	if t.late(c) {
		if err := cmp.Or(t.write(i, c), t.sync(i, c)); err != nil {
			return err
		}
	}
	return t.in(c, false, func(dir int, name string) error {
		switch {
		case c.Remove:
			return t.take(dir, name, c)
		case !c.Exists:
			return move(dir, c.Temp, name)
		case t.made[i].ID != ID{}:
			old, err := t.verified(dir, name, c, unix.O_RDONLY)
			if err != nil {
				return err
			}
			if old >= 0 { // and not a link
				_ = unix.Close(old)
			}
			if err = exchange(dir, name, c.Temp); err == nil {
				return t.stillOld(dir, c, func() error { return exchange(dir, name, c.Temp) })
			}
			if err != unix.EINVAL && err != unix.ENOSYS && err != unix.EBUSY {
				return err
			}
			if old < 0 {
				return errors.New("this file system cannot put a file in the place of a link; delete the link by a patch of its own")
			}
			if err := errors.Join(unlink(dir, c.Temp), overwritable(c)); err != nil { // this file system cannot exchange names
				return err
			}
		}
		file, err := t.verified(dir, name, c, unix.O_RDWR)
		if err != nil {
			return err
		}
		defer unix.Close(file)
		return overwrite(file, c.New, c.Mode)
	})
}

// stillOld looks whether the file that has just come to the temporary name is the old one. Otherwise it takes the step back.
func (t *transaction) stillOld(dir int, c *Change, back func() error) error {
	file, err := t.verified(dir, c.Temp, c, unix.O_RDONLY)
	if err != nil {
		if failed := back(); failed != nil {
			return errors.New("it has changed, and is now called " + c.Temp + ": " + failed.Error())
		}
		return errChanged
	}
	if file >= 0 {
		_ = unix.Close(file)
	}
	return nil
}

// take takes what stands at a name to the temporary one.
func (t *transaction) take(dir int, name string, c *Change) error {
	if err := move(dir, name, c.Temp); err != nil {
		return err
	}
	return t.stillOld(dir, c, func() error { return move(dir, c.Temp, name) })
}

// overwrite writes a file in place. At every moment each byte is an old or a new one.
func overwrite(file int, data []byte, mode uint32) error {
	var s unix.Stat_t
	if err := unix.Fstat(file, &s); err != nil {
		return err
	}
	if err := writeAll(file, data); err != nil {
		return err
	}
	if err := truncate(file, int64(len(data))); err != nil {
		return err
	}
	if s.Mode&0o7777 != mode&0o7777 {
		if err := chmod(file, mode&0o7777); err != nil {
			return err
		}
	}
	return sync(file)
}
