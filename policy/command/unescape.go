package command

import (
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// The characters before which a backslash has a meaning.
const (
	anywhere   = "" // before all
	inQuotes   = "$`\"\\\n"
	inDocument = "$`\\\n"
)

// unescaped yields the bytes that a text stands for. With each comes true if a backslash makes it literal, which it does only
// before some characters. A backslash before a newline disappears with the newline. A backslash at the end stands for itself.
func unescaped(raw, before string) iter.Seq2[byte, bool] {
	return func(yield func(byte, bool) bool) {
		for i := 0; i < len(raw); i++ {
			escaped := raw[i] == '\\' && i+1 < len(raw) && (before == anywhere || strings.IndexByte(before, raw[i+1]) >= 0)
			if escaped {
				i++
			}
			if escaped && raw[i] == '\n' {
				continue
			}
			if !yield(raw[i], escaped) {
				return
			}
		}
	}
}

// unescape writes the bytes that a text stands for.
func unescape(b *strings.Builder, raw, before string) {
	for c := range unescaped(raw, before) {
		b.WriteByte(c)
	}
}

// plainWord is the text of a word as the program gets it. For a pattern, or a path that starts with ~, it is the word
// itself, and pattern is true.
func plainWord(word *syntax.Word) (text string, pattern, ok bool) {
	switch word.Lit() {
	case "{}", "!", "=", "!=": // special to find and test, not to a shell that is past the first word
		return word.Lit(), false, true
	}
	var b strings.Builder
	for i, part := range word.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			wild, ok := plainBare(&b, part.Value, i == 0)
			if !ok {
				return "", false, false
			}
			pattern = pattern || wild
		case *syntax.SglQuoted:
			if part.Dollar {
				return "", false, false
			}
			b.WriteString(part.Value)
		case *syntax.DblQuoted:
			inner, literal := innerText(part)
			if !literal || part.Dollar || !plainQuoted(&b, inner) {
				return "", false, false
			}
		default:
			return "", false, false
		}
	}
	return b.String(), pattern, true
}

// plainBare writes the meaning of an unquoted part of a word; first says that the word begins with it. It knows only
// characters that mean themselves in every shell.
func plainBare(b *strings.Builder, raw string, first bool) (pattern, ok bool) {
	if !plainBeyondASCII(raw) {
		return false, false
	}
	previous := byte(0)
	for c, escaped := range unescaped(raw, anywhere) {
		switch {
		case c >= utf8.RuneSelf && !escaped:
		case escaped && c >= ' ' && c <= '~':
		case escaped:
			return false, false
		case strings.IndexByte(letters+digits+"_-./:,+@%^", c) >= 0:
		case c == '=' && b.Len() > 0: // zsh replaces =name by the program's path, even after ""
		case c == '#' && previous != 0:
		case c == '~' && previous != 0 && strings.IndexByte(letters+digits+"^~", previous) >= 0: // HEAD~1
		case c == '~' && previous == 0 && first, strings.IndexByte("*?[]", c) >= 0:
			pattern = true
		default:
			return false, false
		}
		b.WriteByte(c)
		previous = c
	}
	return pattern, true
}

// plainBeyondASCII reports whether the characters beyond ASCII are visible and not blank. Where bash takes single bytes for
// blanks, as on macOS, none of the characters may contain such a byte.
func plainBeyondASCII(text string) bool {
	for i, r := range text {
		if r < utf8.RuneSelf {
			continue
		}
		bytes := text[i : i+utf8.RuneLen(r)]
		if !unicode.IsPrint(r) || runtime.GOOS != "linux" && (strings.IndexByte(bytes, 0x85) >= 0 || strings.IndexByte(bytes, 0xa0) >= 0) {
			return false
		}
	}
	return true
}

// innerText joins the parts between double quotes.
func innerText(quoted *syntax.DblQuoted) (text string, ok bool) {
	for _, part := range quoted.Parts {
		lit, literal := part.(*syntax.Lit)
		if !literal {
			return "", false
		}
		text += lit.Value
	}
	return text, true
}

// plainQuoted writes the meaning of a text between double quotes. A dollar sign is known only at the end and before a
// blank.
func plainQuoted(b *strings.Builder, raw string) bool {
	dollar := false
	for c, escaped := range unescaped(raw, inQuotes) {
		if dollar && (c != ' ' || escaped) || c == '`' && !escaped {
			return false
		}
		dollar = c == '$' && !escaped
		b.WriteByte(c)
	}
	return true
}

// Split splits text into words as a shell does: blanks separate words, quotes and backslashes keep them together, and #
// begins a comment. Every other character stands for itself.
func Split(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord := false
	for len(text) > 0 {
		c, length := text[0], 1
		switch {
		case strings.IndexByte(" \t\n", c) >= 0:
			if inWord {
				words, inWord = append(words, word.String()), false
				word.Reset()
			}
		case c == '#' && !inWord:
			length = strings.IndexByte(text+"\n", '\n')
		case c == '\'' || c == '"':
			inner, closed := cutQuoted(text)
			if !closed {
				return nil, fmt.Errorf("a %c is not closed", c)
			}
			if c == '"' {
				unescape(&word, inner, inQuotes)
			} else {
				word.WriteString(inner)
			}
			inWord, length = true, len(inner)+2
		case text == `\`:
			return nil, errors.New("it ends with a backslash")
		case c == '\\':
			length = 2
			inWord = inWord || text[1] != '\n'
			unescape(&word, text[:length], anywhere)
		default:
			word.WriteByte(c)
			inWord = true
		}
		text = text[length:]
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// cutQuoted is the inside of the quotes that a text begins with.
func cutQuoted(text string) (inner string, closed bool) {
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == text[0]:
			return text[1:i], true
		case text[i] == '\\' && text[0] == '"':
			i++
		}
	}
	return "", false
}
