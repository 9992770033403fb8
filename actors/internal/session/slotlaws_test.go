package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
)

// Whatever processes do, and however the messages of their session and of the runtime's actor cross, the laws hold after every
// step. The name of a subtest is its seed.
func TestLawsOfSlots(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dice := rand.New(rand.NewPCG(seed, 0))
			most := 1 + dice.IntN(4)
			all := most + dice.IntN(3)
			synctest.Test(t, func(t *testing.T) {
				r := newRush(t, dice, most, all)
				for range 80 {
					r.step()
				}
				r.finish()
				if err := r.system.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// check checks the laws when everybody has done what the step led to.
func (r *rush) check() {
	r.t.Helper()
	synctest.Wait()
	r.moment++
	for _, p := range r.all {
		held := slices.ContainsFunc(r.all, func(other *runner) bool { return other.teardown.held == p.entry })
		if p.order == 0 && !held {
			p.order = r.moment
		}
	}
	r.checkCounts()
	r.checkOrder()
	r.checkStarts()
	for _, p := range r.all {
		p.had = p.slot.stage
	}
}

// checkCounts: there are never more processes than allowed, and no count is lost or made up.
func (r *rush) checkCounts() {
	r.t.Helper()
	count := func(is func(*runner) bool) (n int) {
		for _, p := range r.all {
			if is(p) {
				n++
			}
		}
		return n
	}
	taken, counted := count(func(p *runner) bool { return p.slot.taken() }), count(func(p *runner) bool { return p.slot.stage == slotGranted })
	lasting, pruned := count(func(p *runner) bool { return p.slot.taken() && p.slot.outlives }), count(func(p *runner) bool { return p.slot.pruned })
	if s := r.session.slots; len(s.held) != taken || s.granted != counted || s.lasting != lasting || s.pruned != pruned {
		r.fail("%d slots, %d granted, %d lasting and %d pruned are counted as %d, %d, %d and %d", taken, counted, lasting, pruned,
			len(s.held), s.granted, s.lasting, s.pruned)
	}
	runs := count((*runner).runs)
	if most := r.session.config.MaxProcesses; taken > most+maxAbove || lasting-pruned > most || runs != counted {
		r.fail("%d run with %d slots, %d of them lasting, and %d granted", runs, taken, lasting, counted)
	}
	coming := 0 // counts that only the runtime's actor knows of
	for _, m := range r.line.got {
		taken, is := m.(protocol.SlotTaken)
		end, _ := m.(protocol.Counted)
		if _, gives := m.(protocol.GiveSlot); gives || end.Slot || is && taken.Err == nil {
			coming++
		}
	}
	if all := r.counted(); all != r.taken()+counted+coming || all > r.most {
		r.fail("the runtime counts %d, where %d are allowed: %d elsewhere, %d here and %d to come", all, r.most, r.taken(), counted, coming)
	}
}

// checkOrder: no start gets a slot for good while an earlier one waits, and no slot is free while one waits.
func (r *rush) checkOrder() {
	r.t.Helper()
	for _, p := range r.all {
		if !p.waits() {
			continue
		}
		if len(r.session.slots.held) < r.session.config.MaxProcesses {
			r.fail("a slot is free, and %d waits", p.id)
		}
		for _, later := range r.all {
			if later.order > p.order && later.slot.taken() && later.had < slotAsked && (later.slot.outlives || !later.slot.until.IsZero()) {
				r.fail("%d has overtaken %d", later.id, p.id)
			}
		}
	}
}

// checkStarts: each start is answered once, waits only for what comes, and leaves nothing when it ends.
func (r *rush) checkStarts() {
	r.t.Helper()
	lives := func(e *entry) bool { return e == nil || r.session.entries[e.info.Process] == e }
	for _, p := range r.all {
		switch {
		case len(of[protocol.Slot](p.stand)) > 1:
			r.fail("%d was answered twice", p.id)
		case p.waits() && !time.Now().Before(p.slot.until):
			r.fail("%d waits for nothing", p.id)
		case (p.slot.stage == slotWaits || p.slot.stage == slotAsked) != slices.Contains(r.session.slots.starts, p.entry):
			r.fail("%d is %d, and that is not so in the list of starts", p.id, p.slot.stage)
		}
	}
	if n := r.session.slots.unclaimed(); n < 0 {
		r.fail("%d more wait for the slots of others than are ended for them", -n)
	}
	if len(r.all) != len(r.session.entries) || len(r.all) != r.session.slots.recent.Len() || slices.ContainsFunc(r.session.slots.starts, func(e *entry) bool { return !lives(e) }) {
		r.fail("one that has ended is still there")
	}
}
