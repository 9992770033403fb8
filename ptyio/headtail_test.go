package ptyio

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/messages"
)

func headTailOf(capacity int, chunks ...string) *HeadTailBuffer {
	b := NewHeadTailBuffer(capacity)
	for _, chunk := range chunks {
		b.Push([]byte(chunk))
	}
	return b
}

// marked is the head followed by the tail, with a mark between them if bytes were dropped.
func (b *HeadTailBuffer) marked() []byte {
	mark := ""
	if b.Omitted() > 0 {
		mark = messages.OmissionMarker(b.Omitted())
	}
	return slices.Insert(b.Bytes(), b.Head(), []byte(mark)...)
}

// expectHeadTail compares every view of a buffer with the expected halves and count.
func expectHeadTail(t rapid.TB, b *HeadTailBuffer, head, tail string, omitted int64) {
	t.Helper()
	marked := head + tail
	if omitted > 0 {
		marked = head + messages.OmissionMarker(omitted) + tail
	}
	if got := string(b.Bytes()); got != head+tail {
		t.Errorf("Bytes: %q, want %q", got, head+tail)
	}
	if got := string(b.marked()); got != marked {
		t.Errorf("marked: %q, want %q", got, marked)
	}
	retained := len(head) + len(tail)
	if b.Retained() != retained || b.Omitted() != omitted || b.Total() != int64(retained)+omitted {
		t.Errorf("retained %d, omitted %d, total %d; want %d and %d",
			b.Retained(), b.Omitted(), b.Total(), retained, omitted)
	}
	if b.Head() != len(head) {
		t.Errorf("the head has %d bytes, want %d", b.Head(), len(head))
	}
}

func TestHeadTailKeepsBothEndsAndNamesTheMiddle(t *testing.T) {
	b := headTailOf(10, "0123456789", "ab")
	expectHeadTail(t, b, "01234", "789ab", 2)
	if got, want := string(b.marked()), "01234\n... 2 bytes omitted ...\n789ab"; got != want {
		t.Errorf("rendered %q, want %q", got, want)
	}
}

func TestHeadTailWithoutOmissionHasNoMarker(t *testing.T) {
	expectHeadTail(t, headTailOf(10, "0123456789"), "01234", "56789", 0)
}

func TestHeadTailOfSizeZeroOnlyCounts(t *testing.T) {
	expectHeadTail(t, headTailOf(0, "abc"), "", "", 3)
	expectHeadTail(t, headTailOf(-5, "abc"), "", "", 3)
	var zero HeadTailBuffer
	zero.Push([]byte("abc"))
	expectHeadTail(t, &zero, "", "", 3)
}

func TestHeadTailOfSizeOneKeepsTheLastByte(t *testing.T) {
	expectHeadTail(t, headTailOf(1, "ab", "c"), "", "c", 2)
}

func TestHeadTailDrainMovesEverythingAndResets(t *testing.T) {
	b := headTailOf(10, "0123456789", "ab")
	drained := b.Drain()
	expectHeadTail(t, drained, "01234", "789ab", 2)
	expectHeadTail(t, b, "", "", 0)
	if memory := b.Memory(); memory != 0 {
		t.Errorf("a drained buffer holds %d bytes", memory)
	}

	b.Push([]byte("again and again"))
	expectHeadTail(t, b, "again", "again", 5)
	expectHeadTail(t, drained, "01234", "789ab", 2)
}

func TestHeadTailOfTheDefaultSizeKeepsBothEnds(t *testing.T) {
	const half = DefaultBufferSize / 2
	for _, c := range []struct {
		b          *HeadTailBuffer
		head, tail string
		omitted    int64
	}{
		{headTailOf(DefaultBufferSize, strings.Repeat("a", DefaultBufferSize), "b"),
			strings.Repeat("a", half), strings.Repeat("a", half-1) + "b", 1},
		{headTailOf(DefaultBufferSize, "first\n", strings.Repeat("x", 2*DefaultBufferSize), "last\n"),
			"first\n" + strings.Repeat("x", half-6), strings.Repeat("x", half-5) + "last\n", DefaultBufferSize + 11},
	} {
		if got := string(c.b.Bytes()); got != c.head+c.tail || c.b.Retained() != DefaultBufferSize || c.b.Omitted() != c.omitted {
			t.Errorf("%.10q to %q, retained %d, omitted %d", got, got[max(len(got)-10, 0):], c.b.Retained(), c.b.Omitted())
		}
	}
}

func TestHeadTailChunkLargerThanTheTailLeavesItsLastBytes(t *testing.T) {
	expectHeadTail(t, headTailOf(10, "01234", "56", "abcdefgh"), "01234", "defgh", 5)
}

