package executions

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/seccomp"
)

// caller is the thread whose execution is read. All that is read of it is what that thread itself sees.
type caller struct {
	tid    int
	proc   string // its directory in our /proc
	narrow bool   // its addresses have four bytes
	// The strings of a list and their addresses usually lie in one place each.
	texts, addresses window
}

// window is a piece of the caller's memory. It lies in one page, so it can be read as a whole or not at all.
type window struct {
	at    uint64
	size  int // zero if nothing was read
	bytes [windowSize]byte
}

const (
	windowSize = 4 << 10
	maxPath    = 4 << 10 // PATH_MAX
	maxLinks   = 40      // as many as the kernel follows
	// maxNames bounds the names on the way to a program, with those in links. The kernel has no such bound; the work grows with the square.
	maxNames = 512
)

var (
	errTooMany = errors.New("it has too many arguments")
	errLong    = errors.New("the way there has too many names")
	errMoved   = errors.New("the directory that it is relative to was moved or removed")
)

// read reads an execution, as far as it is wanted, and says whether it is to be judged. An errno is that of one that cannot succeed.
func (w *Watch) read(c *caller, r *reading) (e Execution, judged bool, errno unix.Errno) {
	at, narrow := seccomp.Execution(r.arch, uint32(r.number))
	c.tid, c.proc, c.narrow = int(r.pid), "/proc/"+strconv.Itoa(int(r.pid)), narrow
	c.texts.size, c.addresses.size = 0, 0
	base, args := unix.AT_FDCWD, r.args[:]
	if at {
		base, args = int(int32(args[0])), args[1:]
	}
	err := c.program(&e, base, args[0], at && args[3]&unix.AT_EMPTY_PATH != 0)
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENAMETOOLONG, unix.EACCES: // the last is for a directory that may not be searched
		return e, false, err.(unix.Errno)
	case nil:
		err = c.arguments(&e, args[1], 1, MaxBytes)
	}
	judged = w.wanted.Judge && (w.wanted.All || err != nil || w.named(e))
	if !judged && !w.wanted.Report {
		return e, false, 0
	}
	if err == nil && judged {
		err = c.arguments(&e, args[1], MaxArguments, MaxBytes)
	} else if err == nil {
		e.Cut = c.arguments(&e, args[1], MaxArguments, MaxReportedBytes) != nil
	}
	if err != nil && err != errTooMany {
		e.Unread = "what it executes cannot be read: " + err.Error()
	} else if err != nil {
		e.Unread = err.Error()
	}
	e.PID, e.Parent = c.identity()
	e.Dir, _ = readlink(c.proc + "/cwd")
	return e, judged, 0
}

// named reports whether one of the names of an execution is wanted.
func (w *Watch) named(e Execution) bool {
	names := []string{e.Program, e.Resolved, ""}
	if len(e.Argv) > 0 {
		names[2] = e.Argv[0]
	}
	for _, name := range names {
		if _, is := w.names[name[strings.LastIndexByte(name, '/')+1:]]; is {
			return true
		}
	}
	return false
}

// identity returns the pids of the caller's process and of its parent. The kernel writes them first.
func (c *caller) identity() (pid, parent int) {
	var room [512]byte // package os would make four times as many calls
	fd, err := unix.Open(c.proc+"/status", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0
	}
	n, _ := unix.Read(fd, room[:])
	_ = unix.Close(fd)
	text := room[:max(n, 0)]
	return field(text, "\nTgid:\t"), field(text, "\nPPid:\t")
}

func field(text []byte, name string) int {
	_, after, _ := bytes.Cut(text, []byte(name))
	number, _, _ := bytes.Cut(after, []byte("\n"))
	n, _ := strconv.Atoi(string(number))
	return n
}

// program reads which program is meant: a path, or the file of a descriptor.
func (c *caller) program(e *Execution, base int, path uint64, empty bool) (err error) {
	if e.Program, err = c.string(path, maxPath); err == errTooMany {
		err = unix.ENAMETOOLONG
	}
	switch {
	case err != nil:
		return err
	case e.Program != "":
		e.Resolved, err = c.resolve(base, e.Program)
	case !empty:
		err = unix.ENOENT
	case base == unix.AT_FDCWD:
		e.Resolved, err = readlink(c.proc + "/cwd")
	default:
		e.Resolved, err = readlink(c.proc + "/fd/" + strconv.Itoa(base))
	}
	return err
}

// arguments reads at most so many arguments, with so many bytes. The error is errTooMany if there are more bytes, or if there are more
// arguments than MaxArguments.
func (c *caller) arguments(e *Execution, list uint64, most, bytes int) error {
	e.Argv = nil
	for i := 0; list != 0; i++ {
		at, err := c.address(list, i)
		switch {
		case err != nil:
			return err
		case at == 0 || i == most && most < MaxArguments:
			return nil
		case i == most:
			return errTooMany
		}
		arg, err := c.string(at, bytes)
		if err != nil {
			return err
		}
		e.Argv, bytes = append(e.Argv, arg), bytes-len(arg)-1
	}
	return nil
}

