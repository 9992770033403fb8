package bounded

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.starlark.net/syntax"
)

// maxDigits bounds a number, because reading it takes more than linear time.
const maxDigits = 500

// readText prepares the text for a Starlark without f-strings: it makes strings of bytes of them, and counts them, because
// rule files need none of those; a string of bytes becomes an error of syntax. No position changes.
func readText(name string, source []byte) (text []byte, formats int, err error) {
	text = []byte(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(source)))
	// Starlark takes a NUL for the end of the file, so the rules after it would be lost.
	if bad := bytes.IndexByte(bytes.ToValidUTF8(text, []byte{0}), 0); bad >= 0 {
		return nil, 0, errorAt(name, text[:bad], "this is not a character of UTF-8 text; save the file as UTF-8")
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '#':
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case c == '"' || c == '\'':
			formats += mark(text[:i])
			quotes := text[i : i+1]
			if triple := bytes.Repeat(quotes, 3); bytes.HasPrefix(text[i:], triple) {
				quotes = triple
			}
			for i += len(quotes); i < len(text) && !bytes.HasPrefix(text[i:], quotes); i++ {
				if text[i] == '\n' && len(quotes) == 1 {
					break // it is not closed, which Starlark will say
				}
				if text[i] == '\\' {
					i++ // even in a raw string, a quote after it does not end the string
				}
			}
			i += len(quotes) - 1
		case c >= '0' && c <= '9':
			number := len(text) - i - len(bytes.TrimLeft(text[i:], "0123456789"))
			if number > maxDigits {
				return nil, 0, errorAt(name, text[:i], errNumber.Error())
			}
			i += number - 1
		}
	}
	return text, formats, nil
}

// mark changes what stands before a string, and returns 1 if that makes it an f-string.
func mark(before []byte) int {
	word := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	switch prefix := before[len(bytes.TrimRightFunc(before, word)):]; string(prefix) {
	case "f":
		prefix[0] = 'b'
		return 1
	case "fr", "rf":
		copy(prefix, "rb")
		return 1
	case "b", "rb":
		prefix[len(prefix)-1] = 'f'
	}
	return 0
}

func errorAt(name string, before []byte, message string) error {
	line, column := bytes.Count(before, []byte("\n")), utf8.RuneCount(before[1+bytes.LastIndexByte(before, '\n'):])
	return syntax.Error{Pos: syntax.MakePosition(&name, int32(1+line), int32(1+column)), Msg: message}
}
