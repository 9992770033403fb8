package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

func layerRows() []row {
	all := []row{
		{name: "echo", about: "17 bytes to cat on a raw PTY and back, a child of the warden", open: func(ctx context.Context, s *scope) pair {
			return s.againstBareEcho(s.childEcho(ctx, s.spawner(sandbox.Options{})))
		}, metrics: []metric{{name: "median", judge: atMost, limit: 1.4}, {name: "p99", at: 0.99, judge: atMost, limit: 2}}},
		{name: "echo-loaded", about: "echo while a runtime reads 8 floods", open: besideFloods(func(ctx context.Context, s *scope) pair {
			return s.againstBareEcho(s.childEcho(ctx, s.spawner(sandbox.Options{})))
		}), metrics: []metric{{name: "median", judge: atMost, limit: 1.5}, {name: "p99", at: 0.99, judge: atMost, limit: 2}, {name: "floods", of: "floods", unit: megabytes}}},
		{name: "flood", about: "64 MiB through a PTY, a child of the warden", metrics: floodMetrics(metric{judge: atLeast, limit: 1.1}),
			open: func(ctx context.Context, s *scope) pair {
				return floodPair(ctx, bareFlood, childFlood(s.spawner(sandbox.Options{})))
			}},
		{name: "exec-beside-direct", about: "exec-result beside 1,000 idle shells where the host forks, and os/exec", metrics: ratio(1.5),
			open: func(ctx context.Context, s *scope) pair {
				session := s.besideShells(ctx, execbus.Options{Spawner: s.spawner(sandbox.Options{Direct: true})}, manyShells)
				return pair{bare: bareRuns(environmentOf(ctx, session), false, 1), ours: s.plain(ctx, session), turns: s.turns()}
			}},
	}
	for _, way := range []string{"direct", "warden"} {
		options := sandbox.Options{Direct: way == "direct"}
		all = append(all,
			row{name: "spawn-pty-" + way, about: program + " on a PTY", open: spawns(options, true, 1), metrics: spawnMetrics(map[string]float64{"direct": 1.1, "warden": 1.45}[way])},
			row{name: "spawn-pipes-" + way, about: program + " on pipes", open: spawns(options, false, 1), metrics: spawnMetrics(map[string]float64{"direct": 1.2, "warden": 1.4}[way])},
			row{name: "spawn-64-" + way, about: "64 times spawn-pty at once, to the last", open: spawns(options, true, manyExecs), metrics: spawnMetrics(map[string]float64{"direct": 1.2, "warden": 1.15}[way])})
	}
	for i := range all {
		all[i].layer = true
	}
	return all
}

func (s *scope) spawner(options sandbox.Options) ptyio.Spawner {
	spawner := get(sandbox.New(options))
	s.after(func() { _ = spawner.Close() })
	return spawner
}

func spawnMetrics(limit float64) []metric { return ratio(limit, metric{name: "tree", of: "tree"}) }

// spawn is a loop that starts a program and notes the time until its status and output were known, and until its tree had
// ended.
func spawn(spawner ptyio.Spawner, tty bool, count int) loop {
	launch := ptyio.Launch{Argv: []string{program}, Env: environment(), Dir: "/", TTY: tty}
	once := func(ctx context.Context) (done time.Time, err error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		ends := make(chan time.Time, 4) // Exited, Drained, Closed and TreeEnded
		var status messages.ExitStatus
		var seen atomic.Int32
		launch := launch
		launch.Events = func(event ptyio.Event) {
			switch e := event.(type) {
			case ptyio.Output:
				e.Release()
				return
			case ptyio.Spawned:
				return
			case ptyio.TreeEnded:
				ends <- time.Time{}
				return
			case ptyio.Exited:
				status = e.Status
			}
			if seen.Add(1) == 3 {
				ends <- time.Now()
			}
		}
		_, err = spawner.Spawn(ctx, launch)
		for n := 0; n < 2 && err == nil; n++ {
			select {
			case at := <-ends:
				if !at.IsZero() {
					done = at
				}
			case <-ctx.Done():
				err = errors.New("the events of a child's end did not all come")
			}
		}
		if err == nil && status != messages.StatusExited(0) {
			err = fmt.Errorf("%s ended with %s", program, status)
		}
		return done, err
	}
	return func(ctx context.Context, took series) {
		began, done := time.Now(), make([]time.Time, count)
		must(together(count, func(i int) (err error) {
			done[i], err = once(ctx)
			return err
		}))
		took.add("", micros(slices.MaxFunc(done, time.Time.Compare).Sub(began)))
		took.add("tree", micros(time.Since(began)))
	}
}

func spawns(options sandbox.Options, tty bool, count int) opener {
	return func(ctx context.Context, s *scope) pair {
		ours := spawn(s.spawner(options), tty, count)
		ours(ctx, series{}) // starts the warden
		return pair{bare: bareRuns(environment(), tty, count), ours: ours, turns: max(s.turns()/count, 4)}
	}
}

// childEcho is an echo whose cat is a child of the spawner.
func (s *scope) childEcho(ctx context.Context, spawner ptyio.Spawner) trip {
	back := make(chan error, 2) // ready, then once for each message that came back
	var got []byte              // only the events of one stream touch it
	child := get(spawner.Spawn(ctx, ptyio.Launch{Argv: echoArgv, Env: environment(), Dir: "/", TTY: true, Events: func(event ptyio.Event) {
		switch event := event.(type) {
		case ptyio.Output:
			got = append(got, event.Bytes...)
			event.Release()
			if string(got) == "R" || bytes.Equal(got, message) {
				got = got[:0]
				back <- nil
			}
		case ptyio.Exited:
			back <- fmt.Errorf("cat ended with %s", event.Status)
		}
	}}))
	timer := time.NewTimer(patience)
	await := func(ctx context.Context) error {
		select {
		case err := <-back:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return errors.New("the bytes did not come back")
		}
	}
	must(await(ctx))
	return func(ctx context.Context) error {
		timer.Reset(patience)
		child.Write(message, time.Time{}, func(int, error) {})
		return await(ctx)
	}
}

// childFlood is a flood whose writer is a child of the spawner.
func childFlood(spawner ptyio.Spawner) flood {
	return func(ctx context.Context, argv []string) (came int) {
		closed := make(chan struct{})
		get(spawner.Spawn(ctx, ptyio.Launch{Argv: argv, Env: environment(), Dir: "/", TTY: true, Events: func(event ptyio.Event) {
			switch e := event.(type) {
			case ptyio.Output:
				came += len(e.Bytes)
				e.Release()
			case ptyio.Closed:
				close(closed)
			}
		}}))
		select {
		case <-closed:
			return came
		case <-ctx.Done():
			must(ctx.Err())
		case <-time.After(patience):
			must(errors.New("the flood did not come to its end"))
		}
		return 0
	}
}
