package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/execbus/execbus/messages"
)

// killedVariable names the log that a process of this test binary writes until it is killed.
const killedVariable = "AUDIT_TEST_KILLED"

func TestMain(m *testing.M) {
	if path := os.Getenv(killedVariable); path != "" {
		writeUntilKilled(path)
	}
	goleak.VerifyTestMain(m)
}

func writeUntilKilled(path string) {
	l, err := Open(Options{File: path})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for n := 0; ; n++ {
		if l.Append(started(n)); n%100 == 0 {
			fmt.Println(l.Head().Lines)
		}
	}
}

var from = messages.Origin{Session: "s", Process: 1000, Call: "c", At: time.Unix(1_800_000_000, 0).UTC()}

func started(n int) messages.Event {
	return messages.ExecStarted{Origin: from, Argv: []string{"echo", fmt.Sprint(n), "a && b <c>"}, Dir: "/", PID: n}
}

func typed(text string) messages.Event {
	return messages.TerminalInteraction{Origin: from, Length: len(text), Mode: messages.InputLine, Input: []byte(text)}
}

func open(t *testing.T, o Options) *Log {
	t.Helper()
	if o.File == "" {
		o.File = filepath.Join(t.TempDir(), "audit.jsonl")
	}
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func closed(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
}

func verified(t *testing.T, path string, want State, anchors ...messages.AuditHead) Report {
	t.Helper()
	r, err := VerifyFile(path, nil, anchors...)
	if err != nil || r.State != want {
		t.Fatalf("%v, %v, want %s", r, err, want)
	}
	return r
}

// lines reads the events of a log.
func lines(t *testing.T, path string) (all []map[string]any) {
	t.Helper()
	r, err := VerifyFile(path, func(l Line) error {
		var event map[string]any
		err := json.Unmarshal(l.Event, &event)
		all = append(all, event)
		return err
	})
	if err != nil || r.State == Broken {
		t.Fatal(r, err)
	}
	return all
}

// TestEachEventIsInTheLogOnce also has the queue grow, because the goroutines are faster than the log.
func TestEachEventIsInTheLogOnce(t *testing.T) {
	const each, goroutines = 1250, 8
	l := open(t, Options{})
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for n := range each {
				l.Append(started(g*each + n))
			}
		})
	}
	group.Wait()
	closed(t, l)
	r := verified(t, l.options.File, Complete)
	if r.Head.Lines != each*goroutines+2 || r.Dropped != 0 || r.Head != l.Head() {
		t.Fatal(r)
	}
	seen := map[float64]int{}
	for _, e := range lines(t, l.options.File) {
		if e["kind"] == string(messages.KindExecStarted) {
			seen[e["pid"].(float64)]++
		}
	}
	for n := range each * goroutines {
		if seen[float64(n)] != 1 {
			t.Fatalf("event %d is in the log %d times", n, seen[float64(n)])
		}
	}
}

func TestFilesAreTheUsersAlone(t *testing.T) {
	l := open(t, Options{File: filepath.Join(t.TempDir(), "made", "audit.jsonl")})
	defer closed(t, l)
	for _, path := range []string{l.options.File, l.options.File + HeadSuffix} {
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Error(path, info.Mode(), err)
		}
	}
	if _, err := Open(Options{File: l.options.File}); !errors.Is(err, messages.ErrAuditFailed) || !strings.Contains(err.Error(), "another program writes it") {
		t.Error(err)
	}
	if !Writing(l.options.File) {
		t.Error("nobody writes it")
	}
}

func TestWhatIsTypedPrintedAndWrittenIsNotInTheLog(t *testing.T) {
	const secret = "hunter2"
	l := open(t, Options{})
	file := l.options.File
	all := []messages.Event{typed(secret), typed(secret), typed("other"), typed(""),
		messages.TerminalInteraction{Origin: from, Length: len(secret), Mode: messages.InputSecret},
		messages.ExecEnded{Origin: from, Transcript: []byte(secret)},
		messages.ApprovalRequested{Origin: from, Question: messages.Question{Environment: []string{"TOKEN=" + secret}, Patch: &messages.PatchQuestion{Diff: "+" + secret}}}}
	for _, e := range all {
		l.Append(e)
	}
	closed(t, l)
	l = open(t, Options{File: file})
	l.Append(typed(secret))
	closed(t, l)
	text, err := os.ReadFile(file)
	if err != nil || bytes.Contains(text, []byte(secret)) || !bytes.Contains(text, []byte("TOKEN")) {
		t.Fatalf("%v, %s", err, text)
	}
	var digests []string
	for _, e := range lines(t, file) {
		if e["kind"] == string(messages.KindTerminalInteraction) {
			digest, _ := e["digest"].(string)
			digests = append(digests, digest)
			if secrets := e["mode"] == string(messages.InputSecret); secrets != (digest == "") || secrets && e["length"] != float64(len(secret)) {
				t.Error(e)
			}
		}
	}
	if len(digests) != 5 || digests[0] != digests[1] || digests[0] == digests[2] || digests[0] == digests[4] {
		t.Error("equal input has equal digests in one run and no other:", digests)
	}
	if question := all[6].(messages.ApprovalRequested); question.Patch.Diff == "" || question.Environment[0] != "TOKEN="+secret {
		t.Error("the log has changed an event that others share")
	}
}

