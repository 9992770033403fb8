package view

import (
	"fmt"
	"html"
	"strings"
	"unicode"
)

// The colours where the program sets none.
const (
	ink   = "#d0d0d0"
	paper = "#1c1c1c"
)

// look is a style as HTML and SVG have it: colours as they are seen.
func (s style) look() (foreground, background string) {
	foreground, background = s.foreground.hex(ink), s.background.hex(paper)
	if s.attributes&reverse != 0 {
		foreground, background = background, foreground
	}
	return foreground, background
}

// escapeMarkup makes text harmless in HTML and XML. What no XML may have, and what changes the direction of text, is shown as a
// replacement.
func escapeMarkup(text string) string { return html.EscapeString(harmless(text)) }

// harmless replaces what no page shows as it is.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == 0xfffe || r == 0xffff || unicode.Is(unicode.Bidi_Control, r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// Span is a part of a row in which everything looks the same, for pages that draw a screen themselves.
type Span struct {
	// Text is valid UTF-8 without control characters; it is no markup, and has to be escaped where it is put into some.
	Text string
	Cols int // how many columns it takes
	// Foreground and Background are colours as #rrggbb; empty ones are the page's own.
	Foreground, Background string
	// Look are names with blanks between them: bold, faint, italic, hidden, underline, double, curly, dotted, dashed, struck, overlined.
	Look string
}

// Row is what a row shows, counted from zero; the default style behind it is left out. There is none outside of the screen.
func (s *Screen) Row(y int) []Span {
	if y < 0 || y >= len(s.terminal.rows) {
		return nil
	}
	var spans []Span
	for _, run := range s.terminal.runs(&s.terminal.rows[y]) {
		span := Span{Text: harmless(run.text), Cols: run.end - run.from, Look: run.names()}
		if foreground, background := run.look(); run.style.attributes&reverse != 0 {
			span.Foreground, span.Background = foreground, background
		} else {
			span.Foreground, span.Background = run.foreground.hex(""), run.background.hex("")
		}
		spans = append(spans, span)
	}
	return spans
}

// names are the attributes of a style in words; see Span.
func (s style) names() string {
	var names []string
	for _, one := range []struct {
		attribute
		name string
	}{{bold, "bold"}, {faint, "faint"}, {italic, "italic"}, {hidden, "hidden"}, {struck, "struck"}, {overlined, "overlined"}} {
		if s.attributes&one.attribute != 0 {
			names = append(names, one.name)
		}
	}
	if s.underline != noUnderline {
		names = append(names, [...]string{single: "underline", double: "double", curly: "curly", dotted: "dotted", dashed: "dashed"}[s.underline])
	}
	return strings.Join(names, " ")
}

// css are the declarations of a style that HTML and SVG share.
func (s style) css() string {
	var b strings.Builder
	is := func(a attribute, declaration string) {
		if s.attributes&a != 0 {
			b.WriteString(declaration)
		}
	}
	is(bold, "font-weight:bold;")
	is(faint, "opacity:.6;")
	is(italic, "font-style:italic;")
	is(hidden, "visibility:hidden;")
	var drawn []string
	if s.underline != noUnderline {
		drawn = append(drawn, "underline")
	}
	if s.attributes&struck != 0 {
		drawn = append(drawn, "line-through")
	}
	if s.attributes&overlined != 0 {
		drawn = append(drawn, "overline")
	}
	if len(drawn) > 0 {
		fmt.Fprintf(&b, "text-decoration:%s;", strings.Join(drawn, " "))
	}
	if kind := [...]string{double: "double", curly: "wavy", dotted: "dotted", dashed: "dashed"}; s.underline > single {
		fmt.Fprintf(&b, "text-decoration-style:%s;", kind[s.underline])
	}
	if s.line != 0 {
		fmt.Fprintf(&b, "text-decoration-color:%s;", s.line.hex(""))
	}
	return b.String()
}

// HTML is what the screen shows as one pre element, with all its styles inside. Nothing of the output becomes markup. It needs
// a page in UTF-8.
func (s *Screen) HTML() string {
	t := s.terminal
	var b strings.Builder
	fmt.Fprintf(&b, `<pre style="color:%s;background:%s;font-family:monospace;line-height:1.2;width:%dch">`, ink, paper, t.cols)
	for y := range t.rows {
		for _, run := range t.runs(&t.rows[y]) {
			if run.style == (style{}) {
				b.WriteString(escapeMarkup(run.text))
				continue
			}
			foreground, background := run.look()
			fmt.Fprintf(&b, `<span style="color:%s;background:%s;%s">%s</span>`,
				foreground, background, run.css(), escapeMarkup(run.text))
		}
		b.WriteByte('\n')
	}
	b.WriteString("</pre>\n")
	return b.String()
}

// The size of a cell in an SVG, in pixels, and where in it the letters stand.
const (
	cellWidth  = 8
	cellHeight = 17
	baseline   = 13
)

// SVG is what the screen shows as a picture: one svg element, with the cursor where it is visible. Nothing of the output
// becomes markup, and the picture loads nothing.
func (s *Screen) SVG() string {
	t := s.terminal
	width, height := t.cols*cellWidth, len(t.rows)*cellHeight
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" `,
		width, height, width, height)
	// Browsers heed white-space, other programs only the older xml:space.
	b.WriteString(`font-family="monospace" font-size="13" xml:space="preserve">` + "\n")
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="%s"/>`+"\n", width, height, paper)
	for y := range t.rows {
		for _, run := range t.runs(&t.rows[y]) {
			x, w := run.from*cellWidth, (run.end-run.from)*cellWidth
			foreground, background := run.look()
			if background != paper {
				fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`+"\n",
					x, y*cellHeight, w, cellHeight, background)
			}
			if strings.Trim(run.text, " ") == "" && run.css() == "" {
				continue
			}
			fmt.Fprintf(&b, `<text x="%d" y="%d" textLength="%d" lengthAdjust="spacingAndGlyphs" `, x, y*cellHeight+baseline, w)
			fmt.Fprintf(&b, `fill="%s" style="white-space:pre;%s">%s</text>`+"\n", foreground, run.css(), escapeMarkup(run.text))
		}
	}
	if c := s.Cursor(); c.Visible {
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="%s"/>`+"\n",
			c.Col*cellWidth, c.Row*cellHeight, cellWidth, cellHeight, ink)
	}
	b.WriteString("</svg>\n")
	return b.String()
}
