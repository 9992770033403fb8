// Package label writes commands for people: as a shell would read them, and not all of one that is long.
//
// # What you must not assume
//
// That a label can be executed: it may be cut, and it may have control characters, which messages.Visible shows.
package label

import "strings"

// Most bounds a label, in bytes, and a mark for what is left out.
const Most = 4 << 10

// Of is the beginning of a script, or of a program with its arguments.
func Of(script string, argv []string) string {
	var b strings.Builder
	b.WriteString(script[:min(len(script), Most)])
	for i, word := range argv {
		if b.Len() >= Most {
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(quote(word[:min(len(word), Most)]))
	}
	return Clip(b.String())
}

// Clip is the beginning of a text, copied if the text is long.
func Clip(text string) string {
	if len(text) < Most {
		return text
	}
	return strings.ToValidUTF8(text[:Most], "") + "…"
}

// quote writes a word so that a shell reads it as one.
func quote(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
