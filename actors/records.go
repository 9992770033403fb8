package actors

import (
	"time"

	"github.com/execbus/execbus/messages"
)

// Bounds of what a session remembers of ended processes. Whatever is reached first drops the oldest.
const (
	maxRecords     = 64
	maxRecordBytes = 16 << 20 // of output
	recordAge      = 10 * time.Minute
)

// record is an ended process. Its id stays reserved.
type record struct {
	info   messages.ProcessInfo
	output output
	told   bool // the exit was told to somebody
	weight int64
	at     time.Time
}

// expireRecords is a timer's message.
type expireRecords struct{}

// remember adds a record and drops what is too much.
func (v *supervisor) remember(r *record) {
	r.at, r.weight = time.Now(), r.output.weight()
	v.records = append(v.records, r)
	v.recordBytes += r.weight
	for len(v.records) > maxRecords || v.recordBytes > maxRecordBytes {
		v.forgetOldest()
	}
	if v.expiry == nil {
		v.expiry = v.ctx.After(recordAge, expireRecords{})
	}
}

func (v *supervisor) forgetOldest() {
	v.recordBytes -= v.records[0].weight
	v.records[0] = nil
	v.records = v.records[1:]
}

// expire drops the records that are too old and sets the timer for the next.
func (v *supervisor) expire() {
	v.expiry = nil
	for len(v.records) > 0 && time.Since(v.records[0].at) >= recordAge {
		v.forgetOldest()
	}
	if len(v.records) > 0 {
		v.expiry = v.ctx.After(recordAge-time.Since(v.records[0].at), expireRecords{})
	}
}

func (v *supervisor) record(id messages.ProcessID) *record {
	for _, r := range v.records {
		if r.info.Process == id {
			return r
		}
	}
	return nil
}

// answerRecord answers a request to an ended process: its output can still be read, and the first poll gets what nobody
// has taken.
func (v *supervisor) answerRecord(r *record, message any) {
	switch m := message.(type) {
	case messages.ReadOutput:
		v.ctx.Respond(r.output.read(m, true))
	case messages.Poll:
		if r.told && r.output.unread.Total() == 0 {
			v.ctx.Respond(endedError(r.info.Process, r.info.End))
			return
		}
		result := &messages.Result{Process: r.info.Process, Call: r.info.Call, Status: r.info.End.Status, ChunkID: chunkID(),
			MaxOutputTokens: v.settings.tokens(m.MaxOutputTokens)}
		r.output.take(result)
		r.told = true
		v.ctx.Respond(result)
	default:
		v.ctx.Respond(endedError(r.info.Process, r.info.End))
	}
}
