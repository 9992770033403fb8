package client

import (
	"context"
	"testing"
	"time"

	"github.com/execbus/execbus/ptyio"
)

// After a pause of this program, the event for which a pump waits and the end of its patience come at the same instant.
func TestAnEventThatWaitsIsNotOverdue(t *testing.T) {
	for what, flow := range map[awaited]bool{outputEnd: false, lastEvent: true} {
		c := &child{spawner: &spawner{}, feed: newFeed(flow)}
		c.abandoned, c.abandon = context.WithCancel(t.Context())
		c.launch.Events = func(e ptyio.Event) { t.Fatalf("%d: %T", what, e) }
		if what == lastEvent {
			c.abandon()
		}
		for range 100 {
			p := &pump{child: c, exited: what == outputEnd, awaiting: what, until: time.Now()}
			c.feed.poke()
			if !p.wait() {
				t.Fatalf("%d: it ended", what)
			}
		}
	}
}
