package actors

import "github.com/execbus/execbus/messages"

// From an approval actor to itself, by timers and work.
type (
	questionDue struct{ question messages.QuestionID }
	listening   struct{}
	grantDue    struct{ grant messages.GrantID }
	// approverSaid is the result of an approver's call; failed says why it has no answer.
	approverSaid struct {
		question messages.QuestionID
		decision messages.Decision
		failed   string
	}
	approverOverdue struct{ question messages.QuestionID }
)
