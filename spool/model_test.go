package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/messages"
)

// disk is a storage in memory. It may refuse writes, and it may stop them until it is told to go on.
type disk struct {
	content []byte
	refuse  error
	partial bool // what it refuses is written in part
	closed  bool
	wait    chan struct{} // nil: it does not wait
	waits   chan struct{}
	overlap func() // called in the middle of a read
}

func (d *disk) WriteAt(p []byte, at int64) (int, error) {
	if d.wait != nil {
		d.waits <- struct{}{}
		<-d.wait
	}
	n := len(p)
	if d.refuse != nil {
		if n = 0; d.partial {
			n = len(p) / 2
		}
	}
	if need := at + int64(n); need > int64(len(d.content)) {
		d.content = append(d.content, make([]byte, need-int64(len(d.content)))...)
	}
	copy(d.content[at:], p[:n])
	return n, d.refuse
}

func (d *disk) ReadAt(p []byte, at int64) (int, error) {
	if d.closed {
		return 0, errors.New("closed")
	}
	if at+int64(len(p)) > int64(len(d.content)) {
		return 0, fmt.Errorf("nothing was written at %d to %d of %d", at, at+int64(len(p)), len(d.content))
	}
	copy(p, d.content[at:])
	if d.overlap != nil {
		overlap := d.overlap
		d.overlap = nil
		overlap()
	}
	return len(p), nil
}

func (d *disk) Close() error {
	d.closed = true
	return nil
}

// tiny is a store with files of few bytes, which New refuses.
func tiny(per, total int64, disks func() Storage) *Store {
	return &Store{options: Options{PerProcess: per, Total: total, Create: func() (Storage, error) { return disks(), nil }},
		reading: make(chan struct{}, maxReads), open: map[*File]bool{}}
}

// output is all output of a process, of which a file and a memory have parts.
type output struct {
	bytes  []byte
	chunks []messages.OutputChunk
	seq    uint64
}

func (o *output) add(stream messages.Stream, p []byte) messages.OutputChunk {
	o.seq++
	chunk := messages.OutputChunk{Seq: o.seq, Offset: int64(len(o.bytes)), Stream: stream, Bytes: p}
	o.bytes = append(o.bytes, p...)
	o.chunks = append(o.chunks, chunk)
	return chunk
}

func (o *output) lines(end int64) int64 { return newlines(o.bytes[:end]) }

func drawChunk(t *rapid.T, o *output, most int) messages.OutputChunk {
	text := rapid.SliceOfN(rapid.SampledFrom([]byte("ab\n\nfail0\r")), 1, most).Draw(t, "text")
	return o.add(rapid.SampledFrom(streams).Draw(t, "stream"), text)
}

// Random writes, of which some fail, lose output before them, or find no room: at each time the file has what it says, and says exactly
// what it must have.
func TestAFileHasWhatItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		per := rapid.Int64Range(512, 4096).Draw(t, "per process")
		total := rapid.SampledFrom([]int64{per * 3 / 4, per * 7 / 8, per * 2, 1 << 30}).Draw(t, "total")
		d := &disk{}
		s := tiny(per, total, func() Storage { return d })
		f := s.New()
		o, written := &output{}, int64(0) // written is what Write has been given
		failed := false
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				if failed {
					return
				}
				var batch []messages.OutputChunk
				lines := o.lines(int64(len(o.bytes)))
				for range rapid.IntRange(1, 12).Draw(t, "chunks") {
					batch = append(batch, drawChunk(t, o, rapid.SampledFrom([]int{2, 50, 60}).Draw(t, "most")))
				}
				if rapid.IntRange(0, 20).Draw(t, "fails") == 0 {
					d.refuse, d.partial = errors.New("full"), rapid.Bool().Draw(t, "partial")
				}
				err := f.Write(batch, lines)
				if full := errors.Is(err, messages.ErrLimitReached); (err != nil) != (d.refuse != nil || full) {
					t.Fatalf("write: %v", err)
				}
				failed = err != nil
				written = int64(len(o.bytes))
			},
			"lose": func(t *rapid.T) {
				if rapid.IntRange(0, 5).Draw(t, "lose") == 0 {
					drawChunk(t, o, 20)
				}
			},
			"": func(t *rapid.T) {
				check(t, f, o)
				c, storage := f.now()
				if storage == nil || failed {
					return
				}
				if written > 0 && c.end() != written {
					t.Fatalf("the file ends at %d, and %d was written", c.end(), written)
				}
				if ranges := c.ranges(); !c.marks.full() && c.bytes.full() {
					if r := ranges[len(ranges)-1]; r.End-r.First != c.bytes.cycle() || ranges[0].End != c.from+c.bytes.half() {
						t.Fatalf("%v of %v", ranges, c.bytes)
					}
				} else if !c.marks.full() && (len(ranges) != 1 || ranges[0].First != c.from) {
					t.Fatalf("%v, although nothing had to go", ranges)
				}
				if int64(len(d.content)) > per || s.used > total || f.share > s.used {
					t.Fatalf("%d bytes of %d; used %d of %d", len(d.content), per, s.used, total)
				}
				if used := min(c.bytes.n, c.bytes.size) + markSize*min(c.marks.n, c.marks.size); used > f.share {
					t.Fatalf("%d bytes, with a share of %d", used, f.share)
				}
			},
		})
		f.Close()
		s.Close()
		if s.used != 0 || len(s.open) != 0 || f.Ranges() != nil || !d.closed && d.content != nil {
			t.Fatalf("after closing: %+v", s)
		}
	})
}

