//go:build linux

package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// changed reports whether anything in the directory outside has changed.
func changed(s *scene) bool {
	entries, _ := os.ReadDir(s.Out)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	inner, _ := os.ReadDir(s.Out + "/dir")
	text, _ := os.ReadFile(s.Out + "/file")
	info, err := os.Lstat(s.Out + "/file")
	return err != nil || !info.Mode().IsRegular() || !slices.Equal(names, []string{"dir", "file"}) || len(inner) > 0 || string(text) != "untouched"
}

// openWith opens a file and writes to it.
func openWith(path func(places) string, flags int) func(places) error {
	return func(p places) error {
		fd, err := unix.Open(path(p), flags|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return err
		}
		if flags&unix.O_TRUNC != 0 {
			return nil
		}
		_, err = unix.Write(fd, []byte("owned"))
		return err
	}
}

func outFile(p places) string { return p.Out + "/file" }
func outNew(p places) string  { return p.Out + "/new" }

func writes() []attack {
	list := []attack{
		{name: "write: create", act: openWith(outNew, unix.O_WRONLY|unix.O_CREAT)},
		{name: "write: create exclusively", act: openWith(outNew, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)},
		{name: "write: open for writing", act: openWith(outFile, unix.O_WRONLY)},
		{name: "write: open for both", act: openWith(outFile, unix.O_RDWR)},
		{name: "write: append", act: openWith(outFile, unix.O_WRONLY|unix.O_APPEND)},
		{name: "write: truncate on opening", act: openWith(outFile, unix.O_WRONLY|unix.O_TRUNC)},
		{name: "write: truncate on opening for reading", act: openWith(outFile, unix.O_RDONLY|unix.O_TRUNC)},
		{name: "write: direct", act: openWith(outFile, unix.O_WRONLY|unix.O_SYNC)},
		{name: "write: creat", act: func(p places) error { _, err := unix.Creat(outNew(p), 0o644); return err }},
		{name: "write: truncate by path", act: func(p places) error { return unix.Truncate(outFile(p), 0) }},
		{name: "write: through ..", act: openWith(func(p places) string { return p.Work + "/../out/file" }, unix.O_WRONLY)},
		{name: "write: through a link made inside", act: func(p places) error {
			if err := os.Symlink(outFile(p), p.Work+"/l"); err != nil {
				return err
			}
			return openWith(func(p places) string { return p.Work + "/l" }, unix.O_WRONLY)(p)
		}},
		{name: "write: through a linked directory", act: func(p places) error {
			if err := os.Symlink(p.Out, p.Work+"/l"); err != nil {
				return err
			}
			return os.WriteFile(p.Work+"/l/new", nil, 0o644)
		}},
		{name: "write: through a hard link", act: func(p places) error {
			if err := os.Link(outFile(p), p.Work+"/l"); err != nil {
				return err
			}
			return os.WriteFile(p.Work+"/l", []byte("owned"), 0o644)
		}},
		{name: "write: through a magic link of the own root", act: openWith(func(p places) string { return "/proc/self/root" + outFile(p) }, unix.O_WRONLY)},
		{name: "write: through a magic link of the parent's root", act: openWith(func(p places) string {
			return fmt.Sprintf("/proc/%d/root%s", os.Getppid(), outFile(p))
		}, unix.O_WRONLY)},
		{name: "write: through a magic link of pid 1's root", who: onlyRoot, act: openWith(func(p places) string { return "/proc/1/root" + outFile(p) }, unix.O_WRONLY)},
		{name: "write: through a magic link of the host's root", act: openWith(func(p places) string {
			return fmt.Sprintf("/proc/%d/root%s", p.Host, outFile(p))
		}, unix.O_WRONLY)},
		{name: "write: through a magic link of the host's directory", act: openWith(func(p places) string {
			return fmt.Sprintf("/proc/%d/cwd/../../../../../../../../../..%s", p.Host, outFile(p))
		}, unix.O_WRONLY)},
		{name: "write: through the own directory", act: func(p places) error {
			if err := os.Chdir(p.Out); err != nil {
				return err
			}
			return os.WriteFile("/proc/self/cwd/new", nil, 0o644)
		}},
		{name: "write: rename out", act: func(p places) error { return unix.Rename(p.Work+"/file", outNew(p)) }},
		{name: "write: rename over", act: func(p places) error { return unix.Rename(p.Work+"/file", outFile(p)) }},
		{name: "write: rename in", act: func(p places) error { return unix.Rename(outFile(p), p.Work+"/stolen") }},
		{name: "write: exchange", act: func(p places) error {
			return unix.Renameat2(unix.AT_FDCWD, p.Work+"/file", unix.AT_FDCWD, outFile(p), unix.RENAME_EXCHANGE)
		}},
		{name: "write: rename between directories outside", act: func(p places) error { return unix.Rename(outFile(p), p.Out+"/dir/file") }},
		{name: "write: link out", act: func(p places) error { return unix.Link(p.Work+"/file", outNew(p)) }},
		{name: "write: symbolic link", act: func(p places) error { return unix.Symlink("x", outNew(p)) }},
		{name: "write: directory", act: func(p places) error { return unix.Mkdir(outNew(p), 0o755) }},
		{name: "write: remove a file", act: func(p places) error { return unix.Unlink(outFile(p)) }},
		{name: "write: remove a directory", act: func(p places) error { return unix.Rmdir(p.Out + "/dir") }},
		{name: "write: fifo", act: func(p places) error { return unix.Mkfifo(outNew(p), 0o644) }},
		{name: "write: regular file by mknod", act: func(p places) error { return unix.Mknod(outNew(p), unix.S_IFREG|0o644, 0) }},
		{name: "write: socket by mknod", act: func(p places) error { return unix.Mknod(outNew(p), unix.S_IFSOCK|0o644, 0) }},
		{name: "write: socket by bind", act: func(p places) error {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			return unix.Bind(fd, &unix.SockaddrUnix{Name: outNew(p)})
		}},
		{name: "write: temporary file without a name", act: func(p places) error {
			fd, err := unix.Open(p.Out, unix.O_TMPFILE|unix.O_RDWR, 0o644)
			if err != nil {
				return err
			}
			return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, outNew(p), unix.AT_SYMLINK_FOLLOW)
		}},
		{name: "write: temporary file of the root linked out", act: func(p places) error {
			fd, err := unix.Open(p.Work, unix.O_TMPFILE|unix.O_RDWR, 0o644)
			if err != nil {
				return err
			}
			return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, outNew(p), unix.AT_SYMLINK_FOLLOW)
		}},
		{name: "write: below a directory's descriptor", act: func(p places) error {
			dir, err := unix.Open(p.Out, unix.O_RDONLY|unix.O_DIRECTORY, 0)
			if err != nil {
				return err
			}
			_, err = unix.Openat(dir, "new", unix.O_WRONLY|unix.O_CREAT, 0o644)
			return err
		}},
		{name: "write: below a resolved root", act: func(p places) error {
			dir, err := unix.Open("/", unix.O_PATH, 0)
			if err != nil {
				return err
			}
			_, err = unix.Openat2(dir, outFile(p), &unix.OpenHow{Flags: unix.O_WRONLY | unix.O_TRUNC, Resolve: unix.RESOLVE_IN_ROOT})
			return err
		}},
		{name: "write: clone a file over", act: func(p places) error {
			return withReadOnly(p, func(fd int) error {
				from, err := unix.Open(p.Work+"/file", unix.O_RDONLY, 0)
				if err != nil {
					return err
				}
				return unix.IoctlFileClone(fd, from)
			})
		}},
		{name: "write: rename the root's parent", act: func(p places) error {
			return unix.Rename(filepath.Dir(p.Work), filepath.Dir(p.Work)+"x")
		}, won: func(s *scene) bool {
			_, err := os.Stat(filepath.Dir(s.Work) + "x")
			if err == nil {
				must(s, os.Rename(filepath.Dir(s.Work)+"x", filepath.Dir(s.Work)))
			}
			return err == nil
		}},
		{name: "write: replace the root by a link", act: func(p places) error {
			if err := unix.Rename(p.Work, p.Work+"x"); err != nil {
				return err
			}
			return os.Symlink(p.Out, p.Work)
		}, won: func(s *scene) bool { info, err := os.Lstat(s.Work); return err != nil || !info.IsDir() }},
		{name: "write: by a handle", who: onlyRoot, act: func(p places) error {
			handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, outFile(p), 0)
			if err != nil {
				return err
			}
			mount, err := unix.Open(p.Work, unix.O_RDONLY|unix.O_DIRECTORY, 0)
			if err != nil {
				return err
			}
			_, err = unix.OpenByHandleAt(mount, handle, unix.O_WRONLY|unix.O_TRUNC)
			return err
		}},
		{name: "write: accounting", who: onlyRoot, unsafe: true, act: func(p places) error { return unix.Acct(outFile(p)) }},
	}
	for name, act := range readOnlyDoors {
		list = append(list, attack{name: "write: " + name + " what is open for reading", act: func(p places) error {
			return withReadOnly(p, act)
		}})
	}
	for i := range list {
		if list[i].won == nil {
			list[i].won = changed
		}
	}
	fifo := attack{name: "write: into a FIFO outside", setup: func(s *scene) {
		must(s, unix.Mkfifo(s.Out+"/pipe", 0o666))
		reader, err := os.OpenFile(s.Out+"/pipe", os.O_RDWR|unix.O_NONBLOCK, 0)
		must(s, err)
		s.Cleanup(func() { _ = reader.Close() })
	}, act: func(p places) error {
		f, err := os.OpenFile(p.Out+"/pipe", os.O_WRONLY|unix.O_NONBLOCK, 0)
		if err == nil {
			_, err = f.WriteString("owned")
		}
		return err
	}}
	return append(append(list, fifo), readOnlyWrites()...)
}

