package execbus

import (
	"context"
	"iter"
	"time"

	"github.com/execbus/execbus/messages"
)

// followPage bounds the output that Follow holds at a time, in bytes.
const followPage = 256 << 10

// Follow gives the output from an offset on: first the remembered output and then the new, without a hole between them and nothing
// twice. It ends after the last byte when no more can come, or with an error when ctx ends.
//
//	for event, err := range p.Follow(ctx, 0) {
//		switch e := event.(type) {
//		case messages.OutputDelta:
//			os.Stdout.Write(e.Bytes)
//		case messages.Gap:
//			fmt.Printf("[%s]\n", e)
//		}
//	}
//
// A messages.CaughtUp, once, ends the output that there was when Follow began: what comes before it is history, also where that is
// nothing.
//
// The other events are messages.OutputDelta and messages.Gap. No origin has a time. An offset may lie inside of an event that was
// published: the first event is then the rest of it. A loop that is slower than the process never slows it, and holds 256 KiB at
// most. Output that is forgotten meanwhile (see "Limits" in the package doc) becomes a Gap, whose count of events is an estimate.
//
// Follow takes no output from callers that poll. Any number of callers may follow a process, and it is in use meanwhile. Follow may
// begin after the end, as long as the session remembers the process. Errors: messages.ErrCancelled, ErrUnknownProcess, ErrClosed when
// the session was closed before everything was read, and ErrOutputUnretained for an offset behind the end.
func (p *Process) Follow(ctx context.Context, from int64) iter.Seq2[messages.Event, error] {
	return func(yield func(messages.Event, error) bool) {
		if p == nil {
			yield(nil, errNoSession)
			return
		}
		origin := messages.Origin{Session: p.session.id, Process: p.id, Call: p.call}
		at, seq, history, live := from, uint64(0), int64(-1), false
		caughtUp := func(at int64) bool {
			if live || at < history {
				return true
			}
			live = true
			return yield(messages.CaughtUp{Origin: origin, Offset: history}, nil)
		}
		var wait time.Duration // none for the first page, which tells how much there is
		for {
			page, err := p.session.Read(ctx, messages.ReadOutput{Process: p.id, Offset: &at, Max: followPage, Wait: wait, SkipLost: true})
			if err != nil {
				yield(nil, err)
				return
			}
			if wait == 0 {
				wait, history = messages.MaxReadWait, page.Total
			}
			if page.Missed > 0 {
				if !yield(gapOf(origin, at, seq, page), nil) {
					return
				}
				at += page.Missed
			}
			for _, c := range page.Chunks {
				if !caughtUp(c.Offset) || !yield(messages.OutputDelta{Origin: origin, Stream: c.Stream, Seq: c.Seq, Offset: c.Offset, Bytes: c.Bytes}, nil) {
					return
				}
				at, seq = c.Offset+int64(len(c.Bytes)), c.Seq
			}
			if !caughtUp(at) {
				return
			}
			if page.Ended && at >= page.Total {
				return
			}
		}
	}
}

// gapOf returns the gap for the forgotten output between an offset, just after chunk seq, and the first chunk of a page.
func gapOf(origin messages.Origin, at int64, seq uint64, page *messages.OutputPage) messages.Gap {
	next := page.LastSeq + 1
	if len(page.Chunks) > 0 {
		next = page.Chunks[0].Seq
	}
	return messages.Gap{Origin: origin, First: at, End: at + page.Missed, Deltas: int(max(next, seq+2) - seq - 1)}
}
