package spool

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"regexp/syntax"
	"time"

	"github.com/execbus/execbus/messages"
)

// search is one Grep under way.
type search struct {
	*source
	expression *regexp.Regexp
	finder     *finder
	grep       messages.Grep
	page       *messages.OutputPage
	room       int   // bytes that may still be answered
	matches    int   // lines that may still match
	shown      int64 // the end of the last line that was answered
	after      int   // lines that still follow a match
	// lines is the number of newlines before the offset counted, if that is known.
	counting       counting
	lines, counted int64
}

// find answers a Grep from an offset on.
func (s *source) find(ctx context.Context, from int64, m messages.ReadOutput) (*messages.OutputPage, error) {
	parsed, err := syntax.Parse(m.Grep.Pattern, syntax.Perl)
	if err != nil {
		return nil, err // it was checked before
	}
	g := *m.Grep
	g.Before, g.After = min(g.Before, messages.MaxGrepContext), min(g.After, messages.MaxGrepContext)
	if g.Matches == 0 || g.Matches > messages.MaxGrepMatches {
		g.Matches = messages.MaxGrepMatches
	}
	f := &search{source: s, expression: regexp.MustCompile(g.Pattern), finder: newFinder(parsed), grep: g,
		page: &messages.OutputPage{}, room: m.Most(), matches: g.Matches}
	to := s.memory.Total
	if g.Bytes > 0 && g.Bytes < to-from {
		to = from + g.Bytes
	}
	if from == 0 {
		f.counting = counted
	}
	return f.page, f.run(ctx, from, to)
}

// run searches the output between two offsets, run of lines by run of lines.
func (f *search) run(ctx context.Context, from, to int64) error {
	buffer, deadline := make([]byte, 2*messages.MaxGrepLine), time.Now().Add(messages.MaxGrepTime)
	kept := 0 // bytes at the beginning of the buffer that wait for the end of their line
	for at := from; ; {
		n, begins, err := f.more(ctx, buffer[kept:], at, to)
		if err != nil {
			return err
		}
		last, gap := n == 0, begins != at
		text := buffer[:kept+n]
		end := bytes.LastIndexByte(text, '\n') + 1
		switch {
		case gap || last:
			text = buffer[:kept]
			end = kept
		case len(text)-end >= messages.MaxGrepLine:
			end += messages.MaxGrepLine
		}
		first := at - int64(kept)
		if stopped, next, err := f.compare(ctx, first, text[:end]); stopped || err != nil {
			f.page.Next = next
			return err
		}
		f.page.Missed += begins - at
		if last {
			f.page.Next = to
			if !f.memory.Ended && to == f.memory.Total && !gap && f.shown < to { // the line may go on
				f.page.Next = first + int64(bytes.LastIndexByte(text, '\n')+1)
			}
			return nil
		}
		if gap {
			f.counting, f.after = notCounted, 0
			text, end = buffer[kept:kept+n], 0
		}
		kept = copy(buffer, text[end:])
		if at = begins + int64(n); time.Now().After(deadline) {
			f.page.Next = at - int64(kept)
			return nil
		}
	}
}

// more reads what is there between two offsets: nothing at the end, which then begins at to.
func (f *search) more(ctx context.Context, p []byte, at, to int64) (n int, begins int64, err error) {
	if at >= to {
		return 0, to, nil
	}
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	n, begins, err = f.read(p[:min(int64(len(p)), blockSize, to-at)], at)
	if errors.Is(err, io.EOF) || err == nil && begins >= to {
		return 0, to, nil
	}
	return int(min(int64(n), to-begins)), begins, err
}

// compare compares the lines of a text. It stops where the answer has room for no other one, and says where that is.
func (f *search) compare(ctx context.Context, first int64, text []byte) (stopped bool, next int64, err error) {
	f.finder.begin(text)
	for pos := 0; pos < len(text); {
		hit := f.finder.find(text, pos)
		begin := pos
		if f.after == 0 {
			if hit == len(text) {
				break
			}
			begin += bytes.LastIndexByte(text[pos:hit], '\n') + 1
			begin += (hit - begin) / messages.MaxGrepLine * messages.MaxGrepLine
		}
		line, behind := lineAt(text, begin)
		offset := first + int64(begin)
		switch {
		case hit < behind && f.expression.Match(line):
			fits, err := f.found(ctx, offset, line, first, text)
			if err != nil || !fits {
				return !fits, offset, err
			}
			f.matches, f.after = f.matches-1, f.grep.After
			f.shown = first + int64(behind)
		case f.after > 0:
			f.after--
			if f.show(offset, f.number(ctx, offset, first, text), line, false) {
				f.shown = first + int64(behind)
			}
		}
		pos = behind
	}
	if f.counting == counted {
		f.lines, f.counted = f.lines+newlines(text[f.counted-first:]), first+int64(len(text))
	}
	return false, 0, nil
}

