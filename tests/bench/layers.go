package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/rules"
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
				return s.floodPair(ctx, bareFlood, childFlood(s.spawner(sandbox.Options{})))
			}},
		{name: "exec-beside-direct", about: "exec-result beside 1,000 idle shells where the host forks, and os/exec", metrics: ratio(1.5),
			open: func(ctx context.Context, s *scope) pair {
				session := s.besideShells(ctx, execbus.Options{Spawner: s.spawner(sandbox.Options{Direct: true})}, manyShells)
				return pair{bare: bareRuns(environmentOf(ctx, session), false, 1), ours: s.plain(ctx, session), turns: s.turns()}
			}},
		{name: "publish", about: "an output event to subscribers that want it, for each of them", open: publishes,
			metrics: []metric{{name: "to 1", of: "1", unit: nanoseconds}, {name: "to 100", of: "100", unit: nanoseconds}, {name: "to 10000", of: "10000", unit: nanoseconds}}},
	}
	for name, begins := range plans {
		all = append(all, row{name: "plan " + name, about: "the plan for a script of 200 bytes, with 500 rules", open: planned(begins), metrics: []metric{{judge: most, limit: 100}}})
	}
	for _, way := range []string{"direct", "warden"} {
		options := sandbox.Options{Direct: way == "direct"}
		all = append(all,
			row{name: "spawn-pty-" + way, about: program + " on a PTY", open: spawns(options, true, 1), metrics: spawnMetrics(map[string]float64{"direct": 1.1, "warden": 1.45}[way])},
			row{name: "spawn-pipes-" + way, about: program + " on pipes", open: spawns(options, false, 1), metrics: spawnMetrics(map[string]float64{"direct": 1.2, "warden": 1.4}[way])},
			row{name: "spawn-64-" + way, about: "64 times spawn-pty at once, to the last", open: spawns(options, true, manyExecs), metrics: spawnMetrics(map[string]float64{"direct": 1.2, "warden": 1.15}[way])},
			row{name: "heap-" + way, about: "spawn-pty by hosts of 50 MiB (bare) and of 2 GiB (ours)", open: heaps(way), metrics: []metric{{judge: atMost, limit: 1.15}}})
	}
	for name, enclosed := range map[string]enclosed{
		"spawn-isolated": {network: true, limit: 3.5}, "spawn-isolated-net": {limit: 4.5},
		"spawn-pty-confined": {tty: true, confined: true, limit: 1.1}, "spawn-pipes-confined": {confined: true, limit: 1.1}} {
		all = append(all, row{name: name, about: program + " in a sandbox, and without one through the same warden", open: enclosed.open, metrics: ratio(enclosed.limit)})
	}
	for i := range all {
		all[i].layer = true
	}
	slices.SortFunc(all, func(a, b row) int { return strings.Compare(a.name, b.name) })
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
func spawn(spawner ptyio.Spawner, tty bool, enclosure ptyio.Enclosure, count int) loop {
	launch := ptyio.Launch{Argv: []string{program}, Env: environment(), Dir: "/", TTY: tty, Sandbox: enclosure}
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
		ours := spawn(s.spawner(options), tty, nil, count)
		ours(ctx, series{}) // starts the warden
		return pair{bare: bareRuns(environment(), tty, count), ours: ours, turns: max(s.turns()/count, 4)}
	}
}

// enclosed is a start in a sandbox.
type enclosed struct {
	tty, confined, network bool
	limit                  float64
}

func (e enclosed) open(ctx context.Context, s *scope) pair {
	spawner := s.spawner(sandbox.Options{WithoutNamespaces: e.confined})
	return pair{bare: spawn(spawner, e.tty, nil, 1), ours: spawn(spawner, e.tty, e.enclose(ctx, s, spawner), 1), turns: s.turns()}
}

func (e enclosed) enclose(ctx context.Context, s *scope, spawner ptyio.Spawner) ptyio.Enclosure {
	least := messages.AssuranceIsolated
	if e.confined {
		least = messages.AssuranceConfined
	}
	options := s.insideOf(least, e.network)
	enclosure := get(spawner.Enclose(ctx, ptyio.Confinement{Dir: options.Dir, Least: least, Policy: *options.Sandbox}))
	s.after(enclosure.Release)
	spawn(spawner, e.tty, enclosure, 1)(ctx, series{}) // the first one makes what later ones use
	return enclosure
}

