package messages

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// BytesPerToken is the estimate by which output is measured in tokens.
const BytesPerToken = 4

// Tokens estimates how many tokens so many bytes are.
func Tokens[N int | int64](bytes N) N { return (bytes + BytesPerToken - 1) / BytesPerToken }

// OriginalTokens estimates the tokens of all output since the last answer, dropped output included.
func (r *Result) OriginalTokens() int64 { return Tokens(int64(len(r.Output)) + r.Omitted) }

// OutputText is the output for a model, in the view that was asked for, cut to MaxOutputTokens or MaxOutputBytes. Every broken character
// becomes one U+FFFD.
// If bytes were dropped, an OmissionMarker stands in their place, with a line that says where they can be read if they can, or in front of the output if cutting removes that place.
func (r *Result) OutputText() string {
	limit := limitOf(r.MaxOutputTokens, r.MaxOutputBytes)
	switch {
	case r.Shown != nil && (r.Omitted == 0 || r.Shown.View == ViewScreen):
		return limit.apply(r.Shown.Text, r.OriginalTokens())
	case r.Omitted == 0:
		return limit.apply(lossy(r.Output), r.OriginalTokens())
	}
	var head, tail string
	if r.Shown != nil {
		cut := min(max(r.Shown.Head, 0), len(r.Shown.Text))
		head, tail = r.Shown.Text[:cut], r.Shown.Text[cut:]
	} else {
		cut := min(max(r.Head, 0), len(r.Output))
		head, tail = lossy(r.Output[:cut]), lossy(r.Output[cut:])
	}
	marker := OmissionMarker(r.Omitted)
	if r.OmittedKept {
		marker += fmt.Sprintf("... they can be read, from offset %d to %d ...\n", r.OmittedAt, r.OmittedAt+r.Omitted)
	}
	text := head + marker + tail
	if len(text) <= limit.bytes {
		return text
	}
	body := limit.middle(text)
	marker = strings.TrimPrefix(marker, "\n") // cutting may take the newline alone
	if !strings.Contains(body, marker) {
		body = marker + "\n" + body
	}
	return warning(r.OriginalTokens()) + body
}

// OmissionMarker stands in a text in place of that many dropped bytes of output.
func OmissionMarker(bytes int64) string { return fmt.Sprintf("\n... %d bytes omitted ...\n", bytes) }

// Truncate cuts a text that has more than maxTokens tokens in the middle, and then says so in front of it.
func Truncate(text string, maxTokens int) string {
	return limitOf(maxTokens, nil).apply(text, int64(Tokens(len(text))))
}

// TruncateBytes does the same to a text of more than maxBytes bytes, for a conversation that is measured in bytes; the mark
// in the middle then counts characters.
func TruncateBytes(text string, maxBytes int) string {
	return limitOf(math.MaxInt, &maxBytes).apply(text, int64(Tokens(len(text))))
}

// limit is how long a text may be, and the unit in which the mark counts what was cut.
type limit struct {
	bytes      int
	characters bool // otherwise tokens
}

// limitOf is the tighter of two bounds; nil means no bound, and so does a number of tokens too large to be counted in bytes.
func limitOf(tokens int, bytes *int) limit {
	l := limit{bytes: min(max(tokens, 0), math.MaxInt/BytesPerToken) * BytesPerToken}
	if bytes != nil && *bytes < l.bytes {
		l = limit{bytes: max(*bytes, 0), characters: true}
	}
	return l
}

// apply cuts a text that is too long.
func (l limit) apply(text string, original int64) string {
	if len(text) <= l.bytes {
		return text
	}
	return fmt.Sprintf("%sTotal output lines: %d\n\n%s", warning(original), lines(text), l.middle(text))
}

// middle cuts a longer text in its middle: half of the limit stays at each end.
func (l limit) middle(text string) string {
	left, right := middle(text, l.bytes)
	mark := fmt.Sprintf("…%d tokens truncated…", Tokens(len(text)-l.bytes))
	if l.characters {
		mark = fmt.Sprintf("…%d chars truncated…", utf8.RuneCountInString(text[left:right]))
	}
	return text[:left] + mark + text[right:]
}

func warning(original int64) string {
	return fmt.Sprintf("Warning: truncated output (original token count: %d)\n", original)
}

// lines counts lines; a last one needs no newline.
func lines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

// middle is the part to cut if budget bytes of a longer text stay, half of them at each end and cut back to whole characters.
func middle(text string, budget int) (left, right int) {
	left = budget / 2
	right = len(text) - (budget - left)
	for left > 0 && !utf8.RuneStart(text[left]) {
		left--
	}
	for right < len(text) && !utf8.RuneStart(text[right]) {
		right++
	}
	return left, right
}
