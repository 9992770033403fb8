package bounded

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Our Starlark has no f-strings, but rule files may. The f is removed from their source, which leaves an ordinary literal
// at the same place; rewrite replaces this literal by a call that inserts the values. So no source is ever put together
// from text, and every place in the file stays the same.

// pattern compiles an expression when it is first needed: most programs read no rule file.
func pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// maxWord bounds names and numbers, because reading a number takes more than linear time.
const maxWord = 1000

// cutFormats replaces the f before each f-string by a blank, and returns where the literals then begin. If it should ever
// read a file differently from Starlark, there is no literal at one of these places, and the file is refused.
func cutFormats(source []byte) ([]byte, map[Place]bool, error) {
	c := cursor{source: slices.Clone(source), at: Place{1, 1}}
	found := map[Place]bool{}
	for offset := 0; offset < len(source); {
		rest := c.source[offset:]
		word := wordLength(rest)
		switch {
		case word > maxWord:
			err := c.advance(offset)
			if err == nil {
				err = &Error{c.at, "starlark error: the number or name is too long; shorten it"}
			}
			return nil, nil, err
		case word < len(rest) && (rest[word] == '"' || rest[word] == '\''):
			if cutPrefix(rest[:word]) {
				if err := c.advance(offset + 1); err != nil {
					return nil, nil, err
				}
				found[c.at] = true
			}
			offset += word + stringLength(rest[word:])
		case word == 0 && rest[0] == '#':
			end := bytes.IndexAny(rest, "\r\n")
			if end < 0 {
				end = len(rest)
			}
			offset += end
		default:
			offset += max(word, 1)
		}
	}
	return c.source, found, c.advance(len(source))
}

// cutPrefix removes the f from what stands before a string, and reports whether there is one.
func cutPrefix(prefix []byte) bool {
	switch string(prefix) {
	case "f":
		prefix[0] = ' '
	case "fr", "rf":
		prefix[0], prefix[1] = ' ', 'r'
	default:
		return false
	}
	return true
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

// stringLength is the length of the string at the beginning of the source; one that is not closed ends with its line or, with three
// quotes, with the file. Even in raw strings a backslash keeps the quote after it from ending the string.
func stringLength(source []byte) int {
	quotes := source[:1]
	if len(source) >= 3 && source[1] == source[0] && source[2] == source[0] {
		quotes = source[:3]
	}
	for i := len(quotes); i < len(source); i++ {
		switch {
		case source[i] == '\\':
			if i++; bytes.HasPrefix(source[min(i, len(source)):], []byte("\r\n")) {
				i++
			}
		case len(quotes) == 1 && (source[i] == '\n' || source[i] == '\r'):
			return i
		case bytes.HasPrefix(source[i:], quotes):
			return i + len(quotes)
		}
	}
	return len(source)
}

// cursor knows the place of an offset, which only grows.
type cursor struct {
	source []byte
	offset int
	at     Place
}

// advance fails at what is no text. Starlark takes a NUL for the end of the file, so the rules after it would be lost.
func (c *cursor) advance(offset int) error {
	for c.offset < offset {
		r, size := utf8.DecodeRune(c.source[c.offset:])
		if r == 0 || r == utf8.RuneError && size == 1 {
			return &Error{c.at, "starlark error: this is not a character of UTF-8 text; save the file as UTF-8"}
		}
		if c.offset += size; r == '\r' && c.offset < len(c.source) && c.source[c.offset] == '\n' {
			c.offset++
		}
		c.at.Column++
		if r == '\n' || r == '\r' {
			c.at = Place{c.at.Line + 1, 1}
		}
	}
	return nil
}

// formatPart is a piece of an f-string: text, or the name of a value.
type formatPart struct {
	text    string
	convert string // the function that makes text of the value: $str or $repr
}

// maxParts bounds the parts of an f-string, because each is nested in the next.
const maxParts = 255

var (
	brace  = pattern(`\{\{|\}\}|\{[^}]*\}?|\}`)
	inside = pattern(`^\{([\pL_][\pL\p{Nd}_]*)(?:!([rs]))?\}$`)
)

// formatParts takes an f-string apart. Braces hold a name, which !r or !s may follow; doubled braces are text.
func formatParts(text string) ([]formatPart, error) {
	var parts []formatPart
	end := 0
	for _, at := range brace().FindAllStringIndex(text, maxParts) { // each adds two parts
		if len(parts) > maxParts {
			return nil, fmt.Errorf("it has more than %d values; split it", maxParts/2)
		}
		parts = append(parts, formatPart{text: text[end:at[0]]})
		end = at[1]
		braces := text[at[0]:at[1]]
		if braces == "{{" || braces == "}}" {
			parts = append(parts, formatPart{text: braces[:1]})
			continue
		}
		name := inside().FindStringSubmatch(braces)
		switch {
		case braces == "}":
			return nil, errors.New("a } stands alone; double it")
		case !strings.HasSuffix(braces, "}"):
			return nil, errors.New("a { is not closed")
		case name == nil:
			return nil, errors.New("only a name can be between { and }, with !r or !s after it")
		}
		convert := "$str"
		if name[2] == "r" {
			convert = "$repr"
		}
		parts = append(parts, formatPart{name[1], convert})
	}
	return append(parts, formatPart{text: text[end:]}), nil
}
