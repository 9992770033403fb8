package session

import (
	"github.com/execbus/execbus/actors/internal/output"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
)

// lookup is in place of the answer to a read about an ended process: a goroutine finds it.
type lookup struct {
	process messages.ProcessID
	run     output.Lookup
}

// lookedUp is its result.
type lookedUp struct {
	call    protocol.CallID
	process messages.ProcessID
	result  any
}

// read answers a read, or says what has to be looked up.
func (r *record) read(m messages.ReadOutput, missed int64) any {
	reply, run := r.output.Read(m, missed, true)
	if run != nil {
		return lookup{r.info.Process, run}
	}
	return reply
}

// look begins a lookup for a call.
func (v *supervisor) look(call protocol.CallID, l lookup) {
	c := v.calls.table[call]
	if c == nil {
		return // it was cancelled
	}
	sys, self := v.ctx.System(), v.ctx.Self()
	c.looks = shared.Look(l.run, func(result any) { sys.Send(self, lookedUp{call, l.process, result}) })
}

// lookedUp answers a call, or goes on with it.
func (v *supervisor) lookedUp(m lookedUp) {
	r := v.records.find(m.process)
	if r == nil { // it was forgotten meanwhile
		v.reply(m.call, unknownProcess(m.process))
		return
	}
	switch result := m.result.(type) {
	case output.GoOn:
		v.reply(m.call, r.read(result.Read, result.Missed))
	case *messages.OutputPage:
		r.output.Complete(result, true)
		v.reply(m.call, result)
	default:
		v.reply(m.call, result)
	}
}
