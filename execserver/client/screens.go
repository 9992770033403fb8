package client

import (
	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
)

// Watch implements ptyio.Watched. Of a server that knows nothing of this, programs get its own answers.
func (c *child) Watch(watched bool) {
	c.tell(!watched, wire.ProcessWatchTerminal, wire.WatchTerminalParams{ProcessID: c.id, Watched: watched})
}

// Place implements ptyio.Watched.
func (c *child) Place(positions []messages.CursorPosition) {
	if len(positions) == 0 {
		return
	}
	c.tell(false, wire.ProcessPlaceCursor, wire.PlaceCursorParams{ProcessID: c.id, Positions: positions})
}

// tell makes a call about the screen whose outcome does not matter. Repeated after a cut it has no effect.
func (c *child) tell(cleaning bool, method string, params any) {
	if c.over() || !c.launch.Unattended || !c.spawner.link.has(wire.ExtensionCursor) {
		return
	}
	_ = c.spawner.link.start(&call{again: true, cleaning: cleaning, done: func([]byte, error) {}}, method, params)
}
