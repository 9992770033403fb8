package bounded

import (
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Our Starlark has no f-strings, but rule files may. Here the f is removed from their source, which leaves an ordinary
// literal at the same place. The rewriter then replaces this literal by a call that inserts the values. So no source is
// ever put together from text, and every place in the file stays the same.

// cutFormats replaces the f before each f-string by a blank, and returns where the literals then begin. If it should ever
// read a file differently from Starlark, there is no literal at one of these places, and the file is refused.
func cutFormats(source []byte) ([]byte, map[Place]bool, error) {
	c := cutter{source: slices.Clone(source), line: 1, column: 1, found: map[Place]bool{}}
	// Starlark takes a NUL for the end of the file, so the rules after it would be lost.
	if i := notText(source); i < len(source) {
		c.skip(i)
		return nil, nil, c.wrong("starlark error: this is not a character of UTF-8 text; save the file as UTF-8")
	}
	for c.offset < len(c.source) {
		if wordLength(c.source[c.offset:]) > maxWord {
			return nil, nil, c.wrong("starlark error: the number or name is too long; shorten it")
		}
		c.token()
	}
	return c.source, c.found, nil
}

// notText is the index of the first byte that text cannot contain, or the length if there is none.
func notText(source []byte) int {
	for i := 0; i < len(source); {
		r, size := utf8.DecodeRune(source[i:])
		if r == 0 || r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(source)
}

// maxWord bounds names and numbers, because reading a number takes more than linear time.
const maxWord = 1000

type cutter struct {
	source       []byte
	offset       int
	line, column int32
	found        map[Place]bool
}

func (c *cutter) wrong(text string) *Error { return &Error{Place{c.line, c.column}, text} }

// skip advances by so many bytes.
func (c *cutter) skip(bytes int) {
	end := min(c.offset+bytes, len(c.source))
	for c.offset < end {
		r, size := utf8.DecodeRune(c.source[c.offset:])
		if r == '\r' && c.offset+1 < len(c.source) && c.source[c.offset+1] == '\n' {
			size = 2
		}
		c.offset += size
		c.column++
		if r == '\n' || r == '\r' {
			c.line, c.column = c.line+1, 1
		}
	}
}

func (c *cutter) token() {
	rest := c.source[c.offset:]
	switch {
	case rest[0] == '#':
		end := strings.IndexAny(string(rest), "\r\n")
		if end < 0 {
			end = len(rest)
		}
		c.skip(end)
	case rest[0] == '"' || rest[0] == '\'':
		c.skip(stringLength(rest))
	default:
		if word := wordLength(rest); word > 0 {
			c.word(rest, word)
			return
		}
		c.skip(1)
	}
}

// word skips a word; if it is the prefix of a string, it stops in front of the quotes.
func (c *cutter) word(rest []byte, length int) {
	if length < len(rest) && (rest[length] == '"' || rest[length] == '\'') {
		switch string(rest[:length]) {
		case "f":
			rest[0] = ' '
		case "fr", "rf":
			rest[0], rest[1] = ' ', 'r'
		default:
			c.skip(length)
			return
		}
		c.skip(1)
		c.found[Place{c.line, c.column}] = true
		length--
	}
	c.skip(length)
}

// wordLength is the length of the name, keyword or number at the beginning of the source.
func wordLength(source []byte) int {
	length := 0
	for length < len(source) {
		r, size := utf8.DecodeRune(source[length:])
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			break
		}
		length += size
	}
	return length
}

// stringLength is the length of the string at the beginning of the source. Even in raw strings a backslash keeps the quote
// after it from ending the string.
func stringLength(source []byte) int {
	quote, width := source[:1], 1
	if len(source) >= 3 && source[1] == quote[0] && source[2] == quote[0] {
		width = 3
	}
	for i := width; i < len(source); i++ {
		switch {
		case source[i] == '\\':
			i++
		case width == 1 && (source[i] == '\n' || source[i] == '\r'):
			return i
		case source[i] == quote[0] && (width == 1 || i+2 < len(source) && source[i+1] == quote[0] && source[i+2] == quote[0]):
			return i + width
		}
	}
	return len(source)
}

// formatPart is a piece of an f-string: text, or the name of a value.
type formatPart struct {
	text   string
	name   bool
	quoted bool // as repr shows it
}

// formatParts takes an f-string apart. Braces hold a name, which !r or !s may follow; doubled braces are text.
func formatParts(text string) ([]formatPart, error) {
	var parts []formatPart
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case (c == '{' || c == '}') && i+1 < len(text) && text[i+1] == c:
			plain.WriteByte(c)
			i++
		case c == '}':
			return nil, errors.New("a } stands alone; double it")
		case c == '{':
			inner, _, closed := strings.Cut(text[i+1:], "}")
			if !closed {
				return nil, errors.New("a { is not closed")
			}
			i += len(inner) + 1
			name, conversion, converted := strings.Cut(inner, "!")
			letter, _ := utf8.DecodeRuneInString(name)
			if name == "" || wordLength([]byte(name)) != len(name) || unicode.IsDigit(letter) {
				return nil, errors.New("only a name can be between { and }")
			}
			if converted && conversion != "r" && conversion != "s" {
				return nil, errors.New("only !r and !s can follow a name")
			}
			parts = append(parts, formatPart{text: plain.String()}, formatPart{name, true, conversion == "r"})
			plain.Reset()
		default:
			plain.WriteByte(c)
		}
	}
	return append(parts, formatPart{text: plain.String()}), nil
}
