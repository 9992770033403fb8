package ptyio

import (
	"bytes"
	"io"
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

// expectHeadTail compares every view of a buffer with what its two halves and its count should be.
func expectHeadTail(t rapid.TB, b *HeadTailBuffer, head, tail string, omitted int64) {
	t.Helper()
	marked := head + tail
	if omitted > 0 {
		marked = head + messages.OmissionMarker(omitted) + tail
	}
	if got := string(b.Bytes()); got != head+tail {
		t.Errorf("Bytes: %q, want %q", got, head+tail)
	}
	if got := string(b.WithMarker()); got != marked {
		t.Errorf("WithMarker: %q, want %q", got, marked)
	}
	retained := len(head) + len(tail)
	if b.Retained() != retained || b.Omitted() != omitted || b.Total() != int64(retained)+omitted {
		t.Errorf("retained %d, omitted %d, total %d; want %d and %d",
			b.Retained(), b.Omitted(), b.Total(), retained, omitted)
	}
	var want []string
	for _, half := range []string{head, tail} {
		if half != "" {
			want = append(want, half)
		}
	}
	got := b.Snapshot()
	if len(got) != len(want) {
		t.Fatalf("Snapshot has %d chunks, want %d", len(got), len(want))
	}
	for i := range want {
		if string(got[i]) != want[i] {
			t.Errorf("Snapshot[%d]: %q, want %q", i, got[i], want[i])
		}
	}
}

func TestHeadTailKeepsBothEndsAndNamesTheMiddle(t *testing.T) {
	b := headTailOf(10, "0123456789", "ab")
	expectHeadTail(t, b, "01234", "789ab", 2)
	if got, want := string(b.WithMarker()), "01234\n... 2 bytes omitted ...\n789ab"; got != want {
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
	if memory := slots(&b.head) + slots(&b.tail); memory != 0 {
		t.Errorf("a drained buffer holds %d bytes", memory)
	}

	b.Push([]byte("again and again"))
	expectHeadTail(t, b, "again", "again", 5)
	expectHeadTail(t, drained, "01234", "789ab", 2)
}

func TestHeadTailPushBufferKeepsOmissionsAndTotal(t *testing.T) {
	sum := headTailOf(10, "xy")
	other := headTailOf(10, "0123456789", "ab")
	sum.PushBuffer(other)
	expectHeadTail(t, sum, "xy012", "789ab", 4)
	expectHeadTail(t, other, "01234", "789ab", 2)
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

func TestHeadTailCollectedFromDrainsIsTheOneThatGotEverything(t *testing.T) {
	whole, collected, drained := NewHeadTailBuffer(DefaultBufferSize), NewHeadTailBuffer(DefaultBufferSize), NewHeadTailBuffer(DefaultBufferSize)
	for i := range 3 {
		chunk := bytes.Repeat([]byte{'a' + byte(i), '\n'}, DefaultBufferSize/2)
		whole.Push(chunk)
		drained.Push(chunk)
		collected.PushBuffer(drained.Drain())
	}
	if !bytes.Equal(collected.WithMarker(), whole.WithMarker()) || collected.Retained() != DefaultBufferSize ||
		collected.Omitted() != 2*DefaultBufferSize || collected.Total() != whole.Total() {
		t.Errorf("retained %d, omitted %d, total %d; whole: %d, %d, %d", collected.Retained(), collected.Omitted(), collected.Total(),
			whole.Retained(), whole.Omitted(), whole.Total())
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

func TestHeadTailGivesAndTakesCopies(t *testing.T) {
	in := []byte("abcd")
	b := NewHeadTailBuffer(4)
	b.Push(in)
	in[0], in[3] = 'X', 'X'
	for _, out := range append(b.Snapshot(), b.Bytes()) {
		clear(out)
	}
	expectHeadTail(t, b, "ab", "cd", 0)
}

func TestHeadTailIsAWriter(t *testing.T) {
	b := NewHeadTailBuffer(DefaultBufferSize)
	n, err := io.Copy(b, bytes.NewReader(make([]byte, 3<<20)))
	if n != 3<<20 || err != nil || b.Total() != n || b.Retained() != DefaultBufferSize {
		t.Errorf("copied %d (%v), total %d, retained %d", n, err, b.Total(), b.Retained())
	}
}

func TestHeadTailMemoryFollowsItsContent(t *testing.T) {
	b := NewHeadTailBuffer(DefaultBufferSize)
	b.Push([]byte("user@machine:~/src$ "))
	if memory := slots(&b.head) + slots(&b.tail); memory > 32 {
		t.Errorf("a prompt of 20 bytes costs %d", memory)
	}
	batch := make([]byte, MaxBatch)
	for range 100 {
		b.Push(batch)
	}
	if memory := slots(&b.head) + slots(&b.tail); memory > DefaultBufferSize+2*pageItems {
		t.Errorf("a full buffer holds %d bytes", memory)
	}
	if allocs := testing.AllocsPerRun(10, func() { b.Push(batch) }); allocs != 0 {
		t.Errorf("a full buffer allocates %v times for a batch", allocs)
	}
}

// headTailModel is a HeadTailBuffer written for obviousness.
type headTailModel struct {
	capacity   int
	head, tail []byte
	omitted    int64
}

func (m *headTailModel) push(p []byte) {
	for _, c := range p {
		if len(m.head) < m.capacity/2 {
			m.head = append(m.head, c)
			continue
		}
		m.tail = append(m.tail, c)
		if len(m.tail) > m.capacity-m.capacity/2 {
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
			"drain": func(t *rapid.T) {
				old := buffer.Drain()
				expectHeadTail(t, old, string(model.head), string(model.tail), model.omitted)
				model = &headTailModel{capacity: capacity}
			},
			"push buffer": func(t *rapid.T) {
				size, p := rapid.IntRange(0, 20).Draw(t, "size"), chunk.Draw(t, "p")
				otherModel := &headTailModel{capacity: size}
				otherModel.push(p)
				buffer.PushBuffer(headTailOf(size, string(p)))
				model.push(otherModel.head)
				model.push(otherModel.tail)
				model.omitted += otherModel.omitted
			},
			"": func(t *rapid.T) {
				expectHeadTail(t, buffer, string(model.head), string(model.tail), model.omitted)
			},
		})
	})
}

func BenchmarkHeadTailPush64KiB(b *testing.B) {
	batch := make([]byte, MaxBatch)
	buffer := NewHeadTailBuffer(DefaultBufferSize)
	b.SetBytes(MaxBatch)
	b.ReportAllocs()
	for b.Loop() {
		buffer.Push(batch)
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

// slots is how many elements a ring has memory for.
func slots[T any](r *ring[T]) (n int) {
	for _, page := range r.pages {
		n += len(page)
	}
	return n
}

func TestARingIsAQueueWithABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := ring[int]{budget: rapid.SampledFrom([]int{0, 1, 5, pageItems - 1, pageItems, pageItems + 1, 3*pageItems + 7}).Draw(t, "budget")}
		var model []int
		next := 0
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "push") {
				items := make([]int, rapid.SampledFrom([]int{0, 1, 100, pageItems - 1, pageItems, 2*pageItems + 3, 5 * pageItems}).Draw(t, "items"))
				for i := range items {
					next++
					items[i] = next
				}
				model = append(model, items...)
				gone := max(0, len(model)-r.budget)
				model = model[gone:]
				if dropped := r.push(items); dropped != gone {
					t.Fatalf("%d dropped, not %d", dropped, gone)
				}
			} else if len(model) > 0 {
				n := rapid.IntRange(0, len(model)).Draw(t, "drop")
				r.drop(n)
				model = model[n:]
				if rapid.Bool().Draw(t, "shrink") {
					r.shrink()
					if most := r.n + 3*pageItems; slots(&r) > most {
						t.Fatalf("memory for %d elements, of which there are %d", slots(&r), r.n)
					}
				}
			}
			checkRing(t, &r, model)
		}
	})
}

func checkRing(t *rapid.T, r *ring[int], model []int) {
	if r.n != len(model) || !slices.Equal(r.appendTo(nil, 0, r.n), model) {
		t.Fatalf("%d elements, not the %d that were pushed", r.n, len(model))
	}
	if most := max(2*r.budget, r.budget+2*pageItems); slots(r) > most {
		t.Fatalf("memory for %d elements with a budget of %d", slots(r), r.budget)
	}
	if len(model) > 0 {
		i := rapid.IntRange(0, len(model)-1).Draw(t, "i")
		if j := rapid.IntRange(i, len(model)).Draw(t, "j"); r.at(i) != model[i] || !slices.Equal(r.appendTo(nil, i, j), model[i:j]) {
			t.Fatalf("the part from %d to %d is another", i, j)
		}
	}
}
