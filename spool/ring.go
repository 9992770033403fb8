package spool

// ring gives the items of an endless sequence places in a file of bounded size: the first half of the places keeps the first items for
// ever, and the others go round in the second half. As long as there are no more items than places, each has the place of its number.
type ring struct {
	size int64 // places
	n    int64 // items that are written
	next int64 // items that are written or being written; those whose places they take are gone
}

// half is the number of items at the beginning that are never overwritten.
func (r ring) half() int64 { return r.size / 2 }

// cycle is the number of places that go round.
func (r ring) cycle() int64 { return r.size - r.half() }

// most is how many items may be written at once: more would leave too little of what was written before.
func (r ring) most() int64 { return max(r.cycle()/2, 1) }

// full reports whether items have gone.
func (r ring) full() bool { return r.next > r.size }

// oldest is the first item in the places that go round, once items have gone.
func (r ring) oldest() int64 { return r.next - r.cycle() }

// place is the place of item i, and how many items from it on have places that follow.
func (r ring) place(i int64) (at, run int64) {
	if i < r.half() {
		return i, r.half() - i
	}
	at = r.half() + (i-r.half())%r.cycle()
	return at, r.size - at
}
