package execbus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/view"
)

func inView(t *testing.T, form messages.View) *execbus.Session {
	t.Helper()
	return openSession(t, onWarden(), execbus.SessionOptions{View: form, Dir: t.TempDir()})
}

const bar = `for i in 10 20 30; do printf '\r\033[32m%s%%\033[0m' $i; done; printf '\r100%%\033[K\ndone\n'`

// Results are raw unless the session or the call says something else, and the bytes are there in every view.
func TestViewsOfResults(t *testing.T) {
	t.Parallel()
	const raw, text = "\r\x1b[32m10%\x1b[0m\r\x1b[32m20%\x1b[0m\r\x1b[32m30%\x1b[0m\r100%\x1b[K\ndone\n", "100%\ndone\n"
	for _, c := range []struct {
		session, call messages.View
		tty           bool
		want          string
		shown         messages.View
	}{
		{"", "", false, raw, ""},
		{messages.ViewRaw, messages.ViewText, false, text, messages.ViewText},
		{messages.ViewText, "", false, text, messages.ViewText},
		{messages.ViewText, messages.ViewRaw, false, raw, ""},
		{messages.ViewText, "", true, text, messages.ViewText},
		{"", messages.ViewScreen, true, text, messages.ViewScreen},
		{messages.ViewScreen, "", false, text, messages.ViewText}, // pipes have no screen
		{messages.ViewText, messages.ViewRaw, true, strings.ReplaceAll(raw, "\n", "\r\n"), ""},
	} {
		s := inView(t, c.session)
		result, err := s.Exec(patient(t), messages.ExecCommand{Script: bar, Shell: "sh", TTY: c.tty, View: c.call, Yield: new(messages.MaxYield)})
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("session %q, call %q, tty %v", c.session, c.call, c.tty)
		if got := result.OutputText(); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
		if !bytes.Contains(result.Output, []byte("\x1b[32m20%")) || result.Offset != 0 {
			t.Errorf("%s: the bytes are %q at %d", name, result.Output, result.Offset)
		}
		shown := messages.View("")
		if result.Shown != nil {
			shown = result.Shown.View
		}
		if shown != c.shown {
			t.Errorf("%s: it shows %q", name, shown)
		}
	}
}

func TestAWrongViewIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := onWarden().OpenSession(execbus.SessionOptions{View: "html"}); err == nil || !strings.Contains(err.Error(), "raw, text or screen") {
		t.Error(err)
	}
	s := inView(t, "")
	_, err := s.Exec(patient(t), messages.ExecCommand{Script: "true", View: "html"})
	mustMatch(t, err, messages.ErrInvalidRequest)
	_, err = s.Poll(patient(t), messages.Poll{Process: 1000, View: "html"})
	mustMatch(t, err, messages.ErrInvalidRequest)
	_, err = s.Write(patient(t), messages.WriteStdin{Process: 1000, Bytes: []byte("x"), View: "html"})
	mustMatch(t, err, messages.ErrInvalidRequest)
	_, err = s.Read(patient(t), messages.ReadOutput{Process: 1000, Tail: 1, View: "html"})
	mustMatch(t, err, messages.ErrInvalidRequest)
	_, err = s.Read(patient(t), messages.ReadOutput{Process: 1000, Grep: &messages.Grep{Pattern: "x"}, View: messages.ViewScreen})
	mustMatch(t, err, messages.ErrInvalidRequest)
}

func mustMatch(t *testing.T, err, want error) {
	t.Helper()
	if e, is := err.(*messages.Error); !is || !e.Is(want) {
		t.Errorf("%v is not %v", err, want)
	}
}

// fullScreen is a program that has the alternate screen on between two inputs. It writes each of its
// texts whole: a kernel that makes CR LF of a line's end may write that by itself.
const fullScreen = `stty -echo -opost; printf 'before\r\n\033[?1049h\033[2J\033[3;5Hin the middle\033[1;1Htop'; read a
printf '\033[2;1Hmore'; read b; printf '\033[24;1Hbye\033[?1049lafter\r\n'; read c`

