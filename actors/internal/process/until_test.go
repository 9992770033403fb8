package process

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/actors/internal/output"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// A comparison that a flood has left behind pauses for ten times as long as its last part took, at most for 250 ms; one that keeps up does not.
func TestAComparisonThatIsSlowerThanAFloodPauses(t *testing.T) {
	for name, c := range map[string]struct {
		behind      int
		took, pause time.Duration
	}{
		"it keeps up":             {maxCompared / 2, time.Second, 0},
		"a flood":                 {2 * maxCompared, 10 * time.Millisecond, 100 * time.Millisecond},
		"a flood, and it is slow": {2 * maxCompared, time.Second, longestPause},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := system.NewSystem(slog.New(slog.DiscardHandler), system.Options{})
				paused := make(chan time.Duration, 1)
				waiting := &call{Caller: protocol.Caller{Call: 1}, until: &condition{Until: messages.Until{Pattern: "x"}, watched: true, comparing: true}}
				p, began := &process{calls: []*call{waiting}, output: output.NewFeed(nil, nil)}, time.Now()
				_, err := s.Spawn("process", func(ctx *system.Context) {
					switch m := ctx.Message().(type) {
					case system.Started:
						p.ctx = ctx
						p.newMatcher(waiting)
						p.output.Receive(ptyio.NewOutput(messages.StreamStdout, make([]byte, c.behind), func() {}))
						p.compared(compared{call: 1, took: c.took})
						if waiting.until.comparing {
							paused <- 0
							return
						}
						if p.compareOutput(); waiting.until.comparing { // more output comes
							t.Error("it goes on before its pause is over")
						}
					case compareNow:
						if p.compareNow(m.call); !waiting.until.comparing {
							t.Error("it does not go on")
						}
						paused <- time.Since(began)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				if got := <-paused; got != c.pause {
					t.Errorf("it pauses for %s, want %s", got, c.pause)
				}
				if err := s.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
