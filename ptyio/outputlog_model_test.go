package ptyio

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/execbus/execbus/messages"
	"pgregory.net/rapid"
)

// logModel remembers everything and works out what a log would have kept.
type logModel struct {
	head, tail, tailChunks int64
	all                    []byte
	chunks                 []Chunk
}

func (m *logModel) append(stream messages.Stream, p []byte) {
	if len(p) > 0 {
		seq, offset := uint64(len(m.chunks)+1), int64(len(m.all))
		m.chunks = append(m.chunks, Chunk{seq, offset, stream, bytes.Clone(p)})
		m.all = append(m.all, p...)
	}
}

// hole is what is not kept: from lost up to kept.
func (m *logModel) hole() (lost, kept int64) {
	total := int64(len(m.all))
	lost = min(m.head, total)
	kept = max(lost, total-m.tail)
	if n := int64(len(m.chunks)); n > m.tailChunks {
		kept = max(kept, m.chunks[n-m.tailChunks].Offset)
	}
	return lost, kept
}

// reach is how far one can read from an offset; it is below the offset if one cannot.
func (m *logModel) reach(offset int64) int64 {
	lost, kept := m.hole()
	switch {
	case lost == kept || offset >= kept:
		return int64(len(m.all))
	case offset < lost:
		return lost
	default:
		return -1
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
	if offset < 0 || offset > int64(len(m.all)) || end < offset {
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
	if seq < uint64(len(m.chunks)) {
		from := m.chunks[seq].Offset
		end := m.reach(from)
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
			begun := func(c Chunk) bool { return c.Offset >= first }
			behind := func(c Chunk) bool { return c.Offset >= end }
			r.FirstSeq, r.EndSeq = uint64(len(m.chunks)+1), uint64(len(m.chunks)+1)
			if i := slices.IndexFunc(m.chunks, begun); i >= 0 {
				r.FirstSeq = m.chunks[i].Seq
			}
			if i := slices.IndexFunc(m.chunks, behind); i >= 0 {
				r.EndSeq = m.chunks[i].Seq
			}
			want = append(want, r)
		}
	}
	if got := l.Ranges(); !slices.Equal(got, want) {
		t.Fatalf("ranges %v, want %v", got, want)
	}
}

func (m *logModel) checkTranscript(t *rapid.T, l *OutputLog, limit int) {
	lost, kept := m.hole()
	total := int64(len(m.all))
	var out []byte
	var omitted int64
	for offset, c := range m.all {
		at := int64(offset)
		first := at < lost || lost == kept
		last := at >= kept || lost == kept
		fits := total <= int64(limit) && (first || last)
		inHead := at < int64(limit/2) && first
		inTail := at >= total-int64(limit-limit/2) && last
		if !fits && !inHead && !inTail {
			omitted++
			if omitted == 1 {
				out = append(out, 0)
			}
			continue
		}
		out = append(out, c)
	}
	want := bytes.ReplaceAll(out, []byte{0}, []byte(messages.OmissionMarker(omitted)))
	if got := l.Transcript(limit); !bytes.Equal(got, want) {
		t.Fatalf("transcript %q, want %q", got, want)
	}
}

func TestLogAgreesWithItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		head := rapid.IntRange(1, 12).Draw(t, "head")
		tail := rapid.IntRange(1, 12).Draw(t, "tail")
		tailChunks := rapid.IntRange(1, 5).Draw(t, "tailChunks")
		l := newOutputLog(head, tail, tailChunks)
		m := &logModel{head: int64(head), tail: int64(tail), tailChunks: int64(tailChunks)}
		letters := rapid.SliceOfN(rapid.ByteRange('a', 'z'), 0, 15)
		for range rapid.IntRange(1, 12).Draw(t, "appends") {
			stream := rapid.SampledFrom(streams[:]).Draw(t, "stream")
			p := letters.Draw(t, "p")
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
