package process

import (
	"slices"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// watchTerminal counts those who see the screen, over all attempts. A program that asks meanwhile where the cursor is gets their answer.
func (p *process) watchTerminal(over bool) {
	before := p.watchers
	if over {
		p.watchers = max(0, p.watchers-1)
	} else {
		p.watchers++
	}
	if child := p.watched(); child != nil && (before == 0) != (p.watchers == 0) {
		child.Watch(p.watchers > 0)
	}
}

// place passes on where the cursor was. The offsets of a child begin with its attempt.
func (p *process) place(positions []messages.CursorPosition) {
	child := p.watched()
	if child == nil {
		return
	}
	positions = slices.Clone(positions[max(0, len(positions)-messages.MaxCursorPositions):])
	for i := range positions {
		positions[i].Offset -= p.attempt.from
	}
	child.Place(positions)
}

// watched is the child of the current attempt, if its terminal can be answered for; nil otherwise.
func (p *process) watched() ptyio.Watched {
	if p.attempt == nil || p.attempt.calls == nil {
		return nil
	}
	child, can := p.attempt.calls.child.(ptyio.Watched)
	if !can {
		return nil
	}
	return child
}
