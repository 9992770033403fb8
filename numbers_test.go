package execbus_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

func TestEveryCallRefusesWhatIsNegative(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	id := launch(t, session, bash("read line"))
	ctx, less := patient(t), new(time.Duration(-1))
	for field, call := range map[string]func() error{
		"exec yield:": func() error {
			_, err := session.Exec(ctx, messages.ExecCommand{Argv: []string{"true"}, Yield: less})
			return err
		},
		"exec maxOutputTokens:": func() error {
			_, err := session.Exec(ctx, messages.ExecCommand{Argv: []string{"true"}, MaxOutputTokens: new(-1)})
			return err
		},
		"run timeout:": func() error {
			_, err := session.Run(ctx, messages.RunCommand{Argv: []string{"true"}, Timeout: less})
			return err
		},
		"write yield:": func() error {
			_, err := session.Write(ctx, messages.WriteStdin{Process: id, Bytes: []byte("x"), Yield: less})
			return err
		},
		"write patience:": func() error {
			_, err := session.Write(ctx, messages.WriteStdin{Process: id, Bytes: []byte("x"), Patience: less})
			return err
		},
		"poll yield:": func() error { _, err := session.Poll(ctx, messages.Poll{Process: id, Yield: less}); return err },
		"poll maxOutputBytes:": func() error {
			_, err := session.Poll(ctx, messages.Poll{Process: id, MaxOutputBytes: new(-1)})
			return err
		},
		"read wait:": func() error {
			_, err := session.Read(ctx, messages.ReadOutput{Process: id, Tail: 1, Wait: -1})
			return err
		},
		"terminate grace:": func() error {
			_, err := session.Terminate(ctx, messages.Terminate{Process: id, Grace: less})
			return err
		},
	} {
		wantError(t, call(), messages.ErrInvalidRequest, field, "negative")
	}
	if ids := listed(t, session); len(ids) != 1 {
		t.Errorf("the session has %v", ids)
	}
}

func TestZeroIsANumber(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	nothing := new(time.Duration)
	command := bash("sleep 1000")
	command.Yield, command.Grace = nothing, nothing
	result := exec(t, session, command)
	if !result.Running || result.WallTime < messages.MinYield || result.WallTime >= messages.DefaultExecYield {
		t.Errorf("a yield of nothing was answered after %v: %+v", result.WallTime, result)
	}
	short := bash("echo begun")
	short.MaxOutputTokens = new(int)
	brief := exec(t, session, short)
	if string(brief.Output) != "begun\n" || strings.Contains(brief.OutputText(), "begun") || !strings.Contains(brief.OutputText(), "…2 tokens truncated…") {
		t.Errorf("of %q no token was wanted: %q", brief.Output, brief.OutputText())
	}

	timed := runs("true")
	timed.Timeout = nothing // but of a timeout, where it is the default
	if ran := run(t, session, timed); ran.ExitCode != 0 || ran.TimedOut {
		t.Errorf("a run with the default timeout came to %+v", ran)
	}
	timed.Timeout = new(time.Duration(math.MaxInt64))
	if ran := run(t, session, timed); ran.ExitCode != 0 || ran.TimedOut {
		t.Errorf("a run with more time than there is came to %+v", ran)
	}
	ended, err := session.Poll(patient(t), messages.Poll{Process: result.Process, MaxOutputTokens: new(math.MaxInt), MaxOutputBytes: new(math.MaxInt)})
	if err != nil || !ended.Running {
		t.Errorf("a poll with huge bounds: %+v, %v", ended, err)
	}
}
