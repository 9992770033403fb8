package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/tests/harness"
	"github.com/execbus/execbus/tests/proc"
)

const (
	// patience is how long a call, an end or a wait for an event may take. After that it counts as hung; after twice as long it is
	// certain to hang, because even the end of its context has not ended it.
	patience = time.Minute
	// endWait is how long everything may take to end at a quiet point, and settleWait how long the counts may take until they are
	// back. settlePause is the time between two looks.
	endWait     = 20 * time.Second
	settleWait  = 10 * time.Second
	settlePause = 50 * time.Millisecond

	// Bounds of a round.
	shortestRound = time.Second
	longestRound  = 20 * time.Second
	roundsWanted  = 12

	// warmUp is how many commands it takes to fill the memory of a session.
	warmUp = 80
)

// soak is one run.
type soak struct {
	arguments
	progress *harness.Progress
	faults   *faults
	watcher  *watcher
	judge    *judge
	host     *host
	home     *client // the session that lives as long as the runtime
	before   sample  // before the runtime was started

	interrupted bool
}

func newSoak(a arguments, progress *harness.Progress) (*soak, error) {
	s := &soak{arguments: a, progress: progress, faults: &faults{say: progress}}
	s.judge = &judge{name: "quiet point", faults: s.faults}
	mark := fmt.Sprintf("soak-%d-%x", os.Getpid(), time.Now().UnixNano()) // distinguishes this run's processes from any other's
	var err error
	if s.watcher, err = newWatcher(mark); err != nil {
		return nil, err
	}
	r, w, err := os.Pipe() // makes the Go runtime open the descriptors of its poller, so that they are counted from the beginning
	if err := errors.Join(err, r.Close(), w.Close()); err != nil {
		return nil, err
	}
	s.before, _ = s.watcher.take()
	if s.host, err = newHost(s.faults, mark); err != nil {
		return nil, err
	}
	if s.home, err = s.host.session(execbus.SessionOptions{MaxProcesses: 16 + 4*a.parallel}); err != nil {
		s.host.shutdown()
	}
	return s, err
}

// title describes this run.
func (s *soak) title() string {
	return fmt.Sprintf("soak: %v of everything, %d at a time, seed %d", s.duration, s.parallel, s.seed)
}

// run does everything from the warm-up to the shutdown.
func (s *soak) run(ctx context.Context) {
	s.progress.Say("%s; %s, %d cores, uid %d", s.title(), runtime.Version(), runtime.GOMAXPROCS(0), os.Getuid())
	all, steps := matching(s.only), make([]int, s.parallel) // the steps by worker: taken so far
	ok := s.warmUp(ctx, all)
	began, length := time.Now(), min(max(s.duration/roundsWanted, shortestRound), longestRound)
	for n := 0; ok; n++ {
		s.quiet(ctx)
		s.interrupted = ctx.Err() != nil
		_, broken := s.faults.all()
		if s.interrupted || broken >= maxFaults || time.Since(began) >= s.duration {
			s.end()
			return
		}
		deadline := time.Now().Add(min(length, s.duration-time.Since(began)))
		s.host.disturb(ctx, s.dice(maxParallel+1, n), length)
		ok = s.round(ctx, func(p pool, worker int) *step {
			if time.Now().After(deadline) {
				return nil
			}
			dice, name := s.dice(worker, steps[worker]), fmt.Sprintf("w%d.%d", worker, steps[worker])
			steps[worker]++
			chosen := draw(dice, all)
			return s.step(p, dice, name, chosen, chosen.name == "short" && dice.IntN(2) == 0)
		})
	}
}

// warmUp lets every scenario happen once, and fills the memory of the session that lives longest.
func (s *soak) warmUp(ctx context.Context, all []scenario) (ok bool) {
	var next atomic.Int64
	return s.round(ctx, func(p pool, _ int) *step {
		n := int(next.Add(1)) - 1
		if n >= len(all)+warmUp {
			return nil
		}
		chosen := scenario{name: "short", run: (*step).short}
		if n < len(all) {
			chosen = all[n]
		}
		return s.step(p, s.dice(maxParallel, n), fmt.Sprintf("warm.%d", n), chosen, n >= len(all))
	})
}