// withReadOnly calls a function with the file outside, open for reading.
func withReadOnly(p places, do func(fd int) error) error {
	fd, err := unix.Open(outFile(p), unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return do(fd)
}

// readOnlyDoors are attempts to write to a file that is open for reading.
var readOnlyDoors = map[string]func(fd int) error{
	"truncate": func(fd int) error { return unix.Ftruncate(fd, 0) },
	"write to": func(fd int) error { _, err := unix.Write(fd, []byte("owned")); return err },
	"pwrite to": func(fd int) error {
		_, err := unix.Pwrite(fd, []byte("owned"), 0)
		return err
	},
	"reopen": func(fd int) error {
		again, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_WRONLY|unix.O_TRUNC, 0)
		if err == nil {
			_, err = unix.Write(again, []byte("owned"))
		}
		return err
	},
	"reopen by its thread": func(fd int) error {
		_, err := unix.Open(fmt.Sprintf("/proc/thread-self/fd/%d", fd), unix.O_RDWR|unix.O_TRUNC, 0)
		return err
	},
	"punch a hole into": func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4)
	},
	"map": func(fd int) error {
		memory, err := unix.Mmap(fd, 0, 9, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err == nil {
			copy(memory, "owned")
		}
		return err
	},
	"map and then protect": func(fd int) error {
		memory, err := unix.Mmap(fd, 0, 9, unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		if err := unix.Mprotect(memory, unix.PROT_READ|unix.PROT_WRITE); err != nil {
			return err
		}
		copy(memory, "owned")
		return nil
	},
	"switch on writing for": func(fd int) error {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_RDWR); err != nil {
			return err
		}
		_, err := unix.Write(fd, []byte("owned"))
		return err
	},
}