// An answer to a full-screen program is its screen, also where an earlier answer has taken what is on it, and text once it has left.
func TestFullScreenProgramsAnswerWithTheScreen(t *testing.T) {
	t.Parallel()
	s := inView(t, messages.ViewText)
	until := func(pattern string) *messages.Until { return &messages.Until{Pattern: pattern} }
	result, err := s.Exec(patient(t), messages.ExecCommand{Script: fullScreen, Shell: "sh", TTY: true, Yield: new(forever), Until: until("top")})
	if err != nil {
		t.Fatal(err)
	}
	check := func(want string, form messages.View) {
		t.Helper()
		if result.Shown == nil || result.Shown.View != form || result.OutputText() != want {
			t.Errorf("%+v of %q at %d shows %q, want %q", result.Shown, result.Output, result.Offset, result.OutputText(), want)
		}
	}
	check("top\n\n    in the middle\n", messages.ViewScreen)
	result = enter(t, s, result.Process, "\n", until("more"))
	check("top\nmore\n    in the middle\n", messages.ViewScreen)
	if _, err := s.Read(patient(t), messages.ReadOutput{Process: result.Process, Offset: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	id := result.Process
	result = enter(t, s, id, "\n", until("after"))
	check("after\n", messages.ViewText)
	page, err := s.Read(patient(t), messages.ReadOutput{Process: id, Offset: new(int64(0)), Max: int(result.Offset), View: messages.ViewText})
	if err != nil {
		t.Fatal(err)
	}
	if page.Shown == nil || page.Shown.View != messages.ViewScreen || page.Shown.Text != "top\nmore\n    in the middle\n" {
		t.Errorf("as far as %d it shows %+v", result.Offset, page.Shown)
	}
	page, err = s.Read(patient(t), messages.ReadOutput{Process: id, Tail: 7, View: messages.ViewScreen})
	if err != nil {
		t.Fatal(err)
	}
	if page.Shown == nil || page.Shown.Text != "before\nafter\n" { // what was before is on the screen, not only the last bytes
		t.Errorf("in the end it shows %+v", page.Shown)
	}
}

// The screen has the size of the terminal.
func TestTheScreenHasTheTerminalsSize(t *testing.T) {
	t.Parallel()
	s := inView(t, messages.ViewScreen)
	result, err := s.Exec(patient(t), messages.ExecCommand{Argv: []string{"sh", "-c", `seq 9; printf 1234567890; read a`}, TTY: true, Size: messages.Size{Rows: 4, Cols: 7},
		Yield: new(forever), Until: &messages.Until{Pattern: "7890"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := result.OutputText(); got != "8\n9\n1234567\n890\n" {
		t.Errorf("%q", got)
	}
}

// A cut in the middle of a sequence shows half of it nowhere but where it is cut.
func TestViewsOfCutOutput(t *testing.T) {
	t.Parallel()
	s := inView(t, messages.ViewText)
	// 3 MiB of lines of 16 bytes, 13 of them sequences and ends of lines.
	script := `awk 'BEGIN { for (i = 0; i < 196608; i++) printf "\033[1;31m%06d\033[m\n", i }'`
	result, err := s.Exec(patient(t), messages.ExecCommand{Script: script, Shell: "sh", Yield: new(messages.MaxYield), MaxOutputTokens: new(1 << 20)})
	for err == nil && result.Running {
		result, err = s.Poll(patient(t), messages.Poll{Process: result.Process, NoTimeout: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	if result.Omitted == 0 || result.Shown == nil {
		t.Fatalf("omitted %d, shown %v", result.Omitted, result.Shown != nil)
	}
	whole := *result
	whole.MaxOutputTokens = 1 << 20
	text := whole.OutputText()
	if strings.ContainsAny(text, "\x1b\r") || !utf8.ValidString(text) {
		t.Error("there are sequences in it")
	}
	head, tail, found := strings.Cut(text, messages.OmissionMarker(result.Omitted))
	if !found || head != result.Shown.Text[:result.Shown.Head] || !strings.HasSuffix(text, result.Shown.Text[result.Shown.Head:]) {
		t.Fatal("the mark is not where bytes are missing")
	}
	number := regexp.MustCompile(`^\d{6}$`)
	odd := 0
	for line := range strings.Lines(head + "\n" + tail) {
		if !number.MatchString(strings.TrimSuffix(line, "\n")) {
			odd++
		}
	}
	if odd > 4 { // what is cut on each side, the mark's second line, and an empty one
		t.Errorf("%d lines are something else", odd)
	}
	if want := string(view.TextOf(result.Output[:result.Head], messages.Size{})); head != want {
		t.Error("the beginning is not the text of its bytes")
	}
}

// The text of recorded outputs of tools is half of their bytes, and what results say is the text of the whole.
func TestResultsOfRecordedTools(t *testing.T) {
	t.Parallel()
	names, _ := filepath.Glob("view/testdata/tools/*.out")
	if len(names) < 20 {
		t.Fatalf("there are %d recordings", len(names))
	}
	s := inView(t, messages.ViewText)
	size := regexp.MustCompile(`\x1b\[8;(\d+);(\d+)t`)
	raw, shown := 0, 0
	for _, name := range names {
		bytes, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		bytes = size.ReplaceAll(bytes, nil)
		file := filepath.Join(t.TempDir(), "out")
		if err := os.WriteFile(file, bytes, 0o644); err != nil {
			t.Fatal(err)
		}
		result, err := s.Exec(patient(t), messages.ExecCommand{Argv: []string{"sh", "-c", `stty -opost 2>/dev/null; cat "$1"`, "sh", file}, TTY: true,
			Size: messages.Size{Rows: 24, Cols: 80}, Yield: new(messages.MaxYield), MaxOutputTokens: new(1 << 20)})
		if err != nil || result.Running {
			t.Fatalf("%s: %v", name, err)
		}
		if want := string(view.TextOf(bytes, messages.Size{Rows: 24, Cols: 80})); result.Shown == nil || result.Shown.Text != want {
			t.Errorf("%s is shown in another way than as a whole", name)
		}
		raw, shown = raw+len(result.Output), shown+len(result.OutputText())
	}
	t.Logf("%d bytes, as results %d", raw, shown)
	if 2*shown > raw {
		t.Errorf("of %d bytes %d are left", raw, shown)
	}
}

// Real full-screen programs answer with their screens.
func TestScreensOfPrograms(t *testing.T) {
	t.Parallel()
	environment := &messages.EnvironmentPolicy{Set: map[string]string{"TERM": "xterm-256color"}}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("first line\nsecond line\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		argv      []string
		first     string // on the screen at first
		key, then string // and after a key
		quit      string
	}{
		{[]string{"vim", "-u", "NONE", "-i", "NONE", "-n", "file"}, "first line\nsecond line\n~", "ithird ", "third first line\nsecond line\n~", "\x1b:q!\r"},
		{[]string{"less", "file"}, "first line\nsecond line\n", "/second\n", "second line\n~", "q"},
		{[]string{"top"}, "PID USER", "?", "Help", ""},
	} {
		if _, err := osexec.LookPath(c.argv[0]); err != nil {
			t.Logf("%s is not installed", c.argv[0])
			continue
		}
		s := inView(t, messages.ViewText)
		result, err := s.Exec(patient(t), messages.ExecCommand{Argv: c.argv, Dir: dir, TTY: true, Environment: environment, Yield: new(messages.MinYield)})
		if err != nil {
			t.Fatal(err)
		}
		id := result.Process
		shows := func(want string) {
			t.Helper()
			for deadline := time.Now().Add(patience); ; {
				page, err := s.Read(patient(t), messages.ReadOutput{Process: id, Tail: 1, View: messages.ViewScreen})
				if err != nil {
					t.Fatal(err)
				}
				if page.Shown != nil && strings.Contains(page.Shown.Text, want) {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s shows %+v, without %q", c.argv[0], page.Shown, want)
				}
				if _, err := s.Wait(patient(t), messages.Wait{For: []messages.WaitFor{{Process: id}}, Yield: new(messages.MinYield)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		shows(c.first)
		result = enter(t, s, id, c.key, &messages.Until{Quiet: time.Second})
		shows(c.then)
		if c.argv[0] == "top" { // it has no alternate screen
			if _, err := s.Terminate(patient(t), messages.Terminate{Process: id}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if result.Shown == nil || result.Shown.View != messages.ViewScreen || strings.ContainsAny(result.OutputText(), "\x1b\r") {
			t.Errorf("%s answers with %+v", c.argv[0], result.Shown)
		}
		result = enter(t, s, id, c.quit, nil)
		if result.Running || result.Shown == nil || result.Shown.View != messages.ViewText || strings.Contains(result.OutputText(), "second") {
			t.Errorf("%s ends with %+v of %q", c.argv[0], result.Shown, result.Output)
		}
	}
}

// A few bytes that would fill screens without end make no view, and the bytes are answered.
func TestOutputWhoseViewIsTooLargeIsRaw(t *testing.T) {
	t.Parallel()
	s := inView(t, messages.ViewText)
	result, err := s.Exec(patient(t), messages.ExecCommand{Script: `awk 'BEGIN { for (i = 0; i < 20000; i++) printf "x\033[9999b\033[500S" }'`, Shell: "sh", Yield: new(messages.MaxYield)})
	if err != nil || result.Running {
		t.Fatal(result, err)
	}
	if result.Shown != nil || !strings.Contains(result.OutputText(), "\x1b[9999b") {
		t.Errorf("%d bytes are shown as %d", len(result.Output), len(result.Shown.Text))
	}
}

// A view whose time is over is not made: at most a piece of its output passes the screen, and no text is answered.
func TestAViewThatTakesTooLongEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	output := bytes.Repeat([]byte("row\r\n"), 10_000)
	if text, err := execbus.TextWithin(ctx, output); err != nil || len(text) != 40_000 {
		t.Errorf("in time: %d bytes, %v", len(text), err)
	}
	cancel()
	screen := view.NewScreen(messages.Size{})
	if err := execbus.FeedScreen(ctx, screen, output); !errors.Is(err, execbus.ErrViewBounds) || strings.Contains(screen.Text(), "row") {
		t.Errorf("%v, with a screen of %q", err, screen.Text())
	}
	if text, err := execbus.TextWithin(ctx, output); !errors.Is(err, execbus.ErrViewBounds) || text != nil {
		t.Errorf("%v, with a text of %d bytes", err, len(text))
	}
}

// The screen of long output that is all kept begins with its first bytes, and goes on with the last ones: what is between is not fed to it.
func TestTheScreenOfLongOutputIsItsBeginningAndItsEnd(t *testing.T) {
	t.Parallel()
	session := withSpool(t, execbus.SpoolOptions{})
	const script = `printf '\033[?1049h\033[1;1Hfirst\033[2;24r\033[24;1H'; seq 10000000 10080000; printf '\033[1;7Hmiddle\033[24;1H'; seq 10080001 10250000; printf last; read x`
	id := launch(t, session, messages.ExecCommand{Script: script, Shell: "sh", TTY: true})
	eventually(t, "all output", func() bool {
		chunks := read(t, session, messages.ReadOutput{Process: id, Tail: 4}).Chunks
		return len(chunks) > 0 && strings.HasSuffix(string(chunks[len(chunks)-1].Bytes), "last")
	})
	page := read(t, session, messages.ReadOutput{Process: id, Tail: 4, View: messages.ViewScreen})
	if page.Total < 2<<20 || len(page.Retained) != 1 || page.Retained[0].First != 0 {
		t.Fatalf("of %d bytes %v are kept: then this shows nothing", page.Total, page.Retained)
	}
	rows := strings.Split(page.Shown.Text, "\n")
	if rows[0] != "first" || rows[22] != "10250000" || rows[23] != "last" {
		t.Errorf("the screen begins with %q and ends with %q", rows[:2], rows[len(rows)-3:])
	}
}

// A page in a view has all up to its bound, and lines of a search are text.
func TestViewsOfPages(t *testing.T) {
	t.Parallel()
	s := inView(t, messages.ViewText)
	result, err := s.Exec(patient(t), messages.ExecCommand{Script: `i=0; while [ $i -lt 3000 ]; do printf '\033[1m%s\033[m\n' $i; i=$((i+1)); done`, Shell: "sh", Yield: new(messages.MaxYield)})
	if err != nil || result.Running {
		t.Fatal(result, err)
	}
	read := messages.ReadOutput{Process: result.Process, Offset: new(int64(0)), View: messages.ViewText}
	page, err := s.Read(patient(t), read)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, c := range page.Chunks {
		all = append(all, c.Bytes...)
	}
	if int64(len(all)) != page.Total || page.Shown == nil || page.Shown.Text != string(view.TextOf(all, messages.Size{})) {
		t.Errorf("%d of %d bytes, shown %v", len(all), page.Total, page.Shown != nil)
	}
	read.View, read.Max = messages.ViewRaw, 1000
	if page, err = s.Read(patient(t), read); err != nil || page.Shown != nil {
		t.Error(page, err)
	}
	read = messages.ReadOutput{Process: result.Process, Grep: &messages.Grep{Pattern: "1500", Before: 1}, View: messages.ViewText}
	if page, err = s.Read(patient(t), read); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, l := range page.Lines {
		lines = append(lines, string(l.Bytes))
	}
	if !slices.Equal(lines, []string{"1499", "1500"}) {
		t.Errorf("%q", lines)
	}
}
