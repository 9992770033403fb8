package sandbox

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
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
	starts atomic.Int32
	brief  atomic.Bool // the last leader that has exited, or outlived its wait, was over within briefWait
}

// exitWait is how long a start that is alone waits for the leader's exit. So neither a goroutine nor the poller waits for the exit of a
// short command: on a machine with two processors, their work would hold the command up.
const exitWait = 250 * time.Microsecond

// briefWait replaces exitWait if the last leader lived no longer than this. /bin/true takes 0.15 ms on a fast machine, and 0.6 ms
// where page faults are slow.
const briefWait = time.Millisecond

func newDirect() (ptyio.Spawner, error) {
	if cannotExecute() == "" {
		birth.ExecuteAgain()
	}
	return newForking(), nil
}

func newForking() *direct { return &direct{forest: tree.NewForest()} }

func (d *direct) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	return spawn(ctx, launch, d)
}

// Can implements ptyio.Spawner.
func (*direct) Can(launch ptyio.Launch) (messages.Enforcement, error) { return can(launch) }

// Start implements ptyio.Starter.
func (d *direct) Start(ctx context.Context, start ptyio.Start) (ptyio.Leader, error) {
	d.starts.Add(1)
	defer d.starts.Add(-1)
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
	l := directLeader{leader, enforcedFor(e, start.Limits)}
	if d.starts.Load() == 1 && d.over(leader) {
		start.Born(l, true)
		leader.Exit()
	} else {
		go leader.Watch()
	}
	return l, nil
}

// over waits a little for the leader's exit, and reports whether it has come.
func (d *direct) over(leader *tree.Tree) bool {
	wait := exitWait
	if d.brief.Load() {
		wait = briefWait
	}
	over := leader.Soon(wait)
	if !over {
		d.brief.Store(false)
	}
	return over
}

func (d *direct) fork(start ptyio.Start, fds []int, bounds *bounds, steps []birth.Step) (*tree.Tree, error) {
	var exited sync.Once
	var began time.Time // set before the leader is watched
	t, err := d.forest.Start(tree.Spec{
		Program: start.Program, Argv: start.Argv, Env: start.Env, Dir: start.Dir, Files: fds,
		TTY: start.TTY, Keep: start.Keep, Grace: start.Grace, Confine: steps,
		Groups: descriptors(bounds.join()), Rlimits: bounds.rlimits(),
		Exited: func(status tree.Status) {
			d.brief.Store(time.Since(began) <= briefWait)
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
	if err != nil {
		return nil, err
	}
	began = time.Now()
	return t, nil
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
