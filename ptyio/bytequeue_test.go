package ptyio

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/messages"
)

// held returns the memory that a queue refers to, counted piece by piece.
func held(r *byteQueue) int {
	total := len(r.segments.slots) * int(unsafe.Sizeof(segment{}))
	for _, s := range r.segments.slots { // with those that are not in use
		total += cap(s.bytes)
	}
	return total
}

// bound is the memory that n bytes may cost.
func bound(n int) int { return n + n/2 + 2*messages.MaxOutputDelta }

// checkQueue compares a queue with the bytes that it should have, and its memory with the bound.
func checkQueue(t rapid.TB, r *byteQueue, want []byte) {
	t.Helper()
	if r.n != len(want) || !bytes.Equal(r.appendTo(nil, 0, r.n), want) {
		t.Fatalf("%d bytes, not the %d that were pushed", r.n, len(want))
	}
	if memory := held(r); memory != r.memory() || memory > bound(r.n) {
		t.Fatalf("it says that %d bytes cost %d, and they cost %d", r.n, r.memory(), memory)
	}
}

// sizes has the size of a piece at each limit, and its neighbours.
var sizes = []int{0, 1, 2, 63, fewBytes - 1, fewBytes, 4096, messages.MaxOutputDelta - 1, messages.MaxOutputDelta, messages.MaxOutputDelta + 1, 40_000}

func TestAByteQueueHasABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := byteQueue{budget: rapid.SampledFrom([]int{0, 1, 1000, 5000, 20_000, 300_000}).Draw(t, "budget")}
		var model []byte
		next := byte(0)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			size, times := rapid.SampledFrom(sizes).Draw(t, "size"), rapid.SampledFrom([]int{1, 2, 50}).Draw(t, "times")
			for range times {
				p := make([]byte, size)
				for i := range p {
					next++
					p[i] = next ^ byte(i>>8)
				}
				model = append(model, p...)
				gone := max(0, len(model)-r.budget)
				model = model[gone:]
				if dropped := r.push(p); dropped != gone {
					t.Fatalf("%d dropped, not %d", dropped, gone)
				}
			}
			checkQueue(t, &r, model)
			if len(model) > 0 {
				i := rapid.IntRange(0, len(model)).Draw(t, "i")
				if j := rapid.IntRange(i, len(model)).Draw(t, "j"); !bytes.Equal(r.appendTo(nil, i, j), model[i:j]) {
					t.Fatalf("the part from %d to %d is another", i, j)
				}
				n := rapid.IntRange(0, len(model)).Draw(t, "drop")
				r.drop(n)
				model = model[n:]
				checkQueue(t, &r, model)
			}
		}
	})
}

// A delta costs its bytes once, however many holders keep it.
func TestWhatIsKeptIsShared(t *testing.T) {
	delta := bytes.Repeat([]byte("a"), messages.MaxOutputDelta)
	l, unread := NewOutputLog(Position{}), NewHeadTailBuffer(DefaultBufferSize)
	unread.Push(delta)
	c := l.Append(messages.StreamPTY, delta)
	for name, p := range map[string][]byte{
		"the chunk": c.Bytes, "the log": l.head.bytes.segments.at(0).bytes, "the unread": unread.head.segments.at(0).bytes,
	} {
		if unsafe.SliceData(p) != unsafe.SliceData(delta) {
			t.Errorf("%s has a copy", name)
		}
	}
	const lists = 2*segmentSize + markSize
	if got := l.Memory() + unread.Memory(); got != 2*messages.MaxOutputDelta+lists {
		t.Errorf("shared bytes count on both sides, but the sum is %d", got)
	}
}

// A queue adds nothing to a shared piece, even if the owner of the piece has left room.
func TestAByteQueueLeavesWhatItSharesAlone(t *testing.T) {
	shared, small := bytes.Repeat([]byte("a"), 2*fewBytes), []byte("b")
	r := byteQueue{budget: 1 << 20}
	r.push(small)
	r.push(shared[:fewBytes])
	r.push(small)
	if shared[fewBytes] != 'a' || unsafe.SliceData(r.segments.at(1).bytes) != unsafe.SliceData(shared) {
		t.Error("the small piece was put behind the shared one")
	}
	checkQueue(t, &r, slices.Concat(small, shared[:fewBytes], small))
}

// A queue copies a part of a larger piece. Otherwise the rest of the piece would be held without being counted.
func TestAByteQueueKeepsNoPartOfSomethingBigger(t *testing.T) {
	big := bytes.Repeat([]byte("a"), messages.MaxOutputDelta)
	r := byteQueue{budget: 2 * fewBytes}
	r.push(big)
	if part := big[len(big)-r.n:]; unsafe.SliceData(r.segments.at(0).bytes) == unsafe.SliceData(part) {
		t.Error("a part is shared")
	}
}