// check compares what a file says it has, and only that can be read, with all output.
func check(t *rapid.T, f *File, o *output) {
	kept := make([]bool, len(o.bytes)+2)
	before := messages.OutputRange{End: -1}
	for _, r := range f.Ranges() {
		if r.First <= before.End || r.First >= r.End || r.End > int64(len(o.bytes)) {
			t.Fatalf("%v of %d", f.Ranges(), len(o.bytes))
		}
		before = r
		for i := r.First; i < r.End; i++ {
			kept[i] = true
		}
		got := make([]byte, r.End-r.First)
		if n, err := f.bytes(got, r.First); err != nil || n != len(got) || !bytes.Equal(got, o.bytes[r.First:r.End]) {
			t.Fatalf("%v: %q, %v, want %q", r, got[:n], err, o.bytes[r.First:r.End])
		}
		for _, chunk := range o.chunks {
			if in := r.First <= chunk.Offset && chunk.Offset < r.End; in != (r.FirstSeq <= chunk.Seq && chunk.Seq < r.EndSeq) {
				t.Fatalf("chunk %d at %d, and %+v", chunk.Seq, chunk.Offset, r)
			}
		}
	}
	for range 3 {
		at := rapid.Int64Range(0, int64(len(o.bytes))+1).Draw(t, "at")
		limit := rapid.IntRange(1, 200).Draw(t, "limit")
		chunks, err := f.chunks(at, limit)
		if !kept[at] {
			if !errors.Is(err, errGone) {
				t.Fatalf("%d is not kept: %v, %v", at, chunks, err)
			}
			continue
		}
		size := 0
		for next := at; err == nil && len(chunks) > 0; chunks = chunks[1:] {
			c := chunks[0]
			whole := o.chunks[c.Seq-1]
			if c.Offset != next || c.Stream != whole.Stream || c.Offset < whole.Offset || c.Offset+int64(len(c.Bytes)) > whole.Offset+int64(len(whole.Bytes)) ||
				!bytes.Equal(c.Bytes, o.bytes[c.Offset:c.Offset+int64(len(c.Bytes))]) || len(c.Bytes) == 0 {
				t.Fatalf("%+v is not of %+v", c, whole)
			}
			next += int64(len(c.Bytes))
			size += len(c.Bytes)
		}
		if end := at + int64(size); err != nil || size > limit || size < limit && kept[end] {
			t.Fatalf("%d bytes at %d of %d, %v", size, at, limit, err)
		}
	}
	if len(o.chunks) > 0 {
		checkWhole(t, f, o)
	}
	if len(o.chunks) > 0 {
		chunk := rapid.SampledFrom(o.chunks).Draw(t, "chunk")
		at, err := f.offsetOf(chunk.Seq)
		if has := kept[chunk.Offset]; has != (err == nil) || has && at != chunk.Offset {
			t.Fatalf("chunk %d at %d, kept %v: %d, %v", chunk.Seq, chunk.Offset, has, at, err)
		}
	}
}

