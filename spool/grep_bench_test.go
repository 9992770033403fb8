package spool

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/execbus/execbus/messages"
)

// BenchmarkGrep searches 200 MB in a file, as a terminal's output is written, for patterns with a literal and without.
func BenchmarkGrep(b *testing.B) {
	for name, row := range map[string]func(w io.Writer, i int){
		"rows": func(w io.Writer, i int) {
			fmt.Fprintf(w, "=== RUN   TestSomething/case_%06d and more of the text that tools print, %d ms\r\n", i, i%977)
		},
		"short rows": func(w io.Writer, i int) { fmt.Fprintf(w, "ok %d\r\n", i%977) },
	} {
		b.Run(name, func(b *testing.B) { grep(b, row) })
	}
}

func grep(b *testing.B, row func(w io.Writer, i int)) {
	s, err := New(Options{Dir: b.TempDir() + "/spool"})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	f := s.New()
	const size = 200_000_000
	var text bytes.Buffer
	for i := 0; text.Len() < 1<<20; i++ {
		row(&text, i)
	}
	o, lines := messages.OutputChunk{Stream: messages.StreamPTY}, int64(0)
	for o.Offset < size {
		for piece := text.Bytes(); len(piece) > 0; {
			n := min(len(piece), messages.MaxOutputDelta)
			o.Seq, o.Bytes = o.Seq+1, piece[:n]
			if err := f.Write([]messages.OutputChunk{o}, lines); err != nil {
				b.Fatal(err)
			}
			o.Offset, piece, lines = o.Offset+int64(n), piece[n:], lines+newlines(o.Bytes)
		}
	}
	for _, pattern := range []string{"FAIL", "FAIL|panic:", "case_001234.*8 ms", `\d{7}`, "(?i)fail", `[a-f]+x+z\w*$`, `^.*E.*R.*Z$`, `\bé`} {
		b.Run(pattern, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				at := int64(0)
				for at < o.Offset {
					found, err := f.Read(b.Context(), messages.ReadOutput{Offset: &at, Grep: &messages.Grep{Pattern: pattern}}, Memory{Total: o.Offset, Lines: lines, Ended: true})
					if err != nil {
						b.Fatal(err)
					}
					at = found.Page.Next
				}
			}
		})
	}
}
