package output

import (
	"slices"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// silent is a feed that nobody hears of lost output from.
func silent() *Feed {
	f := NewFeed(func(int64, int64) {}, func(messages.Stream) func() { return func() {} })
	return &f
}

// truth is all output in the order of the log.
type truth struct {
	bytes []byte
	lost  []bool // of each byte, whether it was lost on its way
	at    int    // the end of the last answer
}

// check compares an answer with the truth: its bytes are at their places, in order, and everything else is counted as omitted.
func (w *truth) check(t *rapid.T, r *messages.Result, more bool) {
	t.Helper()
	if r.Head < 0 || r.Head > len(r.Output) || r.Omitted < 0 || r.Omitted == 0 && r.Head != 0 {
		t.Fatalf("%d bytes, %d of them the head, and %d omitted", len(r.Output), r.Head, r.Omitted)
	}
	rest := r.Output[r.Head:]
	if r.Omitted > 0 {
		w.take(t, r.Output[:r.Head])
		w.at += int(r.Omitted)
	}
	w.take(t, rest)
	if n := ptyio.Unfinished(rest); more && n > 0 && !w.denies(rest[len(rest)-n:]) {
		t.Fatalf("it ends with the beginning of a character: %q", r.Output)
	}
}

// denies reports whether the next byte shows that the last ones are not the beginning of a character.
func (w *truth) denies(last []byte) bool {
	if w.at == len(w.bytes) || w.lost[w.at] {
		return false
	}
	joined := append(slices.Clone(last), w.bytes[w.at])
	r, size := utf8.DecodeRune(joined)
	return utf8.FullRune(joined) && r == utf8.RuneError && size == 1
}

func (w *truth) take(t *rapid.T, p []byte) {
	t.Helper()
	if end := w.at + len(p); end > len(w.bytes) || string(w.bytes[w.at:end]) != string(p) || slices.Contains(w.lost[w.at:end], true) {
		t.Fatalf("%q at %d of %q", p, w.at, w.bytes)
	}
	w.at += len(p)
}

// A batch that says where it belongs does not tear the character before it.
func TestANumberedBatchEndsTheCharacterBeforeIt(t *testing.T) {
	f := silent()
	var deltas []string
	f.sinks = []sink{func(chunk ptyio.Chunk, _ []*bus.Credit) { deltas = append(deltas, string(chunk.Bytes)) }}
	for i, batch := range []string{"a\xe2", "\x82", "\xac", "\xe2", "z"} {
		offset := []int64{0, 2, 3, 4, 7}[i] // the last comes behind a hole
		f.Receive(ptyio.NewOutputAt(messages.StreamStdout, []byte(batch), ptyio.Position{Offset: offset}, nil))
	}
	if want := []string{"a", "€", "\xe2", "z"}; !slices.Equal(deltas, want) {
		t.Errorf("%q, want %q", deltas, want)
	}
}

// Output with characters in pieces, that loses bytes on its way and is too much for the buffer of the unread, is answered in its order,
// and what is missing from the answers is counted at its place.
func TestAnswersAreInTheOrderOfTheOutput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world, pushed, came := &truth{}, map[messages.Stream][]byte{}, map[messages.Stream][]byte{}
		capacity := rapid.IntRange(0, 24).Draw(t, "capacity")
		f := silent()
		f.Unread = ptyio.NewHeadTailBuffer(capacity)
		f.sinks = []sink{
			func(chunk ptyio.Chunk, _ []*bus.Credit) { f.Unread.Push(chunk.Bytes) },
			func(chunk ptyio.Chunk, _ []*bus.Credit) {
				for int64(len(world.bytes)) < chunk.Offset {
					world.bytes, world.lost = append(world.bytes, 0), append(world.lost, true)
				}
				world.bytes = append(world.bytes, chunk.Bytes...)
				world.lost = append(world.lost, make([]bool, len(chunk.Bytes))...)
				came[chunk.Stream] = append(came[chunk.Stream], chunk.Bytes...)
			},
		}
		streams := []messages.Stream{messages.StreamStdout, messages.StreamStderr}
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "bc", "é", "€", "😀", "\xe2", "\xe2\x82", "\x82", "\xf0\x9f", "\xff"}), 0, 8)
		poll := func(t *rapid.T, more bool) {
			r := &messages.Result{}
			f.Take(r, more)
			for total := world.at + len(r.Output) + int(r.Omitted); len(world.bytes) < total; {
				world.bytes, world.lost = append(world.bytes, 0), append(world.lost, true)
			}
			world.check(t, r, more)
		}
		t.Repeat(map[string]func(*rapid.T){
			"batch": func(t *rapid.T) {
				stream := rapid.SampledFrom(streams).Draw(t, "stream")
				var batch []byte
				for _, piece := range pieces.Draw(t, "pieces") {
					batch = append(batch, piece...)
				}
				if len(batch) > 0 {
					batch = batch[rapid.IntRange(0, min(3, len(batch)-1)).Draw(t, "cut"):]
				}
				pushed[stream] = append(pushed[stream], batch...)
				numbered := rapid.Bool().Draw(t, "numbered")
				output := ptyio.NewOutput(stream, batch, nil)
				if numbered {
					output.At = &ptyio.Position{Offset: f.Log.Total()}
					for _, s := range f.splitters {
						output.At.Offset += int64(s.Pending())
					}
				}
				f.Receive(output)
			},
			"gap": func(t *rapid.T) {
				n := rapid.Int64Range(1, 5).Draw(t, "n")
				f.Skip(ptyio.Position{Offset: f.Log.Total() + 3 + n})
			},
			"late": func(t *rapid.T) {
				stream := rapid.SampledFrom(streams).Draw(t, "stream")
				f.Flush(stream)
			},
			"poll": func(t *rapid.T) { poll(t, true) },
		})
		f.FlushAll()
		poll(t, false)
		if world.at != len(world.bytes) {
			t.Fatalf("%d of %d bytes are accounted for", world.at, len(world.bytes))
		}
		for _, stream := range streams {
			if string(came[stream]) != string(pushed[stream]) {
				t.Fatalf("%s: %q came as %q", stream, pushed[stream], came[stream])
			}
		}
	})
}
