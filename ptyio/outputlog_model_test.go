package ptyio

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/execbus/execbus/messages"
	"pgregory.net/rapid"
)

// logModel remembers everything and works out what a log should have kept. It has a zero for each byte that never came.
type logModel struct {
	head, tail, tailChunks int64
	begin, headEnd         int64 // of the head, if it becomes full
	behind                 int64 // the end of the last hole, where the tail begins
	last                   uint64
	all                    []byte
	chunks                 []Chunk
}

func newLogModel(from Position, head, tail, tailChunks int) *logModel {
	m := &logModel{head: int64(head), tail: int64(tail), tailChunks: int64(tailChunks)}
	m.skip(from)
	return m
}

func (m *logModel) append(stream messages.Stream, p []byte) {
	if len(p) > 0 {
		m.last++
		m.chunks = append(m.chunks, Chunk{m.last, int64(len(m.all)), stream, bytes.Clone(p)})
		m.all = append(m.all, p...)
	}
}

func (m *logModel) skip(to Position) {
	m.headEnd = min(m.headEnd, int64(len(m.all)))
	if len(m.chunks) == 0 {
		m.begin, m.headEnd = to.Offset, to.Offset+m.head
	}
	m.behind, m.last = to.Offset, max(m.last, to.Seq)
	m.all = append(m.all, make([]byte, to.Offset-int64(len(m.all)))...)
}

// hole returns the range after the head that is not kept, from lost up to kept.
func (m *logModel) hole() (lost, kept int64) {
	total := int64(len(m.all))
	lost = min(m.headEnd, total)
	kept = max(lost, total-m.tail)
	if m.behind > m.begin {
		kept = max(kept, m.behind)
	}
	if n := int64(len(m.chunks)); n > m.tailChunks {
		kept = max(kept, m.chunks[n-m.tailChunks].Offset)
	}
	return lost, kept
}

// reach returns the offset up to which one can read from another. It returns a lower one if one cannot.
func (m *logModel) reach(offset int64) int64 {
	lost, kept := m.hole()
	switch {
	case offset < m.begin:
		return -2 // below every requested offset
	case lost == kept || offset >= kept:
		return int64(len(m.all))
	case offset < lost:
		return lost
	default:
		return -2
	}
}

func (m *logModel) cut(from, to int64) []Chunk {
	var chunks []Chunk
	for _, c := range m.chunks {
		lo, hi := max(from, c.Offset), min(to, c.Offset+int64(len(c.Bytes)))
		if lo < hi {
			chunks = append(chunks, Chunk{c.Seq, lo, c.Stream, m.all[lo:hi]})
		}
	}
	return chunks
}

func (m *logModel) checkReadAt(t *rapid.T, l *OutputLog, offset int64, limit int) {
	chunks, err := l.ReadAt(offset, limit)
	end := m.reach(offset)
	if offset > int64(len(m.all)) || end < offset {
		if !errors.Is(err, messages.ErrOutputUnretained) {
			t.Fatalf("at %d: error %v", offset, err)
		}
		return
	}
	want := m.cut(offset, min(end, offset+int64(limit)))
	if err != nil || spelled(chunks) != spelled(want) {
		t.Fatalf("at %d, limit %d: %q (%v), want %q", offset, limit, spelled(chunks), err, spelled(want))
	}
}

func (m *logModel) checkReadAfter(t *rapid.T, l *OutputLog, seq uint64, limit int) {
	chunks, err := l.ReadAfter(seq, limit)
	var want []Chunk
	if seq != m.last {
		i := slices.IndexFunc(m.chunks, func(c Chunk) bool { return c.Seq == seq+1 })
		from, end := int64(0), int64(-1)
		if i >= 0 {
			from = m.chunks[i].Offset
			end = m.reach(from)
		}
		if end < from {
			if !errors.Is(err, messages.ErrOutputUnretained) {
				t.Fatalf("after %d: error %v", seq, err)
			}
			return
		}
		to := from
		for _, c := range m.cut(from, end) {
			next := c.Offset + int64(len(c.Bytes))
			if to == from || next-from <= int64(limit) {
				to = next
			}
		}
		want = m.cut(from, to)
	}
	if err != nil || spelled(chunks) != spelled(want) {
		t.Fatalf("after %d, limit %d: %q (%v), want %q", seq, limit, spelled(chunks), err, spelled(want))
	}
}

