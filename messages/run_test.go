package messages_test

import (
	"errors"
	"testing"

	"github.com/execbus/execbus/messages"
)

func TestNormalizeRun(t *testing.T) {
	finished := &messages.RunResult{ExitCode: 3, Status: messages.StatusExited(3), Stdout: []byte("out")}
	timedOut := &messages.RunResult{ExitCode: messages.ExitCodeRunTimedOut, TimedOut: true, Status: messages.StatusSignaled(9), Stdout: []byte("partial")}
	failure := &messages.Error{Code: messages.ErrNoSuchProgram, Op: "spawn", Subject: "nope", Detail: "no such program"}
	for _, result := range []*messages.RunResult{finished, timedOut} {
		if got := messages.NormalizeRun(result, nil); got != result {
			t.Errorf("%v became %v", result, got)
		}
		if got := messages.NormalizeRun(result, failure); got != result {
			t.Errorf("%v with an error became %v", result, got)
		}
	}
	denied := &messages.RunResult{ExitCode: 1, Status: messages.StatusExited(1), Stdout: []byte("out"), Stderr: []byte("err"),
		Aggregated: []byte("outerr"), Denial: &messages.Denial{}}
	if got := messages.NormalizeRun(denied, nil); string(got.Aggregated) != "failed in sandbox: err" || got.ExitCode != 1 ||
		string(denied.Aggregated) != "outerr" {
		t.Errorf("a denial became %q", got.Aggregated)
	}
	denied.Stderr = nil
	if got := messages.NormalizeRun(denied, nil); string(got.Aggregated) != "failed in sandbox: outerr" {
		t.Errorf("a denial without stderr became %q", got.Aggregated)
	}
	for _, c := range []struct {
		err  error
		want string
	}{{failure, "spawn nope: no such program"}, {errors.New("something else"), "something else"}, {nil, ""}} {
		got := messages.NormalizeRun(nil, c.err)
		if got.ExitCode != -1 || got.Status != messages.StatusNone() || got.TimedOut || got.Cancelled || got.Duration != 0 {
			t.Errorf("%v became %+v", c.err, got)
		}
		if string(got.Stderr) != c.want || string(got.Aggregated) != c.want || len(got.Stdout) != 0 {
			t.Errorf("%v became stdout %q, stderr %q, together %q", c.err, got.Stdout, got.Stderr, got.Aggregated)
		}
	}
}
