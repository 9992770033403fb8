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

// OriginalTokens estimates all output since the last answer, what was dropped included.
func (r *Result) OriginalTokens() int64 { return Tokens(int64(len(r.Output)) + r.Omitted) }

// Text is the result as a model reads it: what happened, and the output as UTF-8, cut in the middle to MaxOutputTokens.
func (r *Result) Text() string {
	var b strings.Builder
	if r.ChunkID != "" {
		fmt.Fprintf(&b, "Chunk ID: %s\n", r.ChunkID)
	}
	fmt.Fprintf(&b, "Wall time: %.4f seconds\n", r.WallTime.Seconds())
	if code, known := r.Status.Code(); known {
		fmt.Fprintf(&b, "Process exited with code %d\n", code)
	}
	if r.Lost != "" {
		fmt.Fprintf(&b, "Process ended, its exit code is not known: %s\n", r.Lost)
	}
	if r.Running {
		fmt.Fprintf(&b, "Process running with session ID %d\n", r.Process)
	}
	if r.Background != nil {
		fmt.Fprintf(&b, "Background processes: %s\n", r.Background)
	}
	if r.InputErr != nil {
		fmt.Fprintf(&b, "Input: %s\n", r.InputErr)
	}
	fmt.Fprintf(&b, "Original token count: %d\nOutput:\n", r.OriginalTokens())
	b.WriteString(r.OutputText())
	return b.String()
}

// String says what became of the children.
func (b *Background) String() string {
	if b.Kept {
		return fmt.Sprintf("%d kept running", b.Count)
	}
	return fmt.Sprintf("%d being ended", b.Count)
}

// OutputText is the output part of Text. Every byte that is not part of a UTF-8 character becomes U+FFFD. If bytes were
// dropped an OmissionMarker stands in their place; where cutting takes it away it stands in front.
func (r *Result) OutputText() string {
	budget := budgetOf(r.MaxOutputTokens)
	if r.Omitted == 0 {
		return truncate(lossy(r.Output), budget, r.OriginalTokens())
	}
	marker := OmissionMarker(r.Omitted)
	cut := min(max(r.Head, 0), len(r.Output))
	text := lossy(r.Output[:cut]) + marker + lossy(r.Output[cut:])
	if len(text) <= budget {
		return text
	}
	body := truncateMiddle(text, budget)
	if !strings.Contains(body, marker) {
		body = strings.TrimPrefix(marker, "\n") + body
	}
	return warning(r.OriginalTokens()) + body
}

// OmissionMarker stands in a text where so many bytes of output were dropped.
func OmissionMarker(bytes int64) string { return fmt.Sprintf("\n... %d bytes omitted ...\n", bytes) }

// Truncate cuts a text that has more than maxTokens tokens in the middle, and then says so in front of it.
func Truncate(text string, maxTokens int) string {
	return truncate(text, budgetOf(maxTokens), int64(Tokens(len(text))))
}

// TruncateBytes does the same to a text of more than maxBytes bytes, for a conversation that is measured in bytes; the mark
// in the middle then counts characters.
func TruncateBytes(text string, maxBytes int) string {
	budget := max(maxBytes, 0)
	if len(text) <= budget {
		return text
	}
	left, right := middle(text, budget)
	mark := fmt.Sprintf("…%d chars truncated…", utf8.RuneCountInString(text[left:right]))
	return head(text, int64(Tokens(len(text)))) + text[:left] + mark + text[right:]
}

// budgetOf is how many bytes so many tokens are. A bound too large to be counted in bytes is none.
func budgetOf(tokens int) int {
	return min(max(tokens, 0), math.MaxInt/BytesPerToken) * BytesPerToken
}

func truncate(text string, budget int, original int64) string {
	if len(text) <= budget {
		return text
	}
	return head(text, original) + truncateMiddle(text, budget)
}

// head stands in front of a text that was cut.
func head(text string, original int64) string {
	return fmt.Sprintf("%sTotal output lines: %d\n\n", warning(original), lines(text))
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

// truncateMiddle keeps the first and the last half of budget bytes of a longer text.
func truncateMiddle(text string, budget int) string {
	left, right := middle(text, budget)
	return fmt.Sprintf("%s…%d tokens truncated…%s", text[:left], Tokens(len(text)-budget), text[right:])
}

// middle is what goes if budget bytes of a longer text stay, half of them at each end and cut back to whole characters.
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

// lossy makes bytes a text.
func lossy(p []byte) string {
	if utf8.Valid(p) {
		return string(p)
	}
	return string([]rune(string(p)))
}
