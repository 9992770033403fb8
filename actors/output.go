package actors

import (
	"bytes"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// output is what a process has said: the log, which numbers it, and the part that no answer has taken yet. It belongs to the
// process's actor, and to the supervisor after the end.
type output struct {
	log    *ptyio.OutputLog
	unread *ptyio.HeadTailBuffer
}

func newOutput() output {
	return output{unread: ptyio.NewHeadTailBuffer(ptyio.DefaultBufferSize), log: ptyio.NewOutputLog(ptyio.Position{})}
}

// take fills the output part of a result with the output since the last one. Where more may come, the beginning of a
// character stays for the next. One before an omission does not: its end is lost, and it would come out of order.
func (o *output) take(r *messages.Result, more bool) {
	taken := o.unread.Drain()
	r.Output, r.Omitted = taken.Bytes(), taken.Omitted()
	if r.Omitted > 0 {
		r.Head = taken.Head()
	}
	if n := ptyio.Unfinished(r.Output[r.Head:]); more && n > 0 {
		o.unread.Push(bytes.Clone(r.Output[len(r.Output)-n:]))
		r.Output = r.Output[:len(r.Output)-n]
	}
}

// ended is the event of the end.
func (o *output) ended(origin messages.Origin, record *messages.EndRecord) messages.ExecEnded {
	return messages.ExecEnded{Origin: origin, EndRecord: *record, Total: o.log.Total(),
		Transcript: o.log.Transcript(ptyio.DefaultBufferSize)}
}

// weight is how much memory is held.
func (o *output) weight() int64 { return o.unread.Memory() + o.log.Memory() }
