package view

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
)

// xterm is a program that shows what it is given on terminals of @xterm/headless, the emulator of xterm.js.
type xterm struct {
	t        *testing.T
	requests *json.Encoder
	answers  *json.Decoder
}

// newXterm starts the program; it skips the test where there is no node, or no @xterm/headless that it finds: in a node_modules of a directory above,
// or where NODE_PATH says.
func newXterm(t *testing.T) *xterm {
	t.Helper()
	program, err := exec.LookPath("node")
	if err != nil {
		t.Skip("skipped: there is no node for @xterm/headless")
	}
	command := exec.CommandContext(t.Context(), program, filepath.Join("testdata", "xterm.js"))
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	command.Stderr = &said
	if err := command.Start(); err != nil {
		t.Skipf("skipped: node does not start: %v", err)
	}
	x := &xterm{t: t, requests: json.NewEncoder(input), answers: json.NewDecoder(bufio.NewReader(output))}
	if _, err = fmt.Fprintln(input, `[{"Cols":1,"Rows":1,"Output":""}]`); err == nil {
		err = x.answers.Decode(new([]onXterm))
	}
	if err != nil {
		_, _ = input.Close(), command.Wait()
		if command.ProcessState.ExitCode() == 3 {
			t.Skip("skipped: node does not find @xterm/headless; NODE_PATH names a directory that has it")
		}
		t.Fatalf("%v: %s", err, said.String())
	}
	t.Cleanup(func() { _, _ = input.Close(), command.Wait() })
	return x
}

// onXterm is what a terminal shows.
type onXterm struct {
	X, Y  int
	Is    []bool
	Title string
	Rows  [][]struct {
		Style [4]int
		Text  []string // of each cell
	}
}

// shown returns what is shown at the end of each part.
func (x *xterm) shown(parts ...part) (all []shown) {
	x.t.Helper()
	type request struct {
		Cols, Rows uint16
		Output     []byte
	}
	var requests []request
	for _, p := range parts {
		requests = append(requests, request{p.size.Cols, p.size.Rows, p.output})
	}
	var answers []onXterm
	if err := x.requests.Encode(requests); err != nil {
		x.t.Fatal(err)
	}
	if err := x.answers.Decode(&answers); err != nil {
		x.t.Fatal(err)
	}
	for i, a := range answers {
		var s shown
		for _, runs := range a.Rows {
			var b strings.Builder
			for _, r := range runs {
				n := r.Style
				looks := style{foreground: colour(n[0]), background: colour(n[1]), attributes: attribute(n[2]), underline: underline(n[3])}
				for _, text := range r.Text {
					writeCell(&b, text, looks, false)
				}
			}
			s.rows = append(s.rows, b.String())
		}
		s.state = fmt.Sprint(min(a.X, int(parts[i].size.Cols)-1), a.Y, a.Is, a.Title)
		all = append(all, s)
	}
	return all
}

// asXterm is the same of our screen.
func (s *Screen) asXterm() shown {
	t := s.terminal
	var is []bool
	for _, m := range []mode{wrapMode, insertMode, originMode, applicationCursor, applicationKeypad, mouseReports} {
		is = append(is, t.modes&m != 0)
	}
	return shown{s.shown().rows, fmt.Sprint(min(t.x, t.cols-1), t.y, append([]bool{t.main != nil}, is...), t.title)}
}

// What programs draw looks as in xterm.js.
func TestProgramsLookAsInXterm(t *testing.T) {
	x := newXterm(t)
	for _, name := range recordings(t, "screens", 30) {
		parts := recording(t, name)
		screen := NewScreen(parts[0].size)
		for i, seen := range x.shown(parts...) {
			screen.Resize(parts[i].size)
			screen.Write(parts[i].output)
			if difference := screen.asXterm().differs(seen); difference != "" {
				t.Errorf("%s, part %d: %s", filepath.Base(name), i, strings.ReplaceAll(difference, "tmux", "xterm"))
			}
		}
	}
}

