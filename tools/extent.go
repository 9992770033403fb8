package tools

import (
	"bytes"
	"context"
	"regexp"
	"strings"

	"github.com/execbus/execbus/messages"
)

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
