package record_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is when the processes of these tests start.
var start = time.Date(2026, 11, 28, 7, 30, 0, 0, time.UTC)

func origin(p messages.ProcessID, after time.Duration) messages.Origin {
	return messages.Origin{Session: "session-1", Process: p, Call: "the-call", At: start.Add(after)}
}

// recorded records events and returns the notices.
func recorded(t *testing.T, o record.Options, events ...messages.Event) (notices []string) {
	t.Helper()
	o.Notice = func(text string) { notices = append(notices, text) }
	recorder, err := record.New(o)
	if err != nil {
		t.Fatal(err)
	}
	b := bus.New(bus.Options{})
	s, err := b.Subscribe(bus.Filter{}, bus.SubscribeOptions{Lossless: true})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		recorder.Follow(context.Background(), s)
	}()
	for _, e := range events {
		b.Publish(e)
	}
	b.Close()
	<-done
	return notices
}

// read reads a recording.
func read(t *testing.T, in io.Reader) (header record.Header, events []record.Event) {
	t.Helper()
	r, err := record.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	for {
		e, err := r.Next()
		if err == io.EOF {
			return r.Header, events
		}
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
}

func open(t *testing.T, name string) *os.File {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

// life is what happens to one process.
func life(p messages.ProcessID, tty bool) []messages.Event {
	size := messages.Size{}
	if tty {
		size = messages.Size{Rows: 30, Cols: 100}
	}
	ms := func(n int) messages.Origin { return origin(p, time.Duration(n)*time.Millisecond) }
	return []messages.Event{
		messages.ApprovalRequested{Origin: ms(-20), Question: messages.Question{Display: "vim notes"}},
		messages.ApprovalResolved{Origin: ms(-10), Decision: messages.DecisionApproved},
		messages.ToolDecision{Origin: ms(-5), Attempt: 1, Allowed: true, Reason: "a person has approved it"},
		messages.ExecStarted{Origin: ms(0), Argv: []string{"vim", "my notes"}, TTY: tty, Size: size},
		messages.OutputDelta{Origin: ms(10), Stream: messages.StreamPTY, Bytes: []byte("caf\xc3")},
		messages.OutputDelta{Origin: ms(20), Stream: messages.StreamPTY, Bytes: []byte("\xa9\n<\xff>")},
		messages.TerminalInteraction{Origin: ms(30), Length: 5, Mode: messages.InputLine, Input: []byte("typed")},
		messages.TerminalInteraction{Origin: ms(40), Length: 8, Mode: messages.InputSecret},
		messages.TerminalInteraction{Origin: ms(50)},
		messages.TerminalResized{Origin: ms(60), Size: messages.Size{Rows: 40, Cols: 120}},
		messages.ProcessSignaled{Origin: ms(65), Signal: "SIGUSR1"},
		messages.AttemptEnded{Origin: ms(70), Attempt: 1, Denial: &messages.Denial{}},
		messages.ExecExited{Origin: ms(80), Status: messages.StatusExited(3)},
		messages.ExecEnded{Origin: ms(1_234), EndRecord: messages.EndRecord{Cause: messages.CauseExited, Status: messages.StatusExited(3)}},
	}
}

func TestARecordingHasWhatHappened(t *testing.T) {
	for _, input := range []bool{false, true} {
		dir := t.TempDir()
		if notices := recorded(t, record.Options{Dir: dir, Input: input}, slices.Concat(life(1000, true), life(1001, false))...); len(notices) > 0 {
			t.Errorf("%q", notices)
		}
		files, err := filepath.Glob(filepath.Join(dir, "20261128T073000.000-session--100?.cast"))
		if err != nil || len(files) != 2 {
			t.Fatalf("%q, %v", files, err)
		}
		if info, err := os.Stat(files[0]); err != nil || info.Mode() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		header, events := read(t, open(t, files[0]))
		if want := (record.Header{Version: 3, Size: messages.Size{Rows: 30, Cols: 100}, Terminal: "xterm-256color", At: start.Local(), Command: "vim 'my notes'"}); header != want {
			t.Errorf("%+v, want %+v", header, want)
		}
		typed := record.Event{Code: record.Mark, Data: "input (line): 5 bytes"}
		if input {
			typed = record.Event{Code: record.Input, Data: "typed"}
		}
		want := []record.Event{{Code: record.Mark, Data: "asked: vim notes"}, {Code: record.Mark, Data: "answer: approved"},
			{Code: record.Mark, Data: "attempt 1 allowed: a person has approved it"}, {Code: record.Mark, Data: "call the-call"},
			{Code: record.Output, Data: "caf"}, {Code: record.Output, Data: "é\n<\ufffd>"}, typed, {Code: record.Mark, Data: "input (secret): 8 bytes"},
			{Code: record.Mark, Data: "poll"}, {Code: record.Resize, Data: "120x40"}, {Code: record.Mark, Data: "signal: SIGUSR1"}, {Code: record.Mark}, {Code: record.Exit, Data: "3"}}
		for i, at := range []int{0, 0, 0, 0, 10, 20, 30, 40, 50, 60, 65, 70, 1_234} {
			if i >= len(events) || events[i].At != time.Duration(at)*time.Millisecond || events[i].Code != want[i].Code || want[i].Data != "" && events[i].Data != want[i].Data {
				t.Fatalf("event %d of %+v, want %+v", i, events, want)
			}
		}
		if size, ok := events[9].Size(); !ok || size != (messages.Size{Rows: 40, Cols: 120}) {
			t.Errorf("%+v", size)
		}
		if _, piped := read(t, open(t, files[1])); piped[5].Data != "é\r\n<\ufffd>" {
			t.Errorf("output of a pipe: %q", piped[5].Data)
		}
	}
}

func TestOneFileIsForTheFirstProcess(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.cast")
	recorded(t, record.Options{File: name}, slices.Concat(life(1000, true), life(1001, true))...)
	if _, events := read(t, open(t, name)); len(events) != 13 {
		t.Errorf("%d events", len(events))
	}
	if _, err := record.New(record.Options{File: name}); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("%v", err)
	}
	unused := filepath.Join(t.TempDir(), "b.cast")
	recorded(t, record.Options{File: unused}, messages.ToolDecision{Origin: origin(1000, 0), Attempt: 1})
	if _, err := os.Stat(unused); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a command that was refused has a file: %v", err)
	}
}