func TestHeadTailFillsHeadThenTailThenDropsTheOldestTailByte(t *testing.T) {
	b := headTailOf(10, "01", "234", "567", "89")
	expectHeadTail(t, b, "01234", "56789", 0)
	b.Push([]byte("a"))
	expectHeadTail(t, b, "01234", "6789a", 1)
}

func TestHeadTailTinyChunksStayTwoChunks(t *testing.T) {
	b := headTailOf(4, "", "a", "", "b", "c", "")
	expectHeadTail(t, b, "ab", "c", 0)
	for range 1000 {
		b.Push([]byte("z"))
		b.Push(nil)
	}
	expectHeadTail(t, b, "ab", "zz", 999)
}

func TestHeadTailGivesCopies(t *testing.T) {
	kept := bytes.Repeat([]byte("abcd"), fewBytes)
	b := NewHeadTailBuffer(len(kept))
	b.Push(kept)
	for _, out := range [][]byte{b.Bytes(), b.marked()} {
		clear(out)
	}
	if !bytes.Equal(b.Bytes(), kept) || kept[0] != 'a' {
		t.Error("a reader has changed what is kept")
	}
}

func TestHeadTailKnowsWhatWasLostElsewhere(t *testing.T) {
	b := headTailOf(10, "ab")
	b.PushOmitted(7)
	b.Push([]byte("cdef"))
	expectHeadTail(t, b, "ab", "cdef", 7)
	b.Push([]byte("0123456789"))
	expectHeadTail(t, b, "ab", "23456789", 13) // the tail may use what the head leaves free

	drained := b.Drain()
	expectHeadTail(t, drained, "ab", "23456789", 13)
	b.Push([]byte("0123456789"))
	expectHeadTail(t, b, "01234", "56789", 0)
	b.PushOmitted(3)
	expectHeadTail(t, b, "01234", "", 8)
	b.PushOmitted(0)
	b.PushOmitted(-1)
	b.Push([]byte("abc"))
	expectHeadTail(t, b, "01234", "abc", 8)

	b = headTailOf(10)
	b.PushOmitted(1)
	b.Push([]byte("0123456789ab"))
	expectHeadTail(t, b, "", "23456789ab", 3)
}

// headTailModel is a HeadTailBuffer in the most obvious form.
type headTailModel struct {
	capacity   int
	head, tail []byte
	omitted    int64
	closed     bool // the head takes no more bytes
}

func (m *headTailModel) push(p []byte) {
	for _, c := range p {
		room := m.capacity - m.capacity/2
		if m.closed {
			room = m.capacity - len(m.head)
		} else if len(m.head) < m.capacity/2 {
			m.head = append(m.head, c)
			continue
		}
		m.tail = append(m.tail, c)
		if len(m.tail) > room {
			m.tail = m.tail[1:]
			m.omitted++
		}
	}
}

func TestHeadTailAgreesWithItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(0, 20).Draw(t, "capacity")
		buffer, model := NewHeadTailBuffer(capacity), &headTailModel{capacity: capacity}
		chunk := rapid.SliceOfN(rapid.Byte(), 0, 30)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				p := chunk.Draw(t, "p")
				buffer.Push(p)
				model.push(p)
			},
			"lose": func(t *rapid.T) {
				n := rapid.Int64Range(1, 9).Draw(t, "n")
				buffer.PushOmitted(n)
				model.omitted += n + int64(len(model.tail))
				model.tail, model.closed = nil, true
			},
			"drain": func(t *rapid.T) {
				old := buffer.Drain()
				expectHeadTail(t, old, string(model.head), string(model.tail), model.omitted)
				model = &headTailModel{capacity: capacity}
			},
			"": func(t *rapid.T) {
				expectHeadTail(t, buffer, string(model.head), string(model.tail), model.omitted)
			},
		})
	})
}

func BenchmarkHeadTailPush64KiB(b *testing.B) {
	delta := make([]byte, messages.MaxOutputDelta)
	buffer := NewHeadTailBuffer(DefaultBufferSize)
	b.SetBytes(MaxBatch)
	b.ReportAllocs()
	for b.Loop() {
		for range MaxBatch / len(delta) {
			buffer.Push(delta)
		}
	}
}

func BenchmarkHeadTailPushAndDrain(b *testing.B) {
	prompt := []byte("user@machine:~/src$ ")
	buffer := NewHeadTailBuffer(DefaultBufferSize)
	b.ReportAllocs()
	for b.Loop() {
		buffer.Push(prompt)
		buffer.Drain()
	}
}
