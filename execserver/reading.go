package execserver

import (
	"context"
	"fmt"
	"slices"

	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/spool"
)

// maxSearches bounds the searches at once of all people who look: each has a copy of a record, of up to wire.FlowBytes.
const maxSearches = 4

// Read reads output that the server keeps, in its memory or in a file: from an Offset, with a Tail, or the lines of a Grep. It can Wait and
// SkipLost; it has no views, and no lines by their numbers.
func (s Session) Read(ctx context.Context, m messages.ReadOutput) (*messages.OutputPage, error) {
	if m.Offset == nil && m.Tail <= 0 && m.Grep == nil || m.AfterSeq != nil || m.Line != nil || m.View != "" {
		return nil, &messages.Error{Code: messages.ErrUnsupported, Op: "read", Subject: m.Process.String(),
			Detail: "a server has raw bytes, by their offset; read from an offset, or so many bytes before the end, or search", Hint: "set one of Offset, Tail and Grep"}
	}
	if err := m.Check(); err != nil {
		return nil, err
	}
	p, err := s.find("read", m.Process)
	if err != nil {
		return nil, err
	}
	if m.Grep != nil {
		if take(ctx, s.of.server.searches) != nil {
			return nil, errReadCancelled(m)
		}
		defer func() { <-s.of.server.searches }()
		return p.search(ctx, m)
	}
	return p.readOrWait(ctx, m)
}

func errReadCancelled(m messages.ReadOutput) error {
	return &messages.Error{Code: messages.ErrCancelled, Op: "read", Subject: m.Process.String(), Detail: "the call was cancelled"}
}

// readOrWait answers a read of bytes from the record, or from the file where only that has them.
func (p *process) readOrWait(ctx context.Context, m messages.ReadOutput) (*messages.OutputPage, error) {
	wait, cancel := context.WithTimeout(ctx, min(m.Wait, messages.MaxReadWait))
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	for m.Offset != nil && *m.Offset == int64(p.past.now.bytes) && !p.silent && p.wait(wait) == nil {
	}
	for ctx.Err() == nil {
		from, missed, err := p.begins(m)
		if err != nil {
			return nil, err
		}
		page := &messages.OutputPage{}
		if from < p.dropped() {
			if page, err = p.lookUp(ctx, p.spooling.file, messages.ReadOutput{Process: m.Process, Offset: &from, Max: m.Most()}, p.memory()); err != nil {
				return nil, err
			}
			if page == nil { // the file has not got it any more
				continue
			}
		} else {
			page.Chunks = p.recorded(from, m.Most())
		}
		page.Missed = missed
		p.describe(page)
		return page, nil
	}
	return nil, errReadCancelled(m)
}

// search answers a Grep of all that is kept.
func (p *process) search(ctx context.Context, m messages.ReadOutput) (*messages.OutputPage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	file, memory := p.spooling.file, p.memory()
	if file == nil { // an empty one searches what the record has
		file = p.session.server.output.New()
	}
	known := spool.Extent{First: p.dropped(), Bytes: make([]byte, 0, p.past.kept)}
	for _, e := range p.past.entries {
		known.Bytes = append(known.Bytes, e.bytes...)
	}
	memory.Extents = []spool.Extent{known}
	page, err := p.lookUp(ctx, file, m, memory)
	if err != nil {
		return nil, err
	}
	p.describe(page)
	return page, nil
}

// lookUp reads a file while the lock, which is held before and after, is not. It returns nil if the file does not have the bytes any more.
func (p *process) lookUp(ctx context.Context, file *spool.File, m messages.ReadOutput, memory spool.Memory) (*messages.OutputPage, error) {
	p.mu.Unlock()
	defer p.mu.Lock()
	found, err := hostcode.Call[spool.Found]{Who: "the disk", Do: func(ctx context.Context) (spool.Found, error) { return file.Read(ctx, m, memory) }}.Wait(ctx)
	if ctx.Err() != nil {
		return nil, errReadCancelled(m)
	}
	return found.Page, err
}

// The rest is called with the lock.

// dropped is how much of the output the record has dropped, or the offset of the first byte that it has.
func (p *process) dropped() int64 { return int64(p.past.now.bytes) - int64(p.past.kept) }

// memory is what is known of all output.
func (p *process) memory() spool.Memory {
	return spool.Memory{Total: int64(p.past.now.bytes), Lines: p.past.lines, Ended: p.silent}
}

// begins is where a read begins, and how many bytes it misses before that.
func (p *process) begins(m messages.ReadOutput) (from, missed int64, err error) {
	total, ranges := int64(p.past.now.bytes), p.ranges()
	from = total
	if m.Offset == nil {
		if len(ranges) > 0 {
			from = max(total-int64(min(m.Tail, m.Most())), ranges[len(ranges)-1].First)
		}
		return from, 0, nil
	}
	for _, r := range slices.Backward(ranges) {
		if *m.Offset < r.End {
			from = max(*m.Offset, r.First)
		}
	}
	if missed = from - *m.Offset; missed < 0 || missed > 0 && !m.SkipLost {
		detail := fmt.Sprintf("there is none yet, only %d bytes so far; read from an earlier one", total)
		if missed > 0 {
			detail = fmt.Sprintf("it is not kept; the next that is begins at %d", from)
		}
		return 0, 0, &messages.Error{Code: messages.ErrOutputUnretained, Op: "read output", Subject: fmt.Sprint("at offset ", *m.Offset), Detail: detail}
	}
	return from, missed, nil
}

// ranges lists what can be read, in the record or in the file.
func (p *process) ranges() (joined []messages.OutputRange) {
	var all []messages.OutputRange
	if p.spooling.file != nil {
		all = p.spooling.file.Ranges()
	}
	if first, total := p.dropped(), int64(p.past.now.bytes); first < total {
		all = append(all, messages.OutputRange{First: first, End: total, FirstSeq: p.past.first(), EndSeq: p.past.now.chunks + 1})
	}
	for _, r := range all { // the record's is the last one, and may overlap the others
		for len(joined) > 0 && r.First <= joined[len(joined)-1].End {
			last := joined[len(joined)-1]
			joined = joined[:len(joined)-1]
			if last.First < r.First {
				r.First, r.FirstSeq = last.First, last.FirstSeq
			}
		}
		joined = append(joined, r)
	}
	return joined
}

// recorded are the chunks of the record from an offset on that it has, up to a number of bytes.
func (p *process) recorded(from int64, room int) (chunks []messages.OutputChunk) {
	for _, e := range p.past.from(from) {
		chunk := messages.OutputChunk{Seq: e.chunks, Offset: int64(e.position.bytes) - int64(len(e.bytes)), Stream: messages.Stream(e.stream), Bytes: e.bytes}
		if skip := from - chunk.Offset; skip > 0 {
			chunk.Offset, chunk.Bytes = from, chunk.Bytes[skip:]
		}
		chunk.Bytes = chunk.Bytes[:min(len(chunk.Bytes), room)]
		if room -= len(chunk.Bytes); len(chunk.Bytes) == 0 {
			if e.method == "" {
				break
			}
			continue // a mark
		}
		chunks = append(chunks, chunk)
	}
	return chunks
}

// describe adds to a page what is known of all output.
func (p *process) describe(page *messages.OutputPage) {
	page.Total, page.LastSeq, page.Ended = int64(p.past.now.bytes), p.past.now.chunks, p.silent
	page.Sizes, page.Retained = p.sizes, p.ranges()
}
