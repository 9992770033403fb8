package session

import (
	"time"

	"github.com/execbus/execbus/actors/internal/output"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
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
	all   []*record
	bytes int64
	timed bool // recordsExpire comes
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
	r.all[0].output.Close()
	r.all[0] = nil
	r.all = r.all[1:]
}

// add adds a record and drops the oldest while a bound is exceeded.
func (r *records) add(added *record) []effect {
	added.at, added.weight = time.Now(), added.output.Memory()
	if added.exited.IsZero() {
		added.exited = added.at
	}
	added.output.End()
	r.all = append(r.all, added)
	r.bytes += added.weight
	for len(r.all) > maxRecords || r.bytes > maxRecordBytes {
		r.dropOldest()
	}
	return r.changed()
}

// trim drops the oldest records until at most left bytes remain.
func (r *records) trim(left int64) []effect {
	for len(r.all) > 0 && r.bytes > left {
		r.dropOldest()
	}
	return r.changed()
}

// expire drops the records that are too old.
func (r *records) expire() []effect {
	r.timed = false
	for len(r.all) > 0 && time.Since(r.all[0].at) >= recordAge {
		r.dropOldest()
	}
	return r.changed()
}

// changed tells the runtime's actor, which bounds the memory of all sessions, how much this session remembers.
func (r *records) changed() []effect {
	do := []effect{{message: protocol.Weighed{Bytes: r.bytes}}}
	if len(r.all) > 0 && !r.timed {
		r.timed = true
		do = append(do, effect{message: recordsExpire{}, after: recordAge - time.Since(r.all[0].at)})
	}
	return do
}

func unknownProcess(id messages.ProcessID) *messages.Error {
	return &messages.Error{Code: messages.ErrUnknownProcess, Op: "use process", Subject: id.String(),
		Detail: "there is no process with this id; list the processes of the session", Hint: "call Session.List"}
}

// answer answers a request to a process that is not listed.
func (r *records) answer(id messages.ProcessID, message any, settings *shared.Settings) any {
	if one := r.find(id); one != nil {
		return one.answer(message, settings)
	}
	if m, is := message.(protocol.Observe); is && m.Unreported { // it never began
		return protocol.Observed{Target: protocol.Target{Item: m.Item, Process: id}}
	}
	return unknownProcess(id)
}

// answer answers a request to an ended process: its output can still be read, and the first call that waits for output gets the output
// that has not been taken.
func (r *record) answer(message any, settings *shared.Settings) any {
	id, end := r.info.Process, r.info.End
	switch m := message.(type) {
	case messages.ReadOutput:
		return r.read(m, 0)
	case messages.Poll:
		return r.rest(settings.Budget(m.MaxOutputTokens, m.MaxOutputBytes), nil)
	case messages.WriteStdin:
		if !m.UntilTaken && !m.NoWait {
			return r.rest(settings.Budget(m.MaxOutputTokens, m.MaxOutputBytes), &messages.Error{Code: messages.ErrClosed, Op: "write", Subject: id.String(),
				Detail: "the process had ended and took nothing"})
		}
	case protocol.Observe:
		return r.observed(m)
	case protocol.ListExecutions:
		if end.Executions == nil {
			return &messages.Executions{Mode: messages.ExecutionsOff}
		}
		return end.Executions
	}
	return protocol.EndedError(id, end)
}

// observed answers a wait.
func (r *record) observed(m protocol.Observe) protocol.Observed {
	observed := protocol.Observed{Target: protocol.Target{Item: m.Item, Process: r.info.Process}}
	if m.Unreported && r.told {
		return observed
	}
	end := r.info.End
	observed.Wakeup = &messages.Wakeup{Item: m.Item, Process: r.info.Process, Call: r.info.Call, At: r.exited, Status: end.Status,
		Met: messages.Met{Reason: messages.MetExit, Offset: r.output.Log.Total()}}
	if end.Status.Kind == messages.ExitNone {
		observed.Wakeup.Lost = end.String()
	}
	return observed
}

// lostOf says why there is no status.
func lostOf(end *messages.EndRecord) string {
	if end.Status.Kind == messages.ExitNone && end.Cause == messages.CauseRuntimeFailure {
		return end.Detail
	}
	return ""
}

// rest is the output that has not been taken, if there is anything to report.
func (r *record) rest(budget shared.Budget, inputErr *messages.Error) any {
	id, end := r.info.Process, r.info.End
	if r.told && r.output.Unread.Total() == 0 && len(r.news) == 0 {
		return protocol.EndedError(id, end)
	}
	result := &messages.Result{Process: id, Call: r.info.Call, Status: end.Status, ChunkID: output.ChunkID(), Lost: lostOf(end),
		MaxOutputTokens: budget.Tokens, MaxOutputBytes: budget.Bytes, Denial: end.Denial, InputErr: inputErr}
	if !r.told {
		result.BlockedHosts = end.BlockedHosts
		if end.Executions != nil {
			result.RefusedExecutions = end.Executions.Refusals
		}
	}
	if end.Cause == messages.CauseTerminated {
		result.Cause, result.By, result.Limit = end.Cause, end.By, end.Limit
	}
	result.EarlierInput, r.news = r.news, nil
	r.output.Take(result, false)
	r.told = true
	return result
}
