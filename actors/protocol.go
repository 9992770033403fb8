package actors

import (
	"time"

	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/rules"
	"github.com/execbus/execbus/ptyio"
)

// The private messages, by pair of actors. All of them are values that are not changed after they were sent.

// callID names an open call of a session.
type callID uint64

// caller is where the answer of a call goes.
type caller struct {
	call  callID
	asker recipient // nil: no caller waits for it
}

// recipient waits for an answer.
type recipient interface{ answer(reply any) }

// From a supervisor to a process.
type (
	// begin starts the one command that the process was made for.
	begin struct{ caller }
	// request is a caller's request to a process. It is answered once, and answered tells the supervisor.
	request struct {
		caller
		message any
	}
	// cancelCall cancels a call. The call is answered, unless it has been.
	cancelCall struct{ call callID }
	// slot answers wantSlot; refused says why there is none.
	slot struct{ refused *messages.Error }
	// startWaits says what the start waits for, as in messages.Result.Waiting.
	startWaits struct{ what string }
	// pause and resume hold and release the clocks of all calls.
	pause  struct{}
	resume struct{}
	// letCallsGo cancels the waiting calls. Running processes go on.
	letCallsGo struct{}
	// retire says that no message will be routed to this process any more.
	retire struct{}
)

// From a process to its supervisor.
type (
	// wantSlot asks for permission to start.
	wantSlot struct{ progress }
	// progress has the facts for a listing.
	progress struct {
		id    messages.ProcessID
		state messages.ProcessState
		dir   string
		pid   int
		size  messages.Size
		// attempt is the latest attempt that has begun; zero before the first.
		attempt  int
		enforced *messages.Enforcement // for that attempt
		again    bool                  // the plan allows another attempt after that one
	}
	// answered says that a call has its answer.
	answered struct{ call callID }
	// yielded says that the command outlives the call that asked for it.
	yielded struct{ id messages.ProcessID }
	// consult asks about one attempt. The supervisor passes it to the approval actor, and passes the verdict back.
	consult struct {
		id       messages.ProcessID
		request  policy.Request
		snapshot policy.Snapshot // with the policies; rules and grants are the approval actor's own
		plan     policy.Plan
		denial   *messages.Denial // of the attempt before, when this is about another
		origin   messages.Origin
		silence  silence
		owner    string
	}
	// withdraw says that a process no longer needs a verdict.
	withdraw struct{ id messages.ProcessID }
	// ended is the last message of a process. The output becomes the supervisor's. A nil record says that it never
	// began.
	ended struct {
		id     messages.ProcessID
		record *messages.EndRecord
		output output
		told   bool
		news   []messages.InputOutcome // about writes that no answer has reported
		will   will
		exited time.Time // when the leader exited; zero if it never ran
	}
	// lastWords are left by a process whose actor crashes. system.Crashed follows.
	lastWords struct {
		id     messages.ProcessID
		output output
		will   will
		child  ptyio.Child // nil if it had none
	}
)

// From a spawner's goroutine, so that a supervisor knows of it even if the process's actor crashes.
type (
	// childEvent is an event of a child. Exits and ends come to the supervisor, too.
	childEvent struct {
		id      messages.ProcessID
		attempt int
		event   ptyio.Event
		pid     int // with Spawned
	}
	// unborn says that there will be no child.
	unborn struct {
		id      messages.ProcessID
		attempt int
	}
)

// Between a supervisor and its approval actor.
type (
	// verdict answers a consult. A withdrawn one is answered, too, so that the asker knows that no other message follows.
	verdict struct {
		id       messages.ProcessID
		plan     policy.Plan // the current one
		decision messages.DecisionKind
		source   messages.DecisionSource
		refusal  *messages.Error // nil: allowed
	}
)

// turnAborted comes from the approval actor: a person has stopped an owner's turn. The verdicts about its questions come
// before it.
type turnAborted struct{ owner string }

