package sandbox

import (
	"context"
	"maps"
	"os"
	"sync"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/places"
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
	spare    *terminalRules            // of an earlier launch on a terminal; nil for none
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

// Unchanged implements ptyio.Unchanging.
func (e *enclosure) Unchanged(identify func(path string, symlinks bool) (device, inode uint64, known bool)) bool {
	return e.found.Unchanged(identify)
}

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
		found, err := e.found.Widen(more, dir)
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
	if e.plain != nil {
		_ = e.plain.Close()
	}
	if e.spare != nil {
		e.spare.close()
	}
	e.readable.Release()
	e.found.Close()
}

// enter returns the parts of its enclosure that a start needs, until done is called, which is told whether the program has been
// executed. Only a confined start gets a rule set; an isolated one makes its own, inside. A warden knows the rule set for launches
// without a terminal; a start without a warden is alone.
func enter(start ptyio.Start, alone bool) (e *enclosure, rules *os.File, done func(executed bool), err error) {
	e, is := start.Sandbox.(*enclosure)
	if !is || e.enforced.Level == messages.AssuranceNone {
		return e, nil, func(bool) {}, nil
	}
	if err := e.use(); err != nil {
		return nil, nil, nil, err
	}
	var own *terminalRules
	switch {
	case e.enforced.Level == messages.AssuranceIsolated:
	case start.TTY:
		if own, err = e.onTerminal(start.Files[0]); err == nil {
			rules = own.file
		}
	case alone:
		rules, err = e.plainRules()
	}
	if err != nil {
		e.unuse()
		return nil, nil, nil, err
	}
	return e, rules, func(executed bool) {
		if own != nil && executed {
			e.giveBack(own)
		} else if own != nil {
			own.close()
		}
		e.unuse()
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

// alone returns the steps of a newborn that installs its filter itself; none without a rule set.
func (e *enclosure) alone(rules int) []birth.Step {
	if rules < 0 {
		return nil
	}
	return confine.Alone(rules, confine.KindOf(&e.found.Plan))
}
