package process

import (
	"context"
	"maps"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// starting is the state in which a command waits for a slot and then for its spawner.
type starting struct {
	waits    string // what for; empty if it waits for nothing
	granted  bool   // it has its slot
	asking   bool   // somebody is asked again, because a path leads elsewhere than when the command was approved
	looks    int    // how often was looked where the paths lead
	unwanted bool   // the call that asked for the command was cancelled
	spawning bool
	left     bool // it was terminated, and the spawner has been called off
}

// maxLooks bounds how often a command is planned again because its paths lead elsewhere.
const maxLooks = 4

func (s *starting) name() messages.ProcessState {
	if s.asking {
		return messages.StateAwaitingApproval
	}
	return messages.StateStarting
}

func (*starting) enter(*process) {}

// begin starts the command, or looks first whether the paths that it was approved with still lead to the same places.
func (s *starting) begin(p *process) {
	d := p.decision
	if len(d.request.Located) == 0 {
		s.spawn(p)
		return
	}
	if s.looks++; s.looks > maxLooks {
		p.failed(&messages.Error{Code: messages.ErrRejected, Op: "exec", Subject: "additional permissions",
			Detail: "their paths lead elsewhere each time that they are followed; name paths that nothing replaces meanwhile"})
		return
	}
	plan, spawner, request := p.plan(), p.Spawner, d.request
	p.look(func(ctx context.Context) any {
		if maps.Equal(locate(ctx, spawner.Resolver(), request), request.Located) {
			return planned{}
		}
		return plan(ctx)
	})
}

func (s *starting) spawn(p *process) {
	s.spawning = true
	p.decision.launch.Sandbox = p.decision.sandbox()
	p.spawn()
}

// planned goes on if the paths lead where they did, and otherwise acts on the new plan.
func (s *starting) planned(p *process, d *decision) {
	if d == nil {
		s.spawn(p)
		return
	}
	p.decision.discard()
	p.settle(d, s.unwanted, func() { s.begin(p) }, func() {
		s.asking = true
		p.tellProgress()
		p.consult(nil)
	})
}

func (s *starting) receive(p *process, message any) bool {
	switch m := message.(type) {
	case protocol.Slot:
		if s.left || s.granted {
			return true
		}
		if m.Refused != nil {
			p.failed(m.Refused)
			return true
		}
		s.waits, s.granted = "", true
		s.begin(p)
	case planned:
		s.planned(p, m.decision)
	case protocol.Verdict:
		if !s.asking {
			return false
		}
		s.asking = false
		if p.answered(m) {
			p.tellProgress()
			s.begin(p)
		}
	case protocol.StartWaits:
		s.waits = m.What
	case spawnFailed:
		p.failed(m.err)
	case protocol.ChildEvent:
		spawned, born := m.Event.(ptyio.Spawned)
		if !born {
			return p.attempt.keepEarly(m)
		}
		p.born(spawned, m.PID)
		p.advance(&running{})
		p.answerStart() // a caller with the answer finds the process listed as running
		p.catchUp()
	default:
		return p.lookFailed(message)
	}
	return true
}

// terminate cancels the start. The spawner's answer then ends the process.
func (s *starting) terminate(p *process, _ messages.Terminate) {
	if !s.spawning {
		p.failed(nil)
		return
	}
	if !s.left {
		s.left = true
		p.attempt.callOff()
	}
}

func (s *starting) unasked(p *process) {
	if s.unwanted = true; s.asking {
		p.aborted()
	}
}
