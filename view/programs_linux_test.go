package view

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what tmux shows of the recordings into testdata")

// What programs draw looks as in tmux, at the end and each time before the size changes. testdata has what tmux 3.3a showed at
// the end; where there is a tmux, all is compared with that one, too.
func TestProgramsLookAsInTmux(outer *testing.T) {
	var tmux *tmux
	for _, name := range recordings(outer, "screens", 30) {
		outer.Run(strings.TrimSuffix(filepath.Base(name), ".out"), func(t *testing.T) {
			parts := recording(t, name)
			golden := strings.TrimSuffix(name, ".out") + ".tmux"
			screen := NewScreen(parts[0].size)
			for _, part := range parts {
				screen.Resize(part.size)
				screen.Write(part.output)
			}
			if !*update {
				data, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				state, rows, _ := strings.Cut(string(data), "\n")
				last := parts[len(parts)-1].size
				if difference := screen.shown().differs(shown{parseCapture(rows, last), state}); difference != "" {
					t.Error(difference)
				}
			}
			if _, err := exec.LookPath("tmux"); err != nil {
				t.Skip("skipped, but for testdata: there is no tmux to compare with")
			}
			if tmux == nil {
				tmux = newTmux(outer, parts[0].size)
			}
			tmux.resize(parts[0].size)
			tmux.show([]byte(fresh))
			screen = NewScreen(parts[0].size)
			for i, part := range parts {
				if i > 0 {
					tmux.resize(part.size)
					screen.Resize(part.size)
				}
				tmux.show(part.output)
				screen.Write(part.output)
				seen := tmux.shown(part.size)
				if difference := screen.shown().differs(seen); difference != "" {
					t.Errorf("part %d: %s", i, difference)
				}
			}
			if *update {
				text := tmux.command("capture-pane -p -e -N -t work")
				state := screen.shown().state // as tmux's, or the test has failed
				if err := os.WriteFile(golden, []byte(state+"\n"+text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// However a recording is cut, and also byte by byte, the screen is the same.
func TestProgramsInPieces(t *testing.T) {
	for _, name := range recordings(t, "screens", 30) {
		parts := recording(t, name)
		whole := NewScreen(parts[0].size)
		for _, part := range parts {
			whole.Resize(part.size)
			whole.Write(part.output)
		}
		for _, n := range []int{1, 7} {
			pieces := NewScreen(parts[0].size)
			for _, part := range parts {
				pieces.Resize(part.size)
				for rest := part.output; len(rest) > 0; {
					piece := rest[:min(n, len(rest))]
					pieces.Write(bytes.Clone(piece))
					rest = rest[len(piece):]
				}
			}
			if got, want := fmt.Sprint(pieces.shown()), fmt.Sprint(whole.shown()); got != want {
				t.Errorf("%s in pieces of %d bytes is\n%s\nwant\n%s", name, n, got, want)
			}
		}
	}
}

// The text of what tools print is what tmux keeps of it, history and screen, with wrapped lines joined.
func TestTextIsWhatTmuxKeeps(t *testing.T) {
	var tmux *tmux
	for _, name := range recordings(t, "tools", 20) {
		part := recording(t, name)[0]
		if tmux == nil {
			tmux = newTmux(t, part.size)
			tmux.command("set-option -g scroll-on-clear off")
		}
		tmux.resize(part.size)
		tmux.show([]byte(fresh))
		tmux.command("clear-history -t work")
		tmux.show(part.output)
		want := lines(tmux.command("capture-pane -p -J -S - -E - -t work"))
		if got := lines(string(TextOf(part.output, part.size))); got != want {
			t.Errorf("the text of %s is\n%s\ntmux keeps\n%s", name, got, want)
		}
	}
}

// lines makes texts comparable: tmux has no tabs, and blanks and empty lines at the ends.
func lines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		column := 0
		for _, r := range strings.TrimRight(line, " \n") {
			for r == '\t' && column%8 != 7 {
				b.WriteByte(' ')
				column++
			}
			if r == '\t' {
				r = ' '
			}
			b.WriteRune(r)
			column++
		}
		b.WriteByte('\n')
	}
	return strings.TrimRight(b.String(), "\n")
}
