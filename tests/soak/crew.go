package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// crew are the workers. It knows their current steps, so that a hanging worker is found.
type crew struct {
	tasks []atomic.Pointer[task] // by worker
	done  atomic.Int64           // steps
}

// task is a step under way.
type task struct {
	what  string
	since time.Time
}

func newCrew(size int) *crew { return &crew{tasks: make([]atomic.Pointer[task], size)} }

// work lets every worker run until it has nothing more to do. It returns false if one hangs.
func (c *crew) work(hung <-chan struct{}, worker func(n int)) bool {
	var all sync.WaitGroup
	for n := range c.tasks {
		all.Go(func() { worker(n) })
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-hung:
		return false
	}
}

// at runs one step of a worker.
func (c *crew) at(ctx context.Context, worker int, st *step, do func(*step)) {
	c.tasks[worker].Store(&task{st.where(), time.Now()})
	defer c.tasks[worker].Store(nil)
	var cancel context.CancelFunc
	st.ctx, cancel = context.WithTimeout(ctx, patience)
	defer cancel()
	do(st)
	if st.ctx.Err() != nil && ctx.Err() == nil {
		st.fault("took more than %v", patience)
	}
	st.host.tally.add("step: " + st.scenario)
	c.done.Add(1)
}

// slowest returns the current step that has taken longest so far, if there is one.
func (c *crew) slowest() (what string, age time.Duration) {
	for i := range c.tasks {
		if t := c.tasks[i].Load(); t != nil && time.Since(t.since) >= age {
			what, age = t.what, time.Since(t.since)
		}
	}
	return what, age
}

// hopeless is the time after which a step is certain to hang: even the end of its context has not ended it.
const hopeless = 2 * patience

// stacks returns the stacks of all goroutines.
func stacks() []byte {
	buffer := make([]byte, 1<<20)
	return buffer[:runtime.Stack(buffer, true)]
}

// mix is the load of everything at once, in rounds.
type mix struct {
	*soak
	scenarios []scenario
	steps     []int // by worker: steps taken so far
	began     time.Time
	warmed    atomic.Bool // began is set: the sampler, another goroutine, may read it
}

// Bounds of a round.
const (
	shortestRound = time.Second
	longestRound  = 20 * time.Second
	roundsWanted  = 12
)

// warmUp is how many commands it takes to fill the memory of a session.
const warmUp = 80

func (m *mix) warm(ctx context.Context) {
	m.steps = make([]int, m.parallel)
	p, err := newPool(m.host, m.sessions())
	if err != nil {
		m.faults.add("warm-up", "open session: %v", err)
		return
	}
	var next atomic.Int64
	ok := m.crew.work(m.sampler.hung, func(worker int) {
		for ctx.Err() == nil {
			n := int(next.Add(1)) - 1
			s := scenario{name: "short", run: (*step).short}
			if n < len(m.scenarios) {
				s = m.scenarios[n]
			}
			if n >= len(m.scenarios)+warmUp {
				return
			}
			st := p.take(ctx, m.dice(maxParallel, n), fmt.Sprintf("warm.%d", n), s)
			if n >= len(m.scenarios) {
				st.client = m.home
			}
			m.crew.at(ctx, worker, st, s.run)
		}
	})
	m.hung = !ok
	m.began = time.Now()
	m.warmed.Store(true)
}

// sessions returns the number of shared sessions.
func (m *mix) sessions() int { return max(2, m.parallel/2) }

func (m *mix) round(ctx context.Context, n int) bool {
	length := min(max(m.duration/roundsWanted, shortestRound), longestRound)
	deadline := time.Now().Add(min(length, m.duration-time.Since(m.began)))
	p, err := newPool(m.host, m.sessions())
	if err != nil {
		m.faults.add(fmt.Sprintf("round %d", n), "open session: %v", err)
		return false
	}
	var chaos sync.WaitGroup
	dice := m.dice(maxParallel+1, n)
	if disturb := [...]func(){nil, m.host.killWarden, m.host.stopWarden}[dice.IntN(3)]; disturb != nil {
		pause := time.Duration(dice.Int64N(int64(length)))
		chaos.Go(func() {
			select {
			case <-ctx.Done():
			case <-time.After(pause):
				disturb()
			}
		})
	}
	m.hung = !m.crew.work(m.sampler.hung, func(worker int) {
		for ctx.Err() == nil && time.Now().Before(deadline) {
			m.step(ctx, p, worker)
		}
	})
	chaos.Wait()
	return time.Since(m.began) < m.duration
}

// step makes one step of a worker. Some of the small commands run in the session that lives as long as the runtime.
func (m *mix) step(ctx context.Context, p *pool, worker int) {
	dice := m.dice(worker, m.steps[worker])
	s := draw(dice, m.scenarios)
	st := p.take(ctx, dice, stepName(worker, m.steps[worker]), s)
	if st.coin() && s.name == "short" {
		st.client = m.home
	}
	m.steps[worker]++
	m.crew.at(ctx, worker, st, s.run)
}

func (m *mix) progress() string {
	if !m.warmed.Load() {
		return fmt.Sprintf("warm-up, %d steps", m.crew.done.Load())
	}
	return fmt.Sprintf("%v to go, %d steps", max(m.duration-time.Since(m.began), 0).Round(time.Second), m.crew.done.Load())
}

// commands is the load of many short commands, all in the session that lives as long as the runtime.
type commands struct {
	*soak
	left  int
	begun atomic.Int64
}

// batches is the number of quiet points.
const batches = 10

func (c *commands) warm(ctx context.Context) { c.batch(ctx, max(2*warmUp, c.parallel)) }

func (c *commands) round(ctx context.Context, _ int) bool {
	size := min(c.left, (c.soak.commands+batches-1)/batches)
	c.left -= size
	c.batch(ctx, size)
	return c.left > 0
}

// batch runs so many commands.
func (c *commands) batch(ctx context.Context, size int) {
	from := c.begun.Load()
	ok := c.crew.work(c.sampler.hung, func(worker int) {
		for ctx.Err() == nil {
			n := c.begun.Add(1) - 1
			if n >= from+int64(size) {
				return
			}
			st := &step{host: c.host, client: c.home, dice: c.dice(0, int(n)), name: fmt.Sprintf("c%d", n), scenario: "command",
				epoch: c.host.epoch.Load()}
			c.crew.at(ctx, worker, st, (*step).command)
		}
	})
	c.begun.Store(from + int64(size))
	c.hung = !ok
}

func (c *commands) progress() string {
	return fmt.Sprintf("%d of %d commands", c.crew.done.Load(), c.soak.commands+max(2*warmUp, c.parallel))
}
