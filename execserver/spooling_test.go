package execserver

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/spool"
)

// slowly is for tests that read what was printed long ago, on a machine that has other things to do.
var slowly = patience{retention: time.Hour, disk: time.Hour}

func keeping(t *testing.T) Options {
	return Options{Spool: spool.Options{Dir: filepath.Join(t.TempDir(), "output")}, Detached: time.Hour, patience: slowly}
}

// printed is more than a record has room for: the beginning of what flood prints.
var printed = floodText[:strings.Index(floodText, "400001\n")]

func prints(id string) wire.StartParams { return startParams(id, "seq", "400000") }

// page reads output after a number.
func (c *client) page(id string, after uint64, room *uint64) wire.ReadResult {
	c.t.Helper()
	return ask[wire.ReadResult](c.t, c, wire.ProcessRead, wire.ReadParams{ProcessID: id, AfterSeq: &after, MaxBytes: room})
}

// ended waits until a process has ended and no more output comes.
func (c *client) ended(id string) {
	c.t.Helper()
	for wait := (wire.ReadParams{ProcessID: id, AfterSeq: new(uint64(1 << 60)), WaitMs: new(uint64(1000))}); !ask[wire.ReadResult](c.t, c, wire.ProcessRead, wait).Closed; {
	}
}

// pages reads all output of a process that has ended, page by page.
func (c *client) pages(id string, room uint64) (chunks []wire.ReadChunk, text []byte) {
	c.t.Helper()
	for after := uint64(0); ; {
		page := c.page(id, after, &room)
		if len(page.Chunks) == 0 {
			return chunks, text
		}
		size := 0
		for _, chunk := range page.Chunks {
			if chunk.Seq <= after {
				c.t.Fatalf("chunk %d comes after %d", chunk.Seq, after)
			}
			after, size, text = chunk.Seq, size+len(chunk.Chunk), append(text, chunk.Chunk...)
		}
		if page.NextSeq != after+1 || len(page.Chunks) > 1 && uint64(size) > room {
			c.t.Fatalf("%d bytes of %d up to %d, and then comes %d", size, room, after, page.NextSeq)
		}
		chunks = append(chunks, page.Chunks...)
	}
}

func (s *Server) process(session, id string) *process {
	s.mu.Lock()
	one := s.sessions[session]
	s.mu.Unlock()
	return one.find(id)
}

// away runs a command while its client is away, and returns the client that has come back after the end.
func away(t *testing.T, command ...string) *client {
	s := newServer(t, keeping(t))
	c := transports["websocket"](t, s)
	session := c.open("")
	c.start(startParams("p", command...))
	c.close()
	c = transports["websocket"](t, s)
	c.open(session)
	c.ended("p")
	return c
}

// More than twice of what the server has in memory is printed while the client is away. It comes back and reads all of it, byte by byte, in pages and
// at once.
func TestAClientReadsAllThatItHasMissed(t *testing.T) {
	c := away(t, "seq", "1000000", "1300000")
	var want []byte
	for n := int64(1_000_000); n <= 1_300_000; n++ {
		want = append(strconv.AppendInt(want, n, 10), '\n')
	}
	if len(want) < 2*wire.RetainedBytes {
		t.Fatalf("%d bytes are too few", len(want))
	}
	chunks, text := c.pages("p", 1<<20)
	if !bytes.Equal(text, want) {
		t.Fatalf("%d bytes came of %d, or others", len(text), len(want))
	}
	for i, chunk := range chunks {
		if chunk.Seq != uint64(i+1) {
			t.Fatalf("chunk %d comes after %d", chunk.Seq, i)
		}
	}
	if page := c.page("p", 0, new(uint64(0))); len(page.Chunks) != 1 || page.NextSeq != 2 || !page.Closed || *page.ExitCode != 0 {
		t.Errorf("without room come %d chunks, and next is %d", len(page.Chunks), page.NextSeq)
	}
	text = nil
	page := c.page("p", 0, nil)
	for _, chunk := range page.Chunks {
		text = append(text, chunk.Chunk...)
	}
	if next := uint64(len(chunks)) + 3; page.NextSeq != next || !bytes.Equal(text, want) {
		t.Errorf("at once come %d bytes of %d, and next is %d of %d", len(text), len(want), page.NextSeq, next)
	}
}

