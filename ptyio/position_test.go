package ptyio

import (
	"fmt"
	"slices"
	"testing"

	"github.com/execbus/execbus/messages"
)

func TestLogBeginsWhereTheOtherSideIs(t *testing.T) {
	l := newOutputLog(Position{Offset: 100, Seq: 7}, 4, 8, 3)
	if l.Total() != 100 || l.LastSeq() != 7 || len(l.Ranges()) > 0 {
		t.Errorf("total %d, last %d, ranges %v", l.Total(), l.LastSeq(), l.Ranges())
	}
	if got := string(l.Transcript(100)); got != messages.OmissionMarker(100) {
		t.Errorf("transcript %q", got)
	}
	if c := l.Append(messages.StreamPTY, []byte("abc")); c.Seq != 8 || c.Offset != 100 {
		t.Errorf("the first chunk is number %d at %d", c.Seq, c.Offset)
	}
	if want := []Range{{First: 100, End: 103, FirstSeq: 8, EndSeq: 9}}; !slices.Equal(l.Ranges(), want) {
		t.Errorf("ranges %v", l.Ranges())
	}
	_, err := l.ReadAt(99, 10)
	expectUnretained(t, err, "bytes 100 to 102 (chunks 8 to 8)")
	_, err = l.ReadAfter(6, 10)
	expectUnretained(t, err, "bytes 100 to 102 (chunks 8 to 8)")
	if chunks, err := l.ReadAfter(7, 10); spelled(chunks) != "8@100 pty abc" || err != nil {
		t.Errorf("%q, %v", spelled(chunks), err)
	}
	if got, want := string(l.Transcript(100)), messages.OmissionMarker(100)+"abc"; got != want {
		t.Errorf("transcript %q", got)
	}
	var r reader
	if chunks, missed := r.next(l, 10); spelled(chunks) != "8@100 pty abc" || missed != 100 {
		t.Errorf("%q, missed %d", spelled(chunks), missed)
	}
}

func TestLogKnowsWhatWasLostBeforeItCame(t *testing.T) {
	l := logOf("abc")
	if lost := l.Skip(Position{Offset: 10, Seq: 5}); lost != 7 || l.Total() != 10 || l.LastSeq() != 5 {
		t.Errorf("lost %d, total %d, last %d", lost, l.Total(), l.LastSeq())
	}
	var r reader
	r.next(l, 10)
	if chunks, missed := r.next(l, 10); len(chunks) > 0 || missed != 7 || r.at != 10 {
		t.Errorf("%q, missed %d, at %d", spelled(chunks), missed, r.at)
	}
	l.Append(messages.StreamPTY, []byte("de"))
	want := []Range{{First: 0, End: 3, FirstSeq: 1, EndSeq: 2}, {First: 10, End: 12, FirstSeq: 6, EndSeq: 7}}
	if !slices.Equal(l.Ranges(), want) {
		t.Errorf("ranges %v", l.Ranges())
	}
	if got, want := string(l.Transcript(100)), "abc"+messages.OmissionMarker(7)+"de"; got != want {
		t.Errorf("transcript %q", got)
	}
	for _, seq := range []uint64{1, 4} {
		_, err := l.ReadAfter(seq, 10)
		expectUnretained(t, err, "bytes 10 to 11 (chunks 6 to 6)")
	}
	if chunks, _ := l.ReadAfter(5, 10); spelled(chunks) != "6@10 pty de" {
		t.Errorf("%q", spelled(chunks))
	}
	if lost := l.Skip(Position{Offset: 12, Seq: 90}); lost != 0 || l.LastSeq() != 6 {
		t.Errorf("without a hole: lost %d, last %d", lost, l.LastSeq())
	}
	if lost := l.Skip(Position{Offset: 20}); lost != 8 || l.LastSeq() != 6 {
		t.Errorf("a number went back: lost %d, last %d", lost, l.LastSeq())
	}
}

func TestLogThatLosesTheVeryBeginningStillKeepsItsHead(t *testing.T) {
	l := newOutputLog(Position{}, 4, 2, 3)
	l.Skip(Position{Offset: 10, Seq: 3})
	l.Append(messages.StreamPTY, []byte("abcdef"))
	l.Append(messages.StreamPTY, []byte("gh"))
	if got, want := string(l.Transcript(100)), messages.OmissionMarker(10)+"abcd"+messages.OmissionMarker(2)+"gh"; got != want {
		t.Errorf("transcript %q, want %q", got, want)
	}
}

func TestLogOfAStreamThatIsOld(t *testing.T) {
	const begin = 1<<50 - 2
	l := newOutputLog(Position{Offset: begin, Seq: 1 << 40}, 4, 8, 3)
	for _, p := range []string{"ab", "cd", "ef", "gh"} {
		l.Append(messages.StreamPTY, []byte(p))
	}
	chunks, err := l.ReadAt(begin+1, 100)
	want := fmt.Sprintf("%d@%d pty b, %d@%d pty cd, %d@%d pty ef, %d@%d pty gh", 1<<40+1, begin+1, 1<<40+2, begin+2, 1<<40+3, begin+4, 1<<40+4, begin+6)
	if got := spelled(chunks); got != want || err != nil {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
