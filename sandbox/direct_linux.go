package sandbox

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/tree"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// closeGrace is the grace of the trees when a spawner is closed.
const closeGrace = 500 * time.Millisecond

// direct forks from the host.
type direct struct {
	forest *tree.Forest
}

func newDirect() (ptyio.Spawner, error) { return newForking(), nil }

func newForking() *direct { return &direct{forest: tree.NewForest()} }

func (d *direct) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	return spawn(ctx, launch, d)
}

// Can implements ptyio.Spawner.
func (*direct) Can(launch ptyio.Launch) (messages.Enforcement, error) { return can(launch) }

// Start implements ptyio.Starter.
func (d *direct) Start(ctx context.Context, start ptyio.Start) (ptyio.Leader, error) {
	bounds, err := bind(&start)
	if err != nil {
		return nil, err
	}
	leader, err := d.start(ctx, start, bounds)
	if err != nil {
		bounds.remove()
		return nil, err
	}
	bounds.watch(leader.PID())
	return leader, nil
}

func (d *direct) start(ctx context.Context, start ptyio.Start, bounds *bounds) (ptyio.Leader, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if tree.Foreign() {
		return nil, errForeign()
	}
	var leader *tree.Tree
	e, rules, done, err := enter(start, true)
	if err != nil {
		return nil, err
	}
	defer func() { done(leader != nil) }()
	if e.level() == confine.Isolated { // the enclosure was made when there was still to be a warden
		return nil, &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: "sandbox", Enforceable: messages.AssuranceConfined,
			Detail: "commands are isolated by a warden, and this program cannot be executed as one; accept the least assurance \"confined\""}
	}
	err = wire.Hold(append(start.Files[:len(start.Files):len(start.Files)], rules), func(fds []int) error {
		last := len(fds) - 1
		leader, err = d.fork(start, fds[:last], bounds, e.alone(fds[last]))
		return err
	})
	if err != nil {
		return nil, err
	}
	start.Taken() // the output of a terminal does not end while we hold it open
	go leader.Watch()
	return directLeader{leader, enforcedFor(e, start.Limits)}, nil
}

func (d *direct) fork(start ptyio.Start, fds []int, bounds *bounds, steps []birth.Step) (*tree.Tree, error) {
	var exited sync.Once
	t, err := d.forest.Start(tree.Spec{
		Program: start.Program, Argv: start.Argv, Env: start.Env, Dir: start.Dir, Files: fds,
		TTY: start.TTY, Keep: start.Keep, Grace: start.Grace, Confine: steps,
		Groups: descriptors(bounds.join()), Rlimits: bounds.rlimits(),
		Exited: func(status tree.Status) {
			exited.Do(func() { start.Exited(exitStatus(status), nil) })
		},
		Left: start.Background,
		Ended: func(report tree.Report) {
			exited.Do(func() { start.Exited(messages.StatusNone(), errNotKilled()) })
			start.TreeEnded(treeReport(report))
		},
	})
	if errors.Is(err, tree.ErrClosed) {
		return nil, errClosed()
	}
	if step, ok := errors.AsType[*birth.Error](err); ok {
		return nil, stepError(step.Step, step.Errno)
	}
	return t, err
}

func descriptors(files []*os.File) (fds []int) {
	for _, file := range files {
		fds = append(fds, int(file.Fd()))
	}
	return fds
}

// Resolver implements ptyio.Spawner.
func (*direct) Resolver() ptyio.Resolver { return ptyio.Local() }

// Close implements ptyio.Spawner.
func (d *direct) Close() error {
	d.forest.EndAll(closeGrace)
	return nil
}

type directLeader struct {
	*tree.Tree
	enforced *messages.Enforcement // nil if nothing was to be enforced
}

func (l directLeader) Signal(sig syscall.Signal, group int) error { return l.Tree.Signal(sig, group) }

// EndTree implements ptyio.Leader.
func (l directLeader) EndTree(grace time.Duration) { l.End(grace) }

// Prompt implements ptyio.Prompt: signals are sent and an ending is begun, but nothing is waited for.
func (directLeader) Prompt() {}

// Prompt implements ptyio.Prompt.
func (*direct) Prompt() {}

func errClosed() error {
	return &messages.Error{Code: messages.ErrClosed, Op: "spawn", Detail: "the spawner is closed"}
}

func errNotKilled() error {
	return &messages.Error{Code: messages.ErrRuntimeFailure, Op: "end", Detail: "the leader could not be killed"}
}

// Enforced implements ptyio.Leader.
func (l directLeader) Enforced() *messages.Enforcement { return l.enforced }
