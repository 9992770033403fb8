package protocol

import (
	"time"

	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/hosts"
)

// Between a process and the approval actor of its session, by way of the session, which answers for the one that crashes.
type (
	// Consult asks about one attempt, about a patch, or on behalf of an Inquiry.
	Consult struct {
		Process  messages.ProcessID
		Asker    Recipient // of the Verdict, for a patch or an inquiry; nil: the process
		Request  policy.Request
		Snapshot policy.Snapshot // with the policies; rules and grants are the approval actor's own
		Plan     policy.Plan
		Denial   *messages.Denial // of the attempt before, when this is about another
		Origin   messages.Origin
		Latch    Latch
		Owner    string
		Until    time.Time // when the asker goes on without an answer; zero: never
	}
	// Withdraw says that the asker of a Consult no longer needs a verdict.
	Withdraw struct {
		Process messages.ProcessID
		Asker   Recipient
	}
	// Verdict answers a Consult. A withdrawn one is answered, too, so that the asker knows that no other message follows.
	Verdict struct {
		Process  messages.ProcessID
		Plan     policy.Plan // the current one
		Decision messages.DecisionKind
		Source   messages.DecisionSource
		Refusal  *messages.Error // nil: allowed
	}
)

// HostGrants are from an approval actor to its session: all hosts that are approved, after each change. They come before the verdicts
// that rest on them.
type HostGrants struct{ All []hosts.Grant }

// ForgetProcess is from a session to its approval actor: a process has ended, and the hosts that were approved for it alone are
// forgotten. Zero stands for connections that belong to no process.
type ForgetProcess struct{ Process messages.ProcessID }

// OwnerAborted is from an approval actor to its session: a person has aborted what an owner does. The verdicts about the owner's
// questions come before it.
type OwnerAborted struct{ Owner string }

// Discard says that the approval actor will publish nothing about this consult. A patch, or an inquiry, learns that nobody answers.
func (m Consult) Discard() {
	m.Latch.Open()
	if m.Asker != nil {
		m.Asker.Answer(Verdict{Plan: m.Plan, Source: messages.DecidedByAbsence, Refusal: shared.Rejected("it needs approval, and " + ErrNoApproval.Detail)})
	}
}

// ErrNoApproval is why nothing can be asked.
var ErrNoApproval = &messages.Error{Code: messages.ErrRuntimeFailure, Op: "ask for approval",
	Detail: "the approval service of the session has crashed; open another session"}

// Latch orders the end of a process whose session crashes behind the events of the approval actor, because the end
// must be the last event. It has room for one function. If the process comes first, it puts the function that publishes
// the end in. If the approval actor comes first, it puts nil in: it will publish nothing more. The second of the two
// calls the function.
type Latch chan func()

// NewLatch makes a latch that is closed.
func NewLatch() Latch { return make(Latch, 1) }

// then calls f now if the latch is open, and leaves the call to the approval actor otherwise. A nil latch is open.
func (l Latch) then(f func()) {
	if l == nil {
		f()
		return
	}
	select {
	case l <- f:
	default:
		f()
	}
}

// Open is called by the approval actor, when it will publish nothing more. It may be called again.
func (l Latch) Open() {
	for l != nil {
		select {
		case l <- nil:
			return
		case f := <-l:
			if f != nil {
				f()
			}
		}
	}
}
