package ptyio

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
)

// spelled writes chunks in one line: "seq@offset stream bytes".
func spelled(chunks []Chunk) string {
	var parts []string
	for _, c := range chunks {
		parts = append(parts, fmt.Sprintf("%d@%d %s %s", c.Seq, c.Offset, c.Stream, c.Bytes))
	}
	return strings.Join(parts, ", ")
}

// logOf makes a log that always keeps the first 4 bytes, and the last 8 in at most 3 chunks.
func logOf(chunks ...string) *OutputLog {
	l := newOutputLog(Position{}, 4, 8, 3)
	for _, chunk := range chunks {
		l.Append(messages.StreamPTY, []byte(chunk))
	}
	return l
}

func expectUnretained(t *testing.T, err error, facts ...string) {
	t.Helper()
	if !errors.Is(err, messages.ErrOutputUnretained) {
		t.Fatalf("got error %v, want output_unretained", err)
	}
	for _, fact := range facts {
		if !strings.Contains(err.Error(), fact) {
			t.Errorf("%q does not say %q", err, fact)
		}
	}
}

func TestLogNumbersChunksAndBytesAcrossStreams(t *testing.T) {
	l := NewOutputLog(Position{})
	for i, c := range []Chunk{
		{1, 0, messages.StreamStdout, []byte("out")}, {2, 3, messages.StreamStderr, []byte("error")}, {3, 8, messages.StreamPTY, []byte("tty")},
	} {
		if got := l.Append(c.Stream, c.Bytes); spelled([]Chunk{got}) != spelled([]Chunk{c}) {
			t.Errorf("chunk %d got number %d and offset %d", i, got.Seq, got.Offset)
		}
	}
	if c := l.Append(messages.StreamStdout, nil); c.Seq != 0 || c.Offset != 11 || len(c.Bytes) != 0 {
		t.Errorf("no bytes got number %d and offset %d", c.Seq, c.Offset)
	}
	if l.Total() != 11 || l.LastSeq() != 3 {
		t.Errorf("total %d, last %d", l.Total(), l.LastSeq())
	}
	chunks, err := l.ReadAt(0, 100)
	if got, want := spelled(chunks), "1@0 stdout out, 2@3 stderr error, 3@8 pty tty"; got != want || err != nil {
		t.Errorf("read %q (%v), want %q", got, err, want)
	}
}

func TestLogReadAtCutsChunks(t *testing.T) {
	chunks, err := logOf("abc", "def", "ghi").ReadAt(1, 6)
	if got, want := spelled(chunks), "1@1 pty bc, 2@3 pty def, 3@6 pty g"; got != want || err != nil {
		t.Errorf("read %q (%v), want %q", got, err, want)
	}
}

func TestLogReadAfterReturnsWholeChunksAndAtLeastOne(t *testing.T) {
	l := logOf("abc", "def", "ghi")
	for _, c := range []struct {
		seq   uint64
		limit int
		want  string
	}{
		{0, 0, "1@0 pty abc"},
		{0, 5, "1@0 pty abc"},
		{0, 6, "1@0 pty abc, 2@3 pty def"},
		{1, 100, "2@3 pty def, 3@6 pty ghi"},
		{3, 100, ""},
	} {
		chunks, err := l.ReadAfter(c.seq, c.limit)
		if got := spelled(chunks); got != c.want || err != nil {
			t.Errorf("after %d, limit %d: %q (%v), want %q", c.seq, c.limit, got, err, c.want)
		}
	}
}

func TestLogKeepsTheBeginningAndTheLastBytes(t *testing.T) {
	l := logOf("abcdef", "012345", "6789") // 16 bytes; 4 of the first chunk and the last 8 are kept
	want := []Range{{First: 0, End: 4, FirstSeq: 1, EndSeq: 2}, {First: 8, End: 16, FirstSeq: 3, EndSeq: 4}}
	if got := l.Ranges(); !slices.Equal(got, want) {
		t.Errorf("ranges %v, want %v", got, want)
	}
	for _, c := range []struct {
		offset int64
		want   string
	}{{2, "1@2 pty cd"}, {8, "2@8 pty 2345, 3@12 pty 6789"}, {16, ""}} {
		chunks, err := l.ReadAt(c.offset, 100)
		if got := spelled(chunks); got != c.want || err != nil {
			t.Errorf("at %d: %q (%v), want %q", c.offset, got, err, c.want)
		}
	}
}

func TestLogKeepsTheLastChunks(t *testing.T) {
	l := logOf("abcd", "1", "2", "3", "4", "5")
	chunks, err := l.ReadAfter(3, 100)
	if got, want := spelled(chunks), "4@6 pty 3, 5@7 pty 4, 6@8 pty 5"; got != want || err != nil {
		t.Errorf("read %q (%v), want %q", got, err, want)
	}
	_, err = l.ReadAfter(2, 100)
	expectUnretained(t, err, "bytes 6 to 8 (chunks 4 to 6)")
}