// The memory behind a log and an unread buffer stays in bounds for pieces of every shape.
func TestMemoryOfTheWorstOutput(t *testing.T) {
	for name, shape := range map[string][]int{
		"one byte each":             {1},
		"deltas":                    {messages.MaxOutputDelta},
		"full batches":              {MaxBatch},
		"one byte between big ones": {1, fewBytes},
		"few between big ones":      {fewBytes - 1, fewBytes},
		"lines between big ones":    {80, 80, 80, fewBytes},
		"gathered with room left":   {512, 1, fewBytes},
		"more with room left":       {1023, 1023, 3, fewBytes},
		"half a delta of lines":     {900, 900, 900, 900, 900, 900, 900, 900, 300, fewBytes},
		"mixed":                     {1, 8192, 3, 700, 5000, 1, 1, 1023, 1024, 2},
	} {
		l, unread := NewOutputLog(Position{}), NewHeadTailBuffer(DefaultBufferSize)
		most := 0.0
		for i, chunks := 0, 0; chunks < LogHead+2*LogTailChunks && l.Total() < 8<<20; chunks++ {
			p := bytes.Repeat([]byte("."), shape[i])
			i = (i + 1) % len(shape)
			unread.Push(p)
			l.Append(messages.StreamPTY, p)
			if chunks%1000 == 0 {
				checkMemory(t, name, l, unread)
			}
		}
		checkMemory(t, name, l, unread)
		for _, r := range []*byteQueue{&l.head.bytes, &l.tail.bytes, &unread.head, &unread.tail} {
			if r.n > 0 {
				most = max(most, float64(r.memory())/float64(r.n))
			}
		}
		t.Logf("%s: at most %.3f times the bytes; log %d, unread %d", name, most, l.Memory(), unread.Memory())
	}
}

func checkMemory(t *testing.T, name string, l *OutputLog, unread *HeadTailBuffer) {
	t.Helper()
	queues := int64(0)
	for what, r := range map[string]*byteQueue{
		"the log's head": &l.head.bytes, "the log's tail": &l.tail.bytes, "the unread head": &unread.head, "the unread tail": &unread.tail,
	} {
		memory := held(r)
		if memory != r.memory() || memory > bound(r.n) {
			t.Fatalf("%s: %d bytes in %s cost %d, and are said to cost %d", name, r.n, what, memory, r.memory())
		}
		queues += int64(memory)
	}
	marks := int64(4 * (len(l.head.marks.slots) + len(l.tail.marks.slots)))
	if got := l.Memory() + unread.Memory(); got != queues+marks {
		t.Fatalf("%s: they say %d, but hold %d", name, got, queues+marks)
	}
	if most := int64(4 * (LogHead + 1<<16)); marks > most {
		t.Fatalf("%s: the marks cost %d", name, marks)
	}
}

func TestMemoryFollowsTheContent(t *testing.T) {
	l, unread := NewOutputLog(Position{}), NewHeadTailBuffer(DefaultBufferSize)
	prompt := []byte("user@machine:~/src$ ")
	unread.Push(prompt)
	l.Append(messages.StreamPTY, prompt)
	if l.Memory() > 64 || unread.Memory() > 64 {
		t.Errorf("a prompt of %d bytes costs %d in the log and %d unread", len(prompt), l.Memory(), unread.Memory())
	}
}

func TestLogMemoryShrinksWithWhatIsKept(t *testing.T) {
	l := NewOutputLog(Position{})
	fill := func() {
		for range (LogHead + LogTail) / fewBytes {
			l.Append(messages.StreamPTY, make([]byte, fewBytes))
		}
	}
	fill()
	for range LogTailChunks {
		l.Append(messages.StreamPTY, []byte("."))
	}
	if memory, most := l.tail.bytes.memory(), bound(LogTailChunks); memory > most {
		t.Errorf("after chunks of one byte the tail holds %d bytes, more than %d", memory, most)
	}
	if slots, most := len(l.tail.marks.slots), 1<<16; slots > most {
		t.Errorf("after chunks of one byte there is room for %d marks, more than %d", slots, most)
	}
	fill()
	if memory, most := l.Memory(), int64(bound(LogHead)+bound(LogTail)+16*2*LogTail/fewBytes); memory > most {
		t.Errorf("after a flood it holds %d bytes, more than %d", memory, most)
	}
}

func ExampleOutputLog_Memory() {
	l, unread := NewOutputLog(Position{}), NewHeadTailBuffer(DefaultBufferSize)
	for range 512 << 10 {
		c := l.Append(messages.StreamPTY, []byte("."))
		unread.Push(c.Bytes)
	}
	fmt.Println(l.Memory() < 3<<20, unread.Memory() < 1<<20)
	// Output: true true
}
