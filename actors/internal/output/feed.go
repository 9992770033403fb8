package output

import (
	"bytes"

	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// sink takes output under credit. It may hold the credits for as long as it needs the publisher to wait; the chunk is an
// immutable copy that all sinks share.
type sink func(chunk ptyio.Chunk, credits []*bus.Credit)

// Feed takes the output of a child. It cuts each batch into deltas, gives them their numbers, and hands them to every sink.
type Feed struct {
	Output
	sinks []sink // in this order
	// lost is told of output that was lost on its way, from one offset to another.
	lost func(first, end int64)
	// hold asks for a flush of a stream after ptyio.MaxHold, unless the function that it returns is called before.
	hold func(messages.Stream) (cancel func())

	// Both are nil until there is output.
	splitters map[messages.Stream]*ptyio.Splitter
	held      map[messages.Stream]heldBack
}

// heldBack is the beginning of a character that waits for its end, with the credit of the batch it came in.
type heldBack struct {
	cancel func()
	credit *bus.Credit
}

// NewFeed is the feed of a process that has said nothing.
func NewFeed(lost func(first, end int64), hold func(messages.Stream) func()) Feed {
	f := Feed{Output: New(), lost: lost, hold: hold}
	unread := f.Unread
	f.sinks = []sink{func(chunk ptyio.Chunk, _ []*bus.Credit) { unread.Push(chunk.Bytes) }}
	return f
}

var newline = []byte{'\n'}

// Add adds a sink behind those that there are.
func (f *Feed) Add(s sink) { f.sinks = append(f.sinks, s) }

// Receive takes a batch. Its credit goes back when every sink is done with it.
func (f *Feed) Receive(batch ptyio.Output) {
	if batch.At != nil {
		f.Skip(*batch.At)
	}
	credit := bus.NewCredit(batch.Release)
	emitted := false
	f.splitter(batch.Stream).Push(batch.Bytes, func(delta []byte) {
		f.emit(batch.Stream, bytes.Clone(delta), credit)
		emitted = true
	})
	if !f.holdBack(batch.Stream, emitted, credit) {
		credit.Release()
	}
}

// Skip notes output that was lost on its way here. Bytes that wait for the end of their character are not.
func (f *Feed) Skip(to ptyio.Position) {
	waiting := 0
	for _, s := range f.splitters {
		waiting += s.Pending()
	}
	if to.Offset <= f.Log.Total()+int64(waiting) {
		return
	}
	f.FlushAll()
	first := f.Log.Total()
	if lost := f.Log.Skip(to); lost > 0 {
		f.Unread.PushOmitted(lost)
		f.lost(first, first+lost)
	}
}

// emit gives a delta its number and offset and hands it to every sink. Its beginning may have come with an earlier batch.
func (f *Feed) emit(stream messages.Stream, delta []byte, credit *bus.Credit) {
	if len(delta) == 0 {
		return
	}
	credits := make([]*bus.Credit, 0, 2)
	if credit != nil {
		credits = append(credits, credit)
	}
	before, held := f.held[stream]
	if held {
		credits = append(credits, before.credit)
		delete(f.held, stream)
	}
	chunk := f.Log.Append(stream, delta)
	for _, take := range f.sinks {
		take(chunk, credits)
	}
	f.Lines += int64(bytes.Count(delta, newline))
	if held {
		before.cancel()
		before.credit.Release()
	}
}

// holdBack keeps the credit of a batch whose last bytes wait for the end of their character, and makes sure that they do
// not wait forever. A batch that is held as a whole neither prolongs the wait nor keeps a credit of its own.
func (f *Feed) holdBack(stream messages.Stream, emitted bool, credit *bus.Credit) bool {
	if _, held := f.held[stream]; f.splitters[stream].Pending() == 0 || held && !emitted {
		return false
	}
	if f.held == nil {
		f.held = map[messages.Stream]heldBack{}
	}
	f.held[stream] = heldBack{f.hold(stream), credit}
	return true
}

// Flush hands on the bytes of a stream that are held back.
func (f *Feed) Flush(stream messages.Stream) {
	if s := f.splitters[stream]; s != nil {
		f.emit(stream, s.Flush(), nil)
	}
}

// FlushAll hands on all bytes that are held back.
func (f *Feed) FlushAll() {
	for _, stream := range []messages.Stream{messages.StreamStdout, messages.StreamStderr, messages.StreamPTY} {
		f.Flush(stream)
	}
}

func (f *Feed) splitter(stream messages.Stream) *ptyio.Splitter {
	if f.splitters == nil {
		f.splitters = map[messages.Stream]*ptyio.Splitter{}
	}
	s := f.splitters[stream]
	if s == nil {
		s = &ptyio.Splitter{}
		f.splitters[stream] = s
	}
	return s
}
