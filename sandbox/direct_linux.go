package sandbox

import (
	"context"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/tree"
)

// closeGrace is what the trees get when a spawner is closed.
const closeGrace = 500 * time.Millisecond

// direct forks from the host.
type direct struct {
	forest *tree.Forest
	leaks  int // descriptors from 3 to below leaks are closed in children unless a launch names them
	closed chan struct{}
}

func newDirect() (ptyio.Spawner, error) {
	return &direct{forest: tree.NewForest(), leaks: leaks(), closed: make(chan struct{})}, nil
}

// leaks finds the descriptors this process inherited from its own parent without close-on-exec. Go makes none later.
func leaks() int {
	highest := 3
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd < 3 || fd > ptyio.MaxInheritedFD {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			highest = max(highest, fd+1)
		}
	}
	return highest
}

func (d *direct) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	return ptyio.Spawn(ctx, launch, d)
}

// Start implements ptyio.Starter.
func (d *direct) Start(ctx context.Context, start ptyio.Start) (ptyio.Leader, error) {
	select {
	case <-d.closed:
		return nil, errClosed()
	case <-ctx.Done():
		return nil, ctx.Err()
	default:
	}
	files := make([]uintptr, max(len(start.Files), d.leaks))
	for i := range files {
		files[i] = ^uintptr(0)
	}
	for i, file := range start.Files {
		if file == nil {
			continue
		}
		raw, err := file.SyscallConn()
		if err != nil {
			return nil, err
		}
		if err := raw.Control(func(fd uintptr) { files[i] = fd }); err != nil {
			return nil, err
		}
	}
	t, err := d.forest.Start(tree.Spec{
		Program: start.Program, Argv: start.Argv, Env: start.Env, Dir: start.Dir, Files: files,
		TTY: start.TTY, Keep: start.Keep, Grace: start.Grace,
		Exited: func(status messages.ExitStatus) { start.Exited(status, nil) }, Ended: start.TreeEnded,
	})
	if err != nil {
		return nil, err
	}
	go t.Watch()
	return directLeader{t}, nil
}

// Close implements ptyio.Spawner. The host stops spawning before.
func (d *direct) Close() error {
	select {
	case <-d.closed:
	default:
		close(d.closed)
	}
	d.forest.EndAll(closeGrace)
	return nil
}

type directLeader struct{ *tree.Tree }

func (l directLeader) Signal(sig syscall.Signal, group int) error { return l.Tree.Signal(sig, group) }

// EndTree implements ptyio.Leader.
func (l directLeader) EndTree(grace time.Duration) { l.End(grace) }

func errClosed() error {
	return &messages.Error{Code: messages.CodeClosed, Op: "spawn", Detail: "the spawner is closed"}
}