// A client that has missed more than one answer takes, and wants it at once, gets the newest output.
func TestAClientThatHasMissedTooMuchForOneAnswerGetsTheNewest(t *testing.T) {
	c := away(t, "head", "-c", strconv.Itoa(maxMissed+2*wire.RetainedBytes), "/dev/zero")
	size, page := 0, c.page("p", 0, nil)
	for _, chunk := range page.Chunks {
		size += len(chunk.Chunk)
	}
	if size > wire.RetainedBytes || size < wire.RetainedBytes/2 || !page.Closed {
		t.Errorf("%d bytes come at once", size)
	}
	if first := c.page("p", 0, new(uint64(1))); len(first.Chunks) != 1 || first.Chunks[0].Seq != 1 {
		t.Errorf("of the file come %d chunks", len(first.Chunks))
	}
}

// Beyond the quota exactly the middle is missing, in whole chunks. A background child prints after the exit, so that the numbers of chunks and of
// events differ.
func TestTheMissingChunksOfAQuotaAreExact(t *testing.T) {
	options := keeping(t)
	options.Spool.PerProcess = 1 << 20
	s := newServer(t, options)
	c := inProcess(t, s)
	session := c.open("", wire.ExtensionEnds)
	params := shell("p", fmt.Sprintf("exec 3<&0; (read x <&3; seq %d) & exit 3", floodLines))
	params.PipeStdin = true
	c.start(params)
	c.happened("p", is(wire.ProcessExited))
	c.write("p", "\n")
	c.happened("p", is(wire.ProcessEnded))
	sent, text := map[uint64]string{}, strings.Builder{}
	for _, m := range c.got {
		if n := paramsOf(m); m.Method == wire.ProcessOutput {
			sent[n.Seq] = string(n.Chunk)
			text.Write(n.Chunk)
		}
	}
	if text.String() != floodText || sent[1] != "" {
		t.Fatalf("%d bytes were sent, and the exit does not come first: %q", text.Len(), sent[1])
	}
	p := s.process(session, "p")
	eventually(t, "the end of the writes", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return !p.spooling.writing
	})
	kept := p.spooling.file.Ranges()
	if len(kept) != 2 {
		t.Fatalf("kept are %v", kept)
	}
	p.mu.Lock()
	again := min(kept[1].FirstSeq, p.past.first()) // in the file, or in the record
	gap, next := p.past.numberOf(kept[0].EndSeq-1), p.past.numberOf(again)
	p.mu.Unlock()
	chunks, _ := c.pages("p", 1<<18)
	for _, chunk := range chunks {
		if want, is := sent[chunk.Seq]; !is || string(chunk.Chunk) != want || gap <= chunk.Seq && chunk.Seq < next {
			t.Fatalf("chunk %d is not the one that was sent, or in the gap from %d to %d", chunk.Seq, gap, next)
		}
		delete(sent, chunk.Seq)
	}
	missing := 0
	for seq := range sent {
		if missing++; seq < gap || next <= seq {
			t.Errorf("chunk %d is missing", seq)
		}
	}
	if want := again - (kept[0].EndSeq - 1); missing == 0 || uint64(missing) != want { // events may have numbers among them
		t.Errorf("%d chunks are missing, want %d; the gap is from %d to %d", missing, want, gap, next)
	}
}

// disks are files of which some are changed.
type disks struct {
	t      *testing.T
	change map[int]func(spool.Storage) (spool.Storage, error) // by how many were made before
	mu     sync.Mutex
	made   int
}

func (d *disks) create() (spool.Storage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	file, err := os.CreateTemp(d.t.TempDir(), "")
	if err != nil {
		return nil, err
	}
	d.made++
	if change := d.change[d.made-1]; change != nil {
		return change(file)
	}
	return file, nil
}

