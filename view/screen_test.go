package view

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"golang.org/x/net/html"
)

// checkBounds finds a terminal that is larger than its size allows, or whose cursor is elsewhere.
func checkBounds(t fatal, terminal *terminal) {
	t.Helper()
	screens := [][]row{terminal.rows}
	if terminal.main != nil {
		screens = append(screens, terminal.main.rows)
	}
	for _, rows := range screens {
		for y := range rows {
			// append makes a slice up to twice as long as it needs, and a few cells more.
			if n, c := len(rows[y].cells), cap(rows[y].cells); n > MaxCols || c > 2*MaxCols+16 || &rows[0] == &terminal.rows[0] && n > terminal.cols {
				t.Fatalf("row %d has %d cells, and room for %d", y, n, c)
			}
		}
	}
	if terminal.x < 0 || terminal.x > terminal.cols || terminal.y < 0 || terminal.y >= len(terminal.rows) {
		t.Fatalf("the cursor is at %d, %d", terminal.x, terminal.y)
	}
	if terminal.top < 0 || terminal.top > terminal.bottom || terminal.bottom >= len(terminal.rows) {
		t.Fatalf("the margins are %d and %d", terminal.top, terminal.bottom)
	}
	if n := len(terminal.clusters.texts); n > 4*MaxRows*MaxCols || len(terminal.titles) > maxTitles || len(terminal.title) > maxText {
		t.Fatalf("%d clusters, %d titles, %d bytes of title", n, len(terminal.titles), len(terminal.title))
	}
	if p := &terminal.parser; len(p.parameters) > maxParameterBytes || len(p.text) > maxText || len(p.partial) > 3 {
		t.Fatalf("the parser keeps %d, %d and %d bytes", len(p.parameters), len(p.text), len(p.partial))
	}
}

// checkScreen finds markup that is not ours, a text that is none, and an ANSI form that shows something else.
func checkScreen(t fatal, s *Screen) {
	t.Helper()
	checkBounds(t, s.terminal)
	checkText(t, []byte(s.Text()))
	checkText(t, []byte(s.Title()))
	again := NewScreen(s.Size())
	again.Write([]byte(strings.ReplaceAll(strings.TrimSuffix(s.ANSI(), "\n"), "\n", "\r\n")))
	if again.ANSI() != s.ANSI() {
		t.Fatalf("printed again,\n%q\nis\n%q", s.ANSI(), again.ANSI())
	}
	checkHTML(t, s)
	checkSVG(t, s)
}

func checkHTML(t fatal, s *Screen) {
	t.Helper()
	var text strings.Builder
	for tokens := html.NewTokenizer(strings.NewReader(s.HTML())); ; {
		switch kind := tokens.Next(); kind {
		case html.ErrorToken:
			if err := tokens.Err(); !errors.Is(err, io.EOF) {
				t.Fatalf("HTML: %v", err)
			}
			var rows []string
			for row := range strings.Lines(text.String()) {
				rows = append(rows, strings.TrimRight(row, " \n"))
			}
			got, want := strings.TrimRight(strings.Join(rows, "\n"), "\n"), strings.TrimRight(s.Text(), "\n")
			for _, r := range bidi {
				want = strings.ReplaceAll(want, string(r), "\ufffd")
			}
			want = strings.NewReplacer("\ufffe", "\ufffd", "\uffff", "\ufffd").Replace(want)
			if got != want {
				t.Fatalf("the text of the HTML is\n%q\nwant\n%q", got, want)
			}
			return
		case html.TextToken:
			text.WriteString(tokens.Token().Data)
		default:
			token := tokens.Token()
			if token.Data != "pre" && token.Data != "span" || kind == html.CommentToken {
				t.Fatalf("HTML: %v", token)
			}
			for _, attribute := range token.Attr {
				if attribute.Key != "style" {
					t.Fatalf("HTML: %v", token)
				}
			}
		}
	}
}

// bidi are the characters that change the direction of text.
var bidi = []rune("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

func checkSVG(t fatal, s *Screen) {
	t.Helper()
	for decoder := xml.NewDecoder(strings.NewReader(s.SVG())); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("SVG: %v\n%s", err, s.SVG())
		}
		switch token := token.(type) {
		case xml.StartElement:
			if !slices.Contains([]string{"svg", "rect", "text"}, token.Name.Local) {
				t.Fatalf("SVG: %v", token)
			}
			for _, attribute := range token.Attr {
				if strings.HasPrefix(attribute.Name.Local, "on") || attribute.Name.Local == "href" {
					t.Fatalf("SVG: %v", token)
				}
			}
		case xml.EndElement, xml.CharData:
		default:
			t.Fatalf("SVG: %v", token)
		}
	}
}

