package tools

import (
	"context"
	"fmt"
	"strings"

	"github.com/execbus/execbus/messages"
)

// The arguments of read_output that no other tool has.
const (
	argOffset  = "offset"
	argLength  = "length"
	argTail    = "tail"
	argPattern = "pattern"
)

// The result of one read_output.
const (
	defaultRead = 16 << 10 // bytes, where the call does not say
	mostRead    = messages.DefaultOutputTokens * messages.BytesPerToken
	mostMatches = 200 // lines that match a pattern
)

// Reading is the structured answer of read_output.
type Reading struct {
	SessionID int `json:"session_id"`
	// Offset is the position at which Output begins, NextOffset the position at which a further call continues.
	Offset     int64 `json:"offset"`
	NextOffset int64 `json:"next_offset"`
	// TotalBytes is the size of all output so far. MissedBytes is how much of the requested output is not kept any
	// more.
	TotalBytes  int64  `json:"total_bytes"`
	MissedBytes int64  `json:"missed_bytes,omitempty"`
	Ended       bool   `json:"ended"`
	Output      string `json:"output"`
	// Matches are the lines that match the pattern; Output is then empty.
	Matches []Match  `json:"matches,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

// Match is a line of output with the offset of its first byte.
type Match struct {
	Offset int64  `json:"offset"`
	Line   string `json:"line"`
}

func readOutput() tool {
	number, line := map[string]any{"type": "number"}, map[string]any{"type": "string"}
	return tool{Tool: Tool{Name: "read_output", Title: "Read remembered output", ReadOnly: true, Description: fmt.Sprintf(
		"Reads the output of a process again, also for a while after its end, and takes nothing from write_stdin. "+
			"Say where with offset or tail; otherwise it begins with the first byte. At most %d bytes are returned, or %d lines that match a pattern.", mostRead, mostMatches)},
		parameters: []parameter{
			sessionID,
			{name: argOffset, kind: whole, about: "The first byte to read, counted from the start of the process."},
			{name: argLength, kind: whole, about: fmt.Sprintf("How many bytes to read, or to search. Default: %d, or everything with a pattern.", defaultRead)},
			{name: argTail, kind: whole, about: "Read the last bytes, this many, instead. Not with offset."},
			{name: argPattern, kind: text, about: "Return only lines that match this regular expression (RE2), with their offsets."},
		},
		output: closed(map[string]any{
			"session_id": number, "offset": number, "next_offset": number, "total_bytes": number, "missed_bytes": number,
			"ended": map[string]any{"type": "boolean"}, "output": line,
			"matches": map[string]any{"type": "array", "items": closed(map[string]any{"offset": number, "line": line}, "offset", "line")},
		}, "session_id", "offset", "next_offset", "total_bytes", "ended", "output"),
		run: runRead}
}

func runRead(ctx context.Context, s *Set, _ messages.CallID, a arguments) Answer {
	if a.has(argOffset) && a.has(argTail) {
		return misread(wrong("read_output", argTail, "it cannot be combined with offset; leave one of them out"))
	}
	pattern, err := compile(a.text(argPattern))
	if err != nil {
		return misread(err)
	}
	length := defaultRead
	switch {
	case a.has(argLength):
		length = a.number(argLength)
	case a.has(argTail):
		length = a.number(argTail)
	case pattern != nil:
		length = maxWhole
	}
	if pattern == nil {
		length = min(length, mostRead)
	}
	extent, err := s.extent(ctx, a, length)
	if err != nil {
		return failure("read_output", err)
	}
	return extent.answer(pattern, a.notes)
}

// answer describes the content of an extent, or its matching lines.
func (s *extent) answer(pattern *lineFilter, notes []string) Answer {
	r := Reading{SessionID: int(s.process), Offset: s.from, NextOffset: s.next(), TotalBytes: s.total, MissedBytes: s.missed, Ended: s.ended, Notes: notes}
	var b strings.Builder
	fmt.Fprintf(&b, "Bytes %d to %d of %d", r.Offset, r.NextOffset, r.TotalBytes)
	if r.Ended {
		b.WriteString(", and nothing will follow")
	}
	if r.MissedBytes > 0 {
		fmt.Fprintf(&b, "\n%d bytes before them are not kept any more", r.MissedBytes)
	}
	if pattern == nil {
		r.Output = s.text()
		fmt.Fprintf(&b, "\nOutput:\n%s", r.Output)
		return Answer{Text: b.String(), Structured: r}
	}
	matches, next := pattern.apply(s)
	r.Matches, r.NextOffset = matches, next
	fmt.Fprintf(&b, "\nMatching lines: %d", len(matches))
	if next < s.next() {
		fmt.Fprintf(&b, " (there may be more from offset %d on)", next)
	}
	for _, m := range matches {
		fmt.Fprintf(&b, "\n%d: %s", m.Offset, m.Line)
	}
	return Answer{Text: b.String(), Structured: r}
}
