package execbus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/spool"
)

// The output of these tests: numbers of eight digits, each on a line, with one other line in the middle.
const (
	firstNumber = 10_000_000
	lineSize    = 9
	failLine    = "FAIL: here\n"
)

// count is output of so many numbers before the failing line and as many behind it.
type count int64

func (n count) script() string {
	return fmt.Sprintf("seq %d %d; echo 'FAIL: here'; seq %d %d", firstNumber, firstNumber+int64(n)-1, firstNumber+int64(n), firstNumber+2*int64(n)-1)
}

func (n count) total() int64 { return 2*int64(n)*lineSize + int64(len(failLine)) }

func (n count) middle() int64 { return int64(n) * lineSize }

// append appends the output between two offsets.
func (n count) append(p []byte, from, to int64) []byte {
	for at := from; at < to; at = from + int64(len(p)) {
		p = p[:at-from]
		switch fail := n.middle(); {
		case fail <= at && at < fail+int64(len(failLine)):
			p = append(p, failLine[at-fail:]...)
		case at < fail:
			p = append(strconv.AppendInt(p, firstNumber+at/lineSize, 10), '\n')
			p = append(p[:at-from], p[at-from+at%lineSize:]...)
		default:
			past := at - fail - int64(len(failLine))
			p = append(strconv.AppendInt(p, firstNumber+int64(n)+past/lineSize, 10), '\n')
			p = append(p[:at-from], p[at-from+past%lineSize:]...)
		}
	}
	return p[:to-from]
}

// expect compares a page with the output, and returns where it ends.
func (n count) expect(t testing.TB, page *messages.OutputPage, at int64) int64 {
	t.Helper()
	var buffer []byte
	for _, chunk := range page.Chunks {
		end := chunk.Offset + int64(len(chunk.Bytes))
		if buffer = n.append(buffer[:0], chunk.Offset, end); chunk.Offset != at || !bytes.Equal(chunk.Bytes, buffer) {
			t.Fatalf("at %d come %d bytes that belong to %d: %.40q, want %.40q", at, len(chunk.Bytes), chunk.Offset, chunk.Bytes, buffer)
		}
		at = end
	}
	return at
}

func withSpool(t testing.TB, o execbus.SpoolOptions) *execbus.Session {
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "output")
	}
	return openSession(t, newRuntime(t, execbus.Options{Spool: o}), execbus.SessionOptions{})
}

func read(t testing.TB, session *execbus.Session, m messages.ReadOutput) *messages.OutputPage {
	t.Helper()
	page, err := session.Read(patient(t), m)
	if err != nil {
		t.Fatalf("%+v: %v", m, err)
	}
	return page
}

// awaitTotal waits until a process has said so much.
func awaitTotal(t testing.TB, session *execbus.Session, id messages.ProcessID, total int64) {
	t.Helper()
	for now := int64(0); now < total; { // however long it takes, as long as more comes
		before := now
		eventually(t, "more output", func() bool {
			now = read(t, session, messages.ReadOutput{Process: id, Tail: 1}).Total
			return now > before
		})
	}
}

