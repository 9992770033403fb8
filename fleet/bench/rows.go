package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/fleet"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/harness"
)

var rows = []row{
	{"call", "a call that reads the last byte of a process that waits", calls},
	{"exec", "/bin/true, to its end", execs},
	{"flood", "output on a terminal, followed", floods(true)},
	{"flood-pipe", "output on a pipe, followed", floods(false)},
	{"placement", "opening a session on one of 100 nodes, ten seconds after their start", placement},
	{"books", "10,000 sessions on the books of three nodes", books},
}

// Limits.
const (
	callMore     = 1.0  // ms
	floodLeast   = 0.6  // of the local one
	openMost     = 5.0  // ms, the 99th percentile
	linearMost   = 1.25 // of what the first half adds
	heartbeatTop = 1.5  // of what they are without sessions
)

// sides are a session here and one on a fleet.
type sides struct {
	rt    *execbus.Runtime
	local *execbus.Session
	world *world
	fleet *fleet.Session
}

// newSides starts both. The caller closes them, also after an error.
func newSides(ctx context.Context) (s *sides, err error) {
	s = &sides{}
	if s.rt, err = execbus.Start(execbus.Options{}); err != nil {
		return s, err
	}
	if s.local, err = s.rt.OpenSession(execbus.SessionOptions{Dir: "/"}); err != nil {
		return s, err
	}
	if s.world, err = newWorld(ctx, 0, 1); err != nil {
		return s, err
	}
	s.fleet, err = fleet.Open(ctx, s.world.nc, fleet.Placement{Session: execbus.SessionOptions{Dir: "/"}})
	return s, err
}

func (s *sides) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	var err error
	if s.rt != nil {
		err = s.rt.Shutdown(ctx)
	}
	if s.world != nil {
		err = errors.Join(err, s.world.close())
	}
	return err
}

// turns lets both sides do something in turns, the first one changing, and notes what each took.
func (s *sides) turns(ctx context.Context, b *bench, do func(context.Context, execbus.SessionCalls) (float64, error)) (local, far []float64, err error) {
	for began, n := time.Now(), 0; n < 5 || time.Since(began) < b.lasts; n++ {
		for turn := range 2 {
			if here := turn == n%2; here {
				took, err := do(ctx, s.local)
				if err != nil {
					return nil, nil, err
				}
				local = append(local, took)
			} else {
				took, err := do(ctx, s.fleet)
				if err != nil {
					return nil, nil, err
				}
				far = append(far, took)
			}
		}
	}
	return local, far, nil
}

// latency compares medians of times, in ms.
func (s *sides) latency(ctx context.Context, b *bench, call func(context.Context, execbus.SessionCalls) error) ([]figure, error) {
	local, far, err := s.turns(ctx, b, func(ctx context.Context, session execbus.SessionCalls) (float64, error) {
		began := time.Now()
		err := call(ctx, session)
		return time.Since(began).Seconds() * 1e3, err
	})
	if err != nil {
		return nil, err
	}
	middle := figure{unit: "ms", local: harness.Quantile(local, 0.5), fleet: harness.Quantile(far, 0.5), limit: fmt.Sprintf("≤ %.2f ms more", callMore)}
	middle.missed = middle.fleet-middle.local > callMore
	return []figure{middle, {name: "p99", unit: "ms", local: harness.Quantile(local, 0.99), fleet: harness.Quantile(far, 0.99)}}, nil
}

func calls(ctx context.Context, b *bench) (figures []figure, err error) {
	s, err := newSides(ctx)
	defer func() { err = errors.Join(err, s.close()) }()
	if err != nil {
		return nil, err
	}
	waiting := map[execbus.SessionCalls]messages.ProcessID{}
	for _, session := range []execbus.SessionCalls{s.local, s.fleet} {
		result, err := session.Exec(ctx, messages.ExecCommand{Argv: []string{"/bin/sh", "-c", "echo x; exec cat"}, OpenStdin: true, Yield: new(time.Duration)})
		if err != nil {
			return nil, err
		}
		waiting[session] = result.Process
	}
	return s.latency(ctx, b, func(ctx context.Context, session execbus.SessionCalls) error {
		offset := int64(1)
		page, err := session.Read(ctx, messages.ReadOutput{Process: waiting[session], Offset: &offset, Max: 1})
		if err == nil && page.Ended {
			err = errors.New("the process has ended")
		}
		return err
	})
}