// heaps compares hosts of two sizes. What a big one pays is the ratio.
func heaps(way string) opener {
	return func(ctx context.Context, s *scope) pair {
		needMiB(2048 + 512)
		return pair{bare: s.apart(ctx, "heap", "50 "+way), ours: s.apart(ctx, "heap", "2048 "+way), turns: s.some(100, 20)}
	}
}

// openHeap makes a host of so many MiB, and no garbage collector.
func openHeap(ctx context.Context, s *scope, with string) loop {
	var mebibytes int
	var way string
	get(fmt.Sscan(with, &mebibytes, &way))
	ballast := make([]byte, mebibytes<<20)
	for i := 0; i < len(ballast); i += os.Getpagesize() {
		ballast[i] = 1
	}
	debug.SetGCPercent(-1)
	s.after(func() { runtime.KeepAlive(ballast) })
	ours := spawn(s.spawner(sandbox.Options{Direct: way == "direct"}), true, nil, 1)
	ours(ctx, series{})
	return ours
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

// publishBurst is how many events are published before the subscribers read them; their queues hold more.
const publishBurst = 32

// publishes measures the bus without the rest of the runtime. Nobody waits in Next, and nothing is dropped.
func publishes(_ context.Context, s *scope) pair {
	var loops []loop
	for _, count := range []int{1, 100, 10_000} {
		b := bus.New(bus.Options{})
		s.after(b.Close)
		subs := make([]*bus.Subscription, count)
		for i := range subs {
			subs[i] = get(b.Subscribe(bus.Filter{}, bus.SubscribeOptions{}))
		}
		event := messages.OutputDelta{Origin: messages.Origin{Session: "s", Process: 1000, Call: "c", At: time.Now()},
			Stream: messages.StreamStdout, Bytes: bytes.Repeat([]byte{'x'}, 100)}
		loops = append(loops, func(ctx context.Context, took series) {
			began := time.Now()
			for range publishBurst {
				event.Seq++
				b.PublishOutput(event, nil)
				event.Offset += int64(len(event.Bytes))
			}
			took.add(fmt.Sprint(count), float64(time.Since(began).Nanoseconds())/float64(publishBurst*count))
			for _, sub := range subs {
				for range publishBurst {
					get(sub.Next(ctx))
				}
			}
		})
	}
	return pair{turns: s.some(20, 3), ours: func(ctx context.Context, took series) {
		for _, once := range loops {
			once(ctx, took)
		}
	}}
}

// plans show where the time of a plan goes: taking a script apart and matching each segment, and looking for danger in one that
// cannot be taken apart.
var plans = map[string]string{
	"plain":     "git status && npm run build-3 | tee log; make -j4 all && ",
	"not plain": "for f in *.go; do gofmt -l \"$f\" > \"$TMP/$f\" || exit 1; done; ",
}

func planned(script string) opener {
	return func(_ context.Context, s *scope) pair {
		var source strings.Builder
		for i := range 500 {
			name := []string{"git", "npm", "make", "python3", fmt.Sprintf("tool%d", i)}[i%5]
			fmt.Fprintf(&source, "prefix_rule(pattern=[%q, \"run\", [\"a-%d\", \"b-%d\"]], decision=%q)\n", name, i, i,
				[]rules.Decision{rules.Allow, rules.Prompt, rules.Forbidden}[i%3])
		}
		snapshot := policy.Snapshot{Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}, Rules: get(rules.Parse("bench.rules", []byte(source.String()))),
			Sandbox: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}, Granted: func(string) bool { return false }}
		for len(script) < 160 {
			script += fmt.Sprintf("cargo test -p crate-%d; ", len(script))
		}
		script += "cargo run " + strings.Repeat("x", max(200-len(script)-len("cargo run "), 1))
		request := policy.Request{Argv: []string{"/bin/bash", "-lc", script}, Program: "/bin/bash", Dir: "/work"}
		return pair{turns: s.some(1_000, 100), ours: timed(func(context.Context) error {
			if plan := policy.MakePlan(request, snapshot); plan.Decision != policy.Ask {
				return fmt.Errorf("the plan is to %s", plan.Decision)
			}
			return nil
		})}
	}
}