// step makes a step, in one of the sessions that all workers share or in the one that lives longest.
func (s *soak) step(p pool, dice *rand.Rand, name string, chosen scenario, home bool) *step {
	slot := dice.IntN(len(p))
	c := p[slot].Load()
	if home {
		c = s.home
	}
	return &step{host: s.host, pool: p, slot: slot, client: c, dice: dice, name: name, scenario: chosen, epoch: s.host.epoch.Load()}
}

// round lets every worker take steps until next returns nil. It returns false if it could not begin.
func (s *soak) round(ctx context.Context, next func(p pool, worker int) *step) bool {
	p, err := newPool(s.host, max(2, s.parallel/2))
	if err != nil {
		s.faults.add("round", "open session: %v", err)
		return false
	}
	var all sync.WaitGroup
	for worker := range s.parallel {
		all.Go(func() {
			for ctx.Err() == nil {
				st := next(p, worker)
				if st == nil {
					return
				}
				s.take(ctx, st)
			}
		})
	}
	all.Wait()
	s.host.chaos.Wait()
	return true
}

// take takes one step. One that hangs ends this program and shows all goroutines; the warden ends what runs.
func (s *soak) take(ctx context.Context, st *step) {
	hangs := time.AfterFunc(2*patience, func() {
		debug.SetTraceback("all")
		panic(st.where() + " in " + st.client.name + " hangs")
	})
	defer hangs.Stop()
	var cancel context.CancelFunc
	st.ctx, cancel = context.WithTimeout(ctx, patience)
	defer cancel()
	st.do(st.scenario.run)
	if st.ctx.Err() != nil && ctx.Err() == nil {
		st.fault("took more than %v", patience)
	}
	s.host.tally.plus("step: "+st.scenario.name, 1)
}

// say shows what was counted at a quiet point.
func (s *soak) say(j *judge, one sample) {
	_, broken := s.faults.all()
	text := fmt.Sprintf("%s %d: %d broken", j.name, len(j.points), broken)
	for q := range quantities {
		text += fmt.Sprintf(", %s %s", facts[q].name, facts[q].show(one[q]))
	}
	s.progress.Say("%s", text)
}

// quiet lets everything end, and compares the counts with the baseline.
func (s *soak) quiet(ctx context.Context) {
	s.host.drain(context.WithoutCancel(ctx), s.home)
	s.probe(ctx)
	s.settle(s.judge)
}

// settle looks until the counts are back, or should be.
func (s *soak) settle(j *judge) {
	for began := time.Now(); ; time.Sleep(settlePause) {
		one, c := s.watcher.take()
		if j.settled(one) || time.Since(began) > settleWait {
			s.explain(j.add(one), c)
			s.say(j, one)
			return
		}
	}
}

// probe runs a command on a terminal and one on pipes. So there is a warden, and it has run a command.
func (s *soak) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for i, tty := range []bool{true, false} {
		st := &step{ctx: ctx, host: s.host, client: s.home, dice: s.dice(0, i), name: fmt.Sprintf("quiet%d.%d", len(s.judge.points), i),
			scenario: scenario{name: "probe"}, epoch: s.host.epoch.Load()}
		ran := false
		st.do(func(st *step) {
			_, result := st.exec(ctx, sh(tty, "exit 23"), want{codes: []int{23}, output: &flood{tty: tty}})
			ran = result != nil
		})
		if !ran {
			st.fault("no command can be run at a quiet point")
		}
	}
	s.home.ledger.settle()
}

// explain describes what may be behind a drift.
func (s *soak) explain(drifted []quantity, c census) {
	if len(drifted) == 0 {
		return
	}
	_ = pprof.Lookup("goroutine").WriteTo(s.progress, 1)
	s.progress.Say("zombies: %q\ndescendants: %q\ndescriptors of the host: %q\ndescriptors of the warden: %q", c.zombies, c.descendants,
		proc.Descriptors(os.Getpid()), proc.Descriptors(c.warden))
	if file, err := os.CreateTemp("", "soak-heap-*.pprof"); err == nil {
		err = errors.Join(pprof.Lookup("heap").WriteTo(file, 0), file.Close())
		s.progress.Say("heap profile: %s %v", file.Name(), err)
	}
}

// end shuts the runtime down. After that everything must be as it was before its start.
func (s *soak) end() {
	s.host.drain(context.Background(), nil)
	s.host.shutdown()
	s.settle(&judge{name: "after the shutdown", faults: s.faults, points: []sample{s.before}, except: []quantity{heap}})
}
