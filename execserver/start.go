package execserver

import (
	"context"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/internal/label"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/patch/writer"
	"github.com/execbus/execbus/ptyio"
)

// maxID bounds the ids that clients choose, in bytes: the server keeps them longer than the message.
const maxID = 1024

// start starts a process. The start goes on if the connection ends.
func start(c *connection, params wire.StartParams) (later, error) {
	switch {
	case len(params.Argv) == 0:
		return nil, wire.Refuse(wire.InvalidParams, "argv must not be empty; name a program")
	case len(params.ProcessID) > maxID:
		return nil, wire.Refuse(wire.InvalidParams, "params.processId has more than %d bytes; use a shorter one", maxID)
	case params.EnforceManagedNetwork || params.ManagedNetwork != nil || params.NetworkProxy != nil:
		return nil, wire.Refuse(wire.InvalidParams, "this server manages no network; leave params.enforceManagedNetwork, params.managedNetwork and params.networkProxy out")
	}
	dir, err := localPath("params.cwd", params.Cwd)
	if err != nil {
		return nil, err
	}
	if !c.server.enter() {
		return nil, wire.Refuse(wire.Internal, "the server is closing")
	}
	ctx, cancel := context.WithCancel(c.session.ctx)
	p := &process{id: params.ProcessID, session: c.session, tty: params.TTY, stdin: params.TTY || params.PipeStdin, cancel: cancel,
		started: make(chan struct{}), unanswered: true, asked: [questions]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}}
	p.about = messages.ProcessInfo{Call: messages.CallID(p.id), Owner: c.session.client, Label: label.Of("", params.Argv), Dir: dir, TTY: p.tty, Began: time.Now()}
	if params.Size != nil {
		p.about.Size = messages.Size{Rows: params.Size.Rows, Cols: params.Size.Cols}
	}
	if params.Limits != nil {
		p.about.Limits = *params.Limits
	}
	p.past.room = wire.RetainedBytes
	if c.session.has(wire.ExtensionFlow) { // such a client gets all output, and keeps it where it likes
		p.past.room = wire.FlowBytes
	} else if c.server.output.Keeps() {
		p.spooling.file = c.server.output.New()
	}
	if err := c.session.reserve(p); err != nil {
		cancel()
		c.server.running.Done()
		return nil, err
	}
	var failed error
	go func() {
		defer close(p.started)
		defer cancel()
		failed = p.start(ctx, params, dir)
	}()
	return func(ctx context.Context) (any, error) {
		select {
		case <-p.started:
			if failed != nil {
				return nil, failed
			}
			return startedResult{p.result(), func() { p.announce(c) }}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}, nil
}

// startedResult is an answer after which notifications may come.
type startedResult struct {
	wire.StartResult
	then func()
}

func (r startedResult) answered() { r.then() }

// start spawns the child. If it fails, the id is free again.
func (p *process) start(ctx context.Context, params wire.StartParams, dir string) error {
	launch, err := p.launch(ctx, params, dir)
	if err == nil {
		var child ptyio.Child
		if child, err = p.session.server.spawner.Spawn(ctx, launch); err == nil {
			return p.begun(child)
		}
	}
	p.session.unlist(p)
	p.session.over()
	p.session.server.running.Done()
	if ctx.Err() != nil && p.session.ctx.Err() == nil {
		return wire.Refuse(wire.InvalidRequest, "process %s start was cancelled", p.id)
	}
	return err
}

// endTime bounds the wait for the end of a process whose start was cancelled.
const endTime = 10 * time.Second

// begun is called when the child runs. If the process was ended meanwhile, that was only noted, and begun ends the child: who is told
// that a start was cancelled can rely on it that nothing of it lives.
func (p *process) begun(child ptyio.Child) error {
	p.mu.Lock()
	stopped := p.stopped
	p.child, p.running = child, !stopped
	p.tellWatched()
	if stopped { // no client knows it, so nobody acknowledges its output
		p.discards, p.conn = true, nil
	}
	released := p.unpark()
	p.mu.Unlock()
	release(released)
	if !stopped {
		return nil
	}
	p.spooling.close()
	child.EndTree(0)
	p.awaitEnd()
	p.session.unlist(p)
	return wire.Refuse(wire.InvalidRequest, "process %s start was cancelled", p.id)
}

func (p *process) awaitEnd() {
	ctx, cancel := context.WithTimeout(p.session.server.ctx, endTime)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.over && p.wait(ctx) == nil {
	}
}

