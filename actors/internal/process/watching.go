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
	if (before == 0) != (p.watchers == 0) {
		p.tellWatched(func(child ptyio.Watched) { child.Watch(before == 0) })
	}
}

// place passes on where the cursor was. The offsets of a child begin with its attempt.
func (p *process) place(positions []messages.CursorPosition) {
	if p.attempt == nil {
		return
	}
	positions = slices.Clone(positions[max(0, len(positions)-messages.MaxCursorPositions):])
	for i := range positions {
		positions[i].Offset -= p.attempt.from
	}
	p.tellWatched(func(child ptyio.Watched) { child.Place(positions) })
}

// tellWatched tells something to the child of the current attempt, if its terminal can be answered for.
func (p *process) tellWatched(tell func(ptyio.Watched)) {
	if p.attempt == nil || p.attempt.calls == nil {
		return
	}
	p.attempt.calls.do(p, job{do: func(child ptyio.Child) error {
		if watched, can := child.(ptyio.Watched); can {
			tell(watched)
		}
		return nil
	}})
}
