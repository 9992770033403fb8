package ptyio

// fewSlots is the size below which a ring does not shrink.
const fewSlots = 16

// ring is a queue. It has memory for at most twice the elements that it ever had, and for four times those that it has, or fewSlots.
type ring[T any] struct {
	slots []T
	start int // the slot of the oldest element
	n     int // the number of elements
}

// push adds an element at the end.
func (r *ring[T]) push(element T) {
	if r.n == len(r.slots) {
		r.resize(max(2*r.n, 1))
	}
	r.n++
	*r.at(r.n - 1) = element
}

// drop removes the n oldest elements. Their slots are cleared: otherwise the garbage collector would keep what they refer to.
func (r *ring[T]) drop(n int) {
	for range n {
		clear(r.slots[r.start : r.start+1])
		r.start = (r.start + 1) % len(r.slots)
	}
	r.n -= n
	if len(r.slots) > max(4*r.n, fewSlots) {
		r.resize(2 * r.n)
	}
}

func (r *ring[T]) resize(count int) {
	slots := make([]T, count)
	for i := range r.n {
		slots[i] = *r.at(i)
	}
	r.slots, r.start = slots, 0
}

// at returns element i, counted from the oldest.
func (r *ring[T]) at(i int) *T { return &r.slots[(r.start+i)%len(r.slots)] }
