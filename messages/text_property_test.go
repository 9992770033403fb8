package messages_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/messages"
)

// maxFrame is more than all that is put around and into a cut text: the warning, the count of lines, both markers.
const maxFrame = 256

// checkTruncated checks everything that holds for any text and bound.
func checkTruncated(t interface{ Fatalf(string, ...any) }, text string, tokens int) {
	got := messages.Truncate(text, tokens)
	budget := max(tokens, 0) * messages.BytesPerToken
	if len(text) <= budget {
		if got != text {
			t.Fatalf("%d bytes fit in %d tokens and became %q", len(text), tokens, got)
		}
		return
	}
	if len(got) > budget+maxFrame {
		t.Fatalf("%d bytes for a budget of %d", len(got), budget)
	}
	if !utf8.ValidString(got) {
		t.Fatalf("not UTF-8: %q", got)
	}
	_, body, found := strings.Cut(got, "\n\n")
	if !found || !strings.HasPrefix(got, "Warning: truncated output (original token count: ") {
		t.Fatalf("no header: %q", got)
	}
	if want := cutOf(text, budget); body != want {
		t.Fatalf("%q in %d bytes became %q, want %q", text, budget, body, want)
	}
}

// cutOf is what is left of a text: as many whole characters from either end as fit into half of the budget.
func cutOf(text string, budget int) string {
	head, tail := "", ""
	for _, r := range text {
		if len(head)+utf8.RuneLen(r) > budget/2 {
			break
		}
		head = text[:len(head)+utf8.RuneLen(r)]
	}
	for {
		_, size := utf8.DecodeLastRuneInString(text[:len(text)-len(tail)])
		if len(tail)+size > budget-budget/2 {
			break
		}
		tail = text[len(text)-len(tail)-size:]
	}
	return fmt.Sprintf("%s…%d tokens truncated…%s", head, messages.Tokens(len(text)-budget), tail)
}

// texts have characters of all lengths, newlines and look-alikes of our own marks.
func texts() *rapid.Generator[string] {
	pieces := rapid.SampledFrom([]string{"a", "b", "é", "€", "😀", "\n", "…", " tokens truncated…", "\n... 5 bytes omitted ...\n", "\uFFFD", "\x00"})
	return rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOf(pieces).Draw(t, "pieces"), "") })
}

func TestTruncateKeepsBothEndsWithinTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkTruncated(t, texts().Draw(t, "text"), rapid.IntRange(-1, 60).Draw(t, "tokens"))
	})
}

func FuzzTruncate(f *testing.F) {
	f.Add("example output", 1)
	f.Add("this is an example of a long output that should be truncated", 5)
	f.Add("😀😀😀", 1)
	f.Add("", 0)
	f.Fuzz(func(t *testing.T, text string, tokens int) {
		checkTruncated(t, strings.ToValidUTF8(text, "\uFFFD"), tokens%(1<<20))
	})
}

func TestOutputTextOfAnyBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		output := rapid.SliceOf(rapid.Byte()).Draw(t, "output")
		result := messages.Result{Output: output, Omitted: rapid.SampledFrom([]int64{0, 0, 1, 12345}).Draw(t, "omitted"),
			Head: rapid.IntRange(0, len(output)).Draw(t, "head"), MaxOutputTokens: rapid.IntRange(0, 100).Draw(t, "tokens")}
		text := result.OutputText()
		if !utf8.ValidString(text) {
			t.Fatalf("not UTF-8: %q", text)
		}
		if limit := result.MaxOutputTokens*messages.BytesPerToken + maxFrame; len(text) > limit {
			t.Fatalf("%d bytes, at most %d are allowed", len(text), limit)
		}
		marker := strings.TrimPrefix(messages.OmissionMarker(result.Omitted), "\n")
		if result.Omitted > 0 && strings.Count(text, marker) != 1 {
			t.Fatalf("the marker is there %d times: %q", strings.Count(text, marker), text)
		}
		if result.Omitted == 0 && utf8.Valid(output) && len(output) <= result.MaxOutputTokens*messages.BytesPerToken && text != string(output) {
			t.Fatalf("%q became %q", output, text)
		}
	})
}
