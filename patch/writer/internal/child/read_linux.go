package child

import (
	"errors"
	"os"
	"path"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/internal/follow"
	"github.com/execbus/execbus/internal/placeholder"
)

// The kinds of files, as package patch names them.
const (
	absent    = "absent"
	regular   = "regular"
	directory = "directory"
	other     = "other"
)

// read looks at each path and reads what is a regular file.
func read(r *Read, send func(*File) error) error {
	left := r.MaxTotal
	for _, name := range r.Paths {
		f := &File{Path: name, Place: name, Leads: name, Kind: absent}
		if err := f.look(min(r.MaxFile, left)); err != nil {
			f.Problem = cause(err)
		}
		left -= int64(len(f.Data))
		if err := send(f); err != nil {
			return err
		}
	}
	return nil
}

// look finds out what stands at the path.
func (f *File) look(limit int64) error {
	if !path.IsAbs(f.Path) {
		return errors.New("the path is not absolute")
	}
	if len(f.Path) >= unix.PathMax {
		return errors.New("its path has " + strconv.Itoa(len(f.Path)) + " bytes, and the system takes less than " + strconv.Itoa(unix.PathMax))
	}
	if at := placeholder.On(f.Path); at != "" { // of a sandboxed command, perhaps of this one: nothing that anybody has made
		return f.reserved(at)
	}
	dir, err := follow.Path(path.Dir(f.Path))
	if errors.Is(err, unix.ENOTDIR) {
		return f.block(blocked(path.Dir(f.Path)))
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	f.Place = path.Join(dir.Path, path.Base(f.Path))
	f.Leads = f.Place
	switch {
	case len(dir.Below) > 0:
		f.Blocked = blocked(path.Dir(f.Path))
		f.At.Dir, err = existing(dir.Path)
		f.End = f.At
		return err
	case !dir.Directory():
		return f.block(dir.Path)
	}
	f.At.Dir = Dir{dir.Path, ID{dir.Device, dir.Inode}, dir.Born}
	fd := int(dir.File.Fd())
	if path.Base(f.Path) != "/" {
		if fd, err = unix.Openat(fd, path.Base(f.Path), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == unix.ENOENT {
			f.End = f.At
			return nil
		} else if err != nil {
			return err
		}
		defer unix.Close(fd)
	}
	if f.At, err = stamp(fd, f.At.Dir); err != nil {
		return err
	}
	if f.At.Mode&unix.S_IFMT != unix.S_IFLNK {
		f.End = f.At
		return f.content(fd, limit)
	}
	if f.Link, err = linkText(fd, ""); err != nil {
		return err
	}
	return f.behind(limit)
}

// reserved says that there is nothing, from a name on that a sandbox keeps free.
func (f *File) reserved(at string) error {
	dir, err := follow.Path(path.Dir(at))
	if err != nil {
		return err
	}
	defer dir.Close()
	f.Place = path.Join(dir.Path, path.Base(at), strings.TrimPrefix(f.Path, at))
	f.Leads = f.Place
	f.At.Dir = Dir{dir.Path, ID{dir.Device, dir.Inode}, dir.Born}
	f.End = f.At
	return nil
}

// block says what stands on the way. The patch may remove it, so the directory around it counts.
func (f *File) block(at string) (err error) {
	f.Blocked = at
	f.At.Dir, err = existing(path.Dir(at))
	f.End = f.At
	return err
}

// behind looks at what the link leads to.
func (f *File) behind(limit int64) error {
	end, err := follow.Path(f.Place)
	switch {
	case errors.Is(err, unix.ENOENT): // there is no way back from a name that does not exist
		return nil
	case errors.Is(err, unix.ENOTDIR):
		return nil // a link that leads through a file is one that leads nowhere
	case err != nil:
		return err
	}
	defer end.Close()
	f.Leads = end.Path
	if len(end.Below) > 1 { // nothing makes directories behind a link
		f.Blocked = path.Dir(end.Path)
	}
	if f.End.Dir, err = existing(path.Dir(end.Path)); err != nil || len(end.Below) > 0 {
		return err
	}
	if f.End, err = stamp(int(end.File.Fd()), f.End.Dir); err != nil {
		return err
	}
	return f.content(int(end.File.Fd()), limit)
}

// content reads what a descriptor without rights (O_PATH) names.
func (f *File) content(fd int, limit int64) error {
	switch f.End.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		f.Kind = directory
		return nil
	case unix.S_IFREG:
		f.Kind = regular
	default:
		f.Kind = other
		return nil
	}
	if !stores(fd) {
		f.Kind = other
		return nil
	}
	if f.End.Size > limit {
		return errors.New("it has " + strconv.FormatInt(f.End.Size, 10) + " bytes, more than the " + strconv.FormatInt(limit, 10) + " that are left for it")
	}
	file, err := reopen(fd, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(file)
	data, err := contents(file, f.End.Size)
	if err == nil && int64(len(data)) != f.End.Size {
		err = errors.New("it changed while it was read")
	}
	if err == nil {
		f.Data = data
	}
	return err
}

// contents reads a file, but hardly more than it is expected to have.
func contents(fd int, size int64) ([]byte, error) {
	data := make([]byte, size+1)
	for at := 0; ; {
		n, err := unix.Pread(fd, data[at:], int64(at))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, err
		case n == 0 || at+n == len(data):
			return data[:at+n], nil
		default:
			at += n
		}
	}
}

// blocked is what stands on the way where a path needs a directory: a file, or a link to nothing. It is empty if nothing does.
func blocked(dir string) string {
	prefixes := []string{"/"}
	for i, r := range dir[1:] {
		if r == '/' {
			prefixes = append(prefixes, dir[:i+1])
		}
	}
	prefixes = append(prefixes, dir)
	missing := sort.Search(len(prefixes), func(i int) bool { // following each would take time that grows with the square of their number
		end, err := follow.Path(prefixes[i])
		if err == nil {
			end.Close()
		}
		return err != nil || len(end.Below) > 0
	})
	if missing == 0 {
		return ""
	}
	last, err := follow.Path(prefixes[missing-1])
	if err != nil || len(last.Below) > 0 { // it has just gone
		return ""
	}
	defer last.Close()
	if !last.Directory() {
		return last.Path
	}
	if missing < len(prefixes) {
		place := path.Join(last.Path, path.Base(prefixes[missing]))
		if _, err := linkText(unix.AT_FDCWD, place); err == nil {
			return place
		}
	}
	return ""
}

// existing is the deepest directory on a path without links that exists.
func existing(name string) (Dir, error) {
	fd, missing, err := (&transaction{}).walk(name, Dir{})
	if err != nil {
		return Dir{}, err
	}
	defer unix.Close(fd)
	for range missing {
		name = path.Dir(name)
	}
	s, err := stamp(fd, Dir{})
	return Dir{name, s.ID, follow.Born(fd)}, err
}

// stamp says what a descriptor names.
func stamp(fd int, dir Dir) (Stamp, error) {
	var s unix.Stat_t
	err := unix.Fstat(fd, &s)
	return Stamp{Dir: dir, ID: ID{s.Dev, s.Ino}, Mode: s.Mode, Size: s.Size, Modified: s.Mtim.Nano()}, err
}

// linkText reads a link by its descriptor, or by its name in a directory.
func linkText(dir int, name string) (string, error) {
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, text)
	return string(text[:max(n, 0)]), err
}

// reopen opens what a descriptor without rights names. The name may be another file's by now.
func reopen(fd, flags int) (int, error) {
	for {
		opened, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), flags|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
		if err != unix.EINTR {
			return opened, err
		}
	}
}

// stores reports whether the file system stores files, and does not show or change the state of the kernel by them.
func stores(fd int) bool {
	var s unix.Statfs_t
	if unix.Fstatfs(fd, &s) != nil {
		return false
	}
	switch int64(s.Type) {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
		unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC, unix.PSTOREFS_MAGIC, unix.EFIVARFS_MAGIC, unix.SELINUX_MAGIC, unix.SMACK_MAGIC,
		unix.NSFS_MAGIC, unix.BINFMTFS_MAGIC, unix.DEVPTS_SUPER_MAGIC, 0x7655821 /* resctrl */, 0x62656570 /* configfs */, 0x65735543: /* fusectl */
		return false
	}
	return true
}

// cause is the innermost error, without the names of paths that the subject of the sentence says.
func cause(err error) string {
	if at, is := errors.AsType[*os.PathError](err); is {
		err = at.Err
	}
	return strings.TrimSpace(err.Error())
}
