package output

import (
	"cmp"
	"context"
	"slices"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// Spools makes the files that have what logs drop, and searches output. Its methods, and those of its files, are safe for concurrent use.
type Spools interface {
	// Keeps reports whether files are written at all; they can be read in any case.
	Keeps() bool
	// New is the file of one process. It does not block, and takes nothing before the first Write.
	New() SpoolFile
}

// SpoolFile has output of one process. Only Ranges, End and Close do not block.
type SpoolFile interface {
	// Write adds chunks that follow each other; lines is the number of newlines before them. One goroutine at a time calls it.
	Write(chunks []messages.OutputChunk, lines int64) error
	// Ranges is what can be read.
	Ranges() []messages.OutputRange
	// Read answers a read by offset or by chunk from the file, and one by line, or a Grep, also from what memory has.
	Read(ctx context.Context, m messages.ReadOutput, memory Memory) (Found, error)
	// End says that nothing is written any more, and Close gives up the file.
	End()
	Close()
}

// Memory is a copy of what the log has, and what is known of all output.
type Memory struct {
	Extents []Extent // in their order
	Total   int64
	Lines   int64 // newlines in all output
	Ended   bool
}

// Extent is output without a gap.
type Extent struct {
	First int64
	Bytes []byte
}

// Found is what a SpoolFile answers: a page without what only the log knows, or where the reader goes on.
type Found struct {
	Page *messages.OutputPage
	// At is an offset: where the line begins, or, for any other read, the same as before, because the file has not got it any more.
	At     int64
	Missed int64 // bytes that were skipped before At
}

// Lookup is a read that blocks. Its result is a *messages.OutputPage for Complete, an error, or a GoOn.
type Lookup func(context.Context) any

// GoOn is the result of a Lookup that knows now where to read.
type GoOn struct {
	Read   messages.ReadOutput
	Missed int64 // bytes that it has skipped
}

// SpoolFile is the file of the process, made when it is first needed; nil if there is none.
func (o *Output) SpoolFile() SpoolFile {
	if o.file == nil && o.Spools != nil {
		o.file = o.Spools.New()
	}
	return o.file
}

// ranges lists what can be read, in the log or in the file.
func (o *Output) ranges() []ptyio.Range {
	all := o.Log.Ranges()
	if o.file == nil {
		return all
	}
	for _, r := range o.file.Ranges() {
		all = append(all, ptyio.Range{First: r.First, End: r.End, FirstSeq: r.FirstSeq, EndSeq: r.EndSeq})
	}
	slices.SortFunc(all, func(a, b ptyio.Range) int { return cmp.Compare(a.First, b.First) })
	joined := all[:0]
	for _, r := range all {
		if n := len(joined); n == 0 || joined[n-1].End < r.First {
			joined = append(joined, r)
		} else if last := &joined[n-1]; last.End < r.End {
			last.End, last.EndSeq = r.End, r.EndSeq
		}
	}
	return joined
}

// lookup is a read from the file, or by line or pattern.
func (o *Output) lookup(m messages.ReadOutput, missed int64, ended bool) (any, Lookup) {
	file := o.SpoolFile()
	if file == nil {
		return &messages.Error{Code: messages.ErrInvalidRequest, Op: "read", Subject: m.Process.String(), Detail: "output cannot be searched here; read it by offset",
			Hint: "give the actors a Spools"}, nil
	}
	memory := Memory{Total: o.Log.Total(), Lines: o.Lines, Ended: ended}
	if m.Line != nil || m.Grep != nil {
		for _, r := range o.Log.Ranges() {
			memory.Extents = append(memory.Extents, Extent{r.First, o.Log.Bytes(r.First, r.End)})
		}
	}
	return nil, func(ctx context.Context) any {
		found, err := file.Read(ctx, m, memory)
		switch {
		case err != nil:
			return err
		case found.Page != nil:
			found.Page.Missed += missed
			return found.Page
		case m.Line != nil:
			m.Line, m.Offset = nil, &found.At
		}
		return GoOn{m, missed + found.Missed}
	}
}

// Complete adds what only the log knows to a page.
func (o *Output) Complete(page *messages.OutputPage, ended bool) {
	page.Total, page.LastSeq, page.Ended, page.Sizes = o.Log.Total(), o.Log.LastSeq(), ended, o.sizes
	for _, r := range o.ranges() {
		page.Retained = append(page.Retained, messages.OutputRange{First: r.First, End: r.End, FirstSeq: r.FirstSeq, EndSeq: r.EndSeq})
	}
}

// keeps reports whether all bytes between two offsets can be read.
func (o *Output) keeps(from, to int64) bool {
	return slices.ContainsFunc(o.ranges(), func(r ptyio.Range) bool { return r.First <= from && to <= r.End })
}

// End says that no more output comes.
func (o *Output) End() {
	if o.file != nil {
		o.file.End()
	}
}

// Close gives up the file.
func (o *Output) Close() {
	if o.file != nil {
		o.file.Close()
	}
}