// stopped is a disk whose writes wait, and then fail if it has an error.
type stopped struct {
	spool.Storage
	until <-chan struct{}
	began chan<- struct{}
	err   error
}

func (s stopped) WriteAt(p []byte, at int64) (int, error) {
	select {
	case s.began <- struct{}{}:
	default:
	}
	if <-s.until; s.err != nil {
		return 0, s.err
	}
	return s.Storage.WriteAt(p, at)
}

// logged keeps what is logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(bound); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("there is not %s", what)
		}
	}
}

// A slow disk slows its own process, which then loses nothing, and no other one.
func TestASlowDiskSlowsItsOwnProcess(t *testing.T) {
	until, began := make(chan struct{}), make(chan struct{}, 1)
	d := &disks{t: t, change: map[int]func(spool.Storage) (spool.Storage, error){
		0: func(file spool.Storage) (spool.Storage, error) {
			return stopped{Storage: file, until: until, began: began}, nil
		},
	}}
	options := keeping(t)
	options.Spool.Create = d.create
	s := newServer(t, options)
	c := inProcess(t, s)
	session := c.open("")
	c.start(prints("slow"))
	<-began
	c.start(prints("well"))
	c.ended("well")
	if _, text := c.pages("well", 1<<20); string(text) != printed {
		t.Errorf("of the other process %d bytes are kept", len(text))
	}
	p := s.process(session, "slow")
	p.mu.Lock()
	if p.past.first() != 1 || p.past.now.bytes > wire.RetainedBytes || p.silent {
		t.Errorf("it has printed %d bytes, and %d chunks are gone", p.past.now.bytes, p.past.first()-1)
	}
	p.mu.Unlock()
	close(until)
	c.ended("slow")
	if _, text := c.pages("slow", 1<<20); string(text) != printed {
		t.Errorf("%d bytes are kept", len(text))
	}
}

// A disk that fails, or does not answer, costs its process the file, which is logged once. Its output goes on, and nothing else happens.
func TestADiskThatFailsCostsAFileAndNothingElse(t *testing.T) {
	never, now := make(chan struct{}), make(chan struct{})
	close(now)
	defer close(never)
	for name, change := range map[string]func(file spool.Storage) (spool.Storage, error){
		"none": func(spool.Storage) (spool.Storage, error) { return nil, errors.New("no descriptor is left") },
		"full": func(file spool.Storage) (spool.Storage, error) {
			return stopped{file, now, nil, errors.New("it is full")}, nil
		},
		"silent": func(file spool.Storage) (spool.Storage, error) { return stopped{file, never, nil, nil}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			log, d := &logged{}, &disks{t: t, change: map[int]func(spool.Storage) (spool.Storage, error){0: change}}
			options := keeping(t)
			options.Spool.Create, options.Logger = d.create, slog.New(slog.NewTextHandler(log, nil))
			if name == "silent" {
				options.patience.disk = time.Millisecond
			}
			s := newServer(t, options)
			c := inProcess(t, s)
			c.open("")
			c.start(prints("sick"))
			c.ended("sick")
			c.happened("sick", is(wire.ProcessClosed))
			if text, _ := c.output("sick"); text != printed {
				t.Errorf("%d bytes were sent", len(text))
			}
			if _, text := c.pages("sick", 1<<20); !strings.HasSuffix(printed, string(text)) || len(text) > wire.RetainedBytes || len(text) < wire.RetainedBytes/2 {
				t.Errorf("%d bytes are kept", len(text))
			}
			if name == "full" {
				c.start(prints("well"))
				c.ended("well")
				if _, text := c.pages("well", 1<<20); string(text) != printed {
					t.Errorf("of the other process %d bytes are kept", len(text))
				}
			}
			eventually(t, "a log", func() bool { return log.String() != "" })
			if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "process=sick") || !strings.Contains(text, "not written to a file any more") {
				t.Errorf("logged is %s", text)
			}
		})
	}
}

