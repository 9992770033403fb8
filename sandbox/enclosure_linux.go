package sandbox

import (
	"cmp"
	"context"
	"sync"

	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/host"
	"github.com/execbus/execbus/sandbox/internal/paths"
)

// enclosure is a confinement whose paths have been looked up, with what is enforced of it.
type enclosure struct {
	*paths.Found
	spawner     *spawner
	confinement ptyio.Confinement
	enforced    messages.Enforcement
	refused     error           // why it is not enforced
	made        *host.Enclosure // nil if it is refused

	// mu guards the fields below, which starts and Release share: a descriptor must stay open until the start that uses it
	// has it.
	mu       sync.Mutex
	released bool
	users    int // starts under way
}

var levels = map[messages.Assurance]confine.Level{messages.AssuranceConfined: confine.Confined, messages.AssuranceIsolated: confine.Isolated}

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
		e := &enclosure{Found: found, spawner: s, confinement: c}
		if e.enforced, e.refused = e.enforcement(); e.refused != nil {
			return e, nil
		}
		if e.made, err = s.starter.Enclose(&found.Plan, found.Files, levels[e.enforced.Level], served(c)); err != nil {
			found.Close()
			return nil, err
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
		return e.Found.Widen(more, dir)
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
	if e.made != nil {
		e.spawner.starter.Forget(e.made)
	}
	e.Close()
}

// served passes the sockets of a network on to the owner of the proxy.
func served(c ptyio.Confinement) func(*host.Sockets) {
	return func(s *host.Sockets) {
		c.Proxy(s.Proxy)
		if s.Packets != nil {
			c.Names(s.Packets, s.ByName)
		}
	}
}
