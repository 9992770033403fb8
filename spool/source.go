package spool

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"slices"
)

// Memory is the output that a process's log has: a copy of its bytes, and what is known of all output.
type Memory struct {
	Extents []Extent // in their order
	Total   int64    // of the output so far
	Lines   int64    // newlines in it
	Ended   bool     // no more will come
}

// Extent is output without a gap.
type Extent struct {
	First int64
	Bytes []byte
}

func (e Extent) end() int64 { return e.First + int64(len(e.Bytes)) }

// source is all output of a process that can be read: in its file, and in memory.
type source struct {
	file   *File
	memory Memory
	parts  []part
}

// part is output without a gap, from one place.
type part struct {
	first, end int64
	memory     []byte // nil: it is in the file
	lines      int64  // newlines in all output before the end; -1 if that is not known
}

// source joins what a file and what memory has. Where both have it, memory does.
func (f *File) source(m Memory) *source {
	s := &source{file: f, memory: m}
	for _, e := range m.Extents {
		p := part{first: e.First, end: e.end(), memory: e.Bytes, lines: -1}
		if p.end == m.Total {
			p.lines = m.Lines
		}
		s.parts = append(s.parts, p)
	}
	c, storage := f.now()
	if storage == nil {
		return s
	}
	for _, r := range c.ranges() {
		p := part{first: r.First, end: r.End, lines: -1}
		for _, e := range m.Extents {
			if e.First <= p.first && p.first < e.end() {
				p.first = min(e.end(), p.end)
			}
			if p.first < e.First && e.First < p.end {
				p.end = e.First // it ends where the output does that the file has
			}
		}
		if p.end == c.end() {
			p.lines = c.lines
		}
		if p.first < p.end {
			s.parts = append(s.parts, p)
		}
	}
	slices.SortFunc(s.parts, func(a, b part) int { return cmp.Compare(a.first, b.first) })
	return s
}

// read reads bytes from offset on, or from where output is kept again, and says where they begin. Behind the last byte it returns io.EOF.
func (s *source) read(p []byte, offset int64) (n int, at int64, err error) {
	for _, part := range s.parts {
		for at = max(offset, part.first); at < part.end; {
			if part.memory != nil {
				return copy(p, part.memory[at-part.first:]), at, nil
			}
			n, err := s.file.bytes(p[:min(int64(len(p)), part.end-at)], at)
			if !errors.Is(err, errGone) {
				return n, at, err
			}
			at = s.file.next(at)
		}
	}
	return 0, offset, io.EOF
}

// next is where a file has bytes again that has none at an offset.
func (f *File) next(offset int64) int64 {
	for _, r := range f.Ranges() {
		if offset < r.First {
			return r.First
		}
	}
	return math.MaxInt64
}

// blockSize is how much is read at once.
const blockSize = 256 << 10

// blocks passes on the output between two offsets, block by block, until use returns false or something is missing; whole says that
// nothing was.
func (s *source) blocks(ctx context.Context, from, to int64, use func(offset int64, block []byte) bool) (whole bool, err error) {
	for buffer := make([]byte, min(blockSize, max(to-from, 0))); from < to; {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, at, err := s.read(buffer[:min(int64(len(buffer)), to-from)], from)
		if err != nil || at != from {
			return false, err
		}
		if from += int64(n); !use(at, buffer[:n]) {
			break
		}
	}
	return true, nil
}

// count counts the newlines between two offsets; false if something is missing there.
func (s *source) count(ctx context.Context, from, to int64) (lines int64, known bool) {
	known, err := s.blocks(ctx, from, to, func(_ int64, block []byte) bool {
		lines += newlines(block)
		return true
	})
	return lines, known && err == nil
}

// follows reports whether nothing is missing between two offsets, as far as is known before it is read.
func (s *source) follows(from, to int64) bool {
	for _, p := range s.parts {
		if p.first <= from && from < p.end {
			from = p.end
		}
	}
	return from >= to
}

// linesBefore counts the newlines before an offset: from the first byte on, or, where something is missing before it, from a place where
// the count is known backwards.
func (s *source) linesBefore(ctx context.Context, offset int64) (lines int64, known bool) {
	if s.follows(0, offset) {
		return s.count(ctx, 0, offset)
	}
	for _, p := range s.parts {
		if p.end >= offset && p.lines >= 0 && s.follows(offset, p.end) {
			behind, known := s.count(ctx, offset, p.end)
			return p.lines - behind, known
		}
	}
	return 0, false
}

// back is the beginning of the nth line before an offset, at which a line begins or the output ends. It goes back no further than most
// bytes, and not to before something that is missing.
func (s *source) back(ctx context.Context, offset, n, most int64) (int64, error) {
	for end, least := offset, max(offset-most, 0); end > least; {
		begin := max(end-64<<10, least)
		block := make([]byte, 0, end-begin)
		for at := begin; at < end; {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			more, from, err := s.read(block[len(block):cap(block)], at)
			if err != nil {
				return 0, err
			}
			if from != at { // what comes before it is not kept
				begin, block, least = from, block[:0:max(end-from, 0)], from
				if at = from; from >= end {
					return end, nil
				}
				continue
			}
			block, at = block[:len(block)+more], at+int64(more)
		}
		for i := len(block) - 1; i >= 0; i-- {
			if block[i] != '\n' || begin+int64(i) == offset-1 {
				continue
			}
			if n--; n == 0 {
				return begin + int64(i) + 1, nil
			}
		}
		end = begin
		if end == least {
			return least, nil
		}
	}
	return offset, nil
}
