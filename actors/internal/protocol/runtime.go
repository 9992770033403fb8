package protocol

import "github.com/execbus/execbus/messages"

// From a session to the runtime's actor.
type (
	// TakeSlot is answered with SlotTaken.
	TakeSlot struct{ Process messages.ProcessID }
	// WithdrawSlot withdraws a TakeSlot that has not been answered.
	WithdrawSlot struct{ Process messages.ProcessID }
	// GiveSlot comes as a request, because the sender names the session whose slot it was; it is not answered.
	GiveSlot struct{}
	// Counted reports an end. It is a GiveSlot, too, if the process gives its slot back.
	Counted struct {
		Cause     messages.Cause
		Slot      bool
		Inherited bool // another process of the session starts with its slot
	}
	// Weighed reports how much memory the session's records take.
	Weighed struct{ Bytes int64 }
)

// SpawnerHangs is from a process to the runtime's actor: a start that was abandoned has not returned (1), or has now
// returned (-1).
type SpawnerHangs struct{ Change int }

// From the runtime's actor to a session. A session also gets NewRules.
type (
	// SlotTaken answers a TakeSlot; Err says why there is no slot.
	SlotTaken struct {
		Process messages.ProcessID
		Err     *messages.Error
	}
	// SlotAwaited says that SlotTaken comes later, because no slot is free.
	SlotAwaited struct{ Process messages.ProcessID }
	// TrimRecords asks a session to forget its oldest records until at most that many bytes are left; it may arrive
	// twice for the same excess.
	TrimRecords struct{ Left int64 }
)

// ErrRuntimeFull is why a start is refused where all sessions together have too many processes.
var ErrRuntimeFull = &messages.Error{Code: messages.ErrLimitReached, Op: "exec",
	Detail: "all sessions together have as many processes as they may; wait for one to end, or terminate one",
	Hint:   "raise Options.MaxProcesses"}