// checkWhole compares whole chunks that are read with all output: they are the next that the file has whole, and as many as there is room for.
func checkWhole(t *rapid.T, f *File, o *output) {
	ranges := f.Ranges()
	whole := map[uint64]bool{}
	for i, r := range ranges {
		for seq := r.FirstSeq; seq < r.EndSeq; seq++ {
			whole[seq] = seq+1 < r.EndSeq || i == len(ranges)-1 // the last one before a gap may have been cut
		}
	}
	from := rapid.Uint64Range(0, o.seq+1).Draw(t, "from chunk")
	limit := rapid.IntRange(0, 200).Draw(t, "room")
	next := from
	for next <= o.seq && !whole[next] {
		next++
	}
	chunks, err := f.Chunks(context.Background(), from, limit)
	if err != nil || (len(chunks) == 0) != (next > o.seq) {
		t.Fatalf("from chunk %d: %v, %v; kept are %v", from, chunks, err, ranges)
	}
	size := 0
	for i, c := range chunks {
		want := o.chunks[next-1]
		if size += len(c.Bytes); c.Seq != next || c.Stream != want.Stream || c.Offset != want.Offset || !bytes.Equal(c.Bytes, want.Bytes) || i > 0 && size > limit {
			t.Fatalf("from chunk %d with room for %d: %+v, want %+v; kept are %v", from, limit, c, want, ranges)
		}
		next++
	}
	if len(chunks) > 0 && whole[next] && whole[next-1] && size+len(o.chunks[next-1].Bytes) <= limit {
		t.Fatalf("from chunk %d with room for %d come only %d bytes; kept are %v", from, limit, size, ranges)
	}
}

// world is output of which a file and memory have parts.
type world struct {
	*output
	file   *File
	memory Memory
	kept   []bool
}

func drawWorld(t *rapid.T) *world {
	w := &world{output: &output{}}
	s := tiny(rapid.Int64Range(512, 2048).Draw(t, "per process"), 1<<30, func() Storage { return &disk{} })
	w.file = s.New()
	headEnd := 0
	var batch []messages.OutputChunk
	if rapid.Bool().Draw(t, "head") {
		headEnd = len(drawChunk(t, w.output, 80).Bytes)
	}
	lines := w.lines(int64(headEnd))
	for range rapid.IntRange(0, 60).Draw(t, "chunks") {
		batch = append(batch, drawChunk(t, w.output, 40))
	}
	total := int64(len(w.bytes))
	unwritten := rapid.IntRange(0, len(batch)).Draw(t, "unwritten")
	if err := w.file.Write(batch[:len(batch)-unwritten], lines); err != nil {
		t.Fatal(err)
	}
	w.memory = Memory{Total: total, Lines: newlines(w.bytes), Ended: rapid.Bool().Draw(t, "ended")}
	from := rapid.Int64Range(0, total).Draw(t, "memory from")
	for _, e := range []Extent{{0, w.bytes[:min(int64(headEnd), from)]}, {from, w.bytes[from:]}} {
		if len(e.Bytes) > 0 {
			w.memory.Extents = append(w.memory.Extents, e)
		}
	}
	w.kept = make([]bool, total+1)
	for _, r := range w.file.Ranges() {
		for i := r.First; i < r.End; i++ {
			w.kept[i] = true
		}
	}
	for _, e := range w.memory.Extents {
		for i := e.First; i < e.end(); i++ {
			w.kept[i] = true
		}
	}
	return w
}

// naive is a search in the simplest way, over what is kept between two offsets.
func (w *world) naive(m messages.Grep, from, to int64) (found []messages.OutputLine, missed int64) {
	expression := regexp.MustCompile(m.Pattern)
	for at := from; at < to; {
		if !w.kept[at] {
			at++
			missed++
			continue
		}
		end := at
		for end < to && w.kept[end] {
			end++
		}
		for line := range bytes.Lines(w.bytes[at:end]) {
			text := bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
			if !bytes.HasSuffix(line, []byte("\n")) {
				text = bytes.TrimSuffix(line, []byte("\r"))
			}
			if expression.Match(text) {
				found = append(found, messages.OutputLine{Offset: at, Number: w.lines(at) + 1, Match: true, Bytes: text})
			}
			at += int64(len(line))
		}
	}
	return found, missed
}

