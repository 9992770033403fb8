package host

import (
	"cmp"
	"net"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// Enclosure is a policy as the starts of its commands need it: all that does not depend on the command was computed before. It does not
// change.
type Enclosure struct {
	plan  *confine.Plan
	files []*os.File // the descriptors that the plan refers to
	level confine.Level
	proxy func(*Sockets)
	// The rest is for confined commands: what all of them can use, and the rule set of those without a terminal.
	readable *readable
	rules    *os.File
}

// Sockets are those in the network of commands. Proxy is nil if there is no proxy, and Packets if there is none by name.
type Sockets struct {
	asks    *os.File // asks who listens there; nil if the system has no such sockets
	Proxy   net.Listener
	Packets net.PacketConn
	ByName  []net.Listener
}

func (s *Sockets) close() {
	_ = s.asks.Close() // or there is none
	if s.Proxy != nil {
		_ = s.Proxy.Close()
	}
	if s.Packets != nil {
		_ = s.Packets.Close()
	}
	for _, listener := range s.ByName {
		_ = listener.Close()
	}
}

// socketsOf takes the descriptors, in the order of isolate.NewNetwork. asks is whether the first asks who listens.
func socketsOf(fds []int, asks bool) (*Sockets, error) {
	s := &Sockets{}
	var failed error
	if asks && len(fds) > 0 {
		s.asks, fds = os.NewFile(uintptr(fds[0]), "netlink"), fds[1:]
	}
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "listener")
		var listener net.Listener
		var err error
		if i == 1 {
			s.Packets, err = net.FilePacketConn(file)
		} else if listener, err = net.FileListener(file); err == nil && i == 0 {
			s.Proxy = listener
		} else if err == nil {
			s.ByName = append(s.ByName, listener)
		}
		_ = file.Close()
		failed = cmp.Or(failed, err)
	}
	if failed != nil {
		s.close()
	}
	return s, failed
}

// Enclose makes an enclosure that a starter with this readable enforces. Files and plan must stay as they are until the enclosure is
// forgotten. It may block for as long as the file systems at the top do.
func (r *readable) Enclose(plan *confine.Plan, files []*os.File, level confine.Level, proxy func(*Sockets)) (*Enclosure, error) {
	e := &Enclosure{plan: plan, files: files, level: level, proxy: proxy, readable: r}
	if level != confine.Confined {
		return e, nil
	}
	if err := r.refresh(); err != nil {
		return nil, err
	}
	var err error
	if e.rules, err = e.ruleset(); err != nil {
		return nil, &messages.Error{Code: messages.ErrUnsupported, Op: "confine", Subject: "sandbox policy",
			Detail: "the kernel makes no Landlock rule set for it (" + err.Error() + "); let the host open more files, or allow fewer paths"}
	}
	return e, nil
}

// close closes what Enclose has opened.
func (e *Enclosure) close() { _ = e.rules.Close() } // or there is none

// levelOf is how much of an enclosure is enforced.
func levelOf(e *Enclosure) confine.Level {
	if e == nil {
		return confine.None
	}
	return e.level
}

// withTerminal makes a rule set for a command on a terminal, which may use that one and no other.
func (e *Enclosure) withTerminal(terminal *os.File) (rules *os.File, err error) {
	if rules, err = e.ruleset(); err != nil {
		return nil, landlockError(err)
	}
	err = wire.Hold([]*os.File{rules, terminal}, func(fds []int) error {
		return confine.Allow(fds[0], confine.Allowed{FD: fds[1], Rights: confine.UseDevice})
	})
	if err != nil {
		_ = rules.Close()
		return nil, landlockError(err)
	}
	return rules, nil
}

// ruleset makes a rule set of the paths that every command may use and those that this plan allows.
func (e *Enclosure) ruleset() (file *os.File, err error) {
	err = wire.Hold(e.files, func(fds []int) error {
		return e.readable.use(func(everything, entries []confine.Allowed) error {
			rules := slices.Clone(everything)
			for _, p := range e.plan.Rules {
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
			for _, p := range e.plan.Sockets {
				rules = append(rules, confine.Allowed{FD: fds[p.File], Rights: confine.Connect})
			}
			fd, err := confine.Ruleset(confine.Kernel().ABI, e.plan.Network, rules)
			if err != nil {
				return err
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
