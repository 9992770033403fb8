package places

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/confine"
)

// Readable holds descriptors of everything that every confined command can use: all entries at the top of the file system
// except the devices, and some of the devices. A rule for the root itself would allow all devices: disks, and the terminals of
// others.
type Readable struct {
	Rules []confine.Allowed

	entries int // the number of rules for entries at the top; they come after the rule for the list of entries, and the rest are for devices
	key     unix.Stat_t
	users   int
}

// devices are the devices that commands may use, with the rights to them.
var devices = map[string]confine.Rights{"null": confine.UseDevice, "zero": confine.UseDevice, "full": confine.UseDevice, "tty": confine.UseDevice,
	"random": confine.ReadFile, "urandom": confine.ReadFile}

// mu guards the newest Readable, which all enclosures share, and its count of users, which change in any goroutine.
var (
	mu     sync.Mutex
	newest *Readable
)

// Everything opens everything that all commands can use, or shares what is already open. Release must follow.
func Everything() (*Readable, error) {
	var now unix.Stat_t
	if err := unix.Stat("/", &now); err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	if newest != nil && newest.users > 0 && newest.key.Dev == now.Dev && newest.key.Ino == now.Ino && newest.key.Mtim == now.Mtim {
		newest.users++
		return newest, nil
	}
	r := &Readable{key: now, users: 1}
	if err := r.open(); err != nil {
		r.close()
		return nil, err
	}
	newest = r
	return r, nil
}

// Release ends one use.
func (r *Readable) Release() {
	mu.Lock()
	defer mu.Unlock()
	if r.users--; r.users == 0 {
		r.close()
	}
}

func (r *Readable) close() {
	for _, rule := range r.Rules {
		_ = unix.Close(rule.FD)
	}
	r.Rules = nil
}

func (r *Readable) open() error {
	if err := r.add("/", confine.List, confine.List); err != nil {
		return err
	}
	entries, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() != "dev" && entry.Type()&os.ModeSymlink == 0 {
			_ = r.add("/"+entry.Name(), confine.ReadFile, confine.ReadDirectory) // a command cannot read a file that this process cannot open
		}
	}
	r.entries = len(r.Rules) - 1
	for name, rights := range devices {
		_ = r.add("/dev/"+name, rights, 0)
	}
	return nil
}

// Writable returns rules for a policy that makes the root of the file system writable. A single rule for the root would open
// all devices. With these rules each entry at the top can be written, and the devices cannot.
func (r *Readable) Writable() (rules []confine.Allowed) {
	for _, rule := range r.Rules[1 : 1+r.entries] {
		rights := confine.WriteFile
		if rule.Rights == confine.ReadDirectory {
			rights = confine.WriteDirectory
		}
		rules = append(rules, confine.Allowed{FD: rule.FD, Rights: rights})
	}
	return rules
}

// add opens a path and gives it the rights of its kind.
func (r *Readable) add(path string, file, directory confine.Rights) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		_ = unix.Close(fd)
		return err
	}
	rights := file
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		rights = directory
	}
	r.Rules = append(r.Rules, confine.Allowed{FD: fd, Rights: rights})
	return nil
}
