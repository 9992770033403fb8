package approval

import "github.com/execbus/execbus/messages"

// From an approval actor to itself, by timers, work and the approver.
type (
	questionDue struct{ question messages.QuestionID }
	listening   struct{}
	grantDue    struct{ grant messages.GrantID }
	// approverSaid is the answer of a call of the approver.
	approverSaid struct {
		question messages.QuestionID
		decision messages.Decision
		err      error
	}
	// approverReturned says that an approver that did not return in time has returned.
	approverReturned struct{}
)