// readOnlyWrites are attempts to write to the root under the policy that allows no writes.
func readOnlyWrites() []attack {
	readOnly := func(p *messages.SandboxPolicy) { *p = messages.SandboxPolicy{Type: messages.SandboxReadOnly} }
	inRoot := func(s *scene) bool {
		text, _ := os.ReadFile(s.Work + "/file")
		_, err := os.Stat(s.Work + "/new")
		info, _ := os.Stat(s.Work + "/file")
		return string(text) != "inside" || err == nil || info == nil || info.Mode().Perm() != 0o644 || info.ModTime().Unix() == 1
	}
	list := []attack{
		{name: "read-only: create", act: func(p places) error { return os.WriteFile(p.Work+"/new", nil, 0o644) }},
		{name: "read-only: write", act: func(p places) error { return os.WriteFile(p.Work+"/file", nil, 0o644) }},
		{name: "read-only: truncate", act: func(p places) error { return os.Truncate(p.Work+"/file", 0) }},
		{name: "read-only: remove", act: func(p places) error { return os.Remove(p.Work + "/file") }},
		{name: "read-only: rename", act: func(p places) error { return os.Rename(p.Work+"/file", p.Work+"/new") }},
		{name: "read-only: chmod", act: func(p places) error { return unix.Chmod(p.Work+"/file", 0o600) }},
		{name: "read-only: fchmod", act: func(p places) error {
			f, err := os.Open(p.Work + "/file")
			if err != nil {
				return err
			}
			return unix.Fchmod(int(f.Fd()), 0o600)
		}},
		{name: "read-only: fchmodat2", act: func(p places) error {
			return fchmodat2(p.Work+"/file", 0o600)
		}},
		{name: "read-only: set times", act: func(p places) error {
			return unix.Utimes(p.Work+"/file", []unix.Timeval{{Sec: 1}, {Sec: 1}})
		}},
		{name: "read-only: set times precisely", act: func(p places) error {
			return unix.UtimesNanoAt(unix.AT_FDCWD, p.Work+"/file", []unix.Timespec{{Sec: 1}, {Sec: 1}}, 0)
		}},
		{name: "read-only: file in /tmp", act: func(places) error {
			f, err := os.CreateTemp("/tmp", "execbus-attack-")
			if err == nil {
				_ = os.Remove(f.Name())
			}
			return err
		}, won: func(*scene) bool { return false }},
	}
	for i := range list {
		list[i].policy = readOnly
		if list[i].won == nil {
			list[i].won = inRoot
		}
	}
	list[len(list)-1].won = nil
	return list
}

func fchmodat2(path string, mode uint32) error {
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	dir := unix.AT_FDCWD
	return asError(unix.Syscall6(unix.SYS_FCHMODAT2, uintptr(dir), uintptr(unsafe.Pointer(name)), uintptr(mode), 0, 0, 0))
}

func asError(_, _ uintptr, errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}