func TestALogGoesOn(t *testing.T) {
	l := open(t, Options{})
	file := l.options.File
	for n := range 3 {
		if n > 0 {
			l = open(t, Options{File: file, OnFull: Drop})
		}
		l.Append(started(n))
		closed(t, l)
	}
	if r := verified(t, file, Complete); r.Runs != 3 || r.Head.Lines != 9 {
		t.Error(r)
	}
	if first := lines(t, file)[3]; first["run"] != 2.0 || first["unclosed"] != nil || first["onFull"] != "drop" {
		t.Error(first)
	}
}

// TestAKilledHost: what it had written can be read, the log says that it was not closed, and the next host goes on behind it.
func TestAKilledHost(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	host := exec.Command(os.Args[0])
	host.Env = append(os.Environ(), killedVariable+"="+file)
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	written := 0
	for written < 1000 {
		if _, err := fmt.Fscan(out, &written); err != nil {
			t.Fatal(err)
		}
	}
	if r := verified(t, file, NotClosed); r.Head.Lines < 1000 || !Writing(file) {
		t.Error(r)
	}
	_ = host.Process.Kill()
	_ = host.Wait()
	r := verified(t, file, NotClosed)
	if r.Head.Lines < 1000 || r.Runs != 1 || r.UnclosedRuns != 1 || Writing(file) {
		t.Error(r)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text = append(text, `{"n":12,"pre`...); os.WriteFile(file, text, 0o600) != nil {
		t.Fatal("a line that is not finished cannot be added")
	}
	torn := verified(t, file, NotClosed).Torn
	if torn < 12 {
		t.Error("the end of a line that was not finished counts as one:", torn)
	}
	l := open(t, Options{File: file})
	closed(t, l)
	after := verified(t, file, NotClosed)
	if after.Head.Lines != r.Head.Lines+2 || after.Runs != 2 || after.UnclosedRuns != 1 || after.Unclosed[0] != 1 || after.Torn != 0 {
		t.Error(after)
	}
	if all := lines(t, file); all[len(all)-2]["unclosed"] != true || all[len(all)-2]["torn"] != float64(torn) {
		t.Error(all[len(all)-2])
	}
}

// TestALogThatSomebodyHasChangedIsNotContinued, because what follows would look as if all was well.
func TestALogThatSomebodyHasChangedIsNotContinued(t *testing.T) {
	says := map[string]string{"cut": " bytes, and had ", "empty": "it has 0 bytes, and had ", "last line changed": "its line 3 is not the one that was written",
		"continued": "line 4: it is not a line of an audit log", "no head": " is missing or empty", "another head": "it is no head of an audit log"}
	for name, change := range map[string]func(t *testing.T, file string){
		"cut":   func(t *testing.T, file string) { rewrite(t, file, func(p []byte) []byte { return p[:len(p)-1] }) },
		"empty": func(t *testing.T, file string) { rewrite(t, file, func([]byte) []byte { return nil }) },
		"last line changed": func(t *testing.T, file string) {
			rewrite(t, file, func(p []byte) []byte { p[len(p)-4] ^= 1; return p })
		},
		"continued": func(t *testing.T, file string) {
			rewrite(t, file, func(p []byte) []byte { return append(p, "{}\n"...) })
		},
		"no head": func(t *testing.T, file string) { remove(t, file+HeadSuffix) },
		"another head": func(t *testing.T, file string) {
			rewrite(t, file+HeadSuffix, func([]byte) []byte { return []byte("{}") })
		},
		"a second name": func(t *testing.T, file string) {
			if err := os.Link(file, file+".link"); err != nil {
				t.Fatal(err)
			}
		},
		"a link": func(t *testing.T, file string) {
			if err := errors.Join(os.Rename(file, file+".real"), os.Symlink(file+".real", file)); err != nil {
				t.Fatal(err)
			}
		},
		"read by others": func(t *testing.T, file string) {
			if err := os.Chmod(file, 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"a FIFO": func(t *testing.T, file string) {
			if remove(t, file); syscall.Mkfifo(file, 0o600) != nil {
				t.Fatal("no FIFO can be made")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, Options{})
			l.Append(started(1))
			closed(t, l)
			change(t, l.options.File)
			if again, err := Open(Options{File: l.options.File}); err == nil {
				closed(t, again)
				t.Fatal("the log was continued")
			} else if !errors.Is(err, messages.ErrAuditFailed) || !strings.Contains(err.Error(), says[name]) {
				t.Error(err)
			}
		})
	}
	if _, err := Open(Options{File: "relative"}); !errors.Is(err, messages.ErrInvalidRequest) {
		t.Error(err)
	}
	if _, err := Open(Options{File: "/tmp/x", OnFull: "later"}); !errors.Is(err, messages.ErrInvalidRequest) {
		t.Error(err)
	}
}

func rewrite(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// faulty is a disk that fails, or does not answer, when a test says so.
type faulty struct {
	disk
	mu    sync.Mutex
	room  int // bytes that it still takes; negative: no bound
	block chan struct{}
	held  chan struct{} // gets a value when a write is held up
}

func (f *faulty) WriteAt(p []byte, at int64) (int, error) {
	f.mu.Lock()
	room, block := f.room, f.block
	if room >= 0 {
		f.room = max(0, room-len(p))
	}
	f.mu.Unlock()
	if block != nil {
		f.held <- struct{}{}
		<-block
	}
	if room >= 0 && room < len(p) {
		n, _ := f.disk.WriteAt(p[:room], at)
		return n, syscall.ENOSPC
	}
	return f.disk.WriteAt(p, at)
}

func (f *faulty) set(room int, block chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.room, f.block = room, block
}

// testBytes is less than MaxQueuedBytes, to be full sooner.
const testBytes = 2 << 20

// openFaulty opens a log whose file is faulty. Its head is not.
func openFaulty(t *testing.T, mode OnFull) (*Log, *faulty, chan string) {
	t.Helper()
	f, notices := &faulty{room: -1, held: make(chan struct{}, 1)}, make(chan string, 16)
	l := open(t, Options{OnFull: mode, retry: time.Millisecond, most: testBytes, Notice: func(text string) { notices <- text }, open: func(path string) (disk, error) {
		d, err := openFile(path)
		if err != nil || strings.HasSuffix(path, HeadSuffix) {
			return d, err
		}
		f.disk = d
		return f, nil
	}})
	return l, f, notices
}

// TestAFullDisk: what happens meanwhile waits in memory, within a bound; what finds no room is counted; and the log says so.
func TestAFullDisk(t *testing.T) {
	for _, mode := range []OnFull{Stop, Drop} {
		t.Run(string(mode), func(t *testing.T) {
			l, f, notices := openFaulty(t, mode)
			if err := l.Admit(); err != nil {
				t.Fatal(err)
			}
			f.set(100, nil) // a part of a line
			l.Append(started(0))
			if text := <-notices; !strings.Contains(text, "cannot be written: no space left on device") {
				t.Error(text)
			}
			if err := l.Admit(); (err != nil) != (mode == Stop) || err != nil && (!errors.Is(err, messages.ErrAuditFailed) || !strings.Contains(err.Error(), "no space left")) {
				t.Error(err)
			}
			heavy := messages.ExecNotice{Origin: from, Text: strings.Repeat("x", 8<<10)}
			const more = 100 // than there is room for, also with the lines that the disk is tried with
			most := testBytes / (messages.Weight(heavy) + overhead)
			most += batchBytes>>13 + 1
			for range most + more {
				l.Append(heavy)
			}
			l.mu.Lock()
			waiting, bytes, dropped := len(l.queue), l.bytes, int64(0)
			for _, q := range l.queue {
				if q.dropped != nil {
					dropped += q.dropped.Events
				}
			}
			l.mu.Unlock()
			if bytes > testBytes || waiting > MaxQueued+1 || dropped < more {
				t.Errorf("%d events with %d bytes wait, %d are dropped", waiting, bytes, dropped)
			}
			f.set(-1, nil)
			if text := <-notices; !strings.Contains(text, "can be written again") {
				t.Error(text)
			}
			l.Append(started(-1))
			closed(t, l)
			r := verified(t, l.options.File, Complete)
			events, all := int64(0), lines(t, l.options.File)
			for _, e := range all {
				if !strings.HasPrefix(e["kind"].(string), "audit_") {
					events++
				}
			}
			if r.Dropped < dropped || r.Unknown || events+r.Dropped != int64(most+more)+2 {
				t.Errorf("%v; %d were dropped, and %d events are in the log", r, dropped, events)
			}
			if last := all[len(all)-1]; last["dropped"] != float64(r.Dropped) {
				t.Errorf("%v; the last line is %v", r, last)
			}
			if err := l.Admit(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestADiskThatDoesNotAnswer holds up nobody who has something to record. Under Stop nothing new begins.
func TestADiskThatDoesNotAnswer(t *testing.T) {
	l, f, _ := openFaulty(t, Stop)
	block := make(chan struct{})
	f.set(-1, block)
	l.Append(started(1))
	<-f.held
	for n := range testBytes / 2 / (overhead + 1) { // returns though nothing is written
		if l.Append(typed("x")); n == 100 && l.Admit() != nil {
			t.Error("refused at once:", l.Admit())
		}
	}
	l.mu.Lock()
	since, queue := l.since, l.queue
	l.since, l.queue = time.Now().Add(-Patience-time.Second), nil
	l.mu.Unlock()
	if err := l.Admit(); err == nil || !strings.Contains(err.Error(), "has not answered for 3s") {
		t.Error(err)
	}
	l.mu.Lock()
	l.since, l.queue = since, queue
	l.mu.Unlock()
	for range 4 {
		l.Append(typed("x"))
	}
	if err := l.Admit(); err == nil || !strings.Contains(err.Error(), "too slow") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Close(ctx); !errors.Is(err, messages.ErrCancelled) {
		t.Error(err)
	}
	f.set(-1, nil)
	close(block)
	closed(t, l)
	verified(t, l.options.File, Complete)
}

// TestALogThatCannotBeEnded is not closed, and Close says so.
func TestALogThatCannotBeEnded(t *testing.T) {
	l, f, _ := openFaulty(t, Drop)
	f.set(50, nil)
	l.Append(started(1))
	if err := l.Close(patient(t)); !errors.Is(err, messages.ErrAuditFailed) || !strings.Contains(err.Error(), "no space left") {
		t.Error(err)
	}
	if r := verified(t, l.options.File, NotClosed); r.Torn != 50 || r.Head.Lines != 1 {
		t.Error(r)
	}
}

func TestEventsThatNobodyCounted(t *testing.T) {
	l := open(t, Options{})
	l.Missed()
	l.Append(messages.Gap{Origin: from, Connections: 3, Executions: 2})
	closed(t, l)
	if r := verified(t, l.options.File, Complete); !r.Unknown || r.Dropped != 5 || !strings.Contains(r.String(), "nobody has counted") {
		t.Error(r)
	}
}

// TestAMovedLog: lines that go to a file without its name are lost to the person who looks for them.
func TestAMovedLog(t *testing.T) {
	for name, suffix := range map[string]string{"the log": "", "the head": HeadSuffix} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			notices := make(chan string, 4)
			l := open(t, Options{retry: time.Millisecond, Notice: func(text string) { notices <- text }})
			file := l.options.File + suffix
			if err := os.Rename(file, file+".1"); err != nil {
				t.Fatal(err)
			}
			l.Append(started(1))
			if text := receive(t, notices); !strings.Contains(text, "moved, removed or replaced") || l.Admit() == nil {
				t.Error(text, l.Admit())
			}
			if err := os.Rename(file+".1", file); err != nil {
				t.Fatal(err)
			}
			if text := receive(t, notices); !strings.Contains(text, "again") || l.Admit() != nil {
				t.Error(text, l.Admit())
			}
			closed(t, l)
			verified(t, l.options.File, Complete)
		})
	}
}

// TestAnchors: a log that was written anew as a whole, with its head, is found by a host that has kept an anchor.
func TestAnchors(t *testing.T) {
	anchors := make(chan messages.AuditHead, 8)
	l := open(t, Options{Anchored: func(h messages.AuditHead) { anchors <- h }})
	l.Append(started(1))
	first := <-anchors
	l.Append(started(2))
	closed(t, l)
	last := <-anchors
	if first.Lines != 2 || last != l.Head() || last.Lines != 4 {
		t.Error(first, last)
	}
	file := l.options.File
	verified(t, file, Complete, first, last)
	remove(t, file)
	remove(t, file+HeadSuffix)
	forged := open(t, Options{File: file})
	forged.Append(started(3))
	forged.Append(started(2))
	closed(t, forged)
	verified(t, file, Complete)
	if r := verified(t, file, Broken, first); r.Broken.Line != 2 {
		t.Error(r)
	}
}

func TestAnEventThatIsTooLong(t *testing.T) {
	l := open(t, Options{})
	long := messages.ExecStarted{Origin: from, Argv: []string{"echo", strings.Repeat("\"<\x01\xff", MaxLine)}}
	l.Append(long)
	l.Append(messages.ExecNotice{Origin: messages.Origin{Call: messages.CallID(strings.Repeat("c", MaxLine))}})
	closed(t, l)
	whole, _ := json.Marshal(long)
	whole = plain(whole)
	e := lines(t, l.options.File)[1]
	cut := e["oversize"].(map[string]any)
	if e["kind"] != "exec_started" || e["process"] != 1000.0 || e["call"] != "c" || cut["bytes"] != float64(len(whole)) || cut["sha256"] != digestOf(whole) ||
		!strings.HasPrefix(string(whole), cut["begins"].(string)) {
		t.Error(e["kind"], e["process"], cut["bytes"], cut["sha256"])
	}
}
