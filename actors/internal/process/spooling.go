package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// spooling writes what the log may drop to the process's file: what comes behind the bytes that the log always keeps. So a command with
// little output costs no file. Little is written at a time, because the log has what waits. Once enough waits while a write is under way,
// the credits wait, too: a slow disk slows its own process.
type spooling struct {
	waiting []messages.OutputChunk
	size    int           // bytes that wait
	lines   int64         // newlines before them
	held    []*bus.Credit // of chunks that came when enough waited
	writing bool
	off     bool
}

// Bounds of what waits. With the write under way and the credits of a child that is less than the tail of its log, which therefore has
// everything that the file does not have yet.
const (
	spoolBatch    = 128 << 10
	spoolChunks   = 1024
	mostUnspooled = ptyio.LogTail / 2
	// SpoolPatience is how long one write may take; a disk that takes longer does not hold up the process.
	SpoolPatience = 2 * time.Second
)

// spool is a sink.
func (p *process) spool(chunk ptyio.Chunk, credits []*bus.Credit) {
	s := p.spooling
	if s.off || chunk.Offset+int64(len(chunk.Bytes)) <= p.output.Log.HeadEnd() {
		return
	}
	if n := len(s.waiting); n > 0 && s.waiting[n-1].Offset+int64(len(s.waiting[n-1].Bytes)) != chunk.Offset {
		s.waiting, s.size = nil, 0 // output was lost on its way; the log has dropped these, too
	}
	if len(s.waiting) == 0 {
		s.lines = p.output.Lines
	}
	s.waiting = append(s.waiting, messages.OutputChunk{Seq: chunk.Seq, Offset: chunk.Offset, Stream: chunk.Stream, Bytes: chunk.Bytes})
	s.size += len(chunk.Bytes)
	switch {
	case !s.enough():
	case !s.writing:
		p.writeSpool()
	case s.size > mostUnspooled || len(s.waiting) > ptyio.LogTailChunks/2: // of a child that takes no credits
		p.endSpool("it came faster than it could be written")
	default:
		for _, credit := range credits {
			if credit.Hold() {
				s.held = append(s.held, credit)
			}
		}
	}
}

func (s *spooling) enough() bool { return s.size >= spoolBatch || len(s.waiting) >= spoolChunks }

// spooled is the end of a write.
type spooled struct{ err error }

// writeSpool begins to write what waits.
func (p *process) writeSpool() {
	s, file := p.spooling, p.output.SpoolFile()
	batch, lines := s.waiting, s.lines
	s.waiting, s.size, s.writing = nil, 0, true
	sys, self := p.ctx.System(), p.ctx.Self()
	bound, cancel := context.WithTimeout(context.Background(), SpoolPatience)
	hostcode.Call[struct{}]{Who: "the disk", Do: func(context.Context) (none struct{}, _ error) { return none, file.Write(batch, lines) }}.Go(bound,
		func(_ struct{}, err error) {
			cancel()
			sys.Send(self, spooled{err})
		})
}

// spoolWritten goes on after a write.
func (p *process) spoolWritten(m spooled) {
	s := p.spooling
	if s == nil || s.off {
		return
	}
	s.writing = false
	if m.err != nil {
		p.endSpool(reasonOf(m.err))
		return
	}
	s.release()
	if s.enough() {
		p.writeSpool()
	}
}

func reasonOf(err error) string {
	if typed, is := errors.AsType[*messages.Error](err); is {
		return typed.Detail
	}
	return err.Error()
}

// release gives back the credits.
func (s *spooling) release() {
	for _, credit := range s.held {
		credit.Drop()
	}
	s.held = nil
}

// endSpool gives up writing, once. What was written can still be read.
func (p *process) endSpool(why string) {
	s, written := p.spooling, int64(0)
	for _, r := range p.output.SpoolFile().Ranges() {
		written = r.End
	}
	s.release()
	*s = spooling{off: true}
	p.Bus.Publish(messages.ExecNotice{Origin: p.origin(), Text: fmt.Sprintf(
		"only the newest output of process %d from offset %d on can be read later, because it is not written to a file any more: %s", p.id, max(written, p.output.Log.HeadEnd()), why)})
}

// leave gives back the credits at the end of the process.
func (s *spooling) leave() {
	if s != nil {
		s.release()
	}
}