func TestMarkupOfTheOutputStaysText(t *testing.T) {
	t.Parallel()
	s := NewScreen(messages.Size{Rows: 10, Cols: 60})
	for _, attack := range []string{"<script>alert(1)</script>", "</pre></text></svg><img src=x onerror=alert(1)>", "]]><!-- &amp; &#60;b>", `" style="x" onload='y'`,
		"\u202e<b>\u202c\ufffe\uffff", "\x1b]0;<title>\x07\x1b[38;2;1;2;3m<i>\x1b[m"} {
		s.Write([]byte(attack + "\r\n"))
	}
	checkScreen(t, s)
	if !strings.Contains(s.SVG(), `xml:space="preserve">`) {
		t.Error("blanks are lost where nobody heeds the style")
	}
	if html := s.HTML(); !strings.Contains(html, "&lt;script&gt;") || strings.Contains(html, "<script") {
		t.Errorf("HTML: %s", html)
	}
}

// What a cell's style becomes, in each form.
func TestStyles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sgr, again, css string }{
		{"1", "1", "color:#d0d0d0;background:#1c1c1c;font-weight:bold;"},
		{"2", "2", "color:#d0d0d0;background:#1c1c1c;opacity:.6;"},
		{"3", "3", "color:#d0d0d0;background:#1c1c1c;font-style:italic;"},
		{"4", "4:1", "color:#d0d0d0;background:#1c1c1c;text-decoration:underline;"},
		{"21", "4:2", "color:#d0d0d0;background:#1c1c1c;text-decoration:underline;text-decoration-style:double;"},
		{"4:3", "4:3", "color:#d0d0d0;background:#1c1c1c;text-decoration:underline;text-decoration-style:wavy;"},
		{"4:4", "4:4", "color:#d0d0d0;background:#1c1c1c;text-decoration:underline;text-decoration-style:dotted;"},
		{"4:5;58;5;9", "4:5;58;5;9", "color:#d0d0d0;background:#1c1c1c;text-decoration:underline;text-decoration-style:dashed;text-decoration-color:#ff0000;"},
		{"5", "5", "color:#d0d0d0;background:#1c1c1c;"},
		{"7", "7", "color:#1c1c1c;background:#d0d0d0;"},
		{"8", "8", "color:#d0d0d0;background:#1c1c1c;visibility:hidden;"},
		{"9", "9", "color:#d0d0d0;background:#1c1c1c;text-decoration:line-through;"},
		{"53", "53", "color:#d0d0d0;background:#1c1c1c;text-decoration:overline;"},
		{"31;42", "31;42", "color:#cd0000;background:#00cd00;"},
		{"91;102", "91;102", "color:#ff0000;background:#00ff00;"},
		{"97;107", "97;107", "color:#ffffff;background:#ffffff;"},
		{"38;5;208", "38;5;208", "color:#ff8700;background:#1c1c1c;"},
		{"48;5;250", "48;5;250", "color:#d0d0d0;background:#bcbcbc;"},
		{"38;2;1;2;3", "38;2;1;2;3", "color:#010203;background:#1c1c1c;"},
		{"48:2::1:2:3", "48;2;1;2;3", "color:#d0d0d0;background:#010203;"},
		{"48:2:1:2:3", "48;2;1;2;3", "color:#d0d0d0;background:#010203;"},
		{"38:5:1;1", "1;31", "color:#cd0000;background:#1c1c1c;font-weight:bold;"},
		{"1;2;3;4;5;7;8;9;53;31;41;58;5;1;22;23;24;25;27;28;29;55;39;49;59;32", "32", "color:#00cd00;background:#1c1c1c;"},
		{"38;2;300;2;3;32", "2;3;32", "color:#00cd00;background:#1c1c1c;opacity:.6;font-style:italic;"}, // the rest is read on its own, as tmux does
		{"31;0;32", "32", "color:#00cd00;background:#1c1c1c;"},
	} {
		s := NewScreen(messages.Size{Rows: 1, Cols: 4})
		s.Write([]byte("\x1b[" + c.sgr + "mx"))
		if want := "\x1b[0;" + c.again + "mx\x1b[0m\n"; s.ANSI() != want {
			t.Errorf("%s becomes %q, want %q", c.sgr, s.ANSI(), want)
		}
		if want := `<span style="` + c.css + `">x</span>`; !strings.Contains(s.HTML(), want) {
			t.Errorf("%s becomes\n%s, want\n%s", c.sgr, s.HTML(), want)
		}
	}
}