// xtermStream is a random stream without that in which xterm.js and tmux differ, because there a screen is as tmux's. xterm.js
//
//   - has no blank among the graphics, at _, and no wide emoji without an addon;
//   - resets with DECSTR, does nothing with DECCOLM, and leaves the alternate screen with RIS;
//   - repeats with REP beyond the end of the row, and goes no row up with a backspace;
//   - takes a cursor behind a character in the last column for one in it;
//   - takes the background where a text that wraps scrolls, and none with SU and SD;
//   - combines, where text does not wrap, with the last column and not with the one before;
//   - inserts also a character that has wrapped;
//   - takes the style for what stays of a wide character, or where one finds no room, and makes the last column blank there;
//   - takes a bottom margin of zero for the last row;
//   - saves no underline with DECSC and the alternate screen;
//   - saves style and graphics with the alternate screen, has margins and tab stops for each of the two, and gives it a background.
func xtermStream(r *rand.Rand, size messages.Size) (stream []string) {
	random := randomStream(r, size)
	has := func(part string) bool { return strings.Contains(strings.Join(random, ""), part) }
	wide, inserts, alternates, alternate := has("日") || has("本") || has("한"), has("\x1b[4h"), r.Intn(2) == 0, false
	without := []string{"_", "-", "🎉", "", "\x1b[!p\x1b[?3;4l", "\x1b[?4l"}
	if has("\x1b[?7l") {
		without = append(without, "\u0301", "")
	}
	for _, piece := range random {
		piece = strings.NewReplacer(without...).Replace(piece)
		sequence, final := strings.HasPrefix(piece, "\x1b"), piece[max(0, len(piece)-1):]
		on := strings.HasPrefix(piece, "\x1b[?1049h")
		switch {
		case piece == "", strings.HasSuffix(piece, ";0r"), wide && final == "m":
			continue
		case alternates && sequence && notWithAlternate.MatchString(piece):
			continue
		case piece == "\x1b7", piece == "\x1b8":
			piece = "\x1b[24m" + piece
		case on, strings.HasPrefix(piece, "\x1b[?1049l"):
			if !alternates || on == alternate {
				continue
			}
			alternate, piece = on, "\x1b[24;49m"+piece
		case sequence && (final == "S" || final == "T"):
			piece = "\x1b[49m" + piece
		case piece == "\b":
			piece = "\x1b[C\b"
		case piece == "\x1b[?7h":
			piece = "\r" + piece
		case strings.HasPrefix(piece, "x\x1b["):
			piece = fmt.Sprintf("\rx\x1b[%db", r.Intn(int(size.Cols)-1))
		case piece[0] >= ' ' && (inserts || r.Intn(2) == 0): // it does not wrap
			runes := []rune(piece)
			piece = "\r" + string(runes[:min(int(size.Cols)/2, len(runes))])
		case piece[0] >= ' ':
			piece = fmt.Sprintf("\x1b[49m\x1b[J%s\x1b[%dG", piece, 1+r.Intn(int(size.Cols)))
		}
		stream = append(stream, piece)
	}
	return stream
}

// notWithAlternate are saved cursors, tab stops, RIS, margins and graphics.
var notWithAlternate = regexp.MustCompile(`^\x1b[78Hc]|\x1b\[3g|\x1b\[\d+;\d+r|\x1b\(0`)

// Streams of what terminfo's xterm-256color names look as in xterm.js, but for the differences above.
func TestRandomStreamsLookAsInXterm(t *testing.T) {
	x := newXterm(t)
	for _, size := range []messages.Size{{Rows: 24, Cols: 80}, {Rows: 6, Cols: 11}} {
		compare := func(stream []string) string {
			all := []byte(strings.Join(stream, ""))
			screen := NewScreen(size)
			screen.Write(all)
			return screen.asXterm().differs(x.shown(part{size, all})[0])
		}
		compared, failed := 0, 0
		for seed := range *streams / 2 {
			stream := xtermStream(rand.New(rand.NewSource(int64(seed))), size)
			compared++
			if difference := compare(stream); difference != "" {
				stream, difference = shrink(stream, difference, compare)
				t.Errorf("stream %d of %v, in short %q: %s", seed, size, stream, strings.ReplaceAll(difference, "tmux", "xterm"))
				if failed++; failed == 3 {
					break
				}
			}
		}
		t.Logf("%d streams compared", compared)
	}
}
