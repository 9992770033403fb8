package actors

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/probe"
)

// repeatable is a write that another attempt may get again.
func repeatable(id messages.ProcessID, text string) messages.WriteStdin {
	return messages.WriteStdin{Process: id, Bytes: []byte(text), UntilTaken: true, Repeatable: true}
}

// reading begins a run with input, and returns when it has begun.
func (s *asker) reading(script string) (run waiting, id messages.ProcessID) {
	s.t.Helper()
	run = s.call(messages.RunCommand{Argv: []string{"bash", "-c", script}, OpenStdin: true})
	return run, probe.Expect[messages.ExecStarted](s.events, patience, nil).Process
}

func (w waiting) runResult() *messages.RunResult {
	w.t.Helper()
	reply, err := w.reply()
	if err != nil {
		w.t.Fatal(err)
	}
	return reply.(*messages.RunResult)
}

func TestASecondAttemptGetsWhatTheFirstHasRead(t *testing.T) {
	s, _ := inSandbox(t, asks, noWrite)
	run, id := s.reading(`if [ -n "$CONFINED" ]; then read x; exit 7; fi; cat`)
	if taken := s.call(repeatable(id, "one\n")).result().Taken; taken != 4 {
		t.Errorf("%d bytes were taken", taken)
	}
	q := s.question()
	between, end := s.call(repeatable(id, "two\n")), s.call(messages.CloseStdin{Process: id})
	if err := s.decide(q.ID, messages.Decision{Kind: messages.DecisionApproved}); err != nil {
		t.Fatal(err)
	}
	if taken := between.result().Taken; taken != 4 {
		t.Errorf("%d of the bytes between the attempts were taken", taken)
	}
	if _, err := end.reply(); err != nil {
		t.Error(err)
	}
	if result := run.runResult(); string(result.Stdout) != "one\ntwo\n" || result.ExitCode != 0 {
		t.Errorf("%+v, it read %q", result, result.Stdout)
	}
	s.theEnd()
	if left := s.call(messages.Poll{Process: id}).result(); len(left.EarlierInput) != 0 {
		t.Errorf("nobody has written %+v", left.EarlierInput)
	}
}

func TestASecondAttemptGetsWhatTheFirstHasNotTaken(t *testing.T) {
	s, _ := inSandbox(t, retries, noWrite)
	run, id := s.reading(`if [ -n "$CONFINED" ]; then exec <&-; echo; until [ -e go ]; do sleep 0.01; done; exit 7; fi; cat`)
	probe.Expect[messages.OutputDelta](s.events, patience, nil) // the first has closed its input
	write, end := s.call(repeatable(id, "one\n")), s.call(messages.CloseStdin{Process: id})
	if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if result := write.result(); result.Taken != 4 || result.InputErr != nil {
		t.Errorf("%+v", result)
	}
	end.reply() // it may have failed in the first
	if result := run.runResult(); string(result.Stdout) != "one\n" {
		t.Errorf("%+v, it read %q", result, result.Stdout)
	}
	s.theEnd()
}

// The end is given again, also where a caller has ended the input.
func TestASecondAttemptGetsTheEndOfTheInput(t *testing.T) {
	s, _ := inSandbox(t, retries, noWrite)
	run, id := s.reading(`x=$(cat); [ -z "$CONFINED" ] && echo "got $x"`)
	s.call(repeatable(id, "all of it")).result()
	must[protocol.Done](s.host, s.supervisor, messages.CloseStdin{Process: id})
	if result := run.runResult(); string(result.Stdout) != "got all of it\n" {
		t.Errorf("%+v, %q", result, result.Stdout)
	}
	if end := s.theEnd(); end.Denial != nil {
		t.Errorf("%+v", end)
	}
}