func execs(ctx context.Context, b *bench) (figures []figure, err error) {
	s, err := newSides(ctx)
	defer func() { err = errors.Join(err, s.close()) }()
	if err != nil {
		return nil, err
	}
	return s.latency(ctx, b, func(ctx context.Context, session execbus.SessionCalls) error {
		result, err := session.Exec(ctx, messages.ExecCommand{Argv: []string{"/bin/true"}, Yield: new(endWait)})
		if err == nil && result.Status != messages.StatusExited(0) {
			err = fmt.Errorf("/bin/true ended with %s", result.Status)
		}
		return err
	})
}

// floods compares how many bytes a reader gets in a second, in MB.
func floods(tty bool) func(context.Context, *bench) ([]figure, error) {
	return func(ctx context.Context, b *bench) (figures []figure, err error) {
		s, err := newSides(ctx)
		defer func() { err = errors.Join(err, s.close()) }()
		if err != nil {
			return nil, err
		}
		size := int64(b.some(64<<20, 4<<20))
		script := fmt.Sprintf("head -c %d /dev/zero", size)
		if tty {
			script = "stty raw; " + script
		}
		command := messages.ExecCommand{Argv: []string{"/bin/sh", "-c", script}, TTY: tty}
		missing := map[execbus.SessionCalls][]float64{}
		local, far, err := s.turns(ctx, b, func(ctx context.Context, session execbus.SessionCalls) (float64, error) {
			began := time.Now()
			output, err := s.follow(ctx, session, command)
			if err != nil {
				return 0, err
			}
			got, all := int64(0), int64(0)
			for event, err := range output {
				switch e := event.(type) {
				case messages.OutputDelta:
					got, all = got+int64(len(e.Bytes)), all+int64(len(e.Bytes))
				case messages.Gap:
					all += e.End - e.First
				}
				if err != nil {
					return 0, err
				}
			}
			took := time.Since(began).Seconds()
			if all != size {
				return 0, fmt.Errorf("the reader knows of %d bytes; %d were written", all, size)
			}
			missing[session] = append(missing[session], 100*float64(size-got)/float64(size))
			return float64(got) / 1e6 / took, nil
		})
		if err != nil {
			return nil, err
		}
		rate := figure{unit: "MB/s", local: harness.Quantile(local, 0.5), fleet: harness.Quantile(far, 0.5)}
		if tty {
			rate.limit, rate.missed = fmt.Sprintf("≥ %.2f×", floodLeast), rate.fleet < floodLeast*rate.local
		}
		return []figure{rate, {name: "in gaps", unit: "%", local: harness.Quantile(missing[s.local], 0.5), fleet: harness.Quantile(missing[s.fleet], 0.5)}}, nil
	}
}

// follow starts a command and gives its output from the first byte on.
func (s *sides) follow(ctx context.Context, session execbus.SessionCalls, command messages.ExecCommand) (iter.Seq2[messages.Event, error], error) {
	if session == s.local {
		process, err := s.local.Start(ctx, command)
		if err != nil {
			return nil, err
		}
		return process.Follow(ctx, 0), nil
	}
	process, err := s.fleet.Start(ctx, command)
	if err != nil {
		return nil, err
	}
	return fleet.Follow(ctx, s.world.nc, s.fleet.ID(), process, 0), nil
}