func (m *logModel) checkRanges(t *rapid.T, l *OutputLog) {
	var first, end int64 = -1, -1
	var want []Range
	for offset := range int64(len(m.all)) {
		if reach := m.reach(offset); reach > end {
			first, end = offset, reach
			r := Range{First: first, End: end}
			r.FirstSeq = m.last + 1
			for _, c := range slices.Backward(m.chunks) {
				if c.Offset >= first {
					r.FirstSeq = c.Seq
				}
				if c.Offset < end {
					r.EndSeq = max(r.EndSeq, c.Seq+1)
				}
			}
			want = append(want, r)
		}
	}
	if got := l.Ranges(); !slices.Equal(got, want) {
		t.Fatalf("ranges %v, want %v", got, want)
	}
}

// checkTranscript checks that each run of omitted bytes is one marker.
func (m *logModel) checkTranscript(t *rapid.T, l *OutputLog, limit int) {
	lost, kept := m.hole()
	total := int64(len(m.all))
	var want []byte
	var omitted int64
	tell := func() {
		if omitted > 0 {
			want = append(want, messages.OmissionMarker(omitted)...)
		}
		omitted = 0
	}
	for offset, c := range m.all {
		at := int64(offset)
		first := at >= m.begin && (at < lost || lost == kept)
		last := at >= m.begin && (at >= kept || lost == kept)
		fits := total-m.begin <= int64(limit) && (first || last)
		inHead := at < m.begin+int64(limit/2) && first
		inTail := at >= total-int64(limit-limit/2) && last
		if !fits && !inHead && !inTail {
			omitted++
			continue
		}
		tell()
		want = append(want, c)
	}
	tell()
	if got := l.Transcript(limit); !bytes.Equal(got, want) {
		t.Fatalf("transcript %q, want %q", got, want)
	}
}

func TestLogAgreesWithItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		head := rapid.IntRange(1, 12).Draw(t, "head")
		tail := rapid.IntRange(1, 12).Draw(t, "tail")
		tailChunks := rapid.IntRange(1, 5).Draw(t, "tailChunks")
		from := Position{}
		if rapid.Bool().Draw(t, "elsewhere") {
			from = Position{Offset: rapid.Int64Range(0, 9).Draw(t, "offset"), Seq: rapid.Uint64Range(0, 5).Draw(t, "seq")}
		}
		l, m := newOutputLog(from, head, tail, tailChunks), newLogModel(from, head, tail, tailChunks)
		letters := rapid.SliceOfN(rapid.ByteRange('a', 'z'), 0, 15)
		for range rapid.IntRange(1, 12).Draw(t, "appends") {
			stream := rapid.SampledFrom(streams[:]).Draw(t, "stream")
			p := letters.Draw(t, "p")
			if lost := rapid.SampledFrom([]int64{0, 0, 0, 0, 1, 7}).Draw(t, "lost"); lost > 0 {
				to := Position{Offset: l.Total() + lost, Seq: l.LastSeq() + uint64(rapid.IntRange(0, 3).Draw(t, "chunks lost"))}
				if got := l.Skip(to); got != lost {
					t.Fatalf("lost %d, not %d", got, lost)
				}
				m.skip(to)
			}
			l.Append(stream, p)
			m.append(stream, p)

			limit := rapid.IntRange(0, 20).Draw(t, "limit")
			for offset := int64(-1); offset <= l.Total()+1; offset++ {
				m.checkReadAt(t, l, offset, limit)
			}
			for seq := range l.LastSeq() + 1 {
				m.checkReadAfter(t, l, seq, limit)
			}
			m.checkRanges(t, l)
			m.checkTranscript(t, l, limit)
		}
	})
}