func TestLogReadOutsideNamesWhatIsKept(t *testing.T) {
	l := logOf("abcdef", "012345", "6789")
	kept := []string{"bytes 0 to 3 (chunks 1 to 1)", "bytes 8 to 15 (chunks 3 to 3)"}
	for _, offset := range []int64{-1, 4, 7, 17} {
		_, err := l.ReadAt(offset, 100)
		expectUnretained(t, err, append(kept, fmt.Sprintf("offset %d", offset))...)
	}
	for _, seq := range []uint64{1, 4, 1 << 63, 1<<64 - 1} {
		_, err := l.ReadAfter(seq, 100)
		expectUnretained(t, err, append(kept, fmt.Sprintf("chunk %d", seq))...)
	}
	_, err := logOf().ReadAt(1, 1)
	expectUnretained(t, err, "nothing is kept")
	_, err = logOf("abcd", "0123456789").ReadAt(4, 1)
	expectUnretained(t, err, "bytes 6 to 13 (inside of chunk 2)")
}

func TestLogChunkOverBothPartsIsReadAsOne(t *testing.T) {
	l := logOf("ab", "cdef", "gh")
	chunks, err := l.ReadAfter(0, 6)
	if got, want := spelled(chunks), "1@0 pty ab, 2@2 pty cdef"; got != want || err != nil {
		t.Errorf("read %q (%v), want %q", got, err, want)
	}
}

func TestLogAnswersWithABoundedNumberOfChunks(t *testing.T) {
	l := NewOutputLog(Position{})
	for range 2*MaxReadChunks + 1 {
		l.Append(messages.StreamPTY, []byte("."))
	}
	for _, read := range []func() ([]Chunk, error){
		func() ([]Chunk, error) { return l.ReadAt(7, LogTail) },
		func() ([]Chunk, error) { return l.ReadAfter(7, LogTail) },
	} {
		chunks, err := read()
		if err != nil || len(chunks) != MaxReadChunks || chunks[0].Offset != 7 {
			t.Errorf("got %d chunks (%v)", len(chunks), err)
		}
	}
}

func TestLogTranscriptIsThatOfAHeadTailBuffer(t *testing.T) {
	l, b := NewOutputLog(Position{}), NewHeadTailBuffer(DefaultBufferSize)
	line := []byte(strings.Repeat("0123456789", 5000))
	for i := range 60 {
		line[0] = byte('a' + i)
		kept := bytes.Clone(line)
		l.Append(messages.StreamPTY, kept)
		b.Push(kept)
		if i%20 == 0 && !bytes.Equal(l.Transcript(DefaultBufferSize), b.marked()) {
			t.Fatalf("they differ after %d lines", i+1)
		}
	}
	if !bytes.Equal(l.Transcript(DefaultBufferSize), b.marked()) {
		t.Error("they differ at the end")
	}
}

func TestLogTranscriptCountsWhatTheLogDropped(t *testing.T) {
	l := logOf("abcd", "1", "2", "3", "4", "5")
	for limit, want := range map[int]string{
		100: "abcd\n... 2 bytes omitted ...\n345",
		4:   "ab\n... 5 bytes omitted ...\n45",
		0:   "\n... 9 bytes omitted ...\n",
		-1:  "\n... 9 bytes omitted ...\n",
	} {
		if got := string(l.Transcript(limit)); got != want {
			t.Errorf("Transcript(%d) is %q, want %q", limit, got, want)
		}
	}
	if got := string(logOf().Transcript(100)); got != "" {
		t.Errorf("of nothing it is %q", got)
	}
}

func TestLogGivesCopies(t *testing.T) {
	l := NewOutputLog(Position{})
	kept := bytes.Repeat([]byte("abcdefgh"), messages.MaxOutputDelta/8)
	l.Append(messages.StreamPTY, kept)
	read, _ := l.ReadAt(0, len(kept))
	after, _ := l.ReadAfter(0, len(kept))
	next, _ := l.ReadFrom(0, len(kept))
	for _, given := range [][]byte{read[0].Bytes, after[0].Bytes, next[0].Bytes, l.Transcript(10)} {
		clear(given)
	}
	if again, _ := l.ReadAt(0, len(kept)); !bytes.Equal(again[0].Bytes, kept) || kept[0] != 'a' {
		t.Error("a reader has changed what is kept")
	}
}

func TestLogRefusesAnUnknownStream(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	NewOutputLog(Position{}).Append("stdlog", []byte("x"))
}

func BenchmarkLogAppend64KiB(b *testing.B) {
	delta := make([]byte, messages.MaxOutputDelta)
	l := NewOutputLog(Position{})
	b.SetBytes(MaxBatch)
	b.ReportAllocs()
	for b.Loop() {
		for range MaxBatch / len(delta) {
			l.Append(messages.StreamPTY, delta)
		}
	}
}

func BenchmarkLogAppendOneByte(b *testing.B) {
	l, dot := NewOutputLog(Position{}), []byte(".")
	b.ReportAllocs()
	for b.Loop() {
		l.Append(messages.StreamPTY, dot)
	}
}

func BenchmarkLogReadAfterInOneByteChunks(b *testing.B) {
	l := NewOutputLog(Position{})
	for range LogHead + 2*LogTailChunks {
		l.Append(messages.StreamPTY, []byte("."))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.ReadAfter(l.LastSeq()-1, LogTail); err != nil {
			b.Fatal(err)
		}
	}
}
