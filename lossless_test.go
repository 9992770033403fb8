package execbus_test

import (
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// A lossless subscriber that does not read may hold back its process, but nobody's wish to end it.
func TestAnUnreadLosslessSubscriptionCannotPreventTheEnd(t *testing.T) {
	t.Parallel() // it waits most of the time
	session := newSession(t, execbus.SessionOptions{})
	unread := watch(t, session, execbus.Watch{Lossless: true})
	_ = unread // never read
	id := launch(t, session, messages.ExecCommand{Argv: []string{"yes"}, TTY: true})
	total, since := int64(0), time.Now()
	eventually(t, "the process to be held back", func() bool {
		page, err := session.Read(t.Context(), messages.ReadOutput{Process: id, Tail: 1})
		if err != nil {
			t.Fatal(err)
		}
		if page.Total == 0 || page.Total != total {
			total, since = page.Total, time.Now()
		}
		return time.Since(since) > 300*time.Millisecond
	})
	end, err := session.Terminate(patient(t), messages.Terminate{Process: id})
	if err != nil {
		t.Fatal(err)
	}
	if end.Cause != messages.CauseTerminated || !strings.Contains(end.Detail, "output was dropped") {
		t.Errorf("the record is %v", end)
	}
}
