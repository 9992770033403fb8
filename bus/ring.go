package bus

// ring is a first-in-first-out queue that grows by doubling and reuses its memory. The caller that pushes enforces the bound.
type ring[T any] struct {
	slots []T // length is zero or a power of two
	head  int
	count int
}

// at returns the element at position i from the front.
func (r *ring[T]) at(i int) *T { return &r.slots[(r.head+i)&(len(r.slots)-1)] }

func (r *ring[T]) push(v T) {
	if r.count == len(r.slots) {
		r.grow()
	}
	r.count++
	*r.at(r.count - 1) = v
}

// pop removes the front element; the ring must not be empty.
func (r *ring[T]) pop() T {
	front := r.at(0)
	v := *front
	var zero T
	*front = zero // a slot that waits for reuse must not keep an event's bytes alive
	r.head = (r.head + 1) & (len(r.slots) - 1)
	r.count--
	return v
}

func (r *ring[T]) grow() {
	larger := make([]T, max(8, 2*len(r.slots)))
	for i := range r.count {
		larger[i] = *r.at(i)
	}
	r.slots, r.head = larger, 0
}