var patterns = []string{"fail", "fail|[0-9]", "^fail$", "a", "b+", "(?i)FAIL", "fail|aa", "[0-9]", "^$", "l0|bb|fa", "(ab)+", "fa.*a", "a{2}", "x", "a?b"}

// A search finds what a naive one finds, at any division of the output between file and memory, and counts what is missing.
func TestASearchFindsEachLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		from := rapid.Int64Range(0, w.memory.Total).Draw(t, "from")
		m := messages.ReadOutput{Offset: &from, Grep: &messages.Grep{Pattern: rapid.SampledFrom(patterns).Draw(t, "pattern"),
			Matches: rapid.IntRange(0, 3).Draw(t, "matches"), Bytes: rapid.Int64Range(0, 300).Draw(t, "bytes"),
			Before: rapid.IntRange(0, 2).Draw(t, "before"), After: rapid.IntRange(0, 2).Draw(t, "after")}}
		to := w.memory.Total
		if m.Grep.Bytes > 0 {
			to = min(to, from+m.Grep.Bytes)
		}
		want, missed := w.naive(*m.Grep, from, to)
		var got []messages.OutputLine
		var lost int64
		for at := from; ; {
			m.Offset, m.Grep.Bytes = &at, to-at
			if at == to {
				break
			}
			found, err := w.file.Read(context.Background(), m, w.memory)
			if err != nil {
				t.Fatal(err)
			}
			page, shown := found.Page, int64(-1)
			for _, line := range page.Lines {
				if line.Offset <= shown {
					t.Fatalf("%d after %d", line.Offset, shown)
				}
				shown = line.Offset
				if line.Number != 0 && line.Number != w.lines(line.Offset)+1 {
					t.Fatalf("line %d is said to have the number %d", w.lines(line.Offset)+1, line.Number)
				}
				if !bytes.HasPrefix(w.bytes[line.Offset:], line.Bytes) {
					t.Fatalf("%q is not at %d", line.Bytes, line.Offset)
				}
				if line.Match {
					got = append(got, line)
				}
			}
			lost += page.Missed
			if page.Next <= at { // an unfinished line
				if w.memory.Ended || to != w.memory.Total {
					t.Fatalf("from %d to %d of %d: the next is %d", at, to, w.memory.Total, page.Next)
				}
				break
			}
			at = page.Next
		}
		if len(got) != len(want) || lost != missed {
			t.Fatalf("found %d lines and missed %d, want %d and %d", len(got), lost, len(want), missed)
		}
		for i, line := range got {
			if line.Number == 0 {
				line.Number = want[i].Number // it was not known
			}
			if fmt.Sprint(line) != fmt.Sprint(want[i]) {
				t.Fatalf("found %v, want %v", line, want[i])
			}
		}
	})
}

// Lines before and after a match are those that are there.
func TestASearchShowsTheLinesAroundAMatch(t *testing.T) {
	text := "one\ntwo\nthree fail\nfour\nfive\nsix fail\nseven fail\neight\n"
	f := tiny(1024, 1<<30, nil).New()
	m := Memory{Extents: []Extent{{0, []byte(text)}}, Total: int64(len(text)), Lines: newlines([]byte(text)), Ended: true}
	for _, c := range []struct {
		before, after, matches, max int
		want                        string
	}{
		{0, 0, 0, 0, "3*three fail 6*six fail 7*seven fail"},
		{1, 0, 0, 0, "2 two 3*three fail 5 five 6*six fail 7*seven fail"},
		{0, 1, 0, 0, "3*three fail 4 four 6*six fail 7*seven fail 8 eight"},
		{2, 1, 0, 0, "1 one 2 two 3*three fail 4 four 5 five 6*six fail 7*seven fail 8 eight"},
		{9, 9, 0, 0, "1 one 2 two 3*three fail 4 four 5 five 6*six fail 7*seven fail 8 eight"},
		{2, 0, 2, 0, "1 one 2 two 3*three fail 4 four 5 five 6*six fail"},
		{2, 2, 0, 32 + 10, "3*three fail"},
		{2, 2, 0, 2*32 + 13, "2 two 3*three fail"},
		{0, 0, 0, 1, "3*three fail"}, // the first one comes in any case
	} {
		found, err := f.Read(t.Context(), messages.ReadOutput{Max: c.max, Grep: &messages.Grep{Pattern: "fail", Before: c.before, After: c.after, Matches: c.matches}}, m)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, line := range found.Page.Lines {
			mark := " "
			if line.Match {
				mark = "*"
			}
			got = append(got, fmt.Sprint(line.Number)+mark+string(line.Bytes))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v:\n%s, want\n%s", c, strings.Join(got, " "), c.want)
		}
	}
}