// 200 MB of output with one failing line in the middle: it is found by pattern, and read by line and by offset, while the command runs and after
// its end, and three readers at once get all of it, byte by byte, from the beginning to the end.
func TestAllOutputCanBeRead(t *testing.T) {
	const n = count(11_111_111)
	session := withSpool(t, execbus.SpoolOptions{})
	id := launch(t, session, bash(n.script()+"; read x"))
	readers := sync.WaitGroup{}
	for i := range 3 {
		readers.Go(func() {
			for at := int64(0); ; {
				page, err := session.Read(patient(t), messages.ReadOutput{Process: id, Offset: &at, Max: 1 << (18 + i), Wait: patience})
				if err != nil || page.Missed != 0 {
					t.Errorf("reader %d at %d: %v", i, at, err)
					return
				}
				if at = n.expect(t, page, at); page.Ended && at == page.Total {
					if at != n.total() {
						t.Errorf("reader %d has %d bytes of %d", i, at, n.total())
					}
					return
				}
			}
		})
	}
	look := func() {
		t.Helper()
		found := read(t, session, messages.ReadOutput{Process: id, Grep: &messages.Grep{Pattern: "^FAIL", Before: 1, After: 1}})
		var lines []string
		for _, line := range found.Lines {
			lines = append(lines, fmt.Sprint(line.Offset, " ", line.Number, " ", line.Match, " ", string(line.Bytes)))
		}
		want := []string{fmt.Sprint(n.middle()-lineSize, " ", int64(n), " false ", firstNumber+int64(n)-1),
			fmt.Sprint(n.middle(), " ", int64(n)+1, " true FAIL: here"),
			fmt.Sprint(n.middle()+int64(len(failLine)), " ", int64(n)+2, " false ", firstNumber+int64(n))}
		if strings.Join(lines, "\n") != strings.Join(want, "\n") || found.Missed != 0 || found.Next != n.total() {
			t.Errorf("found %q, missed %d, next %d; want %q", lines, found.Missed, found.Next, want)
		}
		for _, m := range []messages.ReadOutput{{Line: new(int64(n) + 1)}, {Offset: new(n.middle())}, {Line: new(-int64(n) - 1)}} {
			m.Process, m.Max = id, 100
			page := read(t, session, m)
			if at := n.expect(t, page, n.middle()); at != n.middle()+100 || page.Total != n.total() {
				t.Errorf("%d bytes of %d", at-n.middle(), page.Total)
			}
		}
		if page := read(t, session, messages.ReadOutput{Process: id, Tail: 100}); n.expect(t, page, n.total()-100) != n.total() {
			t.Error("the tail is not the end")
		}
		if kept := read(t, session, messages.ReadOutput{Process: id, Tail: 1}).Retained; len(kept) != 1 || kept[0].First != 0 || kept[0].End != n.total() {
			t.Errorf("kept are %v", kept)
		}
	}
	awaitTotal(t, session, id, n.total())
	look()
	if _, err := session.Write(patient(t), messages.WriteStdin{Process: id, Bytes: []byte("\n"), NoWait: true}); err != nil {
		t.Fatal(err)
	}
	if result := finish(t, session, id); !strings.Contains(result.OutputText(), fmt.Sprintf("%d bytes omitted ...\n... they can be read, from offset %d to %d ...\n", result.Omitted, result.Head, int64(result.Head)+result.Omitted)) {
		t.Errorf("%.200q does not say where the rest is", result.OutputText()[len(result.OutputText())/2-100:])
	}
	readers.Wait()
	look()
}

