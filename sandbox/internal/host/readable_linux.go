package host

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox/internal/confine"
)

// readable holds descriptors of everything that every confined command can use: all entries at the top of the file system
// except the devices, and some of the devices. A rule for the root itself would allow all devices: disks, and the terminals of
// others. They are opened anew for each enclosure, because something may have been mounted, and never for a start, which must not wait
// for a file system.
type readable struct {
	mu     sync.Mutex // guards the rest, which starts share
	newest readableSet
	closed bool
}

type readableSet struct {
	rules   []confine.Allowed
	entries []confine.Allowed // the rules that make the entries at the top writable
}

// devices are the devices that commands may use, with the rights to them.
var devices = map[string]confine.Rights{"null": confine.UseDevice, "zero": confine.UseDevice, "full": confine.UseDevice, "tty": confine.UseDevice,
	"random": confine.ReadFile, "urandom": confine.ReadFile}

// use passes on the rules for everything that can be read, and those that make all entries at the top writable. They must not be used
// later.
func (r *readable) use(with func(everything, entries []confine.Allowed) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return with(r.newest.rules, r.newest.entries)
}

// refresh opens everything anew.
func (r *readable) refresh() error {
	var fresh readableSet
	if err := fresh.open(); err != nil {
		fresh.close()
		return &messages.Error{Code: messages.ErrUnsupported, Op: "confine", Subject: "/", Detail: "it cannot be read (" + err.Error() + "); let the host read it"}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		fresh.close()
		return nil
	}
	r.newest.close()
	r.newest = fresh
	return nil
}

func (r *readableSet) open() error {
	names, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	if err := r.add("/", confine.List, confine.List); err != nil {
		return err
	}
	for _, entry := range names {
		if entry.Name() == "dev" || entry.Type()&os.ModeSymlink != 0 {
			continue
		}
		if err := r.add("/"+entry.Name(), confine.ReadFile, confine.ReadDirectory); err == unix.EMFILE || err == unix.ENFILE {
			return err
		} // otherwise a command cannot open it either
	}
	for _, rule := range r.rules[1:] {
		rights := confine.WriteFile
		if rule.Rights == confine.ReadDirectory {
			rights = confine.WriteDirectory
		}
		r.entries = append(r.entries, confine.Allowed{FD: rule.FD, Rights: rights})
	}
	for name, rights := range devices {
		_ = r.add("/dev/"+name, rights, 0)
	}
	return nil
}

// add opens a path and gives it the rights of its kind.
func (r *readableSet) add(path string, file, directory confine.Rights) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	rights := file
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err == nil && stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		rights = directory
	}
	r.rules = append(r.rules, confine.Allowed{FD: fd, Rights: rights})
	return nil
}

func (r *readableSet) close() {
	for _, rule := range r.rules {
		_ = unix.Close(rule.FD)
	}
	r.rules, r.entries = nil, nil
}

func (r *readable) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.newest.close()
}