func TestARecordingThatReachesItsBoundEndsWithTheExit(t *testing.T) {
	for name, o := range map[string]record.Options{"of one": {PerProcess: 20 << 10}, "of all": {Total: 20 << 10}} {
		o.Dir = t.TempDir()
		var events []messages.Event
		for p := range messages.ProcessID(3) {
			one := life(1000+p, true)
			events = append(events, one[:4]...)
			for i := range 40 {
				events = append(events, messages.OutputDelta{Origin: origin(1000+p, time.Duration(i)), Stream: messages.StreamPTY, Bytes: bytes.Repeat([]byte("x"), 1000)})
			}
			events = append(events, one[len(one)-1])
		}
		notices := recorded(t, o, events...)
		if len(notices) != 1 || !strings.Contains(notices[0], "bound") {
			t.Errorf("%s: %q", name, notices)
		}
		files, _ := filepath.Glob(filepath.Join(o.Dir, "*.cast"))
		total := int64(0)
		for _, file := range files {
			info, _ := os.Stat(file)
			total += info.Size()
			_, events := read(t, open(t, file))
			last := events[len(events)-2:]
			if last[1].Code != record.Exit || last[0].Code != record.Mark || !strings.Contains(last[0].Data, "ends here") || o.PerProcess > 0 && info.Size() > o.PerProcess {
				t.Errorf("%s: %d bytes, %+v", name, info.Size(), last)
			}
		}
		if len(files) != 3 || o.Total > 0 && total > o.Total+3*1024 {
			t.Errorf("%s: %d files with %d bytes", name, len(files), total)
		}
	}
}

func TestALinkInThePlaceOfARecordingIsNotFollowed(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	// Somebody knows the name that a recording will get.
	if err := os.Symlink("/dev/full", filepath.Join(dir, "20261128T073000.000-session--1000.cast")); err != nil {
		t.Fatal(err)
	}
	notices := recorded(t, record.Options{Dir: dir}, slices.Concat(life(1000, true), life(1001, true))...)
	if len(notices) != 1 || !strings.Contains(notices[0], "not recorded") {
		t.Errorf("%q", notices) // a link is never followed
	}
	if _, events := read(t, open(t, filepath.Join(dir, "20261128T073000.000-session--1001.cast"))); len(events) != 13 {
		t.Errorf("%d events of the other", len(events))
	}
}

func TestADirectoryThatOthersMayChangeIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, o := range []record.Options{{Dir: dir}, {}, {Dir: dir, File: "x"}, {File: filepath.Join(dir, "no", "x")}, {Dir: dir, Total: 1}} {
		var known *messages.Error
		if _, err := record.New(o); !errors.As(err, &known) || known.Op != "record" {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A host that is killed leaves a file of which the last line may be unfinished.
func TestARecordingThatWasCutCanBeRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.cast")
	recorded(t, record.Options{File: name}, life(1000, true)...)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head := bytes.IndexByte(whole, '\n') + 1
	for n := head; n < len(whole); n++ {
		r, err := record.NewReader(bytes.NewReader(whole[:n]))
		if err != nil {
			t.Fatal(n, err)
		}
		for err == nil {
			_, err = r.Next()
		}
		if ends := whole[n-1] == '\n' || whole[n] == '\n'; err != io.EOF || r.Cut == ends {
			t.Errorf("the first %d bytes: %v, cut %t", n, err, r.Cut)
		}
	}
}

func TestBadFilesAreExplained(t *testing.T) {
	const head = `{"version":3,"term":{"cols":80,"rows":24}}` + "\n"
	for text, says := range map[string]string{
		"":                                  "empty",
		"#!/bin/sh\n":                       "line 1 is no header",
		`{"version":1,"width":80}` + "\n":   "version 1",
		`{"version":3}` + "\n":              "0 columns",
		`{"version":"3"}` + "\n":            "line 1 is no header",
		`{"version":2,"width":"80"}` + "\n": `"width" has a wrong type`,
		`{"version":3,"te`:                  "ends within its first line",
		head + "hello\n":                    "line 2 is no event",
		head + "\n# note\n[1]\n":            "line 4 is no event",
		head + `[-1, "o", ""]` + "\n":       "line 2: the time",
		head + `["1", "o", ""]` + "\n":      "line 2: the time",
		head + `[1, "o", 2]` + "\n":         "line 2 is no event",
		head + `[9e99, "o", ""]` + "\n":     "hundred years",
		head + strings.Repeat("x", 17<<20):  "longer than",
		`{"version":3,"term":{"cols":80,"rows":24},"idle_time_limit":"x"}` + "\n": "idle_time_limit",
	} {
		r, err := record.NewReader(strings.NewReader(text))
		for err == nil {
			_, err = r.Next()
		}
		if err == io.EOF || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}

func TestVersion2IsWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.cast")
	recorded(t, record.Options{File: name}, life(1000, true)...)
	r, err := record.NewReader(open(t, name))
	if err != nil {
		t.Fatal(err)
	}
	var old bytes.Buffer
	if err := record.WriteVersion2(&old, r); err != nil {
		t.Fatal(err)
	}
	_, events := read(t, open(t, name))
	header, again := read(t, bytes.NewReader(old.Bytes()))
	if header.Version != 2 || header.Terminal != "xterm-256color" || header.Size != r.Header.Size || !slices.Equal(again, events[:len(events)-1]) {
		t.Errorf("%s", old.String())
	}
}

func TestDrawingAsksAndTellsTheTerminalNothing(t *testing.T) {
	for text, want := range map[string]string{
		"a\x1b[31mb\x1b[0m\r\n":                 "a\x1b[31mb\x1b[0m\r\n",
		"\x1b[6n\x1b[c\x1b[>c\x1b[?1$p\x1b[18t": "",
		"\x1bZ\x05x":                            "x",
		"\x1b]0;title\x07x":                     "x",
		"\x1b]52;c;ZXZpbA==\x1b\\x":             "x",
		"\x1bPq#0\x1b\\x\x1b_app\x1b\\y":        "xy",
		"\x1bktitle\x1b\\x":                     "x",
		"\x1b]0;cut\x1b[1mx":                    "\x1b[1mx",
		"\x1b(0q\x1b(B\x1b7\x1b8\x1bM":          "\x1b(0q\x1b(B\x1b7\x1b8\x1bM",
		"\x1b[?1049h\x1b[2J\x1b[3;4H\x1b[4 q":   "\x1b[?1049h\x1b[2J\x1b[3;4H\x1b[4 q",
		"\u009b6n\u009d0;x":                     "6n0;x",
		"é\u00a0✓":                              "é\u00a0✓",
		"\x1b[>0q\x1b[?u\x1b[?4m":               "",
	} {
		var whole, pieces record.Drawing
		if got := string(whole.Append(nil, text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		var b []byte
		for i := range len(text) {
			b = pieces.Append(b, text[i:i+1])
		}
		if string(b) != want {
			t.Errorf("%q in pieces: %q", text, b)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"version":3,"term":{"cols":80,"rows":24}}` + "\n" + `[1.5, "o", "hi"]` + "\n" + `[0, "r", "10x20"]` + "\n"))
	f.Add([]byte(`{"version":2,"width":80,"height":24}` + "\n" + `[1.5, "o", "\u001b]0;"]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := record.NewReader(bytes.NewReader(text))
		if err != nil {
			return
		}
		var drawing record.Drawing
		for last := time.Duration(0); ; {
			e, err := r.Next()
			if err != nil {
				return
			}
			if e.At < last || e.At < 0 {
				t.Fatalf("%v came after %v", e.At, last)
			}
			last = e.At
			_, _ = e.Size()
			if drawn := drawing.Append(nil, e.Data); bytes.Contains(drawn, []byte("\x1b]")) || bytes.Contains(drawn, []byte("\x1b[6n")) || bytes.IndexByte(drawn, 5) >= 0 {
				t.Fatalf("%q asks", drawn)
			}
		}
	})
}

func ExampleReader() {
	r, err := record.NewReader(strings.NewReader(`{"version":3,"term":{"cols":80,"rows":24},"command":"date"}
[0.25, "o", "Sat Nov 28\r\n"]
[0.5, "x", "0"]
`))
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Header.Command, r.Header.Size.Cols)
	for e, err := r.Next(); err == nil; e, err = r.Next() {
		fmt.Printf("%v %s %q\n", e.At, e.Code, e.Data)
	}
	// Output:
	// date 80
	// 250ms o "Sat Nov 28\r\n"
	// 750ms x "0"
}
