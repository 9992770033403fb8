package ptyio

import (
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// resolveCached is RESOLVE_CACHED (Linux 5.12): the kernel walks a path only as far as its cache goes, and waits for nothing.
const resolveCached = 0x20

// cached finds the program of a launch if the kernel has all of the paths in its cache, and they lead to file systems of this machine,
// which answer. No goroutine is needed for such a look: waking one takes longer than the look. In all other cases, errors included,
// found is false.
func cached(launch Launch) (program string, found bool) {
	if !filepath.IsAbs(launch.Dir) || !answers(launch.Dir, unix.O_DIRECTORY) {
		return "", false
	}
	if launch.Sandbox != nil {
		if known, is := launch.Sandbox.(Unchanging); !is || !known.Unchanged(identifyCached) {
			return "", false
		}
	}
	name := launch.Argv[0]
	if strings.Contains(name, "/") {
		program = within(launch.Dir, name)
		return program, answers(program, 0) && opens(program)
	}
	for _, folder := range filepath.SplitList(SearchPath(launch.Env)) {
		program = within(launch.Dir, folder+"/"+name)
		fd, err := openCached(program, unix.O_PATH)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return "", false
		}
		runs := folder != "" && nearby.has(fd, unix.S_IFREG) && unix.Faccessat(fd, "", unix.X_OK, unix.AT_EACCESS|unix.AT_EMPTY_PATH) == nil
		_ = unix.Close(fd)
		return program, runs && opens(program)
	}
	return "", false
}

// answers reports whether a path is cached and on a file system of this machine.
func answers(path string, flags uint64) bool {
	fd, err := openCached(path, unix.O_PATH|flags)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	kind := uint16(unix.S_IFREG)
	if flags != 0 {
		kind = unix.S_IFDIR
	}
	return nearby.has(fd, kind)
}

// identifyCached returns the device and the inode of the file that a cached path leads to.
func identifyCached(path string, symlinks bool) (device, inode uint64, known bool) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolveCached}
	if !symlinks {
		how.Resolve |= unix.RESOLVE_NO_SYMLINKS
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
	if err != nil {
		return 0, 0, false
	}
	defer unix.Close(fd)
	about, is := mountOf(fd, 0)
	return unix.Mkdev(about.Dev_major, about.Dev_minor), about.Ino, is && nearby.knows(about.Mnt_id)
}

// opens reports whether a program can be opened without waiting for a process that holds a lease on it.
func opens(program string) bool {
	fd, err := openCached(program, unix.O_RDONLY|unix.O_NONBLOCK)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil
}

func openCached(path string, flags uint64) (fd int, err error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_CLOEXEC | flags, Resolve: resolveCached})
}

// maxMounts bounds the mounts that are remembered.
const maxMounts = 64

// nearby are the mounts of file systems of this machine.
var nearby mounts

// mounts are known by numbers that the kernel never uses again (Linux 6.8). The type of a file system has to be asked for once,
// in a goroutine that can wait: a server or a daemon may have to answer.
type mounts struct {
	// mu guards the numbers for an instant. A message would need a goroutine that never ends.
	mu      sync.Mutex
	numbers map[uint64]struct{}
}

// has reports whether a file of this kind is on one of the mounts. It asks nobody but the kernel.
func (m *mounts) has(fd int, kind uint16) bool {
	about, is := mountOf(fd, kind)
	return is && m.knows(about.Mnt_id)
}

func (m *mounts) knows(number uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.numbers[number]
	return known
}

// learn remembers the mount of a path if its file system is of this machine.
func (m *mounts) learn(path string) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	about, is := mountOf(fd, 0)
	var system unix.Statfs_t
	if !is || unix.Fstatfs(fd, &system) != nil {
		return
	}
	switch uint32(system.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC,
		unix.OVERLAYFS_SUPER_MAGIC, unix.SQUASHFS_MAGIC:
	default:
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.numbers == nil || len(m.numbers) >= maxMounts {
		m.numbers = map[uint64]struct{}{}
	}
	m.numbers[about.Mnt_id] = struct{}{}
}

// mountOf returns the number of a file's mount, with its inode. It fails if the file is of another kind, unless that is zero.
func mountOf(fd int, kind uint16) (about unix.Statx_t, is bool) {
	const wants = unix.STATX_TYPE | unix.STATX_INO | unix.STATX_MNT_ID_UNIQUE
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, wants, &about)
	return about, err == nil && about.Mask&wants == wants && (kind == 0 || about.Mode&unix.S_IFMT == kind)
}
