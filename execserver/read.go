package execserver

import (
	"context"
	"math"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
)

// longestWait bounds the wait of a process/read.
const longestWait = 24 * time.Hour

func millis(n *uint64, unsaid time.Duration) time.Duration {
	if n == nil {
		return unsaid
	}
	return time.Duration(min(*n, uint64(longestWait/time.Millisecond))) * time.Millisecond
}

// read returns output, and can wait for something to happen.
func read(c *connection, params wire.ReadParams) (later, error) {
	p := c.session.find(params.ProcessID)
	if p == nil {
		return nil, errUnknown(params.ProcessID)
	}
	after := uint64(0)
	if params.AfterSeq != nil {
		after = *params.AfterSeq
	}
	return func(ctx context.Context) (any, error) {
		if err := p.await(ctx, after, millis(params.WaitMs, 0)); err != nil {
			return nil, err
		}
		return func() any { return p.read(after, params.MaxBytes) }, nil
	}, nil
}

// await returns when there is news for a client that knows the events up to a number, or when the patience is over.
func (p *process) await(ctx context.Context, after uint64, patience time.Duration) error {
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		return errStarting(p.id)
	}
	for !p.tells(after) {
		if p.wait(wait) != nil {
			return ctx.Err() // nil if only the patience is over
		}
	}
	return nil
}

// tells reports whether there is output after a number, or an end that is news to the client.
func (p *process) tells(after uint64) bool {
	return p.past.behind(after) < len(p.past.chunks) || p.closed || p.exited != nil && after < p.exitSeq
}

func (p *process) read(after uint64, room *uint64) wire.ReadResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	result := wire.ReadResult{Chunks: []wire.ReadChunk{}, NextSeq: p.past.now.seq + 1, Exited: p.exited != nil, Closed: p.closed}
	if p.exited != nil {
		result.ExitCode = &p.exited.ExitCode
		result.SandboxDenied = p.exited.SandboxDenied != nil && *p.exited.SandboxDenied
	}
	limit := uint64(math.MaxUint64)
	if room != nil {
		limit = *room
	}
	for _, e := range p.past.output(after, limit) {
		result.Chunks = append(result.Chunks, wire.ReadChunk{Seq: e.seq, Stream: e.stream, Chunk: e.bytes})
	}
	if n := len(result.Chunks); n > 0 && room != nil {
		result.NextSeq = result.Chunks[n-1].Seq + 1
	}
	return result
}