// A process that prints little, or whose client acknowledges output, has no file. A file ends when its process is forgotten, and when its session ends.
func TestFilesEndWithTheirRecords(t *testing.T) {
	closed := make(chan struct{}, 10)
	d := &disks{t: t, change: map[int]func(spool.Storage) (spool.Storage, error){}}
	for i := range 10 {
		d.change[i] = func(file spool.Storage) (spool.Storage, error) { return counted{file, closed}, nil }
	}
	options := keeping(t)
	options.Spool.Create = d.create
	s := newServer(t, options)
	acknowledges, c := inProcess(t, s), inProcess(t, s)
	acknowledges.open("", wire.ExtensionFlow)
	acknowledges.start(startParams("p", "seq", "400000"))
	acknowledges.happened("p", is(wire.ProcessClosed))
	session := c.open("")
	c.start(startParams("little", "seq", "50000"))
	c.ended("little")
	if d.made != 0 {
		t.Errorf("%d files were made", d.made)
	}
	for _, id := range []string{"one", "two"} {
		c.start(prints(id))
		c.ended(id)
	}
	p := s.process(session, "one")
	eventually(t, "the end of the tree", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.retired
	})
	if len(closed) != 0 || d.made != 2 {
		t.Errorf("%d of %d files are gone", len(closed), d.made)
	}
	p.session.forget(p)
	<-closed
	if _, text := c.pages("two", 1<<20); string(text) != printed {
		t.Errorf("of the other process %d bytes are kept", len(text))
	}
	p.session.end()
	<-closed
}

// Where all files together may have no more, those of ended processes give way, and nothing else is said of them.
func TestOutputOfEndedProcessesGivesWay(t *testing.T) {
	options := keeping(t)
	options.Spool.Total = 4 << 20
	s := newServer(t, options)
	c := inProcess(t, s)
	session := c.open("")
	for _, id := range []string{"one", "two"} {
		c.start(prints(id))
		c.ended(id)
		p := s.process(session, id)
		eventually(t, "the end of the tree", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.over
		})
		if _, text := c.pages(id, 1<<20); string(text) != printed {
			t.Errorf("%s: %d bytes are kept", id, len(text))
		}
	}
	if _, text := c.pages("one", 1<<20); len(text) > wire.RetainedBytes || !strings.HasSuffix(printed, string(text)) {
		t.Errorf("of the first process %d bytes are kept", len(text))
	}
}

type counted struct {
	spool.Storage
	closed chan<- struct{}
}

func (c counted) Close() error {
	err := c.Storage.Close()
	c.closed <- struct{}{}
	return err
}

// The client is gone while the file is read, which waits: the connection ends nevertheless, and the session goes on.
func TestAFileThatIsNotReadHoldsNothingUp(t *testing.T) {
	until, began := make(chan struct{}), make(chan struct{}, 1)
	d := &disks{t: t, change: map[int]func(spool.Storage) (spool.Storage, error){
		0: func(file spool.Storage) (spool.Storage, error) { return unread{file, until, began}, nil },
	}}
	options := keeping(t)
	options.Spool.Create = d.create
	s := newServer(t, options)
	c := inProcess(t, s)
	session := c.open("")
	c.start(prints("p"))
	c.ended("p")
	waits := c.send(wire.ProcessRead, wire.ReadParams{ProcessID: "p", MaxBytes: new(uint64(1 << 20))})
	<-began
	if page := c.page("p", 1<<60, nil); !page.Closed {
		t.Error("another read is not answered")
	}
	c.close()
	if _, fault := understood[wire.ReadResult](t, waits); fault == nil {
		t.Error("there was an answer")
	}
	c = inProcess(t, s)
	c.open(session)
	close(until)
	if _, text := c.pages("p", 1<<20); string(text) != printed {
		t.Errorf("%d bytes are kept", len(text))
	}
}

// unread is a disk whose reads wait.
type unread struct {
	spool.Storage
	until <-chan struct{}
	began chan<- struct{}
}

