package ptyio

import (
	"bytes"
	"time"
	"unicode/utf8"

	"github.com/execbus/execbus/messages"
)

// MaxHold is how long a Splitter may hold the bytes of an unfinished character before its owner calls Flush. The wait begins
// when the Splitter begins to hold bytes, and again after each Push that emits a delta.
const MaxHold = 20 * time.Millisecond

// Splitter cuts one stream's output into deltas of at most messages.MaxOutputDelta bytes, on boundaries of UTF-8 characters.
//
// At the end of a batch it holds back up to 3 bytes, but only if they are the beginning of a character. Bytes that cannot
// become UTF-8 pass at once and in one piece with their neighbours. All deltas together, including that of Flush, are
// exactly the input.
//
// The zero value is ready for use. Use one Splitter for each stream; it is not safe for concurrent use. It has no clock: its
// owner calls Flush after MaxHold, and at the end of the stream.
type Splitter struct {
	held [utf8.UTFMax - 1]byte
	n    int
}

// Push takes the next batch and calls emit for each delta, in order. A delta shares the memory of the batch if possible, so
// it is valid only until emit returns.
func (s *Splitter) Push(batch []byte, emit func(delta []byte)) {
	if s.n > 0 {
		batch = batch[s.pushHeld(batch, emit):]
	}
	for {
		n := cut(batch, messages.MaxOutputDelta)
		if n == 0 {
			break
		}
		emit(batch[:n:n])
		batch = batch[n:]
	}
	s.n += copy(s.held[s.n:], batch)
}

// pushHeld emits a delta that begins with the held bytes, if the batch completes their character or shows that they are not
// the beginning of one. It returns how many bytes of the batch the delta took.
func (s *Splitter) pushHeld(batch []byte, emit func(delta []byte)) int {
	size := min(s.n+len(batch), messages.MaxOutputDelta)
	joined := append(make([]byte, 0, size), s.held[:s.n]...)
	joined = append(joined, batch[:size-s.n]...)
	n := cut(joined, messages.MaxOutputDelta)
	if n == 0 {
		s.n = copy(s.held[:], joined)
		return len(batch)
	}
	// The held bytes are the beginning of one character, so a cut lies before all of them or after them.
	taken := n - s.n
	s.n = 0
	emit(joined[:n:n])
	return taken
}

// Pending is the number of held bytes, 0 to 3.
func (s *Splitter) Pending() int { return s.n }

// Flush returns the held bytes as a delta of their own, or nil if there are none. After it no bytes are held.
func (s *Splitter) Flush() []byte {
	if s.n == 0 {
		return nil
	}
	delta := bytes.Clone(s.held[:s.n])
	s.n = 0
	return delta
}

// cut returns the length of the next delta of p, at most limit. limit is at least utf8.UTFMax, so that a character fits. The
// length is 0 if p is empty or only an unfinished character.
func cut(p []byte, limit int) int {
	p = p[:min(len(p), limit)]
	return len(p) - Unfinished(p)
}

// Unfinished is the number of bytes at the end of p that are the beginning of an unfinished UTF-8 character.
func Unfinished(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if end := p[len(p)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}
