package host

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
	"github.com/execbus/execbus/sandbox/internal/procs"
	"github.com/execbus/execbus/sandbox/internal/tree"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// closeGrace is the grace of the trees when a spawner is closed.
const closeGrace = 500 * time.Millisecond

// Direct starts leaders by forking from the host. It is safe for concurrent use.
type Direct struct {
	readable
	forest *tree.Forest
}

// NewDirect returns a starter without trees.
func NewDirect() *Direct { return &Direct{forest: tree.NewForest()} }

// Start starts a leader.
func (d *Direct) Start(ctx context.Context, start Start) (ptyio.Leader, error) {
	bounds, err := bind(&start.Start)
	if err != nil {
		return nil, err
	}
	leader, err := d.start(ctx, start, bounds)
	if err != nil {
		bounds.group.Remove()
		return nil, err
	}
	bounds.watch(leader.PID())
	return leader, nil
}

func (d *Direct) start(ctx context.Context, start Start, bounds *bounds) (ptyio.Leader, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if procs.Foreign() {
		return nil, errForeign()
	}
	if start.Executions != nil { // it was to be started when there was still to be a warden
		return nil, &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: "executions",
			Detail: "a warden sees what commands execute, and this program cannot be executed as one; run the command again"}
	}
	var rules *os.File
	switch levelOf(start.Enclosure) {
	case confine.Isolated: // the enclosure was made when there was still to be a warden
		return nil, &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: "sandbox", Enforceable: messages.AssuranceConfined,
			Detail: "commands are isolated by a warden, and this program cannot be executed as one; accept the least assurance \"confined\""}
	case confine.Confined:
		if rules = start.Enclosure.rules; start.TTY {
			var err error
			if rules, err = start.Enclosure.withTerminal(start.Files[0]); err != nil {
				return nil, err
			}
			defer rules.Close()
		}
	}
	var leader *tree.Tree
	err := wire.Hold(append(start.Files[:len(start.Files):len(start.Files)], rules), func(fds []int) (err error) {
		last := len(fds) - 1
		var confining []birth.Step
		if rules != nil {
			confining = confine.Alone(fds[last], confine.KindOf(start.Enclosure.plan))
		}
		leader, err = d.fork(start.Start, fds[:last], bounds, confining)
		return err
	})
	if err != nil {
		return nil, err
	}
	go leader.Watch()
	return directLeader{leader, start.Enforced, os.Getpid(), &observation{}}, nil
}

func (d *Direct) fork(start ptyio.Start, fds []int, bounds *bounds, steps []birth.Step) (*tree.Tree, error) {
	var exited sync.Once
	t, err := d.forest.Start(tree.Spec{
		Program: start.Program, Argv: start.Argv, Env: start.Env, Dir: start.Dir, Files: fds,
		TTY: start.TTY, Keep: start.Keep, Grace: start.Grace, Confine: steps,
		Groups: descriptors(bounds.group.Join()), Rlimits: bounds.rlimits(),
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

// Ready does nothing: there is no warden.
func (*Direct) Ready(context.Context) error { return nil }

// Refresh does nothing: leaders inherit from this process itself.
func (*Direct) Refresh() {}

// Forget says that no start will use an enclosure any more.
func (*Direct) Forget(e *Enclosure) { e.close() }

// Close ends all trees and waits for their ends.
func (d *Direct) Close() error {
	d.forest.EndAll(closeGrace)
	d.readable.close()
	return nil
}

type directLeader struct {
	*tree.Tree
	enforced *messages.Enforcement // nil if nothing was to be enforced
	parent   int
	// observed is for those that ask what it waits for.
	observed *observation
}

func (l directLeader) Signal(sig syscall.Signal, group int) error { return l.Tree.Signal(sig, group) }

// EndTree implements ptyio.Leader.
func (l directLeader) EndTree(grace time.Duration) { l.End(grace) }

// Prompt implements ptyio.Prompt: signals are sent and an ending is begun, but nothing is waited for.
func (directLeader) Prompt() {}

// Enforced implements ptyio.Leader.
func (l directLeader) Enforced() *messages.Enforcement { return l.enforced }

func exitStatus(status tree.Status) messages.ExitStatus {
	switch status.Kind {
	case tree.Exited:
		return messages.StatusExited(status.Number)
	case tree.Signaled:
		return messages.StatusSignaled(syscall.Signal(status.Number))
	default:
		return messages.StatusNone()
	}
}

func treeReport(report tree.Report) messages.TreeReport {
	var survivors []messages.Survivor
	for _, s := range report.Survivors {
		survivors = append(survivors, messages.Survivor(s))
	}
	return messages.TreeReport{Ended: report.Ended, Survivors: survivors, Airtight: report.Airtight}
}

func errNotKilled() error {
	return &messages.Error{Code: messages.ErrRuntimeFailure, Op: "end", Detail: "the leader could not be killed"}
}
