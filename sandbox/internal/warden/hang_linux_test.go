package warden

import (
	"testing"
	"time"

	"github.com/execbus/execbus/sandbox/internal/wire"
)

func TestABirthHangsOnlyIfItIsSeenWaiting(t *testing.T) {
	const patience = 4 * time.Second
	look := func(n *child, pause time.Duration, runs bool) bool {
		return n.hangs(n.looked.Add(pause), func() bool {
			if n.looked.Sub(n.begun) < patience/2 {
				t.Error("an early birth was looked at: nothing follows from that, and it costs four system calls")
			}
			return runs
		})
	}
	for name, c := range map[string]struct {
		first   time.Duration // until the first look
		running func(at time.Duration) bool
		hangs   time.Duration // when; zero for never
	}{
		"it waits":               {longestLook, func(time.Duration) bool { return false }, patience},
		"it ran a while ago":     {longestLook, func(at time.Duration) bool { return at <= 3*time.Second }, 5 * time.Second},
		"it runs now and then":   {longestLook, func(at time.Duration) bool { return at%time.Second == 0 }, 0},
		"this process was still": {time.Hour, func(at time.Duration) bool { return at > time.Hour+time.Second }, 0},
	} {
		begun := time.Now()
		n := &child{start: start{spec: &wire.Start{Patience: patience}}, begun: begun, looked: begun}
		hung := look(n, c.first, c.running(c.first))
		for !hung && n.looked.Sub(begun) < c.first+10*time.Second {
			hung = look(n, longestLook, c.running(n.looked.Sub(begun)+longestLook))
		}
		if at := n.looked.Sub(begun); hung != (c.hangs > 0) || hung && (at < c.hangs-longestLook || at > c.hangs+longestLook) {
			t.Errorf("%s: %v after %v", name, hung, at)
		}
	}
}
