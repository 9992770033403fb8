package tools

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
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

// mostSearched bounds the bytes that one read_output looks at: more than a process's log keeps.
const mostSearched = 4 << 20

// extent is output without a gap.
type extent struct {
	process     messages.ProcessID
	from, total int64
	missed      int64
	bytes       []byte
	ended       bool
}

func (s *extent) next() int64 { return s.from + int64(len(s.bytes)) }

func (s *extent) text() string { return strings.ToValidUTF8(string(s.bytes), "\uFFFD") }

// extent reads the output that the arguments name, page by page. It stops before a gap; output after the gap is
// another extent.
func (s *Set) extent(ctx context.Context, a arguments, length int) (*extent, error) {
	r := &extent{process: a.process()}
	read := messages.ReadOutput{Process: r.process, SkipLost: true, Max: min(max(length, 1), messages.MaxRead)}
	if a.has(argTail) {
		read.Tail = max(min(a.number(argTail), messages.MaxRead), 1)
	} else {
		read.Offset = new(int64(a.number(argOffset)))
	}
	for first := true; ; first = false {
		page, err := s.session.Read(ctx, read)
		if err != nil {
			return nil, err
		}
		if first {
			r.from, r.missed = begin(page, read.Offset), page.Missed
		}
		r.total, r.ended = page.Total, page.Ended
		had := len(r.bytes)
		for _, chunk := range page.Chunks {
			if chunk.Offset != r.next() {
				break
			}
			r.bytes = append(r.bytes, chunk.Bytes...)
		}
		if length = min(length, mostSearched); len(r.bytes) >= length {
			r.bytes = r.bytes[:length]
			return r, nil
		}
		if len(r.bytes) == had || r.next() >= r.total {
			return r, nil
		}
		read = messages.ReadOutput{Process: r.process, SkipLost: true, Offset: new(r.next()), Max: min(length-len(r.bytes), messages.MaxRead)}
	}
}

// begin is the position at which a page begins. A page without chunks begins at the requested offset, or at the end.
func begin(page *messages.OutputPage, asked *int64) int64 {
	switch {
	case len(page.Chunks) > 0:
		return page.Chunks[0].Offset
	case asked != nil:
		return min(*asked, page.Total)
	default:
		return page.Total
	}
}

// lineFilter finds lines.
type lineFilter struct{ expression *regexp.Regexp }

// compile makes a filter; nil if there is no pattern.
func compile(pattern string) (*lineFilter, error) {
	if pattern == "" {
		return nil, nil
	}
	expression, err := regexp.Compile(pattern)
	if err != nil {
		return nil, wrong("read_output", argPattern, err.Error())
	}
	return &lineFilter{expression}, nil
}

// maxLine bounds how much of a matching line is returned, in bytes.
const maxLine = 2000

// apply returns the first matching lines, within the bound of one answer, and where the search continues.
func (f *lineFilter) apply(s *extent) (matches []Match, next int64) {
	at, room := s.from, mostRead
	for line := range bytes.Lines(s.bytes) {
		trimmed := bytes.TrimRight(line, "\r\n")
		if f.expression.Match(trimmed) {
			shown := trimmed[:min(len(trimmed), maxLine)]
			if len(matches) == mostMatches || len(shown) > room {
				return matches, at
			}
			room -= len(shown)
			matches = append(matches, Match{Offset: at, Line: strings.ToValidUTF8(string(shown), "\uFFFD")})
		}
		at += int64(len(line))
	}
	return matches, at
}