// lineAt is the line that begins at a place, without its end, and where the next one begins.
func lineAt(text []byte, begin int) (line []byte, next int) {
	line, next = text[begin:], len(text)
	if end := bytes.IndexByte(line, '\n'); end >= 0 {
		line, next = line[:end], begin+end+1
	}
	if len(line) > messages.MaxGrepLine {
		return line[:messages.MaxGrepLine], begin + messages.MaxGrepLine
	}
	return bytes.TrimSuffix(line, []byte{'\r'}), next
}

// found answers a line that matches, and those before it. It reports false if there is no room.
func (f *search) found(ctx context.Context, offset int64, line []byte, first int64, text []byte) (bool, error) {
	if f.matches == 0 {
		return false, nil
	}
	number := f.number(ctx, offset, first, text)
	before, err := f.before(ctx, offset)
	if err != nil {
		return false, err
	}
	need := weigh(line)
	for _, one := range before {
		need += weigh(one.Bytes)
	}
	for len(f.page.Lines) == 0 && need > f.room && len(before) > 0 {
		need, before = need-weigh(before[0].Bytes), before[1:]
	}
	if need > f.room && len(f.page.Lines) > 0 {
		return false, nil
	}
	for i, one := range before {
		n := int64(0)
		if number > 0 {
			n = number - int64(len(before)-i)
		}
		f.show(one.Offset, n, one.Bytes, false)
	}
	f.room = max(f.room, weigh(line)) // the first one is answered in any case
	return f.show(offset, number, line, true), nil
}

// weigh is how much of the room of an answer a line takes.
func weigh(line []byte) int { return min(len(line), messages.MaxGrepShown) + 32 }

// show adds a line to the answer. It reports false if there is no room.
func (f *search) show(offset, number int64, line []byte, match bool) bool {
	if f.room -= weigh(line); f.room < 0 {
		f.room, f.after = 0, 0
		return false
	}
	n := min(len(line), messages.MaxGrepShown)
	f.page.Lines = append(f.page.Lines, messages.OutputLine{Offset: offset, Number: number, Match: match, Bytes: bytes.Clone(line[:n]), Cut: int64(len(line) - n)})
	return true
}

// maxBefore bounds the bytes that are read for the lines before a match.
const maxBefore = 64 << 10

// before reads the lines before a match that were not answered.
func (f *search) before(ctx context.Context, offset int64) (lines []messages.OutputLine, err error) {
	if f.grep.Before == 0 || offset <= f.shown {
		return nil, nil
	}
	at, err := f.back(ctx, offset, int64(f.grep.Before), maxBefore)
	if err != nil {
		return nil, err
	}
	at = max(at, f.shown)
	var text []byte
	whole, err := f.blocks(ctx, at, offset, func(_ int64, block []byte) bool {
		text = append(text, block...)
		return true
	})
	if err != nil || !whole {
		return nil, err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // a search may begin inside of a line
	for pos := 0; pos < len(text); {
		line, next := lineAt(text, pos)
		lines = append(lines, messages.OutputLine{Offset: at + int64(pos), Bytes: line})
		pos = next
	}
	return lines, nil
}

// counting says what is known about the number of newlines before a place.
type counting int

const (
	notCounted counting = iota
	counted
	unknown
)

// number is the number of the line that begins at an offset in a text; 0 if that is not known.
func (f *search) number(ctx context.Context, offset, first int64, text []byte) int64 {
	switch f.counting {
	case notCounted:
		lines, known := f.linesBefore(ctx, offset)
		if f.counting = unknown; !known {
			return 0
		}
		f.counting, f.lines, f.counted = counted, lines, offset
	case unknown:
		return 0
	default:
		f.lines, f.counted = f.lines+newlines(text[f.counted-first:offset-first]), offset
	}
	return f.lines + 1
}
