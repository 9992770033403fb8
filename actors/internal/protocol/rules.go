package protocol

import (
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
)

// From an approval actor to the actor that keeps the rules, from there to the runtime's actor, and back.
type (
	// Amend asks for a rule that allows commands which begin with a prefix, or for one about a host. It is answered with Amended when
	// every session has it.
	Amend struct {
		Question messages.QuestionID
		Prefix   []string
		Host     *messages.HostRule // nil: it is about commands
	}
	// Amended answers an Amend.
	Amended struct {
		Amend
		NewRules
		Err error // why there is no such rule
	}
	// Distribute asks the runtime's actor to hand out new rules, and then to answer for the actor that keeps them.
	Distribute struct{ Amended }
	// NewRules are the rules that hold from now on, for a session and its approval actor. Versions only grow, because
	// snapshots may arrive by more than one path.
	NewRules struct {
		Version uint64
		Rules   *rules.Set
	}
)
