package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/execbus/execbus/messages"
)

// screen shows everything above the line that is being typed. It writes whole lines only, because whatever stands on
// the line of the prompt is overwritten: an incomplete line gets its end after a moment.
type screen struct {
	editor editor
	colour bool
	held   map[*job]bool // those with an incomplete line
}

// longestLine bounds what is held back of a line.
const longestLine = 8 << 10

func newScreen(e editor, colour bool) *screen {
	return &screen{editor: e, colour: colour, held: map[*job]bool{}}
}

func (s *screen) resize(size messages.Size) { s.editor.resize(size) }

// output shows complete lines at once.
func (s *screen) output(j *job, _ messages.Stream, p []byte) {
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
		shown.WriteString(prefix + clean(row, s.colour) + "\n")
	}
	s.write(shown.String())
}

func (s *screen) flush() {
	for j := range s.held {
		s.show(j, j.rest)
		j.rest = nil
	}
	clear(s.held)
}

func (s *screen) ended(j *job, end messages.ExecEnded) {
	s.flush()
	text := fmt.Sprintf("[%d] %s, after %v", j.id, &end.EndRecord, end.Duration.Round(time.Millisecond))
	if n := end.Tree.Ended; n > 0 {
		text += fmt.Sprintf("; with it ended what it had started: %d", n)
	}
	for _, left := range end.Tree.Survivors {
		text += fmt.Sprintf("; still alive: %d %s (%s)", left.PID, left.Name, left.Why)
	}
	s.note(text)
}

// close takes the prompt away, so that the shell's does not stand behind it.
func (s *screen) close() {
	s.editor.SetPrompt("")
	s.write("")
}

func (s *screen) answer(text string) { s.write(text) }

func (s *screen) note(text string) { s.write(s.paint(dim, text) + "\n") }

func (s *screen) fail(err error) { s.write(s.paint(red, "demo: "+err.Error()) + "\n") }

// write ignores errors: a terminal that is gone ends us by SIGHUP or by the end of its input.
func (s *screen) write(text string) { _, _ = s.editor.Write([]byte(text)) }

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

// colourOf tells background commands apart.
func colourOf(id messages.ProcessID) string { return fmt.Sprint(32 + int(id)%5) }

// coloured says whether what goes to out may have colours; see no-color.org.
func coloured(out *os.File) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(out.Fd()))
}
