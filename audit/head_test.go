package audit

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

// written puts a log and its head into files.
func written(t *testing.T, text, side []byte) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "audit.jsonl")
	if err := errors.Join(os.WriteFile(file, text, 0o600), os.WriteFile(file+HeadSuffix, side, 0o600)); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestWhatIsNoHead: a head of which a part cannot be is none.
func TestWhatIsNoHead(t *testing.T) {
	_, side := sample(t)
	if _, err := readHead(side); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*head){
		"less than no lines":     func(h *head) { h.Lines = -1 },
		"less than no runs":      func(h *head) { h.Runs = -1 },
		"less than no bytes":     func(h *head) { h.Bytes = -1 },
		"lines without a digest": func(h *head) { h.Digest = "" },
		"a digest of no lines":   func(h *head) { h.Lines = 0 },
		"a short digest":         func(h *head) { h.Digest = h.Digest[:32] },
		"a digest of no digits":  func(h *head) { h.Digest = strings.Repeat("x", 64) },
		"no log":                 func(h *head) { h.Log = "" },
		"a log without a name":   func(h *head) { h.Log = "audit" },
	} {
		h, _ := readHead(side)
		change(&h)
		if got, err := readHead(h.text()); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestTheLongestAnchorCounts, and all of its digest.
func TestTheLongestAnchorCounts(t *testing.T) {
	text, side := sample(t)
	h, _ := readHead(side)
	anchors := []messages.AuditHead{h.AuditHead}
	if _, err := Verify(bytes.NewReader(text), func(l Line) error {
		if l.N == 4 {
			anchors = append(anchors, messages.AuditHead{Lines: 4, Digest: digestOf(l.Raw)})
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	cut := text[:bytes.LastIndexByte(text[:len(text)-1], '\n')+1]
	for range 2 {
		if r, err := Verify(bytes.NewReader(cut), nil, anchors...); err != nil || r.State != Broken || r.Broken.Line != h.Lines {
			t.Error(r, err)
		}
		if r, err := Verify(bytes.NewReader(text), nil, anchors...); err != nil || r.State != Complete || r.Unanchored != 0 {
			t.Error(r, err)
		}
		slices.Reverse(anchors)
	}
	other := map[byte]string{'0': "1"}[h.Digest[63]]
	if h.Digest = h.Digest[:63] + other; other == "" {
		h.Digest += "0"
	}
	if r, err := Verify(bytes.NewReader(text), nil, h.AuditHead); err != nil || r.State != Broken || r.Broken.Line != h.Lines {
		t.Error("the last digit of the digest is another one:", r, err)
	}
}

// TestAHeadThatCannotBeRead says nothing about the log.
func TestAHeadThatCannotBeRead(t *testing.T) {
	text, _ := sample(t)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := errors.Join(os.WriteFile(file, text, 0o600), os.Mkdir(file+HeadSuffix, 0o700)); err != nil {
		t.Fatal(err)
	}
	if r, err := VerifyFile(file, nil); err == nil {
		t.Error(r)
	}
}

// TestAHostThatWasKilledBeforeItsHead had written lines that the head does not count, and a part of a long one. The next host keeps the lines.
func TestAHostThatWasKilledBeforeItsHead(t *testing.T) {
	text, side := sample(t)
	h, _ := readHead(side)
	all := bytes.SplitAfter(text, []byte{'\n'})
	before, last := all[len(all)-3], all[len(all)-2] // behind the last one is nothing
	h.Lines, h.Digest, h.Bytes = h.Lines-1, digestOf(bytes.TrimSuffix(before, []byte{'\n'})), h.Bytes-int64(len(last))
	file := written(t, append(slices.Clone(text), bytes.Repeat([]byte{'x'}, 64<<10)...), h.text())
	closed(t, open(t, Options{File: file}))
	if r := verified(t, file, Complete); r.Head.Lines != 38 || r.Runs != 4 || r.Torn != 0 {
		t.Error(r)
	}
	if now, err := os.ReadFile(file); err != nil || !bytes.HasPrefix(now, text) {
		t.Error("the lines are not what they were:", err)
	}
}

// TestARunOfAnotherLogIsNotContinued, even if it follows the last line.
func TestARunOfAnotherLogIsNotContinued(t *testing.T) {
	text, side := sample(t)
	h, _ := readHead(side)
	p := place{lines: h.Lines, digest: h.Digest}
	p.own(&Opened{Run: h.Runs + 1, Log: "a45b2c1e-6f0d-4a53-9f3c-8d1b0a7e5c11"})
	l, err := Open(Options{File: written(t, append(text, p.pending...), side)})
	if err == nil {
		closed(t, l)
	}
	if !errors.Is(err, messages.ErrAuditFailed) || !strings.Contains(err.Error(), "a run of another log") {
		t.Error(err)
	}
}

// openSide opens a log whose file, or that with whose head, is faulty.
func openSide(o Options, side bool, f *faulty) (*Log, error) {
	o.retry = time.Millisecond
	o.open = func(path string) (disk, error) {
		d, err := openFile(path)
		if err != nil || strings.HasSuffix(path, HeadSuffix) != side {
			return d, err
		}
		f.disk = d
		return f, nil
	}
	return Open(o)
}

// TestAHeadThatFindsNoRoom is written when there is some, though no line follows.
func TestAHeadThatFindsNoRoom(t *testing.T) {
	notices, f := make(chan string, 16), &faulty{room: -1}
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	l, err := openSide(Options{File: file, Notice: func(text string) { notices <- text }}, true, f)
	if err != nil {
		t.Fatal(err)
	}
	f.set(0, nil)
	l.Append(started(1))
	if text := receive(t, notices); !strings.Contains(text, "cannot be written") || l.Admit() == nil {
		t.Error(text, l.Admit())
	}
	if r := verified(t, file, NotClosed); r.Unanchored != 1 {
		t.Error(r)
	}
	f.set(-1, nil)
	if text := receive(t, notices); !strings.Contains(text, "again") || l.Admit() != nil {
		t.Error(text, l.Admit())
	}
	if r := verified(t, file, NotClosed); r.Unanchored != 0 || r.Head.Lines != 2 {
		t.Error(r)
	}
	closed(t, l)
	verified(t, file, Complete)
}

// TestAFirstLineThatFindsNoRoom: the log begins when there is some, because its head was there before.
func TestAFirstLineThatFindsNoRoom(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	if l, err := openSide(Options{File: file}, false, &faulty{room: 50}); !errors.Is(err, messages.ErrAuditFailed) {
		if err == nil {
			closed(t, l)
		}
		t.Fatal(err)
	}
	closed(t, open(t, Options{File: file}))
	if r := verified(t, file, Complete); r.Runs != 1 || r.Head.Lines != 2 {
		t.Error(r)
	}
}

// kept is a disk that knows whether it was synced since the last write.
type kept struct {
	disk
	dirty bool
}

func (k *kept) WriteAt(p []byte, at int64) (int, error) {
	k.dirty = true
	return k.disk.WriteAt(p, at)
}

func (k *kept) Sync() error {
	k.dirty = false
	return k.disk.Sync()
}

// TestAnAnchorIsOnTheDisk: both files are synced before anybody is told of a head, and before Open returns.
func TestAnAnchorIsOnTheDisk(t *testing.T) {
	var files []*kept
	dirty := func(k *kept) bool { return k.dirty }
	told := 0
	l := open(t, Options{
		Anchored: func(messages.AuditHead) {
			if told++; slices.ContainsFunc(files, dirty) {
				t.Error("the anchor is not on the disk")
			}
		},
		open: func(path string) (disk, error) {
			d, err := openFile(path)
			files = append(files, &kept{disk: d})
			return files[len(files)-1], err
		},
	})
	if slices.ContainsFunc(files, dirty) {
		t.Error("the first line is not on the disk")
	}
	l.Append(started(1))
	closed(t, l)
	if told == 0 || len(files) != 2 {
		t.Errorf("%d anchors of %d files", told, len(files))
	}
}

// TestThatSomeWereNotCountedIsNotForgotten when others are counted later.
func TestThatSomeWereNotCountedIsNotForgotten(t *testing.T) {
	p := place{}
	p.own(&Opened{Run: 1})
	p.add(queued{dropped: &Dropped{Events: 1, Unknown: true}})
	p.add(queued{dropped: &Dropped{Events: 2}})
	p.own(&Closed{})
	if r, err := Verify(bytes.NewReader(p.pending), nil); err != nil || r.Dropped != 3 || !r.Unknown || p.lost != 3 {
		t.Error(r, err, p.lost)
	}
}

func receive(t *testing.T, from <-chan string) string {
	t.Helper()
	select {
	case text := <-from:
		return text
	case <-patient(t).Done():
		t.Fatal("nothing was said")
		return ""
	}
}
