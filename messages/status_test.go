package messages_test

import (
	"math"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		status messages.ExitStatus
		text   string
		code   int
		known  bool
	}{
		{messages.StatusExited(0), "code(0)", 0, true},
		{messages.StatusExited(255), "code(255)", 255, true},
		{messages.StatusSignaled(9), "signal(9)", 137, true},
		{messages.StatusSignaled(15), "signal(15)", 143, true},
		{messages.StatusNone(), "none", 0, false},
		{messages.ExitStatus{}, "none", 0, false},
	} {
		if got := c.status.String(); got != c.text {
			t.Errorf("%#v is %q, want %q", c.status, got, c.text)
		}
		if code, known := c.status.Code(); code != c.code || known != c.known {
			t.Errorf("%v has code %d, %v; want %d, %v", c.status, code, known, c.code, c.known)
		}
	}
}

func TestEndRecordIsOnePhrase(t *testing.T) {
	for want, record := range map[string]messages.EndRecord{
		"exited, code(0)":                          {Cause: messages.CauseExited, Status: messages.StatusExited(0)},
		"terminated by prune, signal(15)":          {Cause: messages.CauseTerminated, By: messages.TerminatedByPrune, Status: messages.StatusSignaled(15)},
		"spawn_failed: no such program":            {Cause: messages.CauseSpawnFailed, Status: messages.StatusNone(), Detail: "no such program"},
		"node_lost: build-7":                       {Cause: messages.CauseNodeLost, Status: messages.StatusNone(), Detail: "build-7"},
		"runtime_failure":                          {Cause: messages.CauseRuntimeFailure},
		"runtime_failure, code(1): actor crashed":  {Cause: messages.CauseRuntimeFailure, Status: messages.StatusExited(1), Detail: "actor crashed"},
		"terminated by session_close, signal(137)": {Cause: messages.CauseTerminated, By: messages.TerminatedBySessionClose, Status: messages.StatusSignaled(137)},
	} {
		if got := record.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestYieldsAreBroughtBetweenTheirBounds(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, c := range []struct {
		requested         *time.Duration
		exec, write, poll time.Duration
	}{
		{nil, 10 * s, 250 * ms, 5 * s},
		{new(0 * s), 250 * ms, 250 * ms, 5 * s},
		{new(0*s + 1), 250 * ms, 250 * ms, 5 * s},
		{new(250 * ms), 250 * ms, 250 * ms, 5 * s},
		{new(3 * s), 3 * s, 3 * s, 5 * s},
		{new(20 * s), 20 * s, 20 * s, 20 * s},
		{new(30 * s), 30 * s, 30 * s, 30 * s},
		{new(31 * s), 30 * s, 30 * s, 31 * s},
		{new(time.Hour), 30 * s, 30 * s, 300 * s},
		{new(time.Duration(math.MaxInt64)), 30 * s, 30 * s, 300 * s},
	} {
		if got := messages.ExecYield(c.requested); got != c.exec {
			t.Errorf("an exec that asks for %v waits %v, want %v", c.requested, got, c.exec)
		}
		if got := messages.WriteYield(c.requested); got != c.write {
			t.Errorf("a write that asks for %v waits %v, want %v", c.requested, got, c.write)
		}
		if got := messages.PollYield(c.requested, messages.DefaultMaxPoll); got != c.poll {
			t.Errorf("a poll that asks for %v waits %v, want %v", c.requested, got, c.poll)
		}
	}
	if got := messages.PollYield(new(time.Hour), time.Second); got != messages.MinPoll {
		t.Errorf("a poll of a session whose longest is shorter than the shortest waits %v, want %v", got, messages.MinPoll)
	}
	if got := messages.PollYield(new(time.Hour), 20*time.Minute); got != 20*time.Minute {
		t.Errorf("a poll of a session with a longest of 20 minutes waits %v", got)
	}
}

func TestSizeOrDefault(t *testing.T) {
	for _, c := range []struct{ size, want messages.Size }{
		{messages.Size{}, messages.Size{Rows: 24, Cols: 80}},
		{messages.Size{Rows: 50}, messages.Size{Rows: 50, Cols: 80}},
		{messages.Size{Cols: 132}, messages.Size{Rows: 24, Cols: 132}},
		{messages.Size{Rows: 1, Cols: 1}, messages.Size{Rows: 1, Cols: 1}},
	} {
		if got := c.size.OrDefault(); got != c.want {
			t.Errorf("%v becomes %v, want %v", c.size, got, c.want)
		}
	}
}
