package ptyio

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/messages"
)

func TestAReaderSkipsWhatTheLogHasDropped(t *testing.T) {
	l := logOf("abcdef", "012345", "6789") // it keeps the bytes 0 to 3 and 8 to 15
	var r reader
	for _, want := range []string{"1@0 pty abc, missed 0, at 3", "1@3 pty d, missed 0, at 4", "2@8 pty 234, missed 4, at 11",
		"2@11 pty 5, 3@12 pty 67, missed 0, at 14", "3@14 pty 89, missed 0, at 16", ", missed 0, at 16"} {
		chunks, missed := r.next(l, 3)
		if got := fmt.Sprintf("%s, missed %d, at %d", spelled(chunks), missed, r.at); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if chunks, missed := l.ReadFrom(-1, 3); spelled(chunks) != "1@0 pty abc" || missed != 0 {
		t.Errorf("before the beginning: %q, %d", spelled(chunks), missed)
	}
}

func TestAReaderAheadOfTheLogWaits(t *testing.T) {
	l := logOf("ab")
	if chunks, missed := l.ReadFrom(3, 10); len(chunks) > 0 || missed != 0 {
		t.Errorf("%q, %d", spelled(chunks), missed)
	}
	l.Append(messages.StreamPTY, []byte("cd"))
	if chunks, missed := l.ReadFrom(3, 10); spelled(chunks) != "2@3 pty d" || missed != 0 {
		t.Errorf("%q, %d", spelled(chunks), missed)
	}
}

// reader goes through a log. It has the bytes that it has read, at their offsets, and a space for each byte that it missed.
type reader struct {
	at   int64
	read []byte
}

func (r *reader) next(l *OutputLog, limit int) (chunks []Chunk, missed int64) {
	chunks, missed = l.ReadFrom(r.at, limit)
	r.at += missed
	for _, c := range chunks {
		r.at += int64(len(c.Bytes))
	}
	return chunks, missed
}

func (r *reader) check(t *rapid.T, l *OutputLog, limit int) {
	chunks, missed := r.next(l, limit)
	r.read = append(r.read, strings.Repeat(" ", int(missed))...)
	size := 0
	for _, c := range chunks {
		if c.Offset != int64(len(r.read)) {
			t.Fatalf("a chunk at %d comes after byte %d", c.Offset, len(r.read))
		}
		r.read = append(r.read, c.Bytes...)
		size += len(c.Bytes)
	}
	if size > max(limit, 0) || r.at != int64(len(r.read)) {
		t.Fatalf("%d bytes for a limit of %d; at %d of %d", size, limit, r.at, len(r.read))
	}
}

// Each reader gets everything or knows what it missed, and does not affect the others.
func TestReadersGetEverythingOrKnowWhatTheyMissed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newOutputLog(Position{}, rapid.IntRange(1, 12).Draw(t, "head"), rapid.IntRange(1, 12).Draw(t, "tail"), rapid.IntRange(1, 5).Draw(t, "chunks"))
		unread, readers := NewHeadTailBuffer(1000), make([]reader, 3)
		var all []byte
		limits := rapid.IntRange(-1, 20)
		letters := rapid.SliceOfN(rapid.ByteRange('a', 'z'), 0, 15)
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				p := letters.Draw(t, "p")
				all = append(all, p...)
				l.Append(messages.StreamPTY, p)
				unread.Push(p)
			},
			"lose": func(t *rapid.T) {
				n := rapid.IntRange(0, 8).Draw(t, "n")
				all = append(all, strings.Repeat(" ", n)...)
				l.Skip(Position{Offset: int64(len(all))})
			},
			"read": func(t *rapid.T) {
				readers[rapid.IntRange(0, len(readers)-1).Draw(t, "reader")].check(t, l, limits.Draw(t, "limit"))
			},
		})
		for i := range readers {
			r := &readers[i]
			for r.at < l.Total() {
				r.check(t, l, 7)
			}
			if len(r.read) != len(all) {
				t.Fatalf("%d of %d bytes", len(r.read), len(all))
			}
			for i, c := range r.read {
				if c != ' ' && c != all[i] {
					t.Fatalf("byte %d is %q, not %q", i, c, all[i])
				}
			}
		}
		if said := bytes.ReplaceAll(all, []byte(" "), nil); len(said) <= 500 && !bytes.Equal(unread.Bytes(), said) {
			t.Fatal("reading has changed the unread buffer")
		}
	})
}