func (u unread) ReadAt(p []byte, at int64) (int, error) {
	select {
	case u.began <- struct{}{}:
	default:
	}
	<-u.until
	return u.Storage.ReadAt(p, at)
}

// No confined command reaches what is kept of another one, not even where it may write all around it.
func TestConfinedCommandsDoNotReachKeptOutput(t *testing.T) {
	dir := confinable(t)
	if probed := sandbox.Probe(); probed.Level != messages.AssuranceIsolated {
		t.Skipf("skipped: a directory within a workspace cannot be protected here: %q", probed.Level)
	}
	options := keeping(t)
	options.Spool.Dir = filepath.Join(dir, "output")
	c := opened(t, options)
	c.start(prints("p"))
	c.ended("p")
	params := shell("child", `cd "$1" && touch near && ls -A output && { touch output/x || mv output away || rm -rf output || chmod 777 output; } 2>/dev/null && echo reached; `+
		`ls /proc/[0-9]*/fd -l 2>/dev/null | grep "$1/output"; echo end`)
	params.Argv = append(params.Argv, "sh", dir)
	params.Sandbox = asking(messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}, dir, messages.AssuranceIsolated)
	if output, _ := c.result(params); output != "end\n" {
		t.Errorf("it says %q", output)
	}
	if _, err := os.Stat(filepath.Join(dir, "near")); err != nil {
		t.Error(err)
	}
	if names, err := os.ReadDir(options.Spool.Dir); err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
	if _, text := c.pages("p", 1<<20); string(text) != printed {
		t.Errorf("%d bytes are kept", len(text))
	}
}

func TestSpoolOptionsAreChecked(t *testing.T) {
	_, err := NewServer(newSpawner(t), Options{Spool: spool.Options{Dir: "relative"}})
	if typed, is := errors.AsType[*messages.Error](err); !is || typed.Subject != "Spool.Dir" {
		t.Errorf("got %v", err)
	}
}

// People read and find what the record has dropped, from the file, as well as the rest. Where neither has it, they learn how much that is.
func TestPeopleReadWhatIsInAFile(t *testing.T) {
	s := newServer(t, keeping(t))
	c := inProcess(t, s)
	c.open("")
	c.start(prints("p"))
	c.ended("p")
	session := watched(t, s)
	for _, page := range []int{100_000, 1 << 20} {
		if text := readAll(t, session, page); text != printed {
			t.Errorf("%d bytes came of %d, or others", len(text), len(printed))
		}
	}
	page, err := session.Read(t.Context(), messages.ReadOutput{Process: firstNumber, Grep: &messages.Grep{Pattern: "^(7|399999)$"}})
	if err != nil || len(page.Lines) != 2 || page.Lines[0].Number != 7 || page.Lines[1].Number != 399_999 || page.Missed != 0 {
		t.Errorf("%+v, %v", page, err)
	}
	tail, err := session.Read(t.Context(), messages.ReadOutput{Process: firstNumber, Tail: 1 << 20})
	if err != nil || len(tail.Chunks) == 0 || tail.Chunks[0].Offset != int64(len(printed))-1<<20 {
		t.Errorf("%+v, %v", tail, err)
	}
	if kept := []messages.OutputRange{{End: int64(len(printed)), FirstSeq: 1, EndSeq: tail.LastSeq + 1}}; !slices.Equal(tail.Retained, kept) {
		t.Errorf("%+v", tail.Retained)
	}
	p := session.of.find("p")
	p.spooling.file.Close()
	if _, err := session.Read(t.Context(), messages.ReadOutput{Process: firstNumber, Offset: new(int64)}); !errors.Is(err, messages.ErrOutputUnretained) {
		t.Error(err)
	}
	page, err = session.Read(t.Context(), messages.ReadOutput{Process: firstNumber, Offset: new(int64), SkipLost: true})
	if err != nil || len(page.Chunks) == 0 || page.Missed != page.Chunks[0].Offset || page.Missed == 0 {
		t.Errorf("%+v, %v", page, err)
	}
}
