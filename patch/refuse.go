package patch

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/execbus/execbus/messages"
)

// maxQuoted bounds how much of a line an error quotes, in bytes.
const maxQuoted = 300

// refuse is the error for a patch that cannot be applied.
func refuse(subject, format string, values ...any) error {
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: "patch", Subject: subject, Detail: fmt.Sprintf(format, values...)}
}

// quote shows a text from a patch or a file on one line.
func quote(text string) string { return "'" + shown(text) + "'" }

// shown is a line as an error shows it: all of it can be seen, and a long one is cut in its middle.
func shown(line string) string { return visible(clip(line, maxQuoted)) }

// clip cuts the middle out of a text that is too long, at whole characters.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	left, right := most/2, len(text)-most/2
	for left > 0 && !utf8.RuneStart(text[left]) {
		left--
	}
	for right < len(text) && !utf8.RuneStart(text[right]) {
		right++
	}
	return fmt.Sprintf("%s[… %d bytes …]%s", text[:left], right-left, text[right:])
}

// invalidAt is the index of the first byte that is not UTF-8.
func invalidAt(text string) int {
	for i, r := range text {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				return i
			}
		}
	}
	return len(text)
}

// visible is a line of which all can be seen. Tabs stay, as code is indented with them.
func visible(line string) string {
	parts := strings.Split(line, "\t")
	for i, part := range parts {
		parts[i] = messages.Visible(part)
	}
	return strings.Join(parts, "\t")
}
