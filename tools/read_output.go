package tools

import (
	"cmp"
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
	argLine    = "line"
	argBefore  = "before"
	argAfter   = "after"
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
	// Matches are the lines that match the pattern, and those around them; Output is then empty.
	Matches []Match  `json:"matches,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

// Match is a line of output with the offset of its first byte, and its number, if that is known.
type Match struct {
	Offset int64  `json:"offset"`
	Number int64  `json:"number,omitempty"`
	Line   string `json:"line"`
	Around bool   `json:"around,omitempty"` // it does not match, but stands before or behind a line that does
}

func readOutput(options Options) tool {
	number, line := map[string]any{"type": "number"}, map[string]any{"type": "string"}
	return tool{Tool: Tool{Name: "read_output", Title: "Read remembered output", ReadOnly: true, Description: fmt.Sprintf(
		"Reads the output of a process again, also for a while after its end, and takes nothing from write_stdin. "+
			"Say where with offset, line or tail; otherwise it begins with the first byte. At most %d bytes are returned, or %d lines that match a pattern.", mostRead, mostMatches)},
		parameters: []parameter{
			sessionID,
			{name: argOffset, kind: whole, about: "The first byte to read, counted from the start of the process."},
			{name: argLength, kind: whole, about: fmt.Sprintf("How many bytes to read, or to search. Default: %d, or everything with a pattern.", defaultRead)},
			{name: argTail, kind: whole, about: "Read the last bytes, this many, instead. Not with offset."},
			{name: argLine, kind: whole, about: "The first line to read, counted from 1, instead of an offset."},
			{name: argPattern, kind: text, about: "Return only lines that match this regular expression (RE2), with their offsets."},
			{name: argBefore, kind: whole, about: fmt.Sprintf("With a pattern: how many lines to return before each match, up to %d.", messages.MaxGrepContext)},
			{name: argAfter, kind: whole, about: "With a pattern: how many lines to return after each match."},
			viewed(options.Session),
		},
		output: closed(map[string]any{
			"session_id": number, "offset": number, "next_offset": number, "total_bytes": number, "missed_bytes": number,
			"ended": map[string]any{"type": "boolean"}, "output": line,
			"matches": map[string]any{"type": "array", "items": closed(map[string]any{"offset": number, "number": number, "line": line,
				"around": map[string]any{"type": "boolean"}}, "offset", "line")},
		}, "session_id", "offset", "next_offset", "total_bytes", "ended", "output"),
		run: runRead}
}

func runRead(ctx context.Context, s *Set, _ messages.CallID, a arguments) Answer {
	begins := 0
	for _, name := range []string{argOffset, argTail, argLine} {
		if a.has(name) {
			begins++
		}
	}
	pattern := a.text(argPattern)
	switch {
	case begins > 1 && a.has(argTail):
		return misread(wrong("read_output", argTail, "it cannot be combined with offset or line; leave one of them out"))
	case begins > 1:
		return misread(wrong("read_output", argLine, "it cannot be combined with offset; leave one of them out"))
	case a.has(argLine) && a.number(argLine) == 0:
		return misread(wrong("read_output", argLine, "there is no line 0; lines are counted from 1"))
	case pattern != "" && a.view() == messages.ViewScreen:
		return misread(wrong("read_output", argView, "a search has no screen; use text or raw, or leave the pattern out"))
	case pattern != "":
		if _, err := regexp.Compile(pattern); err != nil {
			return misread(wrong("read_output", argPattern, err.Error()))
		}
		return s.search(ctx, a, pattern)
	}
	length := defaultRead
	switch {
	case a.has(argLength):
		length = a.number(argLength)
	case a.has(argTail):
		length = a.number(argTail)
	}
	read := a.begin()
	read.Max = max(min(length, mostRead), 1)
	if read.View = s.view(a); read.View == "" {
		read.View = messages.ViewRaw
	}
	page, err := s.session.Read(ctx, read)
	if err != nil {
		return failure("read_output", err)
	}
	return reading(page, read, length, a.notes)
}

// view is the form of output that a call asks for, or that of the session.
func (s *Set) view(a arguments) messages.View { return cmp.Or(a.view(), s.options.Session.View) }

// begin says where a read begins.
func (a arguments) begin() messages.ReadOutput {
	read := messages.ReadOutput{Process: a.process(), SkipLost: true}
	switch {
	case a.has(argTail):
		read.Tail = max(a.number(argTail), 1)
	case a.has(argLine):
		read.Line = new(int64(a.number(argLine)))
	default:
		read.Offset = new(int64(a.number(argOffset)))
	}
	return read
}

// reading is the answer with the content of a page, which has a view.
func reading(page *messages.OutputPage, read messages.ReadOutput, length int, notes []string) Answer {
	var output []byte
	for _, chunk := range page.Chunks {
		output = append(output, chunk.Bytes...)
	}
	if length == 0 { // only what there is to know about the output
		output = nil
	}
	from := begin(page, read.Offset)
	r := Reading{SessionID: int(read.Process), Offset: from, NextOffset: from + int64(len(output)), TotalBytes: page.Total, MissedBytes: page.Missed,
		Ended: page.Ended, Notes: notes}
	b := r.heading("before them")
	r.Output = strings.ToValidUTF8(string(output), "\uFFFD")
	if page.Shown != nil && length > 0 {
		r.Output = page.Shown.Text
		if page.Shown.View == messages.ViewScreen {
			b.WriteString("\nThe screen behind them:")
		}
	}
	fmt.Fprintf(b, "\nOutput:\n%s", r.Output)
	return Answer{Text: b.String(), Structured: r}
}

// heading says which bytes it is about, and how many are missing where.
func (r *Reading) heading(where string) *strings.Builder {
	b := &strings.Builder{}
	fmt.Fprintf(b, "Bytes %d to %d of %d", r.Offset, r.NextOffset, r.TotalBytes)
	if r.Ended {
		b.WriteString(", and nothing will follow")
	}
	if r.MissedBytes > 0 {
		fmt.Fprintf(b, "\n%d bytes %s are not kept any more", r.MissedBytes, where)
	}
	return b
}

// search answers with the lines that match a pattern.
func (s *Set) search(ctx context.Context, a arguments, pattern string) Answer {
	read := a.begin()
	read.Max = mostRead
	read.Grep = &messages.Grep{Pattern: pattern, Before: a.number(argBefore), After: a.number(argAfter), Matches: mostMatches, Bytes: int64(a.number(argLength))}
	if s.view(a) != "" && s.view(a) != messages.ViewRaw {
		read.View = messages.ViewText
	}
	page, err := s.session.Read(ctx, read)
	if err != nil {
		return failure("read_output", err)
	}
	r := Reading{SessionID: int(read.Process), NextOffset: page.Next, TotalBytes: page.Total, MissedBytes: page.Missed, Ended: page.Ended, Notes: a.notes}
	end := page.Total
	switch {
	case read.Offset != nil:
		r.Offset = min(*read.Offset, page.Next)
	case read.Tail > 0:
		r.Offset = max(page.Total-int64(read.Tail), 0)
	case len(page.Lines) > 0:
		r.Offset = page.Lines[0].Offset
	}
	if read.Offset != nil && a.has(argLength) {
		end = min(end, *read.Offset+read.Grep.Bytes)
	}
	matches := 0
	var lines strings.Builder
	for _, line := range page.Lines {
		shown, mark := strings.ToValidUTF8(string(line.Bytes[:min(len(line.Bytes), maxLine)]), "\uFFFD"), '-'
		if line.Match {
			matches, mark = matches+1, ':'
		}
		fmt.Fprintf(&lines, "\n%d%c %s", line.Offset, mark, shown)
		r.Matches = append(r.Matches, Match{Offset: line.Offset, Number: line.Number, Line: shown, Around: !line.Match})
	}
	b := r.heading("of them")
	fmt.Fprintf(b, "\nMatching lines: %d", matches)
	if page.Next < end {
		fmt.Fprintf(b, " (there may be more from offset %d on)", page.Next)
	}
	b.WriteString(lines.String())
	return Answer{Text: b.String(), Structured: r}
}

// maxLine bounds how much of a matching line is returned, in bytes.
const maxLine = 2000

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
