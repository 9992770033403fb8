package session

import "github.com/execbus/execbus/messages"

// From a supervisor to itself.
type (
	expireRecords struct{}
	// planOverdue says that a question has waited long enough for the plan of an earlier command.
	planOverdue struct{}
	// teardownOver says that a tree which is being ended has held a start back for long enough.
	teardownOver struct{ id messages.ProcessID }
	// slotOverdue says that a start has waited long enough for a slot that was about to be free.
	slotOverdue struct{ id messages.ProcessID }
	// takeoverOverdue says that the rest of a crashed process has not ended in time.
	takeoverOverdue struct{ id messages.ProcessID }
)
