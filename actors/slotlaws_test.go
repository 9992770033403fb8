package actors

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
// step. The name of a subtest is its seed; with -soak there are more.
func TestLawsOfSlots(t *testing.T) {
	for seed := range uint64(share(2000)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dice := rand.New(rand.NewPCG(seed, 0))
			most := 1 + dice.IntN(4)
			all := most + dice.IntN(3)
			inBubble(t, bubbleOptions{max: all}, func(t *testing.T, b *bubble) {
				r := newRush(b, dice, most, all)
				for range 80 {
					r.step()
				}
				r.finish()
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
		held := slices.ContainsFunc(r.all, func(other *runner) bool { return other.aftermath.held == p.entry })
		if p.order == 0 && !held {
			p.order = r.moment
		}
	}
	r.checkCounts()
	r.checkOrder()
	r.checkStarts()
	for _, p := range r.all {
		p.had = p.place
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
	taken, guests := count(func(p *runner) bool { return p.place.slot }), count(func(p *runner) bool { return p.place.guest })
	granted := count(func(p *runner) bool { return p.place.granted })
	if s := r.session.slots; s.taken != taken || s.guests != guests || s.granted != granted {
		r.fail("%d slots, %d guests and %d granted are counted as %d, %d and %d", taken, guests, granted, s.taken, s.guests, s.granted)
	}
	runs := count((*runner).runs)
	if taken > r.session.config.MaxProcesses || guests > maxGuests || runs != granted || runs > taken+guests {
		r.fail("%d run with %d slots, %d guests and %d granted", runs, taken, guests, granted)
	}
	coming := 0 // counts that only the runtime's actor knows of
	for _, m := range r.line.got {
		taken, is := m.(protocol.SlotTaken)
		end, _ := m.(protocol.Counted)
		if _, gives := m.(protocol.GiveSlot); gives || end.Slot || is && taken.Err == nil {
			coming++
		}
	}
	if all := r.stats().Processes; all != r.taken()+granted+coming || all > r.most {
		r.fail("the runtime counts %d, where %d are allowed: %d elsewhere, %d here and %d to come", all, r.most, r.taken(), granted, coming)
	}
}

// checkOrder: no start gets a slot while an earlier one waits, and no slot is free while one waits.
func (r *rush) checkOrder() {
	r.t.Helper()
	for _, p := range r.all {
		if !p.waits() {
			continue
		}
		if r.session.slots.taken < r.session.config.MaxProcesses {
			r.fail("a slot is free, and %d waits", p.id)
		}
		for _, later := range r.all {
			if later.order > p.order && later.place.slot && !later.had.slot {
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
		switch successor, victim := p.place.successor, p.place.victim; {
		case len(of[protocol.Slot](p.stand)) > 1:
			r.fail("%d was answered twice", p.id)
		case !lives(successor) || !lives(victim):
			r.fail("%d refers to one that has ended", p.id)
		case successor != nil && successor.place.victim != p.entry || victim != nil && victim.place.successor != p.entry:
			r.fail("%d and the process that it refers to do not agree", p.id)
		case p.waits() && victim != nil && !victim.place.pruned:
			r.fail("%d waits for %d, which nobody ends", p.id, victim.info.Process)
		case p.waits() && victim == nil && !time.Now().Before(p.place.until):
			r.fail("%d waits for nothing", p.id)
		}
	}
	if len(r.all) != len(r.session.entries) || slices.ContainsFunc(r.session.slots.successors, func(e *entry) bool { return !lives(e) }) {
		r.fail("one that has ended is still there")
	}
}
