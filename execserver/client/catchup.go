package client

import (
	"encoding/json"

	"github.com/execbus/execbus/execserver/internal/wire"
)

// caught takes the answer to a read that began with event due, at a time when seen was the highest known number. Events that the
// server no longer has are lost.
//
// A read lists only output. The numbers that are missing in it were chunks that have been dropped, the exit or the end.
func (f *feed) caught(text []byte, due, seen uint64) error {
	var page wire.ReadResult
	if err := json.Unmarshal(text, &page); err != nil {
		return violation("its answer to a read is malformed: %s", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if page.NextSeq < due || page.Closed && !page.Exited {
		return violation("its answer to a read says that event %d is next, after event %d", page.NextSeq, due-1)
	}
	at := due
	for _, chunk := range page.Chunks {
		if chunk.Seq < at || !known(chunk.Stream) {
			return violation("chunk %d of its answer to a read cannot follow event %d", chunk.Seq, at-1)
		}
		f.bridge(at, chunk.Seq, &page)
		at = chunk.Seq + 1
		if at > f.next { // otherwise its notification has come meanwhile
			f.next = at
			f.append(item{kind: output, stream: chunk.Stream, bytes: chunk.Chunk, next: at})
		}
	}
	end := page.NextSeq
	if page.Closed && end > at {
		end--
	}
	f.bridge(at, end, &page)
	f.tellExit(&page)
	if page.Closed && !f.closed {
		f.told[closed] = max(end, f.next)
		f.append(item{kind: closed, next: max(page.NextSeq, f.next)})
		f.closed = true
	}
	f.next = max(f.next, page.NextSeq)
	if err := f.settle(); err != nil {
		return err
	}
	if page.Failure != nil {
		f.fail(failed("follow process", "the server has lost it: "+clipped(*page.Failure)))
	}
	if f.next == due && seen >= due {
		return violation("it has sent events after %d, but its answer to a read does not have them", due)
	}
	return nil
}

// bridge accounts for the numbers from at up to, but not including, to. The page does not list them. The lock is held.
func (f *feed) bridge(at, to uint64, page *wire.ReadResult) {
	at = max(at, f.next)
	if to <= at {
		return
	}
	missing := int64(to - at)
	if page.Exited && !f.exited {
		f.tellExit(page)
		missing--
	} else if exit := f.told[exited]; exit >= at && exit < to {
		missing--
	}
	if missing > 0 { // each had one byte at least
		f.append(item{kind: gap, count: missing, next: to})
	}
	f.next = to
}

// tellExit adds the exit that a page reports. The caller holds the lock.
func (f *feed) tellExit(page *wire.ReadResult) {
	if !page.Exited || f.exited {
		return
	}
	e := exit{denied: page.SandboxDenied}
	if page.ExitCode != nil {
		e.code, e.known = *page.ExitCode, true
	}
	f.exited = true
	f.urgent = append(f.urgent, item{kind: exited, exit: e})
}

// settle goes back to notifications, unless the client has dropped some that the page does not cover. The lock is held.
func (f *feed) settle() error {
	if f.behind = f.skipped >= f.next; f.behind {
		return nil
	}
	for seq, it := range f.early {
		if it.next <= f.next {
			delete(f.early, seq)
			f.earlySize -= len(it.bytes)
		}
	}
	return f.advance()
}