func (p *process) launch(ctx context.Context, params wire.StartParams, dir string) (ptyio.Launch, error) {
	launch := ptyio.Launch{Argv: params.Argv, Dir: dir, TTY: params.TTY, Unattended: params.Unattended, OpenStdin: params.PipeStdin,
		Merged: params.Merged, OnLeaderExit: params.OnLeaderExit, Events: p.receive}
	if launch.OnLeaderExit == "" {
		launch.OnLeaderExit = messages.LeaderExitKeepsTree // such a client ends the processes itself
	}
	if params.Arg0 != nil {
		launch.Argv0 = *params.Arg0
	}
	if params.Size != nil {
		launch.Size = messages.Size{Rows: params.Size.Rows, Cols: params.Size.Cols}
	}
	if params.GraceMs != nil {
		launch.Grace = new(time.Duration(*params.GraceMs) * time.Millisecond)
	}
	if params.Limits != nil {
		launch.Limits = *params.Limits
	}
	var err error
	if launch.Env, err = p.environment(ctx, params); err != nil {
		return launch, err
	}
	if launch.Sandbox, err = p.session.enclosure(ctx, params.Sandbox); err != nil || !params.Patches {
		return launch, err
	}
	own, err := patchProgram(ctx, p.session.server.spawner.Resolver())
	own.Sandbox, own.Events, own.OnLeaderExit, own.Grace = launch.Sandbox, launch.Events, launch.OnLeaderExit, launch.Grace
	return own, err
}

// patchProgram is how the program is started that reads and writes the files of patches on this machine.
func patchProgram(ctx context.Context, machine ptyio.Resolver) (ptyio.Launch, error) {
	if other, is := machine.(ptyio.Patcher); is {
		return other.PatchProgram(ctx)
	}
	if !ptyio.IsLocal(machine) {
		return ptyio.Launch{}, &messages.Error{Code: messages.ErrUnsupported, Op: "apply patch", Subject: "files",
			Detail: "the machine on which the server runs commands has no program that reads and writes them; change the files by commands"}
	}
	return writer.Launch()
}

// environment makes the environment. Without a policy it is exactly the one that the client sends.
func (p *process) environment(ctx context.Context, params wire.StartParams) ([]string, error) {
	var base []string
	var policy messages.EnvironmentPolicy
	if e := params.EnvPolicy; e == nil {
		policy.Inherit = messages.InheritNone
	} else {
		policy = messages.EnvironmentPolicy{Inherit: e.Inherit, DropSecrets: !e.IgnoreDefaultExcludes, Exclude: e.Exclude, Set: e.Set, IncludeOnly: e.IncludeOnly}
		var err error
		if base, err = p.session.server.environment(ctx); err != nil {
			return nil, err
		}
	}
	env, err := ptyio.BuildEnvironment(base, policy, nil)
	if err != nil {
		return nil, err
	}
	return ptyio.BuildEnvironment(env, messages.EnvironmentPolicy{Set: params.Env}, nil)
}

// result describes a process that has begun.
func (p *process) result() wire.StartResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	result := wire.StartResult{ProcessID: p.id, SandboxType: wire.SandboxNone}
	if p.enforced != nil && p.enforced.Level != messages.AssuranceNone {
		result.SandboxType = wire.SandboxLinuxSeccomp
		if runtime.GOOS == "darwin" {
			result.SandboxType = wire.SandboxMacOSSeatbelt
		}
	}
	if p.session.has(wire.ExtensionEnds) {
		result.PID, result.Enforced = p.child.PID(), p.enforced
	}
	return result
}

// maxPath bounds a path, in bytes. The kernel takes none that is longer.
const maxPath = 4096

// localPath returns the path in a file: URI, or the text itself if it is an absolute path.
func localPath(field, text string) (string, error) {
	path, found := text, true
	if !strings.HasPrefix(text, "/") {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			found = false
		} else {
			path = u.Path
		}
	}
	if len(path) > maxPath {
		return "", wire.Refuse(wire.InvalidParams, "%s has more than %d bytes", field, maxPath)
	}
	if !found || !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return "", wire.Refuse(wire.InvalidParams, "%s is neither an absolute path nor a file: URI of one: %.200q", field, text)
	}
	return filepath.Clean(path), nil
}

// acknowledge notes that the client has all events up to a number.
func (p *process) acknowledge(seq uint64) {
	p.mu.Lock()
	if position := p.past.upTo(min(seq, p.past.now.seq)); position.seq > p.acked.seq {
		p.acked = position
	}
	released := p.unpark()
	p.retire()
	p.mu.Unlock()
	release(released)
}

// retire lets the session forget a process that is over, at the latest when a timer ends: from the process's end on, or, if the client
// acknowledges events, when it has acknowledged the last one. It is called with the lock.
func (p *process) retire() {
	if !p.over || p.retired || p.session.has(wire.ExtensionFlow) && p.acked.seq < p.past.now.seq {
		return
	}
	p.retired = true
	p.session.retire(p)
	time.AfterFunc(p.session.server.options.patience.retention, func() { p.session.forget(p) })
}

// errUnknown is for requests about a process that does not exist, or no longer exists.
func errUnknown(id string) error {
	return wire.Refuse(wire.InvalidRequest, "unknown process id %.200s", id)
}

// errStarting is for requests about a process that does not run yet.
func errStarting(id string) error {
	return wire.Refuse(wire.InvalidRequest, "process id %s is starting; try again when its start is answered", id)
}
