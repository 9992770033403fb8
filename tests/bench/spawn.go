package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/creack/pty"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

const program = "/bin/true"

// eventPatience bounds the wait for an event: a missing event must not hang the run.
const eventPatience = 30 * time.Second

func spawnCases() []benchCase {
	spawn := func(name, about string, direct, tty bool, limit float64, slowest judge) benchCase {
		bare := bareOnPipes
		if tty {
			bare = bareOnPTY
		}
		return benchCase{name: name, about: about,
			metrics: []metric{{unit: microseconds, judge: atMost, limit: limit}, {name: "p99", unit: microseconds, judge: slowest, limit: 1.5},
				{name: "tree", unit: microseconds}},
			run: func(ctx context.Context, h *harness) ([]value, error) {
				return compareSpawns(ctx, h, bare, sandbox.Options{Direct: direct}, tty)
			}}
	}
	return []benchCase{
		spawn("spawn-pty-direct", "/bin/true on a PTY, forked by the host", true, true, 1.1, atMost),
		spawn("spawn-pty-warden", "/bin/true on a PTY, forked by the warden", false, true, 1.15, inform),
		spawn("spawn-pipes-direct", "/bin/true on pipes, forked by the host", true, false, 1.2, inform),
		spawn("spawn-pipes-warden", "/bin/true on pipes, forked by the warden", false, false, 1.4, inform),
		spawnsAtOnce("spawn-64-direct", "64 times /bin/true on a PTY at once, forked by the host", true, 1.2),
		spawnsAtOnce("spawn-64-warden", "64 times /bin/true on a PTY at once, forked by the warden", false, 1.15),
	}
}

// compareSpawns alternates between the ways within each pair.
func compareSpawns(ctx context.Context, h *harness, bare func() (time.Duration, error), options sandbox.Options, tty bool) ([]value, error) {
	s, err := newSpawns(options, tty)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if _, err := bare(); err != nil {
		return nil, wrap("bare", err)
	}
	return compareWays(ctx, h, h.some(200, 40), bare, s.once)
}

func compareWays(ctx context.Context, h *harness, turns int, bare func() (time.Duration, error),
	once func(context.Context) (took, tree time.Duration, err error)) ([]value, error) {
	return h.collect(ctx, func(ctx context.Context, _ int) (b, o []float64, err error) {
		var bares, ours, trees []float64
		for range turns {
			if ctx.Err() != nil {
				return nil, nil, ctx.Err()
			}
			took, err := bare()
			if err != nil {
				return nil, nil, wrap("bare", err)
			}
			bares = append(bares, micros(took))
			took, tree, err := once(ctx)
			if err != nil {
				return nil, nil, wrap("ours", err)
			}
			ours, trees = append(ours, micros(took)), append(trees, micros(tree))
		}
		return []float64{median(bares), quantile(bares, 0.99), median(bares)}, []float64{median(ours), quantile(ours, 0.99), median(trees)}, nil
	})
}

// spawnsAtOnce compares as many spawns at once as a session may have commands, to the last of them.
func spawnsAtOnce(name, about string, direct bool, limit float64) benchCase {
	return benchCase{name: name, about: about,
		metrics: []metric{{unit: microseconds, judge: atMost, limit: limit}, {name: "p99", unit: microseconds}, {name: "trees", unit: microseconds}},
		run: func(ctx context.Context, h *harness) ([]value, error) {
			s, err := newSpawns(sandbox.Options{Direct: direct}, true)
			if err != nil {
				return nil, err
			}
			defer s.close()
			bare := func() (time.Duration, error) {
				began := time.Now()
				err := together(manyExecs, func() error {
					_, err := bareOnPTY()
					return err
				})
				return time.Since(began), err
			}
			return compareWays(ctx, h, h.some(15, 5), bare, s.many)
		}}
}

// many is so many spawns at once. It returns the time to the last of what once returns.
func (s *spawns) many(ctx context.Context) (took, trees time.Duration, err error) {
	var last atomic.Int64
	began := time.Now()
	err = together(manyExecs, func() error {
		at := time.Since(began)
		took, _, err := s.once(ctx)
		for end := int64(at + took); ; {
			before := last.Load()
			if before >= end || last.CompareAndSwap(before, end) {
				return err
			}
		}
	})
	return time.Duration(last.Load()), time.Since(began), err
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func bareOnPTY() (time.Duration, error) {
	began := time.Now()
	cmd := exec.Command(program)
	cmd.Env, cmd.Dir = environment(), "/"
	terminal, err := pty.Start(cmd)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, terminal) // EIO is the end
	_ = terminal.Close()
	err = cmd.Wait()
	return time.Since(began), err
}

func bareOnPipes() (time.Duration, error) { return bareWith(environment()) }

func bareWith(env []string) (time.Duration, error) {
	began := time.Now()
	cmd := exec.Command(program)
	cmd.Env, cmd.Dir = env, "/"
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	return time.Since(began), err
}

// environment returns the environment of both ways.
func environment() []string { return []string{"PATH=" + os.Getenv("PATH"), "TERM=dumb"} }

// spawns starts the same program again and again.
type spawns struct {
	spawner ptyio.Spawner
	argv    []string
	tty     bool
	sandbox ptyio.Enclosure // nil for none
}

// newSpawns includes the first spawn, which starts the warden.
func newSpawns(options sandbox.Options, tty bool) (*spawns, error) {
	spawner, err := sandbox.New(options)
	if err != nil {
		return nil, err
	}
	s := &spawns{spawner: spawner, argv: []string{program}, tty: tty}
	if _, _, err := s.once(context.Background()); err != nil {
		s.close()
		return nil, wrap("ours", err)
	}
	return s, nil
}

func (s *spawns) close() { _ = s.spawner.Close() }

// once returns the time until status and output were known, and until the tree had ended.
func (s *spawns) once(ctx context.Context) (took, tree time.Duration, err error) {
	patience := time.NewTimer(eventPatience)
	defer patience.Stop()
	began := time.Now()
	done, ended := make(chan time.Duration, 1), make(chan time.Duration, 1)
	var seen atomic.Int32
	var status messages.ExitStatus
	events := func(event ptyio.Event) {
		switch e := event.(type) {
		case ptyio.Output:
			e.Release()
			return
		case ptyio.TreeEnded:
			ended <- time.Since(began)
			return
		case ptyio.Exited:
			status = e.Status
		case ptyio.Spawned:
			return
		}
		if seen.Add(1) == 3 { // Exited, Drained, Closed
			done <- time.Since(began)
		}
	}
	_, err = s.spawner.Spawn(ctx, ptyio.Launch{Argv: s.argv, Env: environment(), Dir: "/", TTY: s.tty, Sandbox: s.sandbox, Events: events})
	if err != nil {
		return 0, 0, err
	}
	for took == 0 || tree == 0 {
		select {
		case took = <-done:
		case tree = <-ended:
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		case <-patience.C:
			return 0, 0, errors.New("the events of a child's end did not all come")
		}
	}
	if status != messages.StatusExited(0) {
		err = fmt.Errorf("%s ended with %s", s.argv[0], status)
	}
	return took, tree, err
}