// Beyond the quota exactly the middle is missing: who asks for it learns what is kept, and who may skip it learns how much that is.
func TestTheGapOfAQuotaIsExact(t *testing.T) {
	const n = count(500_000)
	session := withSpool(t, execbus.SpoolOptions{PerProcess: 1 << 20})
	id := launch(t, session, bash(n.script()))
	finish(t, session, id)
	eventually(t, "the end of the output", func() bool { return read(t, session, messages.ReadOutput{Process: id, Tail: 1}).Ended })
	eventually(t, "the last write", func() bool { return len(read(t, session, messages.ReadOutput{Process: id, Tail: 1}).Retained) == 2 })
	kept := read(t, session, messages.ReadOutput{Process: id, Tail: 1}).Retained
	const file = 1<<20 - 1<<20/16 // the rest is for marks
	if first := kept[0]; first.First != 0 || first.End < 512<<10+file/2-8<<10 || first.End > 512<<10+file/2 {
		t.Errorf("the beginning is %+v", first)
	}
	if last := kept[1]; last.End != n.total() || last.End-last.First < 1<<20 {
		t.Errorf("the end is %+v", last)
	}
	at, missed := int64(0), int64(0)
	for {
		page := read(t, session, messages.ReadOutput{Process: id, Offset: &at, SkipLost: true})
		if page.Missed > 0 && (at != kept[0].End || page.Missed != kept[1].First-at) {
			t.Errorf("at %d %d bytes are missing", at, page.Missed)
		}
		missed += page.Missed
		if at = n.expect(t, page, at+page.Missed); at == page.Total {
			break
		}
	}
	if missed != kept[1].First-kept[0].End {
		t.Errorf("%d bytes are missing of %v", missed, kept)
	}
	for _, in := range []int64{kept[0].End, kept[1].First - 1, (kept[0].End + kept[1].First) / 2} {
		_, err := session.Read(patient(t), messages.ReadOutput{Process: id, Offset: &in})
		if !errors.Is(err, messages.ErrOutputUnretained) || !strings.Contains(err.Error(), fmt.Sprintf("bytes 0 to %d (", kept[0].End-1)) ||
			!strings.Contains(err.Error(), fmt.Sprintf("bytes %d to %d (", kept[1].First, kept[1].End-1)) {
			t.Errorf("at %d: %v", in, err)
		}
	}
	for _, seq := range []uint64{kept[0].EndSeq - 2, kept[1].FirstSeq - 1} {
		if page := read(t, session, messages.ReadOutput{Process: id, AfterSeq: &seq, Max: 1000}); len(page.Chunks) == 0 || page.Chunks[0].Seq != seq+1 {
			t.Errorf("after chunk %d: %+v", seq, page.Chunks)
		}
	}
	page := read(t, session, messages.ReadOutput{Process: id, AfterSeq: new(kept[0].EndSeq), SkipLost: true, Max: 1000})
	if page.MissedChunks != kept[1].FirstSeq-1-kept[0].EndSeq || page.Chunks[0].Seq != kept[1].FirstSeq {
		t.Errorf("%d chunks are missing; %+v", page.MissedChunks, kept)
	}
	found := read(t, session, messages.ReadOutput{Process: id, Grep: &messages.Grep{Pattern: "FAIL|^10000000|0$", Matches: 1}})
	if len(found.Lines) != 1 || found.Lines[0].Offset != 0 {
		t.Errorf("%+v", found)
	}
	found = read(t, session, messages.ReadOutput{Process: id, Grep: &messages.Grep{Pattern: fmt.Sprint("FAIL|^", firstNumber+2*int64(n)-1)}})
	if len(found.Lines) != 1 || found.Lines[0].Number != 2*int64(n)+1 || found.Missed != missed {
		t.Errorf("%+v of %d", found, missed)
	}
}

// Without files lines are found in what memory has, and an answer says what is missing.
func TestLinesAreFoundInMemory(t *testing.T) {
	session := newSession(t, execbus.SessionOptions{})
	const n = count(500_000)
	id := launch(t, session, bash(n.script()))
	finish(t, session, id)
	found := read(t, session, messages.ReadOutput{Process: id, Grep: &messages.Grep{Pattern: "FAIL|^10000000$|" + fmt.Sprint(firstNumber+2*int64(n)-1), After: 1}})
	if len(found.Lines) != 3 || found.Lines[0].Number != 1 || found.Lines[1].Match || found.Lines[2].Number != 2*int64(n)+1 || found.Missed != n.total()-3<<19 {
		t.Errorf("%+v", found)
	}
	if page := read(t, session, messages.ReadOutput{Process: id, Line: new(int64(3)), Max: lineSize}); n.expect(t, page, 2*lineSize) != 3*lineSize {
		t.Errorf("%+v", page)
	}
	if page := read(t, session, messages.ReadOutput{Process: id, Line: new(int64(-2))}); n.expect(t, page, n.total()-2*lineSize) != n.total() {
		t.Errorf("%+v", page)
	}
	_, err := session.Read(patient(t), messages.ReadOutput{Process: id, Line: new(int64(n))})
	if !errors.Is(err, messages.ErrOutputUnretained) {
		t.Error(err)
	}
	if page := read(t, session, messages.ReadOutput{Process: id, Line: new(int64(n)), SkipLost: true, Max: 10}); page.Missed != n.total()-3<<19 || page.Chunks[0].Offset != n.total()-1<<20 {
		t.Errorf("%+v", page)
	}
}