// address reads an entry of a list of addresses.
func (c *caller) address(list uint64, index int) (uint64, error) {
	var word [8]byte
	size := len(word)
	if c.narrow {
		size = 4
	}
	at := list + uint64(index*size)
	for got := 0; got < size; { // it may lie across the end of a window
		bytes, err := c.load(&c.addresses, at+uint64(got))
		if err != nil {
			return 0, err
		}
		got += copy(word[got:size], bytes)
	}
	return binary.NativeEndian.Uint64(word[:]), nil
}

// string reads a string. With its zero it has at most so many bytes, or the error is errTooMany.
func (c *caller) string(at uint64, most int) (string, error) {
	var text []byte
	for len(text) < most {
		bytes_, err := c.load(&c.texts, at+uint64(len(text)))
		if err != nil {
			return "", err
		}
		if end := bytes.IndexByte(bytes_, 0); end >= 0 {
			if len(text)+end >= most {
				break
			}
			return string(append(text, bytes_[:end]...)), nil
		}
		text = append(text, bytes_...)
	}
	return "", errTooMany
}

// load returns the caller's memory from an address to the end of the window there.
func (c *caller) load(w *window, at uint64) ([]byte, error) {
	if start := at &^ (windowSize - 1); w.size == 0 || w.at != start {
		local := []unix.Iovec{{Base: &w.bytes[0], Len: windowSize}}
		n, err := unix.ProcessVMReadv(c.tid, local, []unix.RemoteIovec{{Base: uintptr(start), Len: windowSize}}, 0)
		if w.at, w.size = start, max(n, 0); err != nil {
			return nil, err
		}
		if n < windowSize {
			w.size = 0
			return nil, unix.EFAULT
		}
	}
	return w.bytes[at-w.at : w.size], nil
}

// resolve returns where a path leads for the caller: the kernel's own walk, link by link. To open the path would follow its links from our
// root instead, and /proc/self would be us.
func (c *caller) resolve(base int, path string) (string, error) {
	root, err := unix.Open(c.proc+"/root", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(root)
	done, rest := "/", path
	if path[0] != '/' {
		if done, err = c.base(root, base); err != nil {
			return "", err
		}
	}
	for names, links := 0, 0; rest != ""; names++ {
		if names == maxNames {
			return "", errLong
		}
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		switch name {
		case "", ".":
			continue
		case "..":
			done = done[:max(strings.LastIndexByte(done, '/'), 1)]
			continue
		}
		next := strings.TrimSuffix(done, "/") + "/" + name
		target, err := c.link(root, next)
		switch {
		case err == unix.EINVAL: // it is no link
			done = next
		case err != nil:
			return "", err
		case links == maxLinks:
			return "", unix.ELOOP
		case magic(next): // the kernel goes there without a path
			if done = target; rest == "" {
				return target, nil
			}
			links++
		default:
			if links++; strings.HasPrefix(target, "/") {
				done = "/"
			}
			rest = target + "/" + rest
		}
	}
	return done, nil
}

// base returns the path of the directory of a descriptor of the caller, or its own.
func (c *caller) base(root, fd int) (string, error) {
	at := c.proc + "/cwd"
	if fd != unix.AT_FDCWD {
		at = c.proc + "/fd/" + strconv.Itoa(fd)
	}
	path, err := readlink(at)
	var there, named unix.Stat_t
	if err == nil {
		err = unix.Stat(at, &there)
	}
	if err != nil {
		return "", err
	}
	below := "."
	if len(path) > 1 {
		below = path[1:]
	}
	if unix.Fstatat(root, below, &named, unix.AT_SYMLINK_NOFOLLOW) != nil || named.Dev != there.Dev || named.Ino != there.Ino {
		return "", errMoved
	}
	return path, nil
}

// link reads a link below the caller's root; EINVAL means that there is something else.
func (c *caller) link(root int, path string) (string, error) {
	for _, self := range []string{"/proc/self", "/proc/thread-self"} {
		if below, is := strings.CutPrefix(path, self); is && below == "" {
			return "", unix.EINVAL
		} else if is && below[0] == '/' {
			return readlink(c.proc + below)
		}
	}
	return readlinkat(root, path[1:])
}

// magic reports whether a path, which is a link, is one of those in /proc that lead to a file itself.
func magic(path string) bool {
	below, is := strings.CutPrefix(path, "/proc/")
	names := strings.Split(below, "/")
	last := len(names) - 1
	return is && last > 0 && (names[last] == "exe" || names[last] == "cwd" || names[last] == "root" || names[last-1] == "fd")
}

func readlink(path string) (string, error) { return readlinkat(unix.AT_FDCWD, path) }

func readlinkat(dir int, path string) (string, error) {
	var room [maxPath]byte
	n, err := unix.Readlinkat(dir, path, room[:])
	if err != nil {
		return "", err
	}
	return string(room[:n]), nil
}