// A write that an attempt did not take is answered when no other follows.
func TestAWriteThatNoAttemptTakesIsAnswered(t *testing.T) {
	s, _ := inSandbox(t, asks, noWrite)
	run, id := s.reading(`exec <&-; echo; until [ -e go ]; do sleep 0.01; done; exit 7`)
	probe.Expect[messages.OutputDelta](s.events, patience, nil)
	write := s.call(repeatable(id, "one\n"))
	if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.answer(messages.DecisionDenied)
	if result := write.result(); result.Taken != 0 || result.InputErr == nil || len(result.Output) != 0 { // it takes no output
		t.Errorf("%+v", result)
	}
	_, err := run.reply()
	wantError(t, "a retry that nobody has approved", err, messages.ErrRejected)
	s.theEnd()
}

// Input that cannot be given again rules out another attempt, and everybody is told why.
func TestInputThatIsNotKeptRulesOutAnotherAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		bytes      int
		repeatable bool
		why        string
	}{
		"all that is kept": {mostAgain, true, ""},
		"more":             {mostAgain + 1, true, "because it was given more than 1048576 bytes of input"},
		"of a caller":      {1, false, "because it had taken input, which may be an answer to its output"},
	} {
		t.Run(name, func(t *testing.T) {
			s, sandbox := inSandbox(t, asks, noWrite)
			run, id := s.reading(fmt.Sprintf(`if [ -n "$CONFINED" ]; then head -c %d >&2; exit 7; fi; wc -c`, c.bytes))
			for left := c.bytes; left > 0; left -= mostAgain {
				write := repeatable(id, strings.Repeat("x", min(left, mostAgain)))
				write.Repeatable = c.repeatable
				s.call(write).result()
			}
			if c.why == "" {
				s.answer(messages.DecisionApproved)
				must[protocol.Done](s.host, s.supervisor, messages.CloseStdin{Process: id})
				if result := run.runResult(); string(result.Stdout) != fmt.Sprintln(c.bytes) {
					t.Errorf("%+v, %q", result, result.Stdout)
				}
				s.theEnd()
				return
			}
			result, end := run.runResult(), s.theEnd()
			if result.Denial == nil || result.Denial.Path != noWrite.Path || !strings.Contains(result.Denial.String(), c.why) || result.ExitCode != 7 {
				t.Errorf("%+v, %v", result, result.Denial)
			}
			if end.Cause != messages.CauseSandboxDenied || !strings.Contains(end.Detail, c.why) || len(sandbox.launches()) != 1 || len(s.questions()) != 0 {
				t.Errorf("%+v after %d attempts", end, len(sandbox.launches()))
			}
		})
	}
}

// Where no input can be taken, no attempt gets a write, and it is answered at once.
func TestARepeatableWriteWithoutAnInputIsRefused(t *testing.T) {
	for _, open := range []bool{false, true} {
		s, _ := inSandbox(t, asks, noWrite)
		run := s.call(messages.RunCommand{Argv: []string{"bash", "-c", "until [ -e go ]; do sleep 0.01; done"}, OpenStdin: open})
		id := probe.Expect[messages.ExecStarted](s.events, patience, nil).Process
		if open {
			must[protocol.Done](s.host, s.supervisor, messages.CloseStdin{Process: id})
		}
		_, err := s.call(repeatable(id, "x")).reply()
		wantError(t, "a write without an input", err, messages.ErrStdinClosed)
		if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s.answer(messages.DecisionDenied)
		run.reply()
		s.theEnd()
	}
}

// A command whose call has its answer has no other attempt, and no write waits for one.
func TestAWriteThatComesAfterTheAnswerWaitsForNoAttempt(t *testing.T) {
	s, _ := inSandbox(t, asks, noWrite)
	command := quick("exec <&-; echo up; exec sleep 1000")
	command.OpenStdin = true
	id := s.exec(command).Process
	s.said(id, "up")
	_, err := s.call(repeatable(id, "x")).reply()
	wantError(t, "a write that nobody reads", err, messages.ErrStdinClosed)
	if _, err := s.terminate(id); err != nil {
		t.Error(err)
	}
}
