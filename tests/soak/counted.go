package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// firstLine is the number on the first line of a flood. All numbers have seven digits, so the place of a byte says what it
// must be.
const firstLine = 1_000_001

// flood is an output of numbered lines, as seq writes it.
type flood struct {
	lines int
	tty   bool // lines also end with a carriage return
}

// script returns a script that writes the flood.
func (f flood) script() string {
	if f.lines == 0 {
		return ":"
	}
	return fmt.Sprintf("seq %d %d", firstLine, firstLine+f.lines-1)
}

func (f flood) width() int64 {
	if f.tty {
		return 9
	}
	return 8
}

// total returns the number of bytes.
func (f flood) total() int64 { return int64(f.lines) * f.width() }

// check compares bytes with those that belong at an offset.
func (f flood) check(p []byte, offset int64) error {
	if end := offset + int64(len(p)); end > f.total() {
		return fmt.Errorf("bytes up to %d, and only %d were sent", end, f.total())
	}
	line := make([]byte, 0, 16)
	for at := offset; len(p) > 0; {
		line = strconv.AppendInt(line[:0], firstLine+at/f.width(), 10)
		if f.tty {
			line = append(line, '\r')
		}
		line = append(line, '\n')
		want := line[at%f.width():]
		n := min(len(want), len(p))
		if string(want[:n]) != string(p[:n]) {
			return fmt.Errorf("at offset %d stands %.20q, want %q", at, p, want)
		}
		p, at = p[n:], at+int64(n)
	}
	return nil
}

// transcript checks the transcript of an output of so many bytes.
func (f flood) transcript(p []byte, total int64) error {
	const half = ptyio.DefaultBufferSize / 2
	if total <= 2*half {
		if int64(len(p)) != total {
			return fmt.Errorf("the transcript has %d bytes of %d", len(p), total)
		}
		return f.check(p, 0)
	}
	marker := messages.OmissionMarker(total - 2*half)
	if len(p) != 2*half+len(marker) || string(p[half:half+len(marker)]) != marker {
		return fmt.Errorf("the transcript has %d bytes and at its middle %.40q, want %q", len(p), p[min(half, len(p)):], marker)
	}
	if err := f.check(p[:half], 0); err != nil {
		return err
	}
	return f.check(p[half+len(marker):], total-half)
}

// account adds up the answers that take the output of one process.
type account struct {
	flood
	taken int64 // bytes, including the omitted ones
}

func (a *account) take(r *messages.Result) error {
	if r.Omitted < 0 || r.Head < 0 || r.Head > len(r.Output) || r.Omitted == 0 && r.Head != 0 {
		return fmt.Errorf("an answer with %d bytes, %d of them the head, and %d omitted", len(r.Output), r.Head, r.Omitted)
	}
	if err := a.check(r.Output[:r.Head], a.taken); err != nil {
		return err
	}
	end := a.taken + int64(len(r.Output)) + r.Omitted
	if err := a.check(r.Output[r.Head:], end-int64(len(r.Output)-r.Head)); err != nil {
		return err
	}
	a.taken = end
	return nil
}

// follower is one subscriber of a flood, and adds up its events.
type follower struct {
	flood
	pos int64
	seq uint64

	lossless bool
	leave    int           // after how many events it leaves; it stays to the end if that is not above 0
	slow     time.Duration // it pauses now and then for this long, if that is above 0
	events   int
	done     bool
}

func (f *follower) see(event messages.Event, t *tally) error {
	switch e := event.(type) {
	case messages.OutputDelta:
		t.plus("bytes checked", int64(len(e.Bytes)))
		if e.Offset != f.pos || e.Seq != f.seq+1 {
			return fmt.Errorf("delta %d at offset %d, want delta %d at %d", e.Seq, e.Offset, f.seq+1, f.pos)
		}
		if len(e.Bytes) == 0 || len(e.Bytes) > messages.MaxOutputDelta {
			return fmt.Errorf("a delta of %d bytes", len(e.Bytes))
		}
		f.pos, f.seq = f.pos+int64(len(e.Bytes)), e.Seq
		if err := f.check(e.Bytes, e.Offset); err != nil {
			return err
		}
	case messages.Gap:
		t.plus("gaps", 1)
		switch {
		case f.lossless:
			return fmt.Errorf("a lossless subscriber got a gap from %d to %d", e.First, e.End)
		case e.Deltas == 0 && e.Inputs > 0:
		case e.First != f.pos || e.End <= e.First || e.Deltas <= 0:
			return fmt.Errorf("a gap from %d to %d of %d deltas, want one from %d", e.First, e.End, e.Deltas, f.pos)
		default:
			f.pos, f.seq = e.End, f.seq+uint64(e.Deltas)
		}
	case messages.ExecEnded:
		f.done = true
		if e.Total != f.pos {
			return fmt.Errorf("they have told of %d bytes, and the process has written %d", f.pos, e.Total)
		}
	}
	if f.events++; f.events == f.leave {
		f.done = true
	}
	if f.slow > 0 && f.events%8 == 0 {
		time.Sleep(f.slow)
	}
	return nil
}
