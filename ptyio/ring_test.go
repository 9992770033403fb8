package ptyio

import (
	"testing"

	"pgregory.net/rapid"
)

func TestARingIsAQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r ring[*int]
		var model []*int
		most := 0
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "push") {
				for range rapid.SampledFrom([]int{1, 2, fewSlots, 100, 1000}).Draw(t, "elements") {
					element := new(int)
					r.push(element)
					model = append(model, element)
				}
			} else {
				n := rapid.IntRange(0, len(model)).Draw(t, "drop")
				r.drop(n)
				model = model[n:]
			}
			most = max(most, len(model))
			checkRing(t, &r, model, most)
		}
	})
}

func checkRing(t *rapid.T, r *ring[*int], model []*int, most int) {
	if r.n != len(model) {
		t.Fatalf("%d elements, not the %d that were pushed", r.n, len(model))
	}
	for i, element := range model {
		if *r.at(i) != element {
			t.Fatalf("element %d is another", i)
		}
	}
	held := 0
	for _, slot := range r.slots {
		if slot != nil {
			held++
		}
	}
	if held != r.n {
		t.Fatalf("%d slots refer to something, but there are %d elements", held, r.n)
	}
	if len(r.slots) > max(2*most, 1) || len(r.slots) > max(4*r.n, fewSlots, 1) {
		t.Fatalf("%d slots for %d elements, of which there were %d", len(r.slots), r.n, most)
	}
}
