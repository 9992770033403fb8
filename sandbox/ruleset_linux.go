package sandbox

import (
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// plainRules returns the rule set for launches without a terminal, which share it. It is called between use and unuse.
func (e *enclosure) plainRules() (rules *os.File, err error) {
	e.mu.Lock()
	defer e.mu.Unlock() // one of several starts makes it, and the others need it
	if e.plain == nil {
		e.plain, err = e.newRuleset()
	}
	return e.plain, err
}

// terminalRules is a rule set that allows one terminal and some that no longer exist. To make a new one takes a twentieth of a start.
type terminalRules struct {
	file     *os.File
	terminal int // the last one that was added (O_PATH, so that it does not count as open); -1 if it is not known
	added    int
}

// maxAdded bounds the terminals of a rule set: each newborn copies all rules.
const maxAdded = 16

// onTerminal returns a rule set for a start on this terminal. It is called between use and unuse. Either giveBack or close must
// follow.
func (e *enclosure) onTerminal(terminal *os.File) (r *terminalRules, err error) {
	e.mu.Lock()
	r, e.spare = e.spare, nil
	e.mu.Unlock()
	if r != nil && !r.reusable() {
		r.close()
		r = nil
	}
	if r == nil {
		r = &terminalRules{terminal: -1}
		if r.file, err = e.newRuleset(); err != nil {
			return nil, err
		}
	}
	if err := r.add(terminal); err != nil {
		r.close()
		return nil, &ptyio.StepError{Step: "landlock rules", Errno: errnoOf(err)}
	}
	return r, nil
}

// giveBack keeps a rule set for a later start. The newborn must have used it, or have ended: a terminal that is added later is not
// for that newborn.
func (e *enclosure) giveBack(r *terminalRules) {
	e.mu.Lock()
	older := e.spare
	e.spare = r
	e.mu.Unlock()
	if older != nil {
		older.close()
	}
}

// reusable reports whether nobody can open the last terminal any more: when its other side is closed, the kernel removes its name.
// The terminals before that one have been gone since then.
func (r *terminalRules) reusable() bool {
	var stat unix.Stat_t
	return r.terminal >= 0 && r.added < maxAdded && unix.Fstat(r.terminal, &stat) == nil && stat.Nlink == 0
}

func (r *terminalRules) add(terminal *os.File) error {
	r.forget()
	r.added++
	return wire.Hold([]*os.File{r.file, terminal}, func(fds []int) error {
		if fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fds[1]), unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
			r.terminal = fd
		}
		return confine.Allow(fds[0], confine.Allowed{FD: fds[1], Rights: confine.UseDevice})
	})
}

func (r *terminalRules) forget() {
	if r.terminal >= 0 {
		_ = unix.Close(r.terminal)
	}
	r.terminal = -1
}

func (r *terminalRules) close() {
	r.forget()
	_ = r.file.Close()
}

// newRuleset makes a rule set of the paths that every command may use and those that this plan allows.
func (e *enclosure) newRuleset() (file *os.File, err error) {
	plan := e.found.Plan
	rules := slices.Clone(e.readable.Rules)
	err = wire.Hold(e.found.Files, func(fds []int) error {
		for _, p := range plan.Places {
			switch {
			case p.Access != confine.Write || p.File < 0, p.Path == "/dev":
			case p.Path == "/":
				rules = append(rules, e.readable.Writable()...)
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
			return &ptyio.StepError{Step: "landlock rules", Errno: errnoOf(err)}
		}
		file = os.NewFile(uintptr(fd), "landlock")
		return nil
	})
	return file, err
}

func errnoOf(err error) unix.Errno {
	if errno, ok := err.(unix.Errno); ok {
		return errno
	}
	return unix.EIO
}