func TestScreen(t *testing.T) {
	t.Parallel()
	s := NewScreen(messages.Size{})
	if s.Size() != (messages.Size{Rows: 24, Cols: 80}) || s.Text() != "" || s.Cursor() != (Cursor{0, 0, true}) {
		t.Errorf("a new screen has %v, %q, %v", s.Size(), s.Text(), s.Cursor())
	}
	s.Write([]byte("\x1b]2;a\u009btitle\x07\x1b[?1049h\x1b[?25l\x1b[?1h\x1b=\x1b[?2004h\x1b[?1002;1006h\x1b[?1004h\x1b[3;80HX"))
	if want := (Modes{true, true, true, true, true}); s.Modes() != want {
		t.Errorf("the modes are %+v", s.Modes())
	}
	if s.Title() != "atitle" || !s.FullScreen() || s.Cursor() != (Cursor{2, 79, false}) {
		t.Errorf("title %q, full screen %v, cursor %v", s.Title(), s.FullScreen(), s.Cursor())
	}
	if want := "\n\n" + strings.Repeat(" ", 79) + "X\n"; s.Text() != want {
		t.Errorf("the text is %q", s.Text())
	}
	s.Write([]byte("\x1b[?1049l\x1b[?25h\x1b[?1l\x1b>\x1b[?2004l\x1b[?1002l\x1b[?1004l"))
	if s.Modes() != (Modes{}) || s.FullScreen() || s.Text() != "" {
		t.Errorf("afterwards %+v, %v, %q", s.Modes(), s.FullScreen(), s.Text())
	}
}

func TestResize(t *testing.T) {
	t.Parallel()
	s := NewScreen(messages.Size{Rows: 4, Cols: 10})
	s.Write([]byte("one\r\ntwo\r\nthree 日本"))
	s.Resize(messages.Size{Rows: 2, Cols: 9})
	if want := "two\nthree 日\n"; s.Text() != want {
		t.Errorf("smaller it is %q, want %q", s.Text(), want)
	}
	s.Resize(messages.Size{Rows: 3, Cols: 12})
	s.Write([]byte("\r\nfour"))
	if want := "two\nthree 日\nfour\n"; s.Text() != want {
		t.Errorf("larger it is %q, want %q", s.Text(), want)
	}
	s.Resize(messages.Size{Rows: 65535, Cols: 65535})
	if s.Size() != (messages.Size{Rows: MaxRows, Cols: MaxCols}) {
		t.Errorf("the largest size is %v", s.Size())
	}
	checkScreen(t, s)
}

// However many characters combine, and however many styles there are, a screen takes no more memory than its cells do.
func TestMemoryIsBoundedBySize(t *testing.T) {
	t.Parallel()
	s := NewScreen(messages.Size{Rows: 3, Cols: 10})
	for i := range 30_000 {
		fmt.Fprintf(s, "\x1b[38;2;%d;%d;%dm%c%c\x1b]0;%d\x07\x1b[22;0;0t", i>>16, i>>8&255, i&255, 'a'+i%26, 0x300+i%100, i)
	}
	if n := len(s.terminal.clusters.texts); n > 2*30+spareClusters {
		t.Errorf("%d clusters are kept for 30 cells", n)
	}
	s.Write([]byte("\x1b]0;" + strings.Repeat("t", maxString-1)))
	if len(s.terminal.parser.text) > maxText {
		t.Errorf("%d bytes of a title are kept", len(s.terminal.parser.text))
	}
	s.Write([]byte("\x1b[" + strings.Repeat("1;", 1<<20)))
	s.Write([]byte("me\u0301" + strings.Repeat("\u0301", 1<<16)))
	checkScreen(t, s)
	if got := s.terminal.rows[2].cells; len(s.terminal.clusters.text(got[s.terminal.x-1].char)) > maxCluster {
		t.Errorf("a character has %d bytes", len(s.terminal.clusters.text(got[s.terminal.x-1].char)))
	}
}

func FuzzScreen(f *testing.F) {
	f.Add([]byte("\x1b[2;3r\x1b[5;5H\x1bM\x1b[L\x1b[4h日本\x1b[?7lx\x1b[9b<b>&"), uint8(3), uint8(7))
	f.Add([]byte("\x1b[?1049h\x1b[44m\x1b[J\x1b[?1049l\x1b#8\x1b[1;31;4:3mx\te\u0301"), uint8(1), uint8(1))
	f.Fuzz(func(t *testing.T, output []byte, rows, cols uint8) {
		s := NewScreen(messages.Size{Rows: 4, Cols: 9})
		s.Write(output[:len(output)/2])
		s.Resize(messages.Size{Rows: uint16(rows), Cols: uint16(cols)})
		s.Write(output[len(output)/2:])
		checkScreen(t, s)
	})
}
