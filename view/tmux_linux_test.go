package view

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

// tmux is a server of our own with one pane, which shows the bytes that it is given, and a control client to ask for what it shows.
type tmux struct {
	t       *testing.T
	input   *os.File      // what is written here the pane gets
	answers *bufio.Reader // what the pane's terminal answers
	control io.WriteCloser
	replies *bufio.Reader
}

// tmuxPatience bounds each wait; it ends none that works.
const tmuxPatience = 60 * time.Second

// newTmux starts a server; it skips the test where there is no tmux.
func newTmux(t *testing.T, size messages.Size) *tmux {
	t.Helper()
	program, err := exec.LookPath("tmux")
	if err != nil {
		t.Skip("skipped: there is no tmux to compare with")
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	for _, name := range []string{in, out} {
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // it is needed in the clean-up
	command := exec.CommandContext(ctx, program, "-u", "-S", filepath.Join(dir, "socket"), "-f", "/dev/null", "-C", "new-session", "-s", "control", "cat")
	command.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TERM=xterm-256color", "TMUX=", "TMUX_TMPDIR="+dir)
	x := &tmux{t: t}
	if x.control, err = command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	replies, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Skipf("skipped: tmux does not start: %v", err)
	}
	x.replies = bufio.NewReader(replies)
	t.Cleanup(func() {
		io.WriteString(x.control, "kill-server\n")
		timer := time.AfterFunc(tmuxPatience, cancel)
		io.Copy(io.Discard, x.replies)
		command.Wait()
		timer.Stop()
		cancel()
	})
	x.reply() // to new-session
	x.command("set-option -g status off")
	x.command("set-option -g remain-on-exit on")
	script := fmt.Sprintf("stty raw -echo; cat <%s & exec cat >%s", in, out)
	x.command(fmt.Sprintf("new-session -d -s work -x %d -y %d \"%s\"", size.Cols, size.Rows, script))
	if x.input, err = os.OpenFile(in, os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	answers, err := os.OpenFile(out, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.input.Close(); answers.Close() })
	x.answers = bufio.NewReader(answers)
	answers.SetReadDeadline(time.Now().Add(10 * tmuxPatience))
	x.show([]byte("\x1b]2;\x1b\\")) // the title is the machine's name
	return x
}

// reply reads the answer to one command.
func (x *tmux) reply() string {
	x.t.Helper()
	var b strings.Builder
	within := false
	for {
		row, err := x.replies.ReadString('\n')
		switch {
		case err != nil:
			x.t.Fatalf("tmux: %v", err)
		case strings.HasPrefix(row, "%begin "):
			within = true
		case strings.HasPrefix(row, "%end "):
			return b.String()
		case strings.HasPrefix(row, "%error "):
			x.t.Fatalf("tmux: %s", b.String())
		case within:
			b.WriteString(row)
		}
	}
}

func (x *tmux) command(text string) string {
	x.t.Helper()
	if _, err := io.WriteString(x.control, text+"\n"); err != nil {
		x.t.Fatal(err)
	}
	return x.reply()
}

// show lets the pane show bytes, and returns when it has.
func (x *tmux) show(p []byte) {
	x.t.Helper()
	if _, err := x.input.Write(append(bytes.Clone(p), "\x1b[5n"...)); err != nil {
		x.t.Fatal(err)
	}
	var seen []byte
	for !bytes.HasSuffix(seen, []byte("\x1b[0n")) {
		b, err := x.answers.ReadByte()
		if err != nil {
			x.t.Fatalf("tmux does not answer: %v", err)
		}
		seen = append(seen, b)
	}
}

// resize changes the size of the pane.
func (x *tmux) resize(size messages.Size) {
	x.command(fmt.Sprintf("resize-window -t work -x %d -y %d", size.Cols, size.Rows))
}

// shown is what a screen shows, in a form that both can have.
type shown struct {
	rows  []string
	state string
}

// shown asks what the pane shows.
func (x *tmux) shown(size messages.Size) shown {
	x.t.Helper()
	state := x.command("display-message -p -t work '#{cursor_x} #{cursor_y} #{cursor_flag} #{alternate_on} #{scroll_region_upper} #{scroll_region_lower} " +
		"#{wrap_flag} #{insert_flag} #{origin_flag} #{keypad_cursor_flag} #{keypad_flag} #{mouse_any_flag} #{pane_title}'")
	return shown{parseCapture(x.command("capture-pane -p -e -N -t work"), size), strings.TrimSuffix(state, "\n")}
}

// parseCapture reads what capture-pane -e prints.
func parseCapture(text string, size messages.Size) []string {
	rows := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	var read []string
	for len(rows) < int(size.Rows) {
		rows = append(rows, "")
	}
	var s style
	special := false
	for _, r := range rows {
		var b strings.Builder
		cols, joined := 0, false
		for len(r) > 0 {
			switch {
			case r[0] == 0x0e || r[0] == 0x0f:
				special, r = r[0] == 0x0e, r[1:]
			case strings.HasPrefix(r, "\x1b["):
				var sgr string
				sgr, r, _ = strings.Cut(r[2:], "m")
				list, _ := (&parser{parameters: []byte(sgr)}).split(nil)
				s.apply(list)
			default:
				char := []rune(r)[0]
				r = r[len(string(char)):]
				if special && char >= 0x5f && char <= 0x7e {
					char = graphics[char-0x5f]
				}
				wide := columns(char)
				if joined {
					wide = 0
				}
				joined = char == zeroWidthJoiner
				writeCell(&b, string(char), s, wide == 0)
				cols += wide
			}
		}
		if cols < int(size.Cols) {
			fmt.Fprint(&b, unseen, strings.Repeat(" ", int(size.Cols)-cols))
		}
		read = append(read, b.String())
	}
	return read
}

// unseen stands before what capture-pane does not print: cells at the end of a row where nothing was written. Their backgrounds
// are not known.
const unseen = "<unseen>"

// backgrounds are SGR sequences that set no more than a background.
var backgrounds = regexp.MustCompile(`\x1b\[0(;4[0-7]|;10[0-7]|;48;5;\d+|;48;2;\d+;\d+;\d+)m`)

// same reports whether a row is that of tmux, as far as it is seen.
func same(row, tmux string) bool {
	seen, rest, partly := strings.Cut(tmux, unseen)
	if !partly || !strings.HasPrefix(row, seen) {
		return row == tmux
	}
	return backgrounds.ReplaceAllString(row[len(seen):], "") == rest
}

// edges writes into the last column of each row. Then capture-pane prints whole rows.
func edges(size messages.Size) []byte {
	b := []byte("\x1b[?6l\x1b[r\x1b[4l\x1b[?7l\x1b(B\x0f\x1b[m")
	for y := range size.Rows {
		b = fmt.Appendf(b, "\x1b[%d;%dH|", y+1, size.Cols)
	}
	return b
}

// writeCell writes a cell; a character that combines belongs to the cell before.
func writeCell(b *strings.Builder, text string, s style, combines bool) {
	if !combines && s != (style{}) {
		b.Write(s.appendSGR(nil))
	}
	b.WriteString(text)
}

// shown is the same of our screen.
func (s *Screen) shown() shown {
	t := s.terminal
	var result shown
	for y := range t.rows {
		var b strings.Builder
		for x := range t.cols {
			if c := t.rows[y].at(x); c.char != covered {
				writeCell(&b, t.show(c), c.style, false)
			}
		}
		result.rows = append(result.rows, b.String())
	}
	flag := func(on bool) int {
		if on {
			return 1
		}
		return 0
	}
	is := func(m mode) int { return flag(t.modes&m != 0) }
	result.state = fmt.Sprint(t.x, t.y, is(cursorShown), flag(t.main != nil), t.top, t.bottom,
		is(wrapMode), is(insertMode), is(originMode), is(applicationCursor), is(applicationKeypad), is(mouseReports)) + " " + t.title
	return result
}

// differs says where two screens differ; empty: nowhere.
func (s shown) differs(tmux shown) string {
	var b strings.Builder
	if s.state != tmux.state {
		fmt.Fprintf(&b, "state is %q, tmux's %q\n", s.state, tmux.state)
	}
	for y := range max(len(s.rows), len(tmux.rows)) {
		if y >= len(s.rows) || y >= len(tmux.rows) {
			fmt.Fprintf(&b, "%d rows, tmux has %d\n", len(s.rows), len(tmux.rows))
			break
		}
		if !same(s.rows[y], tmux.rows[y]) {
			fmt.Fprintf(&b, "row %d is\n%q\ntmux's\n%q\n", y, s.rows[y], tmux.rows[y])
			break
		}
	}
	return b.String()
}
