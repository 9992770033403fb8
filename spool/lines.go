package spool

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/execbus/execbus/messages"
)

// Found is the answer to a read: a page, or where a reader goes on in memory.
type Found struct {
	Page   *messages.OutputPage // without what only the log knows: Total, LastSeq, Retained and Ended; nil if it says where to go on
	At     int64
	Missed int64 // bytes that were skipped before At, or before the page
}

// missing is the error of a read that asks for output that is not kept.
func missing(what string) error {
	return &messages.Error{Code: messages.ErrOutputUnretained, Op: "read output", Subject: what,
		Detail: "it is not kept; let the read go on where output is kept again", Hint: "set SkipLost"}
}

// beyond is the error of a read that asks for a line that there is not.
func beyond(line, lines int64) error {
	return &messages.Error{Code: messages.ErrOutputUnretained, Op: "read output", Subject: fmt.Sprintf("line %d", line),
		Detail: fmt.Sprintf("there is none, only %d so far; read an earlier one", lines)}
}

// Read answers a read that needs the file, or a search: by what the file has, and by what memory has. It waits while too many others
// read. It blocks as long as the disk does; a context that ends ends it between two blocks.
func (f *File) Read(ctx context.Context, m messages.ReadOutput, memory Memory) (Found, error) {
	select {
	case f.store.reading <- struct{}{}:
		defer func() { <-f.store.reading }()
	case <-ctx.Done():
		return Found{}, ctx.Err()
	}
	s := f.source(memory)
	at, missed, err := s.begin(ctx, m)
	if err != nil {
		return Found{}, err
	}
	if m.Grep != nil {
		page, err := s.find(ctx, at, m)
		return Found{Page: page}, err
	}
	chunks, err := f.chunks(at, m.Most())
	if errors.Is(err, errGone) { // memory has it, or nobody
		return Found{At: at, Missed: missed}, nil
	}
	return Found{Page: &messages.OutputPage{Chunks: chunks, Missed: missed}}, err
}

// begin is where a read begins.
func (s *source) begin(ctx context.Context, m messages.ReadOutput) (at, missed int64, err error) {
	switch {
	case m.Offset != nil && *m.Offset > s.memory.Total:
		return 0, 0, &messages.Error{Code: messages.ErrOutputUnretained, Op: "read output", Subject: fmt.Sprintf("at offset %d", *m.Offset),
			Detail: fmt.Sprintf("there is none yet, only %d bytes so far; read from an earlier one", s.memory.Total)}
	case m.Offset != nil:
		return *m.Offset, 0, nil
	case m.AfterSeq != nil:
		at, err := s.file.offsetOf(*m.AfterSeq + 1)
		if errors.Is(err, errGone) {
			err = missing(fmt.Sprintf("the output after chunk %d", *m.AfterSeq))
		}
		return at, 0, err
	case m.Tail > 0:
		return max(s.memory.Total-int64(m.Tail), 0), 0, nil
	case m.Line != nil && *m.Line < 0:
		at, err := s.fromEnd(ctx, -*m.Line)
		return at, 0, err
	case m.Line != nil:
		return s.line(ctx, *m.Line, m.SkipLost)
	default:
		return 0, 0, nil
	}
}

// fromEnd is where one of the last lines begins.
func (s *source) fromEnd(ctx context.Context, n int64) (int64, error) {
	at, err := s.back(ctx, s.memory.Total, n, s.memory.Total)
	if errors.Is(err, io.EOF) {
		return s.memory.Total, nil
	}
	return at, err
}

// line is where a line begins. If that is not kept, it is where output is kept again, if skip says so.
func (s *source) line(ctx context.Context, n int64, skip bool) (at, missed int64, err error) {
	if n-1 > s.memory.Lines {
		return 0, 0, beyond(n, s.memory.Lines)
	}
	left := n - 1 // newlines before it
	for at = 0; left > 0; {
		var found int64 = -1
		next := at
		_, err := s.blocks(ctx, at, s.memory.Total, func(offset int64, block []byte) bool {
			if found = nth(block, left); found >= 0 {
				found += offset
				return false
			}
			left -= newlines(block)
			next = offset + int64(len(block))
			return true
		})
		switch {
		case found >= 0:
			return found + 1, 0, nil
		case err != nil && !errors.Is(err, io.EOF):
			return 0, 0, err
		}
		_, begins, err := s.read(make([]byte, 1), next)
		if errors.Is(err, io.EOF) {
			return 0, 0, missing(fmt.Sprintf("line %d", n))
		} else if err != nil {
			return 0, 0, err
		}
		lines, known := s.linesBefore(ctx, begins)
		if !known || lines >= n-1 { // it begins in the gap, or nobody knows
			if skip {
				return begins, begins - next, nil
			}
			return 0, 0, missing(fmt.Sprintf("line %d", n))
		}
		at, left = begins, n-1-lines
	}
	return at, 0, nil
}

// nth is the place of the nth newline; -1 if there are not so many.
func nth(block []byte, n int64) int64 {
	if newlines(block) < n {
		return -1
	}
	for i, c := range block {
		if c != '\n' {
			continue
		}
		if n--; n == 0 {
			return int64(i)
		}
	}
	return -1
}
