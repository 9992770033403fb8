package output

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// Output is what a process has said: the log, which numbers it, and the part that no answer has taken yet. It belongs to the
// process's actor, and to the supervisor after the end.
type Output struct {
	Log    *ptyio.OutputLog
	Unread *ptyio.HeadTailBuffer
	Lines  int64  // newlines in all output
	Spools Spools // makes the file; nil for none
	file   SpoolFile
	sizes  messages.TerminalSizes
}

// Resize notes that the terminal gets another size behind the output so far.
func (o *Output) Resize(before, now messages.Size) {
	o.sizes = o.sizes.Changed(o.Log.Total(), before, now)
}

func New() Output {
	return Output{Unread: ptyio.NewHeadTailBuffer(ptyio.DefaultBufferSize), Log: ptyio.NewOutputLog(ptyio.Position{})}
}

// Take fills the output part of a result with the output since the last one. Where more may come, the beginning of a
// character stays for the next. One before an omission does not: its end is lost, and it would come out of order.
func (o *Output) Take(r *messages.Result, more bool) {
	r.Offset = o.Log.Total() - o.Unread.Total()
	taken := o.Unread.Drain()
	r.Output, r.Omitted = taken.Bytes(), taken.Omitted()
	if r.Omitted > 0 {
		r.Head = taken.Head()
		r.OmittedAt = r.Offset + int64(r.Head)
		r.OmittedKept = o.keeps(r.OmittedAt, r.OmittedAt+r.Omitted)
	}
	if n := ptyio.Unfinished(r.Output[r.Head:]); more && n > 0 {
		o.Unread.Push(bytes.Clone(r.Output[len(r.Output)-n:]))
		r.Output = r.Output[:len(r.Output)-n]
	}
}

// ExecEnded is the event of the end.
func (o *Output) ExecEnded(origin messages.Origin, record *messages.EndRecord) messages.ExecEnded {
	return messages.ExecEnded{Origin: origin, EndRecord: *record, Total: o.Log.Total(),
		Transcript: o.Log.Transcript(ptyio.DefaultBufferSize)}
}

// Memory is how much memory is held.
func (o *Output) Memory() int64 { return o.Unread.Memory() + o.Log.Memory() }

// ChunkID is six random hexadecimal digits.
func ChunkID() string { return fmt.Sprintf("%06x", rand.IntN(1<<24)) }
