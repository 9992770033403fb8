package child

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// before is called before each system call that changes something. Tests replace it, to end the process there.
var before = func(call string) {}

// Tests replace these by those of file systems that know no flags, or no second names.
var (
	renameat2 = unix.Renameat2
	linkat    = unix.Linkat
)

// piece is how much one call writes. Tests make it small, to end the process between two pieces.
var piece = 1 << 20

func writeAll(fd int, data []byte) error {
	for at := 0; at < len(data); {
		before("pwrite64")
		n, err := unix.Pwrite(fd, data[at:min(at+piece, len(data))], int64(at))
		if err != nil && err != unix.EINTR {
			return err
		}
		at += max(n, 0)
	}
	return nil
}

func truncate(fd int, size int64) error {
	before("ftruncate")
	return unix.Ftruncate(fd, size)
}

// sync brings a file to the disk. Where that fails with EINVAL there is none.
func sync(fd int) error {
	before("fdatasync")
	if err := unix.Fdatasync(fd); err != unix.EINVAL {
		return err
	}
	return nil
}

// startSync begins to bring a file to the disk, where the kernel can.
func startSync(fd int) { _ = unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WRITE) }

func chmod(fd int, mode uint32) error {
	before("fchmod")
	return unix.Fchmod(fd, mode)
}

func chown(fd, user, group int) error {
	before("fchown")
	return unix.Fchown(fd, user, group)
}

func setAttribute(fd int, name string, value []byte) error {
	before("fsetxattr")
	return unix.Fsetxattr(fd, name, value, 0)
}

func removeAttribute(fd int, name string) error {
	before("fremovexattr")
	return unix.Fremovexattr(fd, name)
}

func makeFile(dir int, name string, mode uint32) (int, error) {
	before("openat")
	return unix.Openat(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
}

func mkdir(dir int, name string) error {
	before("mkdirat")
	return unix.Mkdirat(dir, name, 0o777)
}

func rmdir(dir int, name string) error {
	before("unlinkat")
	return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
}

func unlink(dir int, name string) error {
	before("unlinkat")
	return unix.Unlinkat(dir, name, 0)
}

func exchange(dir int, name, other string) error {
	before("renameat2")
	return renameat2(dir, name, dir, other, unix.RENAME_EXCHANGE)
}

// move gives what stands at a name another one, which must be free. Where the file system cannot do that in one step, as NFS cannot, it
// has both names for a moment. Where a file cannot even have two, what somebody else makes under the new name at this moment is lost.
func move(dir int, from, to string) error {
	before("renameat2")
	err := renameat2(dir, from, dir, to, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL || err == unix.ENOSYS {
		before("linkat")
		err = linkat(dir, from, dir, to, 0)
		if err == nil {
			return unlink(dir, from)
		}
	}
	if err == unix.EEXIST && sameFile(dir, from, to) { // who has begun this was killed
		return unlink(dir, from)
	}
	if err == unix.EPERM || err == unix.ENOSYS || err == unix.EOPNOTSUPP {
		if _, absent := look(dir, to); absent == unix.ENOENT {
			before("renameat")
			return renameat2(dir, from, dir, to, 0)
		}
	}
	if err == unix.EEXIST && !strings.HasPrefix(to, TempPrefix) {
		return errors.New("something was made there meanwhile")
	}
	return err
}

func sameFile(dir int, name, other string) bool {
	one, err := look(dir, name)
	two, missing := look(dir, other)
	return err == nil && missing == nil && one.ID == two.ID
}
