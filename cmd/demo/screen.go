package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// screen shows everything above the line that is being typed. It writes whole lines only, because the prompt overwrites its
// own line. After a moment, an incomplete line is ended.
type screen struct {
	editor editor
	colour bool
	held   map[*job]bool // jobs with an incomplete line
	title  bool          // the window has a title that can be changed
	away   bool          // a command has the terminal
	kept   strings.Builder
	lost   int // the number of bytes that did not fit
}

// mostKept bounds the output, in bytes, that is kept while a command has the terminal.
const mostKept = 64 << 10

// holdFront is how long the command in front may take between the beginning of a line and the reading of the answer.
const holdFront = 300 * time.Millisecond

// longestLine bounds the part of a line that is held back.
const longestLine = 8 << 10

func newScreen(e editor, colour bool) *screen {
	return &screen{editor: e, colour: colour, held: map[*job]bool{}}
}

func (s *screen) resize(size messages.Size) { s.editor.resize(size) }

// output shows complete lines at once.
func (s *screen) output(j *job, _ messages.Stream, p []byte) {
	if len(j.rest) == 0 {
		j.spoke = time.Now()
	}
	j.rest = append(j.rest, p...)
	end := bytes.LastIndexByte(j.rest, '\n') + 1
	if len(j.rest)-end > longestLine {
		end = len(j.rest)
	}
	s.show(j, j.rest[:end])
	j.rest = append([]byte(nil), j.rest[end:]...)
	if len(j.rest) > 0 {
		s.held[j] = true
	} else {
		delete(s.held, j)
	}
}

func (s *screen) show(j *job, text []byte) {
	if len(text) == 0 {
		return
	}
	prefix := ""
	if j.background {
		prefix = s.paint(colourOf(j.id), fmt.Sprintf("[%d] ", j.id))
	}
	var shown strings.Builder
	for row := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n") {
		shown.WriteString(prefix + execbus.CleanLine(row, s.colour) + "\n")
	}
	s.write(shown.String())
}

func (s *screen) flush() {
	for j := range s.held {
		if !j.background && (j.state.reading || time.Since(j.spoke) < holdFront) {
			continue // it is the prompt, or will be
		}
		s.show(j, j.rest)
		j.rest = nil
		delete(s.held, j)
	}
}

func (s *screen) ended(j *job, end messages.ExecEnded) {
	s.flush()
	text := fmt.Sprintf("[%d] %s, after %v", j.id, &end.EndRecord, end.Duration.Round(time.Millisecond))
	if n := end.Tree.Ended; n > 0 {
		text += fmt.Sprintf("; descendants ended with it: %d", n)
	}
	for _, left := range end.Tree.Survivors {
		text += fmt.Sprintf("; still alive: %d %s (%s)", left.PID, left.Name, left.Why)
	}
	s.note(text)
}

// close removes the prompt, so that the shell's prompt does not appear after it.
func (s *screen) close() {
	s.editor.SetPrompt("")
	s.write("")
}

func (s *screen) answer(text string) { s.write(text) }

func (s *screen) note(text string) { s.write(s.paint(dim, text) + "\n") }

func (s *screen) fail(err error) { s.write(s.paint(red, "demo: "+err.Error()) + "\n") }

// write shows text above the line, or keeps it. It ignores errors: if the terminal is gone, SIGHUP or the end of the input ends
// this process.
func (s *screen) write(text string) {
	switch {
	case !s.away:
		_, _ = s.editor.Write([]byte(text))
	case s.kept.Len()+len(text) > mostKept:
		s.lost += len(text)
	default:
		s.kept.WriteString(text)
	}
}

// raw shows the output of a command that has the terminal.
func (s *screen) raw(p []byte) { toTerminal(p) }

// leave gives the terminal to a command, and back takes it back.
func (s *screen) leave() { s.away = true }

func (s *screen) back() {
	s.away = false
	if s.kept.Len() > 0 {
		s.write(s.kept.String())
	}
	if s.lost > 0 {
		s.note(fmt.Sprintf("Meanwhile %d bytes of output of other commands were not kept here; :read shows them.", s.lost))
	}
	s.kept.Reset()
	s.lost = 0
}

// Colours, as parameters of the terminal's sequence.
const (
	dim   = "2"
	red   = "31"
	green = "32"
	bold  = "1"
)

func (s *screen) paint(colour, text string) string { return paint(s.colour, colour, text) }

func paint(coloured bool, colour, text string) string {
	if !coloured {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// colourOf returns a colour that distinguishes background commands.
func colourOf(id messages.ProcessID) string { return fmt.Sprint(32 + int(id)%5) }

// coloured reports whether output to out may have colours; see no-color.org.
func coloured(out *os.File) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(out.Fd()))
}
