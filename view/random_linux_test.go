package view

import (
	"flag"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
)

var streams = flag.Int("streams", 300, "how many random streams are compared with tmux, and with xterm.js")

// sequences are those that the entry xterm-256color of terminfo names, for output, with %d for each number; but for the
// questions to the terminal.
var sequences = strings.Fields(`\a \r \n \b \t \x1b[Z \x1b[?25l \x1b[H\x1b[2J \x1b[?12l\x1b[?25h \x1b[%d;%dr \x1b[%dD \x1b[%dB \x1b[%dC \x1b[C \x1b[%d;%dH
	\x1b[%dA \x1b[A \x1b[?12;25h \x1b[%dP \x1b[P %m\x1b[%dM %m\x1b[M \x1b[%dX \x1b[J \x1b[K \x1b[1K \x1b[?5h\x1b[?5l \x1b[H \x1b[%dG \x1bH \r\x1b[%h@ %m\x1b[%dL
	%m\x1b[L \x1b[%dS \x1b]4;%d;rgb:10/20/30\x1b\\ \x1b[8m \x1b[!p\x1b[?3;4l\x1b[4l\x1b> \x1b[i \x1b[4i \x1b[5i \x1bl \x1bm \x1b[?69l \x1bE \x1b]104\a \x1b[39;49m \x1b8
	x\x1b[%db \x1b[7m \x1bM \x1b[%dT \x1b[23m \x1b(B \x1b[?7l \x1b[?1049l\x1b[23;0;0t \x1b[4l \x1b[?1l\x1b> \x1b[?1034l \x1b[27m \x1b[24m \x1bc\x1b]104\a
	\x1b7 \x1b[4%cm \x1b[10%cm \x1b[48;5;%dm \x1b[3%cm \x1b[9%cm \x1b[38;5;%dm \x1b(0\x1b[0;1m \x1b(B\x1b[0;2m \x1b(B\x1b[m \x1b[3m \x1b(0 \x1b[?7h
	\x1b[?1049h\x1b[22;0;0t \x1b[4h \x1b[?1h\x1b= \x1b[?1034h \x1b[4m \x1b[3g \x1b[%dd \x1b[5m \x1b[1m \x1b[2m \x1b[0;1;4;7m`)

// Characters that are narrow, and some that are wide. Where half of a wide one is overwritten or moved away tmux keeps the other half; here nothing
// stays of it. So wide ones are only in streams of lines, which overwrite nothing.
var (
	narrow = []string{"é", "e\u0301", "ß", "ї", "–", "❤", "┼"}
	wide   = []string{"日", "本", "🎉", "한", "日\u0300", "é", "e\u0301"}
	breaks = []string{"\r\n", "\r\n", "\n", "\x1b[K", "\x1b[31;44m", "\x1b[m", "\x1b[1;4m", "\x1b[J", "\t", "\x1b[?7h"}
)

// randomLines is a stream of lines.
func randomLines(r *rand.Rand, size messages.Size) []string {
	var stream []string
	for range 1 + r.Intn(40) {
		var text []byte
		for range r.Intn(int(size.Cols)) {
			text = append(text, byte(' '+r.Intn(0x7f-' ')))
			if r.Intn(3) == 0 {
				text = append(text, wide[r.Intn(len(wide))]...)
			}
		}
		stream = append(stream, string(text), breaks[r.Intn(len(breaks))])
	}
	return stream
}

var unquote = strings.NewReplacer(`\a`, "\a", `\r`, "\r", `\n`, "\n", `\b`, "\b", `\t`, "\t", `\x1b`, "\x1b", `\\`, `\`)

// randomStream is text and sequences.
func randomStream(r *rand.Rand, size messages.Size) []string {
	if r.Intn(5) == 0 {
		return randomLines(r, size)
	}
	var stream []string
	for range 1 + r.Intn(60) {
		if r.Intn(3) == 0 {
			var text []byte
			for range 1 + r.Intn(int(size.Cols)*3/2) {
				if text = append(text, byte(' '+r.Intn(0x7f-' '))); r.Intn(30) == 0 {
					text = append(text, narrow[r.Intn(len(narrow))]...)
				}
			}
			stream = append(stream, string(text))
			continue
		}
		sequence := unquote.Replace(sequences[r.Intn(len(sequences))])
		for strings.Contains(sequence, "%d") {
			n := r.Intn(int(size.Rows) + 2)
			if r.Intn(3) == 0 {
				n = r.Intn(int(size.Cols) + 3)
			}
			sequence = strings.Replace(sequence, "%d", fmt.Sprint(n), 1)
		}
		if rest, cut := strings.CutPrefix(sequence, "%m"); cut { // tmux 3.3a inserts and deletes rows outside of the margins, too
			top := 1 + r.Intn(int(size.Rows)-1)
			bottom := top + 1 + r.Intn(int(size.Rows)-top)
			sequence = fmt.Sprintf("\x1b[%d;%dr\x1b[%dd", top, bottom, top+r.Intn(bottom-top+1)) + rest
		}
		// tmux 3.3a leaves some of the old characters where more than half of the row's rest is inserted.
		sequence = strings.Replace(sequence, "%h", fmt.Sprint(1+r.Intn(int(size.Cols)/2)), 1)
		stream = append(stream, strings.ReplaceAll(sequence, "%c", fmt.Sprint(r.Intn(8))))
	}
	return stream
}

// Each stream begins where the one before has left the two screens, but for what this resets.
const fresh = "\x1b[?1049l\x1bc\x1b]2;\x1b\\"

func TestRandomStreamsLookAsInTmux(t *testing.T) {
	for _, size := range []messages.Size{{Rows: 24, Cols: 80}, {Rows: 6, Cols: 11}} {
		t.Run(fmt.Sprintf("%dx%d", size.Rows, size.Cols), func(t *testing.T) {
			tmux, screen := newTmux(t, size), NewScreen(size)
			compare := func(stream []string) string {
				all := []byte(fresh + strings.Join(stream, ""))
				tmux.show(all)
				screen.Write(all)
				difference := screen.shown().differs(tmux.shown(size))
				tmux.show(edges(size))
				screen.Write(edges(size))
				return difference + screen.shown().differs(tmux.shown(size))
			}
			compared, failed := 0, 0
			for seed := range *streams / 2 {
				stream := randomStream(rand.New(rand.NewSource(int64(seed))), size)
				compared++
				if difference := compare(stream); difference != "" {
					stream, difference = shrink(stream, difference, compare)
					t.Errorf("stream %d, in short %q: %s", seed, stream, difference)
					if failed++; failed == 3 {
						break
					}
				}
			}
			t.Logf("%d streams compared", compared)
		})
	}
}

// shrink leaves out what the difference does not need.
func shrink(stream []string, difference string, compare func([]string) string) ([]string, string) {
	for n := max(len(stream)/2, 1); ; {
		shorter := false
		for i := 0; i+n <= len(stream); {
			without := slices.Concat(stream[:i], stream[i+n:])
			if d := compare(without); d != "" {
				stream, difference, shorter = without, d, true
			} else {
				i += n
			}
		}
		if n == 1 && !shorter {
			return stream, difference
		}
		n = max(n/2, 1)
	}
}
