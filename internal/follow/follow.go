// Package follow goes along a path to its end and reports the symbolic links on the way.
//
//	end, err := follow.Path("/tmp/cache/new")
//	defer end.Close()
//	end.Path                 // where the path leads, without symbolic links
//	end.Loose()              // a link that another than root can have made; nil for none
//
// The kernel follows a path without saying which links it has crossed. A link in a directory that a confined command can write may be
// the work of that command: it then leads its followers to a place that the command could not reach. So what is done with a path
// depends on who may have made its links.
//
// On Linux each step begins at the descriptor of the step before, so nothing that is replaced meanwhile can mix two paths. Elsewhere
// there are only paths.
package follow

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// maxLinks bounds the links on one path, as the kernel does.
const maxLinks = 40

// End is where a path led.
type End struct {
	// Path is absolute and has no symbolic links. Its last names need not exist.
	Path string
	// Below are the names at the end of Path that do not exist.
	Below []string
	Links []Link // in the order in which they were crossed

	// What exists of Path. Born is the time of its birth in nanoseconds since 1970; 0 where the file system knows none.
	Device, Inode uint64
	Born          int64
	Mode          uint32   // as stat(2) has it
	File          *os.File // on Linux a descriptor that only names it (O_PATH); nil elsewhere
}

// Close closes the descriptor.
func (e *End) Close() {
	if e.File != nil {
		_ = e.File.Close()
	}
}

// Directory reports whether what exists of the path is a directory.
func (e *End) Directory() bool { return e.Mode&syscall.S_IFMT == syscall.S_IFDIR }

// Link is a symbolic link.
type Link struct {
	Path   string // without other symbolic links
	Target string // as it is written
	fixed  bool
}

// Loose returns the first link on the path that another than root can have made; nil if there is none.
func (e *End) Loose() *Link {
	if i := slices.IndexFunc(e.Links, func(l Link) bool { return !l.fixed }); i >= 0 {
		return &e.Links[i]
	}
	return nil
}

// fixed reports whether only root can have made the links of a directory. Where we are root ourselves, so are our commands, and any
// directory may be one that they could write; only those are sure in which nobody works.
func fixed(dir string, owner, mode uint32, user int) bool {
	if owner != 0 || mode&0o022 != 0 {
		return false
	}
	return user != 0 || dir == "/" || dir == "/var"
}

// walk is a path on the way to its end.
type walk struct {
	end   End
	at    string   // where it is; empty for /
	names []string // what is left
}

// begin begins at the root of the file system.
func begin(path string) (*walk, error) {
	if !strings.HasPrefix(path, "/") {
		return nil, &os.PathError{Op: "follow", Path: path, Err: syscall.EINVAL}
	}
	return &walk{names: strings.Split(path, "/")}, nil
}

// next takes the next name; empty if none is left.
func (w *walk) next() (name string) {
	for len(w.names) > 0 && (name == "" || name == ".") {
		name, w.names = w.names[0], w.names[1:]
	}
	if name == "." {
		name = ""
	}
	return name
}

// more reports whether another name is left.
func (w *walk) more() bool {
	return slices.ContainsFunc(w.names, func(name string) bool { return name != "" && name != "." })
}

// cross goes on where a link leads. It reports whether that begins at the root.
func (w *walk) cross(name, target string, owner, mode uint32) (fromRoot bool, err error) {
	if len(w.end.Links) == maxLinks {
		return false, syscall.ELOOP
	}
	dir := w.at
	if dir == "" {
		dir = "/"
	}
	w.end.Links = append(w.end.Links, Link{w.at + "/" + name, target, fixed(dir, owner, mode, os.Geteuid())})
	w.names = append(strings.Split(target, "/"), w.names...)
	if fromRoot = strings.HasPrefix(target, "/"); fromRoot {
		w.at = ""
	}
	return fromRoot, nil
}

// enter goes on in a file of the directory.
func (w *walk) enter(name string) {
	if name == ".." {
		w.at = w.at[:max(strings.LastIndexByte(w.at, '/'), 0)]
		return
	}
	w.at += "/" + name
}

// missing ends a path at a name that does not exist. The kernel would not go back from there.
func (w *walk) missing(name string) error {
	w.end.Below = []string{name}
	for name = w.next(); name != ""; name = w.next() {
		if name == ".." {
			return syscall.ENOENT
		}
		w.end.Below = append(w.end.Below, name)
	}
	w.at += "/" + strings.Join(w.end.Below, "/")
	return nil
}

// over is the end of the path.
func (w *walk) over() End {
	w.end.Path = w.at
	if w.at == "" {
		w.end.Path = "/"
	}
	return w.end
}

// Here returns the working directory as the kernel has it. A program that came into it by a path which a command has replaced is
// somewhere else than its user thinks, and only PWD tells: Here returns an error, too, if PWD is set and leads elsewhere, or here
// through a loose link.
func Here() (dir string, err error) {
	dir, err = syscall.Getwd() // os.Getwd trusts PWD
	pwd := os.Getenv("PWD")
	if err != nil || pwd == "" {
		return dir, err
	}
	here, err := Path(dir)
	if err != nil {
		return dir, err
	}
	here.Close()
	said, err := Path(pwd)
	if err != nil {
		return dir, fmt.Errorf("the working directory is %q, but PWD is %q, which leads nowhere", dir, pwd)
	}
	said.Close()
	if link := said.Loose(); link != nil {
		return dir, fmt.Errorf("the working directory is %q, but PWD is %q and crosses the symbolic link %q to %q, which a command may have made", dir, pwd,
			link.Path, link.Target)
	}
	if len(said.Below) > 0 || said.Device != here.Device || said.Inode != here.Inode {
		return dir, fmt.Errorf("the working directory is %q, but PWD is %q, which leads elsewhere", dir, pwd)
	}
	return dir, nil
}