// A line is found by its number, from the beginning and from the end, and what is missing is said.
func TestALineIsFoundByItsNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		starts := []int64{0}
		for i, c := range w.bytes {
			if c == '\n' {
				starts = append(starts, int64(i)+1)
			}
		}
		n := rapid.IntRange(1, len(starts)+1).Draw(t, "line")
		s := w.file.source(w.memory)
		at, _, err := s.line(context.Background(), int64(n), false)
		switch {
		case n > len(starts):
			if !errors.Is(err, messages.ErrOutputUnretained) || !strings.Contains(err.Error(), "there is none") {
				t.Fatalf("line %d of %d: %d, %v", n, len(starts), at, err)
			}
		case err == nil:
			if at != starts[n-1] {
				t.Fatalf("line %d is at %d, not at %d", n, starts[n-1], at)
			}
		case !errors.Is(err, messages.ErrOutputUnretained) || !strings.Contains(err.Error(), "not kept"):
			t.Fatal(err)
		case starts[n-1] > 0 && w.kept[starts[n-1]-1] && w.kept[starts[n-1]] && w.everywhere(starts[n-1], w.memory.Total):
			t.Fatalf("line %d at %d is said to be missing", n, starts[n-1])
		}
		skipped, missed, err := s.line(context.Background(), int64(n), true)
		if err == nil && missed > 0 && (!w.kept[skipped] || skipped > 0 && w.kept[skipped-1] || slices.Contains(w.kept[skipped-missed:skipped], true)) {
			t.Fatalf("line %d: skipped %d to %d", n, missed, skipped)
		}
		if n = rapid.IntRange(1, len(starts)+1).Draw(t, "from the end"); len(w.bytes) > 0 && w.everywhere(0, w.memory.Total) {
			if starts[len(starts)-1] == w.memory.Total { // nothing is behind the last newline
				starts = starts[:len(starts)-1]
			}
			want := starts[max(len(starts)-n, 0)]
			if at, err := s.fromEnd(context.Background(), int64(n)); err != nil || at != want {
				t.Fatalf("line -%d: %d, %v, want %d of %q", n, at, err, want, w.bytes)
			}
		}
	})
}

func (w *world) everywhere(from, to int64) bool { return !slices.Contains(w.kept[from:to], false) }

// What is overwritten, or given up, while it is read is not answered.
func TestOutputThatGoesWhileItIsReadIsNotAnswered(t *testing.T) {
	for _, closes := range []bool{false, true} {
		d := &disk{}
		f := tiny(512, 1<<30, func() Storage { return d }).New()
		o := &output{}
		write := func(n int) {
			for range n {
				if err := f.Write([]messages.OutputChunk{o.add(messages.StreamPTY, bytes.Repeat([]byte{byte('a' + o.seq%26)}, 50))}, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		write(20)
		ranges := f.Ranges()
		old := ranges[len(ranges)-1].First
		gone := func() {
			if closes {
				f.Close()
			} else {
				write(3)
			}
		}
		d.overlap = gone
		if n, err := f.bytes(make([]byte, 50), old); !errors.Is(err, errGone) {
			t.Errorf("closed %v: %d bytes, %v", closes, n, err)
		}
		if closes {
			continue
		}
		ranges = f.Ranges()
		d.overlap = gone
		if chunks, err := f.chunks(ranges[len(ranges)-1].First, 50); !errors.Is(err, errGone) {
			t.Errorf("%v, %v", chunks, err)
		}
	}
}
