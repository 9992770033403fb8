package execserver

import (
	"bytes"
	"slices"
	"sort"

	"github.com/execbus/execbus/execserver/internal/wire"
)

// entry is one numbered event of a process: a chunk of output, or a mark.
type entry struct {
	position
	stream wire.Stream
	bytes  []byte // never changed
	method string // of a mark
	params any    // of a mark
}

// position is a point between two entries.
type position struct {
	seq    uint64 // of the entry before it
	bytes  uint64 // of output before it
	chunks uint64 // of output before it
}

// record keeps the newest events of a process, with at most room bytes of output, and at most wire.RetainedChunks. A mark that is
// dropped was sent, or nobody will ask for it: a process whose client wants its events waits before the record is full.
type record struct {
	room    int // for bytes of output
	now     position
	entries []entry
	kept    int        // bytes of output in entries
	marks   []position // of all marks; a process has few
	lines   int64      // newlines in all output
}

// next returns the number of the next event.
func (r *record) next() uint64 { return r.now.seq + 1 }

// addOutput keeps output, which must not change any more.
func (r *record) addOutput(stream wire.Stream, output []byte) {
	r.now.bytes += uint64(len(output))
	r.now.chunks++
	r.kept += len(output)
	r.lines += int64(bytes.Count(output, []byte{'\n'}))
	r.add(entry{stream: stream, bytes: output})
}

// add keeps an event and gives it the next number.
func (r *record) add(e entry) {
	r.now.seq++
	e.position = r.now
	if e.method != "" {
		r.marks = append(r.marks, r.now)
	}
	r.entries = append(r.entries, e)
	drop := 0
	for r.kept > r.room || len(r.entries)-drop > wire.RetainedChunks {
		r.kept -= len(r.entries[drop].bytes)
		r.entries[drop] = entry{} // this frees the bytes before the list is freed
		drop++
	}
	r.entries = r.entries[drop:]
}

// after returns the kept entries after a number.
func (r *record) after(seq uint64) []entry {
	return r.entries[sort.Search(len(r.entries), func(i int) bool { return r.entries[i].seq > seq }):]
}

// first is which chunk of all output is the first that is kept, counted from 1.
func (r *record) first() uint64 {
	for _, e := range r.entries {
		if e.method == "" {
			return e.chunks
		}
	}
	return r.now.chunks + 1
}

// chunksUpTo counts the chunks whose numbers are at most seq.
func (r *record) chunksUpTo(seq uint64) uint64 {
	seq = min(seq, r.now.seq)
	chunks := seq
	for _, mark := range r.marks {
		if mark.seq <= seq {
			chunks--
		}
	}
	return chunks
}

// numberOf is the number of a chunk, which chunks counts.
func (r *record) numberOf(chunk uint64) uint64 {
	seq := chunk
	for _, mark := range r.marks {
		if mark.chunks < chunk {
			seq++
		}
	}
	return seq
}

// hasOutput reports whether there is output after a number.
func (r *record) hasOutput(after uint64) bool {
	return slices.ContainsFunc(r.after(after), func(e entry) bool { return e.method == "" })
}

// output returns the kept output after a number: the first chunk, and further ones while there is room for their bytes.
func (r *record) output(after uint64, room uint64) (found []entry) {
	used := uint64(0)
	for _, e := range r.after(after) {
		if e.method != "" {
			continue
		}
		if used += uint64(len(e.bytes)); used > room && len(found) > 0 {
			break
		}
		found = append(found, e)
	}
	return found
}

// upTo returns the position after the last kept entry whose number is at most seq.
func (r *record) upTo(seq uint64) position {
	if i := len(r.entries) - len(r.after(seq)); i > 0 {
		return r.entries[i-1].position
	}
	return position{}
}

// from returns the kept entries from the one on that has a byte of output.
func (r *record) from(offset int64) []entry {
	return r.entries[sort.Search(len(r.entries), func(i int) bool { return int64(r.entries[i].position.bytes) > offset }):]
}