// Between a supervisor and the runtime's actor.
type (
	// takeSlot is answered with slotTaken.
	takeSlot  struct{ id messages.ProcessID }
	slotTaken struct {
		id  messages.ProcessID
		err *messages.Error
	}
	// slotAwaited says that slotTaken comes later, because no slot is free.
	slotAwaited struct{ id messages.ProcessID }
	// withdrawSlot withdraws a takeSlot that has not been answered.
	withdrawSlot struct{ id messages.ProcessID }
	// giveSlot comes as a request, because the sender names the session whose slot it was; it is not answered.
	giveSlot struct{}
	// counted reports an end. It is a giveSlot, too, if the process gives its slot back.
	counted struct {
		cause     messages.Cause
		slot      bool
		inherited bool // another process of the session starts with its slot
	}
	// trimRecords asks a session to forget its oldest records until at most that many bytes are left; it may arrive
	// twice for the same excess. weighed reports how much the session remembers.
	trimRecords struct{ left int64 }
	weighed     struct{ bytes int64 }
	// spawnerHangs says that a start which was abandoned has not returned (1), or has now returned (-1).
	spawnerHangs struct{ change int }
)

// Between the actors that handle rules.
type (
	// amend asks for a rule that allows commands which begin with a prefix. It is answered with amended when every session
	// has it.
	amend struct {
		question messages.QuestionID
		prefix   []string
	}
	amended struct {
		amend
		newRules
		err error // why there is no such rule
	}
	// newRules are the rules that hold from now on. Versions only grow, because snapshots may arrive by more than one
	// path.
	newRules struct {
		version uint64
		rules   *rules.Set
	}
	// spread asks the runtime's actor to hand out new rules, and then to answer.
	spread struct{ amended }
)

// will has everything that publishing the end of a process takes, if no other actor can do it.
type will struct {
	bus     *bus.Bus
	origin  messages.Origin
	silence silence // of the approval actor; nil if it was never asked about the process
}

// execute publishes the end, now or when the approval actor has sent its last event about the process.
func (w will) execute(record *messages.EndRecord, out output) {
	w.silence.then(func() {
		w.origin.At = time.Now()
		w.bus.Publish(out.ended(w.origin, record))
	})
}

// silence orders the end of a process whose session crashes behind the events of the approval actor, because the end
// must be the last event. It has room for one function. If the process comes first, it puts the function that publishes
// the end in. If the approval actor comes first, it puts nil in: it will publish nothing more. The second of the two
// calls the function.
type silence chan func()

// then calls word now if the approval actor is silent, and leaves the call to that actor otherwise.
func (s silence) then(word func()) {
	if s == nil {
		word()
		return
	}
	select {
	case s <- word:
	default:
		word()
	}
}

// begin is called by the approval actor, when it will publish nothing more. It may be called again.
func (s silence) begin() {
	for s != nil {
		select {
		case s <- nil:
			return
		case word := <-s:
			if word != nil {
				word()
			}
		}
	}
}

// Discard says that the approval actor will publish nothing about this consult.
func (m consult) Discard() { m.silence.begin() }

// Discard ends a child that no actor takes, and gives back the credit of output.
func (e childEvent) Discard() {
	if event, born := e.event.(ptyio.Spawned); born {
		abandon(event.Child)
	}
	e.release()
}

// release gives back the credit of output.
func (e childEvent) release() {
	if event, output := e.event.(ptyio.Output); output {
		event.Release()
	}
}

// Discard publishes the end on behalf of a supervisor that is gone.
func (m ended) Discard() {
	if m.record != nil {
		m.will.execute(m.record, m.output)
	}
}

// Discard publishes the end for an actor that has crashed, and ends its child.
func (m lastWords) Discard() {
	if m.child != nil {
		abandon(m.child)
	}
	m.will.execute(&messages.EndRecord{Cause: messages.CauseRuntimeFailure, Status: messages.StatusNone(),
		Detail: "its actor and its session crashed"}, m.output)
}
