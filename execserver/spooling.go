package execserver

import (
	"context"
	"errors"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/spool"
)

// spooling writes the output of a process to its file before the record drops it. The record has all output of a process that prints
// little, and then nothing is written. A process waits for its disk as it waits for its client, and no other process does. The file counts
// only chunks; the numbers of marks are not among its own.
type spooling struct {
	file    *spool.File // nil: there is none
	off     bool        // nothing more is written
	writing bool
	written position // what comes before it is in the file
}

// A write begins when this much of the output is not in the file.
const (
	spoolBytes  = windowBytes / 2
	spoolChunks = windowChunks / 2
)

// maxMissed bounds the output that is read from a file for a client that wants all it has missed at once, in bytes. It has at most as many
// chunks as the record. In base64 an answer remains below the 16 MiB that common clients take.
const maxMissed = 8 << 20

// writes reports whether output is to be in the file before it is dropped.
func (s *spooling) writes() bool { return s.file != nil && !s.off }

// end says that no more comes: the file may give way to those of other processes.
func (s *spooling) end() {
	if s.file != nil {
		s.file.End()
	}
}

// close gives up the file without waiting.
func (s *spooling) close() {
	if s.file != nil {
		s.file.Close()
	}
}

// spool begins to write what is not in the file, if that is enough and no write is under way. It is called with the lock.
func (p *process) spool() {
	s, now := &p.spooling, p.past.now
	enough := now.bytes-s.written.bytes >= spoolBytes || now.chunks-s.written.chunks >= spoolChunks
	if !s.writes() || s.writing || p.discards || !enough {
		return
	}
	var batch []messages.OutputChunk
	for _, e := range p.past.after(s.written.seq) {
		if e.method == "" {
			batch = append(batch, messages.OutputChunk{Seq: e.chunks, Offset: int64(e.position.bytes) - int64(len(e.bytes)), Stream: e.stream, Bytes: e.bytes})
		}
	}
	if len(batch) == 0 || batch[0].Seq != s.written.chunks+1 { // of a child that takes no credits
		p.endSpool(errors.New("it came faster than it could be written"))
		return
	}
	s.writing = true
	bound, cancel := context.WithTimeout(context.Background(), p.session.server.options.patience.disk)
	hostcode.Call[struct{}]{Who: "the disk", Do: func(context.Context) (none struct{}, _ error) { return none, s.file.Write(batch, 0) }}.Go(bound,
		func(_ struct{}, err error) {
			cancel()
			p.spooled(now, err)
		})
}

// spooled goes on after a write of the output before a position.
func (p *process) spooled(written position, err error) {
	p.mu.Lock()
	p.spooling.writing = false
	if err != nil {
		p.endSpool(err)
	} else {
		p.spooling.written = written
		p.spool()
	}
	released := p.unpark()
	p.mu.Unlock()
	release(released)
}

// endSpool gives up writing, once. What was written can still be read. It is called with the lock.
func (p *process) endSpool(why error) {
	p.spooling.off = true
	if !errors.Is(why, messages.ErrClosed) { // otherwise the file is given up with the process
		hostcode.Run(func() {
			p.session.server.options.Logger.Warn("only the newest output of a process can be read later, because it is not written to a file any more",
				"process", p.id, "error", why)
		})
	}
}

// missed answers a read that asks for output which the record has dropped; nil if the file has more of it than can be answered at once. An
// answer with a room has output from the file alone, at most messages.MaxRead bytes, or from the record alone.
func (p *process) missed(ctx context.Context, after uint64, room *uint64) (*wire.ReadResult, error) {
	limit := uint64(messages.MaxRead)
	if room != nil {
		limit = min(limit, *room)
	}
	found, size := []wire.ReadChunk{}, 0
	var chunks []messages.OutputChunk
	for reads := 0; ; reads++ {
		p.mu.Lock()
		first, before := p.past.first(), len(found)
		for _, chunk := range chunks {
			if chunk.Seq < first { // the record has the others
				after, size = p.past.numberOf(chunk.Seq), size+len(chunk.Bytes)
				found = append(found, wire.ReadChunk{Seq: after, Stream: chunk.Stream, Chunk: chunk.Bytes})
			}
		}
		from, none := p.past.chunksUpTo(after)+1, reads > 0 && len(found) == before
		much := size > maxMissed || len(found) > wire.RetainedChunks
		if !much && (none || from >= first || room != nil && len(found) > 0) {
			defer p.mu.Unlock()
			result := p.pageAfter(found, after, room)
			return &result, nil
		}
		p.mu.Unlock()
		if much {
			return nil, nil
		}
		var err error
		if chunks, err = (hostcode.Call[[]messages.OutputChunk]{Who: "the disk", Do: func(ctx context.Context) ([]messages.OutputChunk, error) {
			return p.spooling.file.Chunks(ctx, from, int(limit))
		}}).Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// hasMissed reports whether the record has dropped output after a number that may be in the file.
func (p *process) hasMissed(after uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spooling.file != nil && p.past.chunksUpTo(after)+1 < p.past.first()
}
