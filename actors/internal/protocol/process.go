package protocol

import (
	"time"

	"github.com/execbus/execbus/actors/internal/output"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// From a session to a process. A process also gets CancelCall, Verdict and ChildEvent.
type (
	// Begin starts the one command that the process was made for.
	Begin struct{ Caller }
	// Request is a caller's request to a process. It is answered once, and Answered tells the session.
	Request struct {
		Caller
		Message any
	}
	// Slot answers WantSlot; Refused says why there is none.
	Slot struct{ Refused *messages.Error }
	// StartWaits says what the start waits for, as in messages.Result.Waiting.
	StartWaits struct{ What string }
	// Pause and Resume hold and release the clocks of all calls.
	Pause  struct{}
	Resume struct{}
	// AskedAbout says that a person is asked about a host that the process wants to talk to, or about a program that it executes, and
	// when the last such question is over. Meanwhile its clocks stand still.
	AskedAbout struct{ Open bool }
	// CancelCalls cancels the waiting calls. Running processes go on.
	CancelCalls struct{}
	// Observe is a Request of a wait. It is answered with Observed: at once, and once more when something is met later.
	Observe struct {
		Item       int
		Until      *messages.Until
		Unreported bool // an exit counts only if no call has reported it
	}
	// Observed is to a wait, from a process or for one that has ended. Without a Wakeup nothing is met yet.
	Observed struct {
		Target
		Wakeup *messages.Wakeup
	}
	// Target is a process at which an item of a wait is observed.
	Target struct {
		Item    int
		Process messages.ProcessID
	}
	// Retire says that no message will be routed to this process any more.
	Retire struct{}
)

// From a process to its session. A session also gets Answered, Consult and Withdraw, and a Request that came too late.
type (
	// WantSlot asks for permission to start.
	WantSlot struct{ Progress }
	// Progress has the facts for a listing.
	Progress struct {
		Process messages.ProcessID
		State   messages.ProcessState
		Dir     string
		PID     int
		Size    messages.Size
		// Attempt is the latest attempt that has begun; zero before the first.
		Attempt    int
		Enforced   *messages.Enforcement // for that attempt
		Repeatable bool                  // the plan allows another attempt after that one
		Keyboard   *messages.KeyboardHolder
	}
	// Yielded says that the command outlives the call that asked for it.
	Yielded struct{ Process messages.ProcessID }
	// Ended is the last message of a process. The output becomes the session's. A nil record says that it never began.
	Ended struct {
		Process    messages.ProcessID
		Record     *messages.EndRecord
		Output     output.Output
		Told       bool
		Unreported []messages.InputOutcome // of writes that no answer has reported
		Event      EndEvent
		ExitedAt   time.Time // of the leader; zero if it never ran
	}
	// Handover has the obligations of a process whose actor crashes. The system's report of the crash follows.
	Handover struct {
		Process messages.ProcessID
		Output  output.Output
		Event   EndEvent
		Child   ptyio.Child // nil if it had none
	}
)

// From a spawner's goroutine to a process, and to its session, which has to know even if the process's actor crashes.
type (
	// ChildEvent is an event of a child. A session gets only those about the child's life.
	ChildEvent struct {
		Process messages.ProcessID
		Attempt int
		Event   ptyio.Event
		PID     int // with Spawned
	}
	// NoChild says that there will be no child.
	NoChild struct {
		Process messages.ProcessID
		Attempt int
	}
)

// Discard ends a child that no actor takes, and gives back the credit of output.
func (e ChildEvent) Discard() {
	if event, born := e.Event.(ptyio.Spawned); born {
		shared.Abandon(event.Child)
	}
	e.Release()
}

// Release gives back the credit of output.
func (e ChildEvent) Release() {
	if event, output := e.Event.(ptyio.Output); output {
		event.Release()
	}
}

// Discard publishes the end on behalf of a session that is gone.
func (m Ended) Discard() {
	if m.Record != nil {
		m.Event.Publish(m.Record, m.Output)
	}
	m.Output.Close()
}

// Discard publishes the end for an actor that has crashed, and ends its child.
func (m Handover) Discard() {
	if m.Child != nil {
		shared.Abandon(m.Child)
	}
	m.Event.Publish(&messages.EndRecord{Cause: messages.CauseRuntimeFailure, Status: messages.StatusNone(),
		Detail: "its actor and its session crashed"}, m.Output)
	m.Output.Close()
}

// EndEvent has everything that publishing the end of a process takes, if its session cannot do it.
type EndEvent struct {
	Bus    *bus.Bus
	Origin messages.Origin
	Latch  Latch // of the approval actor; nil if it was never asked about the process
}

// Publish publishes the end, now or when the approval actor has sent its last event about the process.
func (e EndEvent) Publish(record *messages.EndRecord, out output.Output) {
	e.Latch.then(func() {
		e.Origin.At = time.Now()
		e.Bus.Publish(out.ExecEnded(e.Origin, record))
	})
}
