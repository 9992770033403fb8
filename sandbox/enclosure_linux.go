package sandbox

import (
	"context"
	"maps"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/places"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// enclosure is a confinement whose paths have been looked up.
type enclosure struct {
	confinement ptyio.Confinement
	found       *places.Found
	readable    *places.Readable
	unisolated  string // why nothing is isolated although the kernel could; empty if there is no reason
	enforced    messages.Enforcement
	refused     error // why it is not enforced

	// mu guards the fields below, which starts and Release share: a descriptor must stay open until the start that uses it
	// has it.
	mu       sync.Mutex
	released bool
	users    int                       // starts under way
	plain    *os.File                  // the rule set for launches without a terminal, once one was made
	spare    *os.File                  // a rule set for the next launch on a terminal, which adds a rule of its own
	numbers  map[*wardenProcess]uint64 // the number of its plan in each warden
}

// needsWarden says why some spawners isolate nothing.
const needsWarden = "it needs a warden, and commands are started without one"

// lookups bounds the lookups on file systems that do not answer: each occupies a thread and cannot be ended.
var lookups = make(chan struct{}, 64)

// Enclose implements ptyio.Spawner.
func (w *wardens) Enclose(ctx context.Context, c ptyio.Confinement) (ptyio.Enclosure, error) {
	unisolated := ""
	switch {
	case w.options.WithoutNamespaces:
		unisolated = "this host has chosen to make no namespaces"
	case w.options.Warden == "" && cannotExecute() != "":
		unisolated = needsWarden
	}
	return enclose(ctx, func() (*enclosure, error) { return newEnclosure(c, unisolated) })
}

// Enclose implements ptyio.Spawner.
func (*direct) Enclose(ctx context.Context, c ptyio.Confinement) (ptyio.Enclosure, error) {
	return enclose(ctx, func() (*enclosure, error) { return newEnclosure(c, needsWarden) })
}

// enclose waits for a lookup until ctx ends. The result of a later answer is released.
func enclose(ctx context.Context, look func() (*enclosure, error)) (ptyio.Enclosure, error) {
	select {
	case lookups <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var e *enclosure
	var err error
	done, late := make(chan struct{}), make(chan struct{}, 1) // the first of the two puts a token into late
	go func() {
		defer close(done)
		defer func() { <-lookups }()
		e, err = look()
		select {
		case late <- struct{}{}:
		default: // nobody waits
			if err == nil {
				e.Release()
			}
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
		select {
		case late <- struct{}{}:
			return nil, ctx.Err()
		default:
			<-done
		}
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

func newEnclosure(c ptyio.Confinement, unisolated string) (*enclosure, error) {
	c.Policy = c.Policy.Clone()
	found, err := places.Find(c, places.DefaultBounds)
	if err != nil {
		return nil, err
	}
	return finishEnclosure(c, found, unisolated)
}

func finishEnclosure(c ptyio.Confinement, found *places.Found, unisolated string) (*enclosure, error) {
	readable, err := places.Everything()
	if err != nil {
		found.Close()
		return nil, &messages.Error{Code: messages.ErrUnsupported, Op: "confine", Subject: "/", Detail: "it cannot be read (" + err.Error() + "); let the host read it"}
	}
	e := &enclosure{confinement: c, found: found, unisolated: unisolated, readable: readable, numbers: map[*wardenProcess]uint64{}}
	e.enforced, e.refused = e.enforcement()
	return e, nil
}

// Confinement implements ptyio.Enclosure.
func (e *enclosure) Confinement() ptyio.Confinement { return e.confinement }

// Check implements ptyio.Enclosure.
func (e *enclosure) Check() error { return e.found.Check() }

// Widen implements ptyio.Enclosure.
func (e *enclosure) Widen(ctx context.Context, more messages.AdditionalPermissions, dir string) (ptyio.Enclosure, error) {
	if err := e.use(); err != nil {
		return nil, err
	}
	c := e.confinement
	more = more.Clone()
	c.Additional, c.AdditionalDir = &more, dir
	return enclose(ctx, func() (*enclosure, error) {
		defer e.unuse()
		found, err := e.found.Widen(more, dir, c.Policy.ProtectedNames)
		if err != nil {
			return nil, err
		}
		return finishEnclosure(c, found, e.unisolated)
	})
}

// Release implements ptyio.Enclosure.
func (e *enclosure) Release() {
	e.mu.Lock()
	first := !e.released
	e.released = true
	over := first && e.users == 0
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
	e.mu.Lock()
	numbers := maps.Clone(e.numbers) // one that could not be told is forgotten, at any time
	e.mu.Unlock()
	for p, number := range numbers {
		p.withdraw(number)
	}
	for _, rules := range []*os.File{e.plain, e.spare} {
		if rules != nil {
			_ = rules.Close()
		}
	}
	e.readable.Release()
	e.found.Close()
}

// enter returns the parts of its enclosure that a start needs, until done is called. Only a confined start gets a rule set;
// an isolated one makes its own, inside.
func enter(start ptyio.Start) (e *enclosure, rules *os.File, done func(), err error) {
	e, is := start.Sandbox.(*enclosure)
	if !is || e.enforced.Level == messages.AssuranceNone {
		return e, nil, func() {}, nil
	}
	if err := e.use(); err != nil {
		return nil, nil, nil, err
	}
	if e.enforced.Level == messages.AssuranceIsolated {
		return e, nil, e.unuse, nil
	}
	var terminal *os.File
	if start.TTY {
		terminal = start.Files[0]
	}
	rules, own, err := e.ruleset(terminal)
	if err != nil {
		e.unuse()
		return nil, nil, nil, err
	}
	return e, rules, func() {
		if !own {
			e.unuse()
			return
		}
		go func() { // the start need not wait for either
			defer e.unuse()
			_ = rules.Close()
			e.prepare()
		}()
	}, nil
}

// level returns how much the warden enforces.
func (e *enclosure) level() confine.Level {
	switch {
	case e == nil || e.enforced.Level == messages.AssuranceNone:
		return confine.None
	case e.enforced.Level == messages.AssuranceIsolated:
		return confine.Isolated
	}
	return confine.Confined
}

// enforces returns what is enforced for its commands; nil without an enclosure.
func (e *enclosure) enforces() *messages.Enforcement {
	if e == nil {
		return nil
	}
	return &e.enforced
}

// alone returns the steps of a newborn that confines itself without a nursery; none without a rule set.
func (e *enclosure) alone(rules int) []birth.Step {
	if rules < 0 {
		return nil
	}
	return confine.Alone(rules, confine.KindOf(&e.found.Plan))
}

// ruleset returns a Landlock rule set for a start on this terminal, or on none. It is called between use and unuse. If own
// is set, the caller must close the file.
func (e *enclosure) ruleset(terminal *os.File) (file *os.File, own bool, err error) {
	if terminal == nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.plain == nil {
			e.plain, err = e.newRuleset()
		}
		return e.plain, false, err
	}
	e.mu.Lock()
	file, e.spare = e.spare, nil
	e.mu.Unlock()
	if file == nil {
		if file, err = e.newRuleset(); err != nil {
			return nil, false, err
		}
	}
	err = wire.Hold([]*os.File{file, terminal}, func(fds []int) error {
		return confine.Allow(fds[0], confine.Allowed{FD: fds[1], Rights: confine.UseDevice})
	})
	if err != nil {
		_ = file.Close()
		return nil, false, &ptyio.StepError{Step: "landlock rules", Errno: errnoOf(err)}
	}
	return file, true, nil
}

// prepare makes a rule set for the next launch on a terminal, unless there is one, because that takes a twentieth of a
// start. It is called while the enclosure is in use.
func (e *enclosure) prepare() {
	e.mu.Lock()
	wanted := e.spare == nil && !e.released
	e.mu.Unlock()
	if !wanted {
		return
	}
	file, err := e.newRuleset()
	if err != nil {
		return // the launch will report the error
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.spare != nil {
		_ = file.Close()
		return
	}
	e.spare = file
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
