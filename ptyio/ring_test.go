package ptyio

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestARingIsAQueueWithABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := ring[int]{budget: rapid.SampledFrom([]int{0, 1, 5, pageItems - 1, pageItems, pageItems + 1, 3*pageItems + 7}).Draw(t, "budget")}
		var model []int
		next := 0
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "push") {
				items := make([]int, rapid.SampledFrom([]int{0, 1, 100, pageItems - 1, pageItems, 2*pageItems + 3, 5 * pageItems}).Draw(t, "items"))
				for i := range items {
					next++
					items[i] = next
				}
				model = append(model, items...)
				gone := max(0, len(model)-r.budget)
				model = model[gone:]
				if dropped := r.push(items); dropped != gone {
					t.Fatalf("%d dropped, not %d", dropped, gone)
				}
			} else if len(model) > 0 {
				n := rapid.IntRange(0, len(model)).Draw(t, "drop")
				r.drop(n)
				model = model[n:]
				if rapid.Bool().Draw(t, "shrink") {
					r.shrink()
					if most := r.n + 3*pageItems; r.slots() > most {
						t.Fatalf("memory for %d elements, of which there are %d", r.slots(), r.n)
					}
				}
			}
			checkRing(t, &r, model)
		}
	})
}

func checkRing(t *rapid.T, r *ring[int], model []int) {
	if r.n != len(model) || !slices.Equal(r.appendTo(nil, 0, r.n), model) {
		t.Fatalf("%d elements, not the %d that were pushed", r.n, len(model))
	}
	if most := max(2*r.budget, r.budget+2*pageItems); r.slots() > most {
		t.Fatalf("memory for %d elements with a budget of %d", r.slots(), r.budget)
	}
	if len(model) > 0 {
		i := rapid.IntRange(0, len(model)-1).Draw(t, "i")
		if j := rapid.IntRange(i, len(model)).Draw(t, "j"); r.at(i) != model[i] || !slices.Equal(r.appendTo(nil, i, j), model[i:j]) {
			t.Fatalf("the part from %d to %d is another", i, j)
		}
	}
}
