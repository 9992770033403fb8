package tree

import (
	"sync"
	"sync/atomic"
)

// shared is a look at something that changes by itself. Callers share a look that began after all of them had asked: when
// many trees end at once, each would otherwise make the same look.
type shared[T any] struct {
	begun atomic.Uint64 // changed under mu
	mu    sync.Mutex
	last  T
}

// look returns the result of fresh: either of a call now, or of a call that another caller began after this call of look.
func (s *shared[T]) look(fresh func() T) T {
	before := s.begun.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun.Load() == before {
		s.begun.Add(1)
		s.last = fresh()
	}
	return s.last
}

// try returns the result of fresh, unless another caller is looking.
func (s *shared[T]) try(fresh func() T) (found T, looked bool) {
	if !s.mu.TryLock() {
		return found, false
	}
	defer s.mu.Unlock()
	s.begun.Add(1)
	s.last = fresh()
	return s.last, true
}

// between calls do while no caller is looking.
func (s *shared[T]) between(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}
