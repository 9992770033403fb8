package sandbox

import (
	"cmp"
	"context"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/paths"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// enclosure is a confinement whose paths have been looked up. It implements host.Enclosure.
type enclosure struct {
	spawner     *spawner
	confinement ptyio.Confinement
	found       *paths.Found
	enforced    messages.Enforcement
	refused     error // why it is not enforced

	// mu guards the fields below, which starts and Release share: a descriptor must stay open until the start that uses it
	// has it.
	mu       sync.Mutex
	released bool
	users    int      // starts under way
	plain    *os.File // the rule set for launches without a terminal, once one was made
}

// lookups bounds the lookups on file systems that do not answer: each occupies a thread and cannot be ended.
var lookups = make(chan struct{}, 64)

// Enclose implements ptyio.Spawner.
func (s *spawner) Enclose(ctx context.Context, c ptyio.Confinement) (ptyio.Enclosure, error) {
	c.Policy = messages.Clone(c.Policy)
	return s.enclose(ctx, c, func() (*paths.Found, error) { return paths.Find(c, paths.DefaultBounds) })
}

// enclose waits for a lookup until ctx ends. What a later answer holds is closed.
func (s *spawner) enclose(ctx context.Context, c ptyio.Confinement, look func() (*paths.Found, error)) (ptyio.Enclosure, error) {
	select {
	case lookups <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	call := hostcode.Call[*enclosure]{Who: "the lookup", Do: func(context.Context) (*enclosure, error) {
		defer func() { <-lookups }()
		found, err := look()
		if err != nil {
			return nil, err
		}
		e := &enclosure{spawner: s, confinement: c, found: found}
		if e.enforced, e.refused = e.enforcement(); e.refused == nil && e.enforced.Level == messages.AssuranceConfined {
			if err := s.readable.refresh(); err != nil {
				found.Close()
				return nil, err
			}
		}
		return e, nil
	}, Late: func(e *enclosure, err error) {
		if err == nil {
			e.Release()
		}
	}}
	e, err := call.Wait(ctx)
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	return e, nil
}

// Confinement implements ptyio.Enclosure.
func (e *enclosure) Confinement() ptyio.Confinement { return e.confinement }

// Check implements ptyio.Enclosure.
func (e *enclosure) Check() error { return e.found.Check() }

// Keeps implements ptyio.Keeper.
func (e *enclosure) Keeps() (unwritable, unreadable []string) { return e.found.Keeps() }

// Widen implements ptyio.Enclosure.
func (e *enclosure) Widen(ctx context.Context, more messages.AdditionalPermissions, dir string) (ptyio.Enclosure, error) {
	c := e.confinement
	more = messages.Clone(more)
	c.Additional, c.AdditionalDir = &more, dir
	return e.spawner.enclose(ctx, c, func() (*paths.Found, error) {
		if err := e.use(); err != nil {
			return nil, err
		}
		defer e.unuse()
		return e.found.Widen(more, dir)
	})
}

// Release implements ptyio.Enclosure.
func (e *enclosure) Release() {
	e.mu.Lock()
	over := !e.released && e.users == 0
	e.released = true
	e.mu.Unlock()
	if over {
		e.close()
	}
}

// use keeps the resources of a start open until unuse is called.
func (e *enclosure) use() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.released {
		return &messages.Error{Code: messages.ErrClosed, Op: "spawn", Subject: "sandbox policy",
			Detail: "it was replaced while the command waited; run the command again"}
	}
	e.users++
	return nil
}

func (e *enclosure) unuse() {
	e.mu.Lock()
	e.users--
	over := e.released && e.users == 0
	e.mu.Unlock()
	if over {
		e.close()
	}
}

// close is called once, when nothing uses the enclosure and nothing will.
func (e *enclosure) close() {
	e.spawner.starter.Forget(e)
	_ = e.plain.Close() // or there is none
	e.found.Close()
}

// Enforces implements host.Enclosure.
func (e *enclosure) Enforces() messages.Enforcement { return e.enforced }

// Plan implements host.Enclosure.
func (e *enclosure) Plan() (*confine.Plan, []*os.File) { return &e.found.Plan, e.found.Files }

// Ruleset implements host.Enclosure.
func (e *enclosure) Ruleset(terminal *os.File) (rules *os.File, err error) {
	if terminal != nil {
		if rules, err = e.newRuleset(); err == nil {
			err = allowTerminal(rules, terminal)
		}
		return rules, err
	}
	e.mu.Lock()
	defer e.mu.Unlock() // one of several starts makes it, and the others need it
	if e.plain == nil {
		e.plain, err = e.newRuleset()
	}
	return e.plain, err
}

func allowTerminal(rules, terminal *os.File) error {
	err := wire.Hold([]*os.File{rules, terminal}, func(fds []int) error {
		return confine.Allow(fds[0], confine.Allowed{FD: fds[1], Rights: confine.UseDevice})
	})
	if err != nil {
		_ = rules.Close()
		return landlockError(err)
	}
	return nil
}

// newRuleset makes a rule set of the paths that every command may use and those that this plan allows.
func (e *enclosure) newRuleset() (file *os.File, err error) {
	plan := e.found.Plan
	err = wire.Hold(e.found.Files, func(fds []int) error {
		return e.spawner.readable.use(func(everything, entries []confine.Allowed) error {
			rules := slices.Clone(everything)
			for _, p := range plan.Rules {
				switch {
				case p.Access != confine.Write || p.File < 0, p.Path == "/dev":
				case p.Path == "/":
					rules = append(rules, entries...)
				case p.Directory:
					rules = append(rules, confine.Allowed{FD: fds[p.File], Rights: confine.WriteDirectory})
				default:
					rules = append(rules, confine.Allowed{FD: fds[p.File], Rights: confine.WriteFile})
				}
			}
			for _, p := range plan.Sockets {
				rules = append(rules, confine.Allowed{FD: fds[p.File], Rights: confine.Connect})
			}
			fd, err := confine.Ruleset(confine.Kernel().ABI, plan.Network, rules)
			if err != nil {
				return landlockError(err)
			}
			file = os.NewFile(uintptr(fd), "landlock")
			return nil
		})
	})
	return file, err
}

func landlockError(err error) error {
	errno, is := err.(unix.Errno)
	if !is {
		errno = unix.EIO
	}
	return &ptyio.StepError{Step: "landlock rules", Errno: errno}
}

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
