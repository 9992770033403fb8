package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

func layerRows() []row {
	all := []row{
		{name: "echo", about: "17 bytes to cat on a raw PTY and back, a child of the warden", open: func(ctx context.Context, s *scope) pair {
			return s.againstBareEcho(s.childEcho(ctx, s.spawner(sandbox.Options{})))
		}, metrics: []metric{{name: "median", judge: atMost, limit: 1.4}, {name: "p99", at: 0.99, judge: atMost, limit: 2}}},
		{name: "flood", about: "64 MiB through a PTY, a child of the warden", metrics: floodMetrics(metric{judge: atLeast, limit: 1.1}),
			open: func(ctx context.Context, s *scope) pair {
				return floodPair(ctx, bareFlood, childFlood(s.spawner(sandbox.Options{})))
			}},
	}
	for _, way := range []string{"direct", "warden"} {
		options := sandbox.Options{Direct: way == "direct"}
		all = append(all,
			row{name: "spawn-pty-" + way, about: program + " on a PTY", open: spawns(options, true, 1), metrics: ratio(map[string]float64{"direct": 1.1, "warden": 1.45}[way])},
			row{name: "spawn-pipes-" + way, about: program + " on pipes", open: spawns(options, false, 1), metrics: ratio(map[string]float64{"direct": 1.2, "warden": 1.4}[way])},
			row{name: "spawn-64-" + way, about: "64 times spawn-pty at once, to the last", open: spawns(options, true, manyExecs), metrics: ratio(map[string]float64{"direct": 1.2, "warden": 1.15}[way])})
	}
	for i := range all {
		all[i].demand = layer
	}
	return all
}

func (s *scope) spawner(options sandbox.Options) ptyio.Spawner {
	spawner := get(sandbox.New(options))
	s.after(func() { _ = spawner.Close() })
	return spawner
}

// child runs a child of a spawner to the last of Exited, Drained and Closed. Its output goes to a function.
func child(ctx context.Context, spawner ptyio.Spawner, argv []string, tty bool, output func([]byte)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ended := make(chan struct{})
	var status messages.ExitStatus
	var seen atomic.Int32
	_, err := spawner.Spawn(ctx, ptyio.Launch{Argv: argv, Env: environment(), Dir: "/", TTY: tty, Events: func(event ptyio.Event) {
		switch event := event.(type) {
		case ptyio.Output:
			output(event.Bytes)
			event.Release()
			return
		case ptyio.Spawned, ptyio.TreeEnded:
			return
		case ptyio.Exited:
			status = event.Status
		}
		if seen.Add(1) == 3 {
			close(ended)
		}
	}})
	if err != nil {
		return err
	}
	select {
	case <-ended:
	case <-ctx.Done():
		return errors.New("the events of a child's end did not all come")
	}
	if status != messages.StatusExited(0) {
		return fmt.Errorf("%q ended with %s", argv, status)
	}
	return nil
}

func spawns(options sandbox.Options, tty bool, count int) opener {
	return func(ctx context.Context, s *scope) pair {
		spawner := s.spawner(options)
		once := func(int) error { return child(ctx, spawner, []string{program}, tty, func([]byte) {}) }
		ours := timed(func(context.Context) error { return together(count, once) })
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
		child.Write(message, time.Time{}, func(ptyio.Taken, error) {})
		return await(ctx)
	}
}

// childFlood is a flood whose writer is a child of the spawner.
func childFlood(spawner ptyio.Spawner) flood {
	return func(ctx context.Context) (came int) {
		must(child(ctx, spawner, floodArgv(), true, func(output []byte) { came += len(output) }))
		return came
	}
}
