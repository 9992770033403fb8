package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"

	"github.com/execbus/execbus"
)

// scenario is a thing that a step can do.
type scenario struct {
	name   string
	weight int
	run    func(st *step)
}

// scenarios returns all scenarios. A seed means the same choices only while their order stays.
func scenarios() []scenario {
	return []scenario{
		{"short", 20, (*step).short},
		{"run", 8, (*step).run},
		{"flood", 8, (*step).flood},
		{"watch", 8, (*step).watch},
		{"background", 8, (*step).background},
		{"cancel", 8, (*step).cancel},
		{"talk", 6, (*step).talk},
		{"copy", 6, (*step).copy},
		{"signal", 8, (*step).signal},
		{"terminate", 8, (*step).terminate},
		{"kill", 6, (*step).kill},
		{"prune", 3, (*step).prune},
		{"session", 3, (*step).session},
		{"replace", 2, (*step).replace},
		{"executor", 4, (*step).executor},
		{"mistakes", 4, (*step).mistakes},
		{"look", 4, (*step).look},
	}
}

func matching(only *regexp.Regexp) []scenario {
	var chosen []scenario
	for _, s := range scenarios() {
		if only == nil || only.MatchString(s.name) {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

func scenarioNames() string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

// draw chooses a scenario by weight.
func draw(dice *rand.Rand, from []scenario) scenario {
	sum := 0
	for _, s := range from {
		sum += s.weight
	}
	n := dice.IntN(sum)
	for _, s := range from {
		if n -= s.weight; n < 0 {
			return s
		}
	}
	panic("unreachable: n is below the sum of all weights")
}

// step is one thing that a worker does.
type step struct {
	ctx      context.Context
	host     *host
	pool     *pool
	slot     int // of the pool
	client   *client
	dice     *rand.Rand
	name     string // worker and number: unique in this run
	scenario string
	epoch    int64
	commands int
}

// where names the step in complaints.
func (st *step) where() string { return st.name + " " + st.scenario }

func (st *step) fault(format string, args ...any) {
	st.host.faults.add(st.where()+" in "+st.client.name, format, args...)
}

// disturbed reports whether the warden was killed since the step began.
func (st *step) disturbed() bool { return st.host.disturbed(st.epoch) }

func (st *step) coin() bool { return st.dice.IntN(2) == 0 }

// between draws a number from low to high.
func (st *step) between(low, high int) int { return low + st.dice.IntN(high-low+1) }

// millis draws a time.
func (st *step) millis(low, high int) time.Duration {
	return time.Duration(st.between(low, high)) * time.Millisecond
}

// code draws an exit code that no shell returns by itself.
func (st *step) code() int { return st.between(20, 99) }

// pause waits.
func (st *step) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-st.ctx.Done():
	}
}

// in makes the rest of the step happen in a session of its own.
func (st *step) in(options execbus.SessionOptions) bool {
	c, err := st.host.session(options)
	if err != nil {
		st.fault("open session: %v", err)
		return false
	}
	st.client = c
	return true
}

// pool holds the sessions that all workers share.
type pool struct {
	host  *host
	slots []chan *client // each holds one session; room for one
}

func newPool(h *host, size int) (*pool, error) {
	p := &pool{host: h, slots: make([]chan *client, size)}
	for i := range p.slots {
		c, err := h.session(execbus.SessionOptions{MaxProcesses: 8 + i, ProtectedProcesses: 2})
		if err != nil {
			return nil, err
		}
		p.slots[i] = make(chan *client, 1)
		p.slots[i] <- c
	}
	return p, nil
}

func (p *pool) get(i int) *client {
	c := <-p.slots[i]
	p.slots[i] <- c
	return c
}

// swap puts a new session into a slot, and returns the old one, in which other steps may still be at work.
func (p *pool) swap(i int, options execbus.SessionOptions) (*client, error) {
	c, err := p.host.session(options)
	if err != nil {
		return nil, err
	}
	old := <-p.slots[i]
	p.slots[i] <- c
	return old, nil
}

// take makes a step of a worker. Its choices follow from the dice alone.
func (p *pool) take(ctx context.Context, dice *rand.Rand, name string, s scenario) *step {
	slot := dice.IntN(len(p.slots))
	return &step{ctx: ctx, host: p.host, pool: p, slot: slot, client: p.get(slot), dice: dice, name: name,
		scenario: s.name, epoch: p.host.epoch.Load()}
}

// stepName returns the name of a worker's step.
func stepName(worker, n int) string { return fmt.Sprintf("w%d.%d", worker, n) }
