package ptyio

import "slices"

// pageItems is the number of elements in a full page of a ring.
const pageItems = 8 << 10

// ring keeps the last elements pushed into it, at most budget. It starts without memory. Its first page doubles until it is
// full. Then it adds pages one by one, and pages that become free at the front are used again at the end. So elements are
// not moved once the first page is full, and further growth leaves no garbage.
type ring[T any] struct {
	pages  [][]T // all of them full, except a single one
	start  int   // the place of the oldest element in the first page
	n      int   // the number of elements
	budget int
}

// room is the number of elements that can be pushed before the oldest are dropped.
func (r *ring[T]) room() int { return r.budget - r.n }

// push adds elements at the end and returns how many it dropped: the oldest of the ring, then the first of p.
func (r *ring[T]) push(p []T) (dropped int) {
	dropped = max(0, len(p)-r.room())
	old := min(dropped, r.n)
	r.drop(old)
	for p = p[dropped-old:]; len(p) > 0; {
		copied := copy(r.free(len(p)), p)
		r.n += copied
		p = p[copied:]
	}
	return dropped
}

// free returns room after the newest element, for up to n more.
func (r *ring[T]) free(n int) []T {
	page, at := (r.start+r.n)/pageItems, (r.start+r.n)%pageItems
	switch {
	case page == len(r.pages) && page == 0:
		r.pages = [][]T{make([]T, min(n, pageItems))}
	case page == len(r.pages):
		r.pages = append(r.pages, make([]T, pageItems))
	case page == 0 && at == len(r.pages[0]): // the first page is not full yet
		bigger := make([]T, min(max(at+n, 2*at), pageItems))
		copy(bigger, r.pages[0])
		r.pages[0] = bigger
	}
	return r.pages[page][at:]
}

// drop removes the n oldest elements.
func (r *ring[T]) drop(n int) {
	r.start += n
	r.n -= n
	if r.n == 0 {
		r.start = 0
		return
	}
	if gone := r.start / pageItems; gone > 0 {
		slices.Reverse(r.pages[:gone]) // rotate: the free pages go to the end
		slices.Reverse(r.pages[gone:])
		slices.Reverse(r.pages)
		r.start %= pageItems
	}
}

// shrink frees the pages after the newest element except one. Call it on a ring that has dropped much and will not grow
// again soon.
func (r *ring[T]) shrink() {
	if spare := (r.start+r.n)/pageItems + 2; spare < len(r.pages) {
		r.pages = slices.Clip(slices.Delete(r.pages, spare, len(r.pages)))
	}
}

// at returns element i, counted from the oldest.
func (r *ring[T]) at(i int) T {
	i += r.start
	return r.pages[i/pageItems][i%pageItems]
}

// appendTo appends the elements from i up to, not including, j.
func (r *ring[T]) appendTo(dst []T, i, j int) []T {
	dst = slices.Grow(dst, j-i)
	for i, j = i+r.start, j+r.start; i < j; {
		page := r.pages[i/pageItems][i%pageItems:]
		n := min(len(page), j-i)
		dst = append(dst, page[:n]...)
		i += n
	}
	return dst
}

// slots is the number of elements for which there is memory.
func (r *ring[T]) slots() (n int) {
	for _, page := range r.pages {
		n += len(page)
	}
	return n
}
