package messages_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

func TestTheTighterLimitHolds(t *testing.T) {
	a := messages.Limits{OutputBytes: 1, CPUTime: time.Second, MemoryBytes: 5, Processes: 2}
	b := messages.Limits{OutputBytes: 2, WallTime: time.Hour, MemoryBytes: 4, OpenFiles: 7}
	want := messages.Limits{OutputBytes: 1, CPUTime: time.Second, WallTime: time.Hour, MemoryBytes: 4, Processes: 2, OpenFiles: 7}
	if one, other := a.Tighter(b), b.Tighter(a); one != want || other != want {
		t.Errorf("%+v and %+v, want %+v", one, other, want)
	}
	if n := len(want.Set()); n != 6 || len(messages.Limits{}.Set()) != 0 {
		t.Errorf("%d of 6 are set", n)
	}
}

func TestNegativeLimitsAreRefused(t *testing.T) {
	for _, limits := range []messages.Limits{{OutputBytes: -1}, {CPUTime: -1}, {WallTime: -1}, {MemoryBytes: -1}, {Processes: -1}, {OpenFiles: -1}} {
		for _, request := range []interface{ Check() error }{limits, messages.ExecCommand{Limits: limits}, messages.RunCommand{Limits: limits}} {
			if err := request.Check(); !errors.Is(err, messages.ErrInvalidRequest) || !strings.Contains(err.Error(), "-1 is negative") {
				t.Errorf("%T: %v", request, err)
			}
		}
	}
}

func TestEveryLimitHasAName(t *testing.T) {
	for limit, word := range map[messages.Limit]string{messages.LimitOutput: "output", messages.LimitCPUTime: "CPU time", messages.LimitWallTime: "time",
		messages.LimitMemory: "memory", messages.LimitProcesses: "processes", messages.LimitOpenFiles: "open files"} {
		end := messages.EndRecord{Cause: messages.CauseTerminated, By: messages.TerminatedByLimit, Limit: limit, Status: messages.StatusSignaled(9)}
		if words := end.Words(); words != "was terminated because it went beyond its limit of "+word+" (signal 9)" {
			t.Error(words)
		}
		if text := end.String(); text != "terminated by limit ("+string(limit)+"), signal(9)" {
			t.Error(text)
		}
	}
}