// blocked is a disk on which every write waits.
type blocked struct{ until <-chan struct{} }

func (b blocked) WriteAt(p []byte, _ int64) (int, error) {
	<-b.until
	return len(p), nil
}
func (b blocked) ReadAt([]byte, int64) (int, error) {
	<-b.until
	return 0, errors.New("nothing is there")
}
func (b blocked) Close() error { return nil }

// limited is a disk that gets full.
type limited struct {
	*os.File
	room int
}

func (l *limited) WriteAt(p []byte, at int64) (int, error) {
	if l.room -= len(p); l.room < 0 {
		return 0, syscall.ENOSPC
	}
	return l.File.WriteAt(p, at)
}

// A disk that does not answer, or is full, costs a process its file, once, with a notice; its output goes on, other processes notice nothing,
// and what can still be read is said.
func TestADiskThatFailsCostsAFileAndNothingElse(t *testing.T) {
	t.Parallel() // it waits most of the time
	until := make(chan struct{})
	for name, disk := range map[string]func() (spool.Storage, error){
		"blocked": func() (spool.Storage, error) { return blocked{until}, nil },
		"none":    func() (spool.Storage, error) { return nil, errors.New("no descriptor is left") },
		"full": func() (spool.Storage, error) {
			file, err := os.CreateTemp(t.TempDir(), "")
			return &limited{file, 2 << 20}, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			first := sync.Once{}
			o := execbus.SpoolOptions{}
			execbus.CreateSpool(&o, func() (storage spool.Storage, err error) {
				storage, err = os.CreateTemp(t.TempDir(), "")
				first.Do(func() { storage, err = disk() })
				return storage, err
			})
			session := withSpool(t, o)
			events := watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindExecNotice, messages.KindExecEnded}})
			const n = count(500_000)
			sick := launch(t, session, bash(n.script()+"; read x; "+n.script()))
			notice := await[messages.ExecNotice](t, events, nil)
			if notice.Process != sick || !strings.Contains(notice.Text, "not written to a file any more") {
				t.Errorf("%+v", notice)
			}
			awaitTotal(t, session, sick, n.total())
			well := launch(t, session, bash(n.script()))
			finish(t, session, well)
			if kept := read(t, session, messages.ReadOutput{Process: well, Tail: 1}).Retained; len(kept) != 1 {
				t.Errorf("the other process has %v", kept)
			}
			kept := read(t, session, messages.ReadOutput{Process: sick, Tail: 1}).Retained
			if len(kept) != 2 || (kept[0].End > 512<<10) != (name == "full") || kept[0].End > 3<<20 || kept[1].End-kept[1].First != 1<<20 {
				t.Fatalf("kept are %+v", kept)
			}
			if page := read(t, session, messages.ReadOutput{Process: sick, Offset: new(kept[0].End - 100), Max: 100}); n.expect(t, page, kept[0].End-100) != kept[0].End {
				t.Errorf("before the gap there are %+v", page)
			}
			_, err := session.Read(patient(t), messages.ReadOutput{Process: sick, Offset: &kept[0].End})
			if !errors.Is(err, messages.ErrOutputUnretained) || !strings.Contains(err.Error(), fmt.Sprintf("bytes 0 to %d (", kept[0].End-1)) {
				t.Errorf("in the gap: %v", err)
			}
			if _, err := session.Write(patient(t), messages.WriteStdin{Process: sick, Bytes: []byte("\n"), NoWait: true}); err != nil {
				t.Fatal(err)
			}
			finish(t, session, sick)
			for left := 2; left > 0; {
				switch event, err := events.Next(patient(t)); e := event.(type) {
				case messages.ExecNotice:
					t.Errorf("another notice: %s", e.Text)
				case messages.ExecEnded:
					left--
				default:
					t.Fatal(err)
				}
			}
		})
	}
	close(until)
}

