package ptyio

import (
	"bytes"
	"time"
	"unicode/utf8"

	"github.com/execbus/execbus/messages"
)

// MaxHold is how long a Splitter's owner lets the bytes of an unfinished character wait before it calls Flush. The wait
// begins when bytes are held where none were before, and anew with a Push that emits a delta.
const MaxHold = 20 * time.Millisecond

// Splitter cuts one stream's output into deltas of at most messages.MaxOutputDelta bytes, on boundaries of UTF-8 characters.
//
// At the end of a batch it holds back up to 3 bytes if they are the beginning of a character, and only then: bytes that
// cannot become UTF-8 travel at once and in one piece with their neighbours. All deltas together, Flush's included, are
// exactly the input.
//
// The zero value is ready for use. There is one Splitter for each stream; it is not safe for concurrent use. It has no
// clock: its owner calls Flush after MaxHold, and at the end of the stream.
type Splitter struct {
	held [utf8.UTFMax - 1]byte
	n    int
}

// Push takes the next batch and calls emit for each delta, in order. A delta is a part of the batch wherever that is
// possible, and so only valid until emit returns.
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

// pushHeld emits a delta that begins with the held bytes, if the batch finishes their character or shows that it is
// none, and returns how many bytes of the batch that took.
func (s *Splitter) pushHeld(batch []byte, emit func(delta []byte)) int {
	size := min(s.n+len(batch), messages.MaxOutputDelta)
	joined := append(make([]byte, 0, size), s.held[:s.n]...)
	joined = append(joined, batch[:size-s.n]...)
	n := cut(joined, messages.MaxOutputDelta)
	if n == 0 {
		s.n = copy(s.held[:], joined)
		return len(batch)
	}
	// Held bytes are a single beginning of a character, so a cut lies in front of all of them or behind.
	taken := n - s.n
	s.n = 0
	emit(joined[:n:n])
	return taken
}

// Pending is the number of held bytes, 0 to 3.
func (s *Splitter) Pending() int { return s.n }

// Flush returns the held bytes as a delta of its own and holds none any more; nil if there are none.
func (s *Splitter) Flush() []byte {
	if s.n == 0 {
		return nil
	}
	delta := bytes.Clone(s.held[:s.n])
	s.n = 0
	return delta
}

// cut is the length of the next delta of p, at most limit (which is at least utf8.UTFMax, so that there always is one).
// It is 0 if p is empty or nothing but an unfinished character.
func cut(p []byte, limit int) int {
	p = p[:min(len(p), limit)]
	return len(p) - Unfinished(p)
}

// Unfinished is the number of bytes at the end of p that are a proper beginning of a UTF-8 character.
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
