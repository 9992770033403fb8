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
func escapeMarkup(text string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == 0xfffe || r == 0xffff || unicode.Is(unicode.Bidi_Control, r) {
			return unicode.ReplacementChar
		}
		return r
	}, text))
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
