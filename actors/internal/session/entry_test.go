package session

import (
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

func TestAProcessIsEndingOnlyIfNoAttemptMayFollow(t *testing.T) {
	exited0, exited1 := messages.StatusExited(0), messages.StatusExited(1)
	ends := teardown{began: time.Now()}
	running, starting, exited := messages.StateRunning, messages.StateStarting, messages.StateExited
	for name, test := range map[string]struct {
		state messages.ProcessState
		entry entry
		want  bool
	}{
		"it runs":                            {running, entry{attempt: attempt{status: messages.StatusNone()}}, false},
		"it was asked to end":                {running, entry{unwanted: true, again: true}, true},
		"its tree is being ended":            {running, entry{teardown: ends}, true},
		"its tree has ended":                 {running, entry{attempt: attempt{tree: &messages.TreeReport{}}}, true},
		"another attempt may follow":         {running, entry{teardown: ends, again: true, attempt: attempt{status: exited1}}, false},
		"it has exited well":                 {running, entry{teardown: ends, again: true, attempt: attempt{status: exited0}}, true},
		"its plan has no other attempt":      {running, entry{teardown: ends, attempt: attempt{status: exited1}}, true},
		"the call that asked for it is over": {running, entry{teardown: ends, again: true, slot: slot{outlives: true}, attempt: attempt{status: exited1}}, true},
		"the next attempt starts":            {starting, entry{teardown: ends}, false},
		"its leader has exited":              {exited, entry{again: true, attempt: attempt{status: exited1}}, true},
		"its children are kept":              {exited, entry{keeps: true}, false},
		"its children were kept":             {exited, entry{keeps: true, teardown: ends}, true},
	} {
		test.entry.info.State = test.state
		if got := test.entry.isEnding(); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
