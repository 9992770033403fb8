package session

import (
	"time"

	"github.com/execbus/execbus/actors/internal/output"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
)

// Bounds of the memory of a session for ended processes. The first bound that is reached drops the oldest process.
const (
	maxRecords     = 64
	maxRecordBytes = 16 << 20 // of memory for their output
	recordAge      = 10 * time.Minute
)

// records are the ended processes of a session, the oldest first.
type records struct {
	all    []*record
	bytes  int64
	expiry *system.Timer
}

// record is an ended process. Its id stays reserved.
type record struct {
	info   messages.ProcessInfo
	output output.Output
	told   bool                    // a caller was told of the exit
	news   []messages.InputOutcome // of writes that no answer has reported
	weight int64
	at     time.Time
	exited time.Time // when its leader exited; zero if it never ran, or its actor has crashed
}

func (r *records) find(id messages.ProcessID) *record {
	for _, one := range r.all {
		if one.info.Process == id {
			return one
		}
	}
	return nil
}

func (r *records) dropOldest() {
	r.bytes -= r.all[0].weight
	r.all[0] = nil
	r.all = r.all[1:]
}

// add adds a record and drops the oldest while a bound is exceeded.
func (r *records) add(added *record) {
	added.at, added.weight = time.Now(), added.output.Memory()
	if added.exited.IsZero() {
		added.exited = added.at
	}
	r.all = append(r.all, added)
	r.bytes += added.weight
	for len(r.all) > maxRecords || r.bytes > maxRecordBytes {
		r.dropOldest()
	}
}

// trim drops the oldest records until at most left bytes remain.
func (r *records) trim(left int64) {
	for len(r.all) > 0 && r.bytes > left {
		r.dropOldest()
	}
}

// remember keeps an ended process.
func (v *supervisor) remember(added *record) {
	r := &v.records
	r.add(added)
	if r.expiry == nil {
		r.expiry = v.ctx.After(recordAge, expireRecords{})
	}
	v.weighRecords()
}

// weighRecords tells the runtime's actor, which bounds the memory of all sessions, how much this session remembers.
func (v *supervisor) weighRecords() {
	v.ctx.Request(v.runtime, protocol.Weighed{Bytes: v.records.bytes})
}

// trimRecords drops records because the runtime's bound is exceeded.
func (v *supervisor) trimRecords(left int64) {
	v.records.trim(left)
	v.weighRecords()
}

// expireRecords drops the records that are too old and sets the timer for the next.
func (v *supervisor) expireRecords() {
	r := &v.records
	r.expiry = nil
	for len(r.all) > 0 && time.Since(r.all[0].at) >= recordAge {
		r.dropOldest()
	}
	if len(r.all) > 0 {
		r.expiry = v.ctx.After(recordAge-time.Since(r.all[0].at), expireRecords{})
	}
	v.weighRecords()
}

// answerRecord answers a request to an ended process: its output can still be read, and the first call that waits for
// output gets the output that has not been taken.
func (v *supervisor) answerRecord(id messages.ProcessID, q protocol.Request) {
	answer := v.recordAnswer(id, q.Message)
	if q.Call != 0 {
		v.reply(q.Call, answer)
	} else if q.Asker != nil {
		q.Asker.Answer(answer)
	}
}

func (v *supervisor) recordAnswer(id messages.ProcessID, message any) any {
	switch m := message.(type) {
	case messages.ReadOutput:
		if r := v.records.find(id); r != nil {
			return r.output.Read(m, true)
		}
		return unknownProcess(id)
	case messages.Poll:
		return v.rest(id, v.settings.Budget(m.MaxOutputTokens, m.MaxOutputBytes), nil)
	case messages.WriteStdin:
		if m.UntilTaken || m.NoWait {
			return v.endedAnswer(id)
		}
		return v.rest(id, v.settings.Budget(m.MaxOutputTokens, m.MaxOutputBytes), &messages.Error{Code: messages.ErrClosed, Op: "write", Subject: id.String(),
			Detail: "the process had ended and took nothing"})
	case messages.AwaitExit: // for one process
		if r := v.records.find(id); r != nil {
			exit := &messages.Exit{Process: r.info.Process, Exited: true, At: r.exited, Status: r.info.End.Status}
			if exit.Status.Kind == messages.ExitNone {
				exit.Lost = r.info.End.String()
			}
			return exit
		}
		return unknownProcess(id)
	default:
		return v.endedAnswer(id)
	}
}

func (v *supervisor) endedAnswer(id messages.ProcessID) any {
	if r := v.records.find(id); r != nil {
		return protocol.EndedError(id, r.info.End)
	}
	return unknownProcess(id)
}

// lostOf says why there is no status.
func lostOf(end *messages.EndRecord) string {
	if end.Status.Kind == messages.ExitNone && end.Cause == messages.CauseRuntimeFailure {
		return end.Detail
	}
	return ""
}

// rest is the output of an ended process that has not been taken, if there is anything to report.
func (v *supervisor) rest(id messages.ProcessID, budget shared.Budget, inputErr *messages.Error) any {
	r := v.records.find(id)
	if r == nil {
		return unknownProcess(id)
	}
	end := r.info.End
	if r.told && r.output.Unread.Total() == 0 && len(r.news) == 0 {
		return protocol.EndedError(id, end)
	}
	result := &messages.Result{Process: id, Call: r.info.Call, Status: end.Status, ChunkID: output.ChunkID(), Lost: lostOf(end),
		MaxOutputTokens: budget.Tokens, MaxOutputBytes: budget.Bytes, Denial: end.Denial, InputErr: inputErr}
	if end.Cause == messages.CauseTerminated {
		result.Cause, result.By, result.Limit = end.Cause, end.By, end.Limit
	}
	result.EarlierInput, r.news = r.news, nil
	r.output.Take(result, false)
	r.told = true
	return result
}