// What is forgotten gives back its file, and so does what the session leaves.
func TestFilesEndWithTheirRecords(t *testing.T) {
	disks := make(chan *counted, 10)
	o := execbus.SpoolOptions{}
	execbus.CreateSpool(&o, func() (spool.Storage, error) {
		file, err := os.CreateTemp(t.TempDir(), "")
		disk := &counted{File: file, closed: make(chan struct{})}
		disks <- disk
		return disk, err
	})
	session := withSpool(t, o)
	const n = count(100_000)
	finish(t, session, launch(t, session, bash(n.script())))
	disk := <-disks
	select {
	case <-disk.closed:
		t.Error("the file is gone, although the record is there")
	default:
	}
	if err := session.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-disk.closed:
	case <-time.After(patience):
		t.Error("the file is there, although the session is not")
	}
}

type counted struct {
	*os.File
	closed chan struct{}
}

func (c *counted) Close() error {
	close(c.closed)
	return c.File.Close()
}

// A read that is cancelled is answered, and one whose process ends meanwhile is answered from the record.
func TestReadsOfFilesThatDoNotAnswer(t *testing.T) {
	until, reads := make(chan struct{}), make(chan struct{}, 10)
	o := execbus.SpoolOptions{}
	execbus.CreateSpool(&o, func() (spool.Storage, error) {
		file, err := os.CreateTemp(t.TempDir(), "")
		return slowReads{file, until, reads}, err
	})
	session := withSpool(t, o)
	const n = count(500_000)
	id := launch(t, session, bash(n.script()+"; read x"))
	awaitTotal(t, session, id, n.total())
	eventually(t, "the file", func() bool { return len(read(t, session, messages.ReadOutput{Process: id, Tail: 1}).Retained) == 1 })
	ctx, cancel := context.WithCancel(patient(t))
	answers := make(chan error, 2)
	ask := func(ctx context.Context) {
		page, err := session.Read(ctx, messages.ReadOutput{Process: id, Offset: new(int64(2 << 20)), Max: 1000})
		if err == nil && n.expect(t, page, 2<<20) != 2<<20+1000 {
			err = errors.New("it is something else")
		}
		answers <- err
	}
	go ask(ctx)
	<-reads
	cancel()
	if err := <-answers; !errors.Is(err, messages.ErrCancelled) {
		t.Errorf("a cancelled read: %v", err)
	}
	go ask(patient(t))
	<-reads
	if _, err := session.Write(patient(t), messages.WriteStdin{Process: id, Bytes: []byte("\n"), NoWait: true}); err != nil {
		t.Fatal(err)
	}
	finish(t, session, id)
	close(until)
	if err := <-answers; err != nil {
		t.Errorf("a read from before the end: %v", err)
	}
}

type slowReads struct {
	*os.File
	until <-chan struct{}
	reads chan<- struct{}
}

func (s slowReads) ReadAt(p []byte, at int64) (int, error) {
	select {
	case s.reads <- struct{}{}:
	default:
	}
	<-s.until
	return s.File.ReadAt(p, at)
}

// What is typed while the terminal shows nothing is in no file, because a file has output and nothing else.
func TestWhatIsTypedUnseenIsInNoFile(t *testing.T) {
	session := withSpool(t, execbus.SpoolOptions{})
	command := bash("seq 100000; read -s -p 'secret: ' x; echo; seq 100000; printf %s \"$x\" | tr a-z A-Z; seq 100000")
	command.TTY = true
	id := launch(t, session, command)
	if _, err := session.Wait(patient(t), messages.Wait{For: []messages.WaitFor{{Process: id, Until: &messages.Until{AwaitingInput: true}}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := session.Write(patient(t), messages.WriteStdin{Process: id, Bytes: []byte("hunter-two\n"), NoWait: true}); err != nil {
		t.Fatal(err)
	}
	finish(t, session, id)
	for pattern, want := range map[string]int{"hunter-two": 0, "HUNTER-TWO": 1, "secret: ": 1} {
		found := read(t, session, messages.ReadOutput{Process: id, Grep: &messages.Grep{Pattern: pattern}})
		if len(found.Lines) != want || found.Missed != 0 {
			t.Errorf("%s: %+v", pattern, found)
		}
	}
}
