package session

import (
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
)

// effect is a message that follows from a decision. It goes where its type says; see supervisor.carryOut.
type effect struct {
	entry   *entry // the process that it is for, or about; nil if it is about none
	message any
	after   time.Duration // of a message from the session to itself
}

// answer is the answer to a call that no other actor will answer.
type answer struct {
	call  protocol.CallID
	reply any
}

// sessionOver says that no event of the session follows.
type sessionOver struct{}

// From a session to itself.
type (
	// startReleased says that no tree holds a start back any more.
	startReleased struct{ entry *entry }
	// teardownOver says that a tree which is being ended has held a start back for long enough.
	teardownOver struct{ entry *entry }
	// slotOverdue says that a start has waited long enough for a slot that was about to be free.
	slotOverdue struct{ entry *entry }
	// planOverdue says that a question has waited long enough for the plan of an earlier command.
	planOverdue struct{}
	// recordsExpire says that the oldest record is too old.
	recordsExpire struct{}
	// takeoverOverdue says that the rest of a crashed process has not ended in time.
	takeoverOverdue struct{ entry *entry }
)