func placement(ctx context.Context, b *bench) (figures []figure, err error) {
	w, err := newWorld(ctx, 0, b.some(100, 10))
	defer func() { err = errors.Join(err, w.close()) }()
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(time.Duration(b.some(int(fleet.DefaultLostAfter/6), 0))): // until all have looked at the others once, as they do after their start
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	open := func(nc *nats.Conn) (float64, error) {
		began := time.Now()
		session, err := fleet.Open(ctx, nc, fleet.Placement{Session: execbus.SessionOptions{Dir: "/"}})
		if err != nil {
			return 0, err
		}
		took := time.Since(began).Seconds() * 1e3
		return took, session.Close(ctx)
	}
	var took, first []float64
	for range b.some(2000, 100) {
		ms, err := open(w.nc)
		if err != nil {
			return nil, err
		}
		took = append(took, ms)
	}
	for range b.some(100, 10) {
		nc, err := fleet.Connect(w.members[0].said)
		if err != nil {
			return nil, err
		}
		ms, err := open(nc)
		nc.Close()
		if err != nil {
			return nil, err
		}
		first = append(first, ms)
	}
	tail := figure{name: "p99", unit: "ms", fleet: harness.Quantile(took, 0.99), limit: fmt.Sprintf("≤ %.2f ms", openMost)}
	tail.missed = tail.fleet > openMost
	return []figure{{name: "median", unit: "ms", fleet: harness.Quantile(took, 0.5)}, tail,
		{name: "first", unit: "ms", fleet: harness.Quantile(first, 0.5)}}, nil
}

// load is what the members of a fleet use at one number of sessions.
type load struct {
	memory     float64 // KiB, all of it
	heartbeats float64 // KiB a second, of one node
	books      float64 // KiB that one node receives when it reads the books
}

// weigh looks at the traffic of each second until the nodes have read the books once: every tenth round of six in lostAfter. Most seconds
// have heartbeats only.
func (w *world) weigh(ctx context.Context, seconds int) (l load, err error) {
	nodes := float64(len(w.members) - 1)
	before, err := w.traffic()
	if err != nil {
		return l, err
	}
	var each []float64
	sum := 0.0
	for range seconds {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return l, ctx.Err()
		}
		now, err := w.traffic()
		if err != nil {
			return l, err
		}
		each = append(each, float64(now.Out+now.In-before.Out-before.In)/1024/nodes)
		sum += each[len(each)-1]
		before = now
	}
	l.heartbeats = harness.Quantile(each, 0.5)
	l.books = max(sum-l.heartbeats*float64(seconds), 0)
	l.memory, err = w.memory()
	return l, err
}

func books(ctx context.Context, b *bench) (figures []figure, err error) {
	w, err := newWorld(ctx, lostAfter, 1, 1, 1)
	defer func() { err = errors.Join(err, w.close()) }()
	if err != nil {
		return nil, err
	}
	all, seconds := b.some(10_000, 300), int((lostAfter * 10 / 6).Seconds())
	if b.quick {
		seconds = 3 // too short for the books
	}
	var loads []load
	for part := range 3 { // none, half, all
		for range min(part, 1) * all / 2 {
			if _, err := fleet.Open(ctx, w.nc, fleet.Placement{Session: execbus.SessionOptions{Dir: "/"}}); err != nil {
				return nil, err
			}
		}
		l, err := w.weigh(ctx, seconds)
		if err != nil {
			return nil, err
		}
		b.Say("%d sessions: %.0f MiB, heartbeats %.2f KiB/s, books %.0f KiB", part*all/2, l.memory/1024, l.heartbeats, l.books)
		loads = append(loads, l)
	}
	half := float64(all) / 2
	return judgeBooks(half, loads[0], loads[1], loads[2], b.quick), nil
}

// judgeBooks compares what the second half of the sessions adds with what the first half added.
func judgeBooks(half float64, none, some, all load, quick bool) []figure {
	linear := func(name, unit string, first, second float64) figure {
		f := figure{name: name, unit: unit, local: first, fleet: second}
		if !quick { // few sessions are in the noise
			f.limit, f.missed = fmt.Sprintf("≤ %.2f×", linearMost), second > linearMost*first
		}
		return f
	}
	beats := figure{name: "heartbeats", unit: "KiB/s", local: none.heartbeats, fleet: all.heartbeats, limit: fmt.Sprintf("≤ %.2f×", heartbeatTop)}
	beats.missed = beats.fleet > heartbeatTop*beats.local
	return []figure{linear("memory", "KiB", (some.memory-none.memory)/half, (all.memory-some.memory)/half), beats,
		linear("reading", "KiB", (some.books-none.books)/half, (all.books-some.books)/half)}
}
