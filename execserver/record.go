package execserver

import (
	"slices"
	"sort"

	"github.com/execbus/execbus/execserver/internal/wire"
)

// entry is one numbered event of a process: a chunk of output, or a mark.
type entry struct {
	place
	stream wire.Stream
	bytes  []byte // never changed
	method string // of a mark
	params any    // of a mark
}

// place is a point between two entries.
type place struct {
	seq    uint64 // of the entry before it
	bytes  uint64 // of output before it
	chunks uint64 // of output before it
}

// record keeps the past of a process: all marks, of which there are at most five, and the newest output, at most room bytes in
// wire.RetainedChunks.
type record struct {
	room   int // for bytes of output
	now    place
	chunks []entry
	kept   int // bytes in chunks
	marks  []entry
}

// addOutput keeps bytes, which must not change any more.
func (r *record) addOutput(stream wire.Stream, bytes []byte) {
	r.now.seq++
	r.now.bytes += uint64(len(bytes))
	r.now.chunks++
	r.chunks = append(r.chunks, entry{place: r.now, stream: stream, bytes: bytes})
	r.kept += len(bytes)
	drop := 0
	for r.kept > r.room || len(r.chunks)-drop > wire.RetainedChunks {
		r.kept -= len(r.chunks[drop].bytes)
		r.chunks[drop] = entry{} // this frees the bytes before the list is freed
		drop++
	}
	r.chunks = r.chunks[drop:]
}

// addMark keeps a notification and returns its number, from which its parameters are made.
func (r *record) addMark(method string, params func(seq uint64) any) uint64 {
	r.now.seq++
	r.marks = append(r.marks, entry{place: r.now, method: method, params: params(r.now.seq)})
	return r.now.seq
}

// next returns the first entry after a number.
func (r *record) next(after uint64) (entry, bool) {
	i := r.behind(after)
	m := slices.IndexFunc(r.marks, func(e entry) bool { return e.seq > after })
	switch {
	case i == len(r.chunks) && m < 0:
		return entry{}, false
	case i == len(r.chunks) || m >= 0 && r.marks[m].seq < r.chunks[i].seq:
		return r.marks[m], true
	default:
		return r.chunks[i], true
	}
}

// behind returns the index of the first kept chunk after a number.
func (r *record) behind(after uint64) int {
	return sort.Search(len(r.chunks), func(i int) bool { return r.chunks[i].seq > after })
}

// output returns the kept output after a number: the first chunk, and further ones while there is room for their bytes.
func (r *record) output(after uint64, room uint64) []entry {
	from := r.behind(after)
	to := from
	for used := uint64(0); to < len(r.chunks); to++ {
		if used += uint64(len(r.chunks[to].bytes)); used > room && to > from {
			break
		}
	}
	return slices.Clone(r.chunks[from:to]) // the list is overwritten later
}

// upTo returns the place after the last kept entry whose number is at most seq.
func (r *record) upTo(seq uint64) place {
	var found place
	if i := r.behind(seq); i > 0 {
		found = r.chunks[i-1].place
	}
	for _, mark := range r.marks {
		if mark.seq <= seq && mark.seq > found.seq {
			found = mark.place
		}
	}
	return found
}
