package view

import (
	"fmt"
	"strconv"
)

// colour is zero for the default, or one of a palette of 256, or red, green and blue.
type colour uint32

const (
	indexed colour = 1 << 24
	direct  colour = 2 << 24
)

// style is how a cell looks.
type style struct {
	foreground, background, line colour // line: of the underline
	attributes                   attribute
	underline                    underline
}

type attribute uint8

const (
	bold attribute = 1 << iota
	faint
	italic
	blink
	reverse
	hidden
	struck
	overlined
)

type underline uint8

const (
	noUnderline underline = iota
	single
	double
	curly
	dotted
	dashed
)

// apply carries out SGR. A parameter may have parts, as in 4:3 and 38:2::10:20:30.
func (s *style) apply(list []parameter) {
	if len(list) == 0 {
		*s = style{}
	}
	for i := 0; i < len(list); i++ {
		p := list[i]
		if p.more { // its parts
			end := i + 1
			for end < len(list) && list[end-1].more {
				end++
			}
			s.applyParts(list[i:end])
			i = end - 1
			continue
		}
		n := p.or(0)
		if n == 38 || n == 48 || n == 58 {
			i += s.applyColour(n, list[i+1:])
			continue
		}
		s.applyOne(n)
	}
}

// attributeOn and attributeOff are the attributes that a parameter sets and takes back.
var (
	attributeOn  = [56]attribute{1: bold, 2: faint, 3: italic, 5: blink, 6: blink, 7: reverse, 8: hidden, 9: struck, 53: overlined}
	attributeOff = [56]attribute{22: bold | faint, 23: italic, 25: blink, 27: reverse, 28: hidden, 29: struck, 55: overlined}
)

func (s *style) applyOne(n int) {
	switch {
	case n == 0:
		*s = style{}
	case n == 4:
		s.underline = single
	case n == 21:
		s.underline = double
	case n == 24:
		s.underline = noUnderline
	case n >= 30 && n <= 37:
		s.foreground = indexed | colour(n-30)
	case n == 39:
		s.foreground = 0
	case n >= 40 && n <= 47:
		s.background = indexed | colour(n-40)
	case n == 49:
		s.background = 0
	case n == 59:
		s.line = 0
	case n >= 90 && n <= 97:
		s.foreground = indexed | colour(n-90+8)
	case n >= 100 && n <= 107:
		s.background = indexed | colour(n-100+8)
	case n < len(attributeOn):
		s.attributes = s.attributes&^attributeOff[n] | attributeOn[n]
	}
}

// applyColour sets a colour from the parameters behind 38, 48 or 58, and says how many they are.
func (s *style) applyColour(which int, list []parameter) int {
	get := func(i int) int {
		if i < len(list) && !list[i].more {
			return list[i].or(-1)
		}
		return -1
	}
	switch get(0) {
	case 2:
		if s.direct(which, get(1), get(2), get(3)) {
			return 4
		}
	case 5:
		s.indexed(which, get(1))
		return 2
	}
	return 1
}

// applyParts carries out one parameter that has parts.
func (s *style) applyParts(parts []parameter) {
	get := func(i int) int { return parts[i].or(-1) }
	switch which := get(0); {
	case which == 4:
		if kind := get(1); len(parts) == 2 && kind >= 0 && kind <= int(dashed) {
			s.underline = underline(kind)
		}
	case which != 38 && which != 48 && which != 58 || len(parts) < 3:
	case get(1) == 5:
		s.indexed(which, get(2))
	case get(1) == 2 && len(parts) == 5:
		s.direct(which, get(2), get(3), get(4))
	case get(1) == 2 && len(parts) > 5: // the first is a colour space
		s.direct(which, get(3), get(4), get(5))
	}
}

func (s *style) indexed(which, n int) {
	if n >= 0 && n <= 255 {
		s.set(which, indexed|colour(n))
	} else if which != 58 {
		s.set(which, 0)
	}
}

func (s *style) direct(which, r, g, b int) bool {
	if min(r, g, b) < 0 || max(r, g, b) > 255 {
		return false
	}
	s.set(which, direct|colour(r<<16|g<<8|b))
	return true
}

func (s *style) set(which int, c colour) {
	switch which {
	case 38:
		s.foreground = c
	case 48:
		s.background = c
	case 58:
		s.line = c
	}
}

// appendSGR appends the sequence that sets this style, whatever was set before.
func (s style) appendSGR(to []byte) []byte {
	to = append(to, "\x1b[0"...)
	for i, on := range []int{1, 2, 3, 5, 7, 8, 9, 53} {
		if s.attributes&(1<<i) != 0 {
			to = append(to, ';')
			to = strconv.AppendInt(to, int64(on), 10)
		}
	}
	if s.underline != noUnderline {
		to = fmt.Appendf(to, ";4:%d", s.underline)
	}
	to = s.foreground.appendSGR(to, 38)
	to = s.background.appendSGR(to, 48)
	to = s.line.appendSGR(to, 58)
	return append(to, 'm')
}

func (c colour) appendSGR(to []byte, which int) []byte {
	n := int(c & 0xffffff)
	switch {
	case c == 0:
		return to
	case c&direct != 0:
		return fmt.Appendf(to, ";%d;2;%d;%d;%d", which, n>>16, n>>8&0xff, n&0xff)
	case n < 8 && which != 58:
		return fmt.Appendf(to, ";%d", which-8+n)
	case n < 16 && which != 58:
		return fmt.Appendf(to, ";%d", which+52+n-8)
	default:
		return fmt.Appendf(to, ";%d;5;%d", which, n)
	}
}

// sixteen are the first colours of the palette, as xterm has them.
var sixteen = [16]uint32{0x000000, 0xcd0000, 0x00cd00, 0xcdcd00, 0x0000ee, 0xcd00cd, 0x00cdcd, 0xe5e5e5,
	0x7f7f7f, 0xff0000, 0x00ff00, 0xffff00, 0x5c5cff, 0xff00ff, 0x00ffff, 0xffffff}

// hex is the colour as HTML and SVG write it.
func (c colour) hex(otherwise string) string {
	n := uint32(c & 0xffffff)
	switch {
	case c == 0:
		return otherwise
	case c&direct != 0:
	case n < 16:
		n = sixteen[n]
	case n < 232: // a cube with six steps a side
		step := func(n uint32) uint32 {
			if n == 0 {
				return 0
			}
			return 55 + 40*n
		}
		n -= 16
		n = step(n/36)<<16 | step(n/6%6)<<8 | step(n%6)
	default: // greys
		n = (8 + 10*(n-232)) * 0x010101
	}
	return fmt.Sprintf("#%06x", n)
}
