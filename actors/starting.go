package actors

import (
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// starting is the state in which a command waits for a slot and then for its spawner.
type starting struct {
	waits    string // what for; empty if it waits for nothing
	spawning bool
	left     bool // it was terminated, and the spawner has been called off
}

func (*starting) name() messages.ProcessState { return messages.StateStarting }

func (*starting) enter(p *process) {
	d := p.decision
	d.launch.Sandbox = d.sandbox()
}

func (s *starting) receive(p *process, message any) bool {
	switch m := message.(type) {
	case slot:
		if s.left || s.spawning {
			return true
		}
		if m.refused != nil {
			p.failed(m.refused)
			return true
		}
		s.waits, s.spawning = "", true
		p.spawn()
	case startWaits:
		s.waits = m.what
	case spawnFailed:
		p.failed(m.err)
	case spawnOverdue:
		if p.attempt.spawning.giveUp() {
			p.failed(errSpawnerHangs)
		}
	case childEvent:
		spawned, born := m.event.(ptyio.Spawned)
		if !born {
			return p.attempt.keepEarly(m)
		}
		p.born(spawned, m.pid)
		p.advance(&running{})
		p.answerStart() // a caller with the answer finds the process listed as running
		p.catchUp()
	default:
		return false
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
		p.callOff()
	}
}

func (*starting) unasked(*process) {}
