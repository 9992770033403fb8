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

// logOf makes a log that keeps 4 bytes for ever, then the last 8 in at most 3 chunks.
func logOf(chunks ...string) *OutputLog {
	l := newOutputLog(4, 8, 3)
	for _, chunk := range chunks {
		l.Append(messages.PTY, []byte(chunk))
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
	l := NewOutputLog()
	for i, c := range []Chunk{
		{1, 0, messages.Stdout, []byte("out")}, {2, 3, messages.Stderr, []byte("error")}, {3, 8, messages.PTY, []byte("tty")},
	} {
		if seq, offset := l.Append(c.Stream, c.Bytes); seq != c.Seq || offset != c.Offset {
			t.Errorf("chunk %d got number %d and offset %d", i, seq, offset)
		}
	}
	if seq, offset := l.Append(messages.Stdout, nil); seq != 0 || offset != 11 {
		t.Errorf("no bytes got number %d and offset %d", seq, offset)
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
	l := NewOutputLog()
	for range 2*MaxReadChunks + 1 {
		l.Append(messages.PTY, []byte("."))
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

func TestLogTailIsWhatIsKeptInOnePiece(t *testing.T) {
	l := logOf("abcdef", "012345", "6789")
	for n, want := range map[int]string{-1: "", 0: "", 2: "89", 8: "23456789", 100: "23456789"} {
		if got := string(l.Tail(n)); got != want {
			t.Errorf("Tail(%d) is %q, want %q", n, got, want)
		}
	}
	if got := string(logOf("abcdef").Tail(100)); got != "abcdef" {
		t.Errorf("without a hole it is %q", got)
	}
}

func TestLogTranscriptIsThatOfAHeadTailBuffer(t *testing.T) {
	l, b := NewOutputLog(), NewHeadTailBuffer(DefaultBufferSize)
	line := []byte(strings.Repeat("0123456789", 5000))
	for i := range 60 {
		line[0] = byte('a' + i)
		l.Append(messages.PTY, line)
		b.Push(line)
		if i%20 == 0 && !bytes.Equal(l.Transcript(DefaultBufferSize), b.WithMarker()) {
			t.Fatalf("they differ after %d lines", i+1)
		}
	}
	if !bytes.Equal(l.Transcript(DefaultBufferSize), b.WithMarker()) {
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

func TestLogGivesAndTakesCopies(t *testing.T) {
	l := newOutputLog(4, 8, 3)
	in := []byte("abcdef")
	l.Append(messages.PTY, in)
	clear(in)
	for range 2 {
		chunks, _ := l.ReadAt(0, 6)
		if spelled(chunks) != "1@0 pty abcdef" {
			t.Fatalf("read %q", spelled(chunks))
		}
		clear(chunks[0].Bytes)
	}
}

func TestLogRefusesAnUnknownStream(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	NewOutputLog().Append("stdlog", []byte("x"))
}

// logMemory is what a log holds apart from its fixed fields, in bytes.
func logMemory(l *OutputLog) int {
	const markSize = 4
	return slots(&l.head.bytes) + slots(&l.tail.bytes) + markSize*(slots(&l.head.marks)+slots(&l.tail.marks))
}

func TestLogMemoryFollowsItsContent(t *testing.T) {
	l := NewOutputLog()
	l.Append(messages.PTY, []byte("user@machine:~/src$ "))
	if memory := logMemory(l); memory > 32 {
		t.Errorf("a prompt of 20 bytes costs %d", memory)
	}
	batch := make([]byte, MaxBatch)
	for range 100 {
		l.Append(messages.PTY, batch)
	}
	if memory := logMemory(l); memory > LogHead+LogTail+4*pageItems {
		t.Errorf("a flood costs %d", memory)
	}
	if allocs := testing.AllocsPerRun(10, func() { l.Append(messages.PTY, batch) }); allocs != 0 {
		t.Errorf("a full log allocates %v times for a batch", allocs)
	}
}

func TestLogMemoryShrinksWithWhatIsKept(t *testing.T) {
	l := NewOutputLog()
	batch := make([]byte, MaxBatch)
	fill := func() {
		for range (LogHead + LogTail) / MaxBatch {
			l.Append(messages.PTY, batch)
		}
	}
	fill()
	for range LogTailChunks {
		l.Append(messages.PTY, []byte("."))
	}
	marks := 4 * (LogTailChunks + 2*pageItems)
	if memory, bound := logMemory(l), LogHead+LogTailChunks+2*pageItems+marks; memory > bound {
		t.Errorf("after chunks of one byte it holds %d bytes, more than %d", memory, bound)
	}
	fill()
	if memory, bound := logMemory(l), LogHead+LogTail+4*pageItems+4*2*pageItems; memory > bound {
		t.Errorf("after full batches it holds %d bytes, more than %d", memory, bound)
	}
}

func TestLogMemoryIsBoundedForOneByteChunks(t *testing.T) {
	l := NewOutputLog()
	for range LogHead + 2*LogTailChunks {
		l.Append(messages.PTY, []byte("."))
	}
	if memory, bound := logMemory(l), LogHead+4*LogHead+2*LogTailChunks+4*LogTailChunks+4*2*pageItems; memory > bound {
		t.Errorf("it holds %d bytes, more than %d", memory, bound)
	}
	want := []Range{
		{First: 0, End: LogHead, FirstSeq: 1, EndSeq: LogHead + 1},
		{
			First: LogHead + LogTailChunks, End: LogHead + 2*LogTailChunks,
			FirstSeq: LogHead + LogTailChunks + 1, EndSeq: LogHead + 2*LogTailChunks + 1,
		},
	}
	if got := l.Ranges(); !slices.Equal(got, want) {
		t.Errorf("ranges %v, want %v", got, want)
	}
}

func BenchmarkLogAppend64KiB(b *testing.B) {
	batch := make([]byte, MaxBatch)
	l := NewOutputLog()
	b.SetBytes(MaxBatch)
	b.ReportAllocs()
	for b.Loop() {
		l.Append(messages.PTY, batch)
	}
}

func BenchmarkLogAppendOneByte(b *testing.B) {
	l := NewOutputLog()
	b.ReportAllocs()
	for b.Loop() {
		l.Append(messages.PTY, []byte("."))
	}
}

func BenchmarkLogReadAfterInOneByteChunks(b *testing.B) {
	l := NewOutputLog()
	for range LogHead + 2*LogTailChunks {
		l.Append(messages.PTY, []byte("."))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.ReadAfter(l.LastSeq()-1, LogTail); err != nil {
			b.Fatal(err)
		}
	}
}
