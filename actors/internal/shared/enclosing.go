package shared

import (
	"context"
	"path/filepath"

	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// enclosing is the lookup of the paths in a session's sandbox policy. The spawner does it once, when the policy is set,
// and not for each command. The result is there when done is closed.
type enclosing struct {
	done      chan struct{}
	enclosure ptyio.Enclosure
	err       error
	release   context.CancelFunc
}

// Confinement returns the confinement of a session, which the spawner has to look up. base is the environment of the host, never
// that of a command. Protected are paths that no command may change.
func Confinement(policy messages.SandboxPolicy, least messages.Assurance, dir string, base, protected []string) ptyio.Confinement {
	return ptyio.Confinement{Policy: policy, Dir: dir, TempDir: TempDir(base), Least: least, Protected: protected}
}

// TempDir is the directory for temporary files that an environment names; empty if it names none.
func TempDir(base []string) string {
	if temp := Variable(base, "TMPDIR"); filepath.IsAbs(temp) {
		return temp
	}
	return ""
}

// Enclose begins the lookup for settings that are not in use yet, as work that detach runs. Its result is released when the
// settings are replaced, and with the session.
func (s *Settings) Enclose(detach func(func(context.Context) any), spawner ptyio.Spawner, protected []string) {
	s.Enclosing = nil
	if !s.Sandbox.Confined() {
		return
	}
	e := &enclosing{done: make(chan struct{}), err: errEnclosureCrashed}
	wanted, release := context.WithCancel(context.Background())
	e.release = release
	s.Enclosing = e
	confinement := Confinement(s.Sandbox, s.Least, s.Dir, s.Base, protected)
	if s.Network != nil {
		confinement.Proxy = s.Network.Serve
		confinement.Names, confinement.ByName = s.Network.ServeNames, s.ByName
	}
	detach(func(alive context.Context) any {
		stop := context.AfterFunc(alive, release)
		context.AfterFunc(wanted, func() { stop() }) // the session may live long
		defer close(e.done)
		e.enclosure, e.err = Enclosed(spawner.Enclose(wanted, confinement))
		if e.err == nil {
			context.AfterFunc(wanted, func() { hostcode.Run(e.enclosure.Release) })
		}
		return nil
	})
}

// Wait waits for the result.
func (e *enclosing) Wait(ctx context.Context) (ptyio.Enclosure, error) {
	select {
	case <-e.done:
		return e.enclosure, e.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Enclosed makes sure that there is an enclosure or an error: without an enclosure nothing would be confined.
func Enclosed(e ptyio.Enclosure, err error) (ptyio.Enclosure, error) {
	if e == nil && err == nil {
		err = errNoEnclosure
	}
	return e, err
}

// Over releases the resources of the settings.
func (e *enclosing) Over() {
	if e != nil {
		e.release()
	}
}

// Known reports whether the lookup is over.
func (e *enclosing) Known() bool {
	if e == nil {
		return true
	}
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

var errNoEnclosure = &messages.Error{Code: messages.ErrRuntimeFailure, Op: "confine",
	Detail: "the spawner returned neither a sandbox nor an error", Hint: "see ptyio.Spawner.Enclose and ptyio.Enclosure.Widen"}

var errEnclosureCrashed = &messages.Error{Code: messages.ErrRuntimeFailure, Op: "confine",
	Detail: "the spawner crashed while it looked up the paths of the sandbox policy", Hint: "ptyio.Spawner.Enclose panicked"}
