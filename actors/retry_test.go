package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/tests/probe"
)

// inSandbox is a session whose commands are played to be in a sandbox.
func inSandbox(t *testing.T, plan policy.Plan, fact *messages.Denial) (*asker, *playful) {
	t.Helper()
	sandbox := &playful{Spawner: realSpawner(t, hostOptions{}), fact: fact}
	s := newAsker(t, &planner{Plan: plan}, hostOptions{seam: seam{Spawner: sandbox}}, func(c *shared.SessionConfig) {
		c.Sandbox = messages.SandboxPolicy{Type: messages.SandboxReadOnly}
	})
	return s, sandbox
}

var (
	returns = policy.Plan{Decision: policy.Run, OnDenial: policy.Return}
	retries = policy.Plan{Decision: policy.Run, OnDenial: policy.Retry}
	asks    = policy.Plan{Decision: policy.Run, OnDenial: policy.AskTo}
	both    = policy.Plan{Decision: policy.Ask, OnDenial: policy.AskTo}

	noWrite = &messages.Denial{Operation: "write", Path: "/etc/passwd"}
)

// stoppable says "first" and fails in a sandbox, and says "second" without one.
const stoppable = `if [ -n "$CONFINED" ]; then echo first; exit 7; fi; echo second`

// shapes are the ways to ask for a command, with how its answer is read.
var shapes = map[string]struct {
	command func(script string) any
	said    func(reply any) (output string, code int, denial *messages.Denial)
}{
	"pipes":    {func(script string) any { return shell(script) }, readResult},
	"terminal": {func(script string) any { return onTerminal(shell(script)) }, readResult},
	"run": {func(script string) any { return messages.RunCommand{Argv: []string{"bash", "-c", script}} }, func(reply any) (string, int, *messages.Denial) {
		r := reply.(*messages.RunResult)
		return string(r.Aggregated), r.ExitCode, r.Denial
	}},
}

func readResult(reply any) (string, int, *messages.Denial) {
	r := reply.(*messages.Result)
	code, _ := r.Status.Code()
	return strings.ReplaceAll(string(r.Output), "\r", ""), code, r.Denial
}

func (s *asker) attemptsEnded() []messages.AttemptEnded {
	return probe.Of[messages.AttemptEnded](s.events, nil)
}

// theEnd is the one end of the only command.
func (s *asker) theEnd() messages.ExecEnded {
	s.t.Helper()
	end := probe.Expect[messages.ExecEnded](s.events, patience, nil)
	s.nothingLeft()
	if n := len(s.endsOf(end.Process)); n != 1 {
		s.t.Errorf("%d ends", n)
	}
	if n := len(probe.Of[messages.OutputClosed](s.events, nil)); n != 1 {
		s.t.Errorf("the output was closed %d times", n)
	}
	if n := len(probe.Of[messages.ExecExited](s.events, nil)); n != 1 {
		s.t.Errorf("the exit was told %d times", n)
	}
	return end
}

func TestADeniedCommandRunsAgainWithoutASandbox(t *testing.T) {
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			s, sandbox := inSandbox(t, retries, noWrite)
			reply, err := s.call(shape.command(stoppable)).reply()
			if err != nil {
				t.Fatal(err)
			}
			if output, code, denial := shape.said(reply); output != "second\n" || code != 0 || denial != nil {
				t.Errorf("answered %q, %d, %v", output, code, denial)
			}
			end := s.theEnd()
			if end.Cause != messages.CauseExited || end.Denial != nil || strings.ReplaceAll(string(end.Transcript), "\r", "") != "first\nsecond\n" {
				t.Errorf("the end is %+v, %q", end.EndRecord, end.Transcript)
			}
			var offset int64
			for _, delta := range probe.Of[messages.OutputDelta](s.events, nil) {
				if delta.Offset != offset {
					t.Errorf("offset %d, want %d", delta.Offset, offset)
				}
				offset += int64(len(delta.Bytes))
			}
			if offset != end.Total {
				t.Errorf("%d bytes in events, %d in all", offset, end.Total)
			}
			if got := sandbox.launches(); !slices.Equal(got, []bool{true, false}) {
				t.Errorf("sandboxed: %v", got)
			}
			if started := probe.Of[messages.ExecStarted](s.events, nil); len(started) != 1 {
				t.Errorf("%d starts", len(started))
			}
			if ended := s.attemptsEnded(); len(ended) != 1 || ended[0].Attempt != 1 || *ended[0].Denial != *noWrite {
				t.Errorf("attempts: %+v", ended)
			}
			decided := probe.Of[messages.ToolDecision](s.events, nil)
			if len(decided) != 2 || decided[0].Unsandboxed || decided[0].Attempt != 1 || !decided[1].Unsandboxed || decided[1].Attempt != 2 {
				t.Errorf("decisions: %+v", decided)
			}
		})
	}
}

func TestADenialIsTheResult(t *testing.T) {
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			s, sandbox := inSandbox(t, returns, noWrite)
			reply, err := s.call(shape.command(stoppable)).reply()
			if err != nil {
				t.Fatal(err)
			}
			if output, code, denial := shape.said(reply); output != "first\n" || code != 7 || denial == nil || *denial != *noWrite {
				t.Errorf("answered %q, %d, %v", output, code, denial)
			}
			if end := s.theEnd(); end.Cause != messages.CauseSandboxDenied || end.Denial == nil || end.Status != messages.StatusExited(7) {
				t.Errorf("the end is %+v", end.EndRecord)
			}
			if len(s.attemptsEnded()) != 0 || len(sandbox.launches()) != 1 {
				t.Error("there was another attempt")
			}
		})
	}
}

func TestAPersonDecidesAboutAnotherAttempt(t *testing.T) {
	for _, c := range []struct {
		kind  messages.DecisionKind
		err   error
		text  string
		cause messages.Cause
	}{
		{messages.DecisionApproved, nil, "", messages.CauseExited},
		{messages.DecisionDenied, messages.ErrRejected, "rejected by user", messages.CauseSandboxDenied},
		{messages.DecisionAborted, messages.ErrAborted, "approval request aborted", messages.CauseAborted},
	} {
		for name, shape := range shapes {
			t.Run(fmt.Sprint(c.kind, " ", name), func(t *testing.T) {
				s, sandbox := inSandbox(t, asks, noWrite)
				call := s.call(shape.command(stoppable))
				if q := s.answer(c.kind); !q.Retry || !q.Unsandboxed || !strings.Contains(q.Reason, "retry without sandbox") || !strings.Contains(q.Reason, "/etc/passwd") {
					t.Errorf("the question is %+v", q.Question)
				}
				reply, err := call.reply()
				if c.err == nil {
					if err != nil {
						t.Fatal(err)
					}
					if output, code, denial := shape.said(reply); output != "second\n" || code != 0 || denial != nil {
						t.Errorf("answered %q, %d, %v", output, code, denial)
					}
				} else if e := wantError(t, "refused", err, c.err); !strings.Contains(e.Detail, c.text) || e.Denial == nil || *e.Denial != *noWrite {
					t.Errorf("refused with %+v", e)
				}
				if end := s.theEnd(); end.Cause != c.cause || (end.Denial == nil) != (c.err == nil) {
					t.Errorf("the end is %+v", end.EndRecord)
				}
				if n := len(sandbox.launches()); n != 1 && c.err != nil || n != 2 && c.err == nil {
					t.Errorf("%d attempts", n)
				}
			})
		}
	}
}

// What a command says before it fails can be forged, so a yes to an attempt in a sandbox is none to one without.
func TestADenialIsAskedAboutAlthoughTheCommandWasApproved(t *testing.T) {
	for _, first := range []messages.DecisionKind{messages.DecisionApproved, messages.DecisionApprovedForSession} {
		s, sandbox := inSandbox(t, both, noWrite)
		for n := range 2 {
			call := s.call(shell(stoppable))
			if n == 0 || first == messages.DecisionApproved {
				if q := s.answer(first); q.Retry || q.Unsandboxed {
					t.Errorf("the first question is %+v", q.Question)
				}
			}
			q := s.answer(messages.DecisionDenied)
			if !q.Retry || !q.Unsandboxed || !strings.Contains(q.Reason, "can forge") || !strings.Contains(q.Reason, "/etc/passwd") ||
				!strings.Contains(q.Choices[1].Remembers, "without a sandbox whenever") {
				t.Errorf("the second question is %+v", q.Question)
			}
			if _, err := call.reply(); !errors.Is(err, messages.ErrRejected) || len(sandbox.launches()) != n+1 {
				t.Errorf("answered with %v after %d attempts", err, len(sandbox.launches()))
			}
		}
	}
}

// The two questions are remembered apart.
func TestAnApprovedRetryDoesNotApproveTheFirstAttempt(t *testing.T) {
	s, sandbox := inSandbox(t, both, noWrite)
	for n := range 2 {
		call := s.call(shell(stoppable))
		if q := s.answer(messages.DecisionApproved); q.Retry {
			t.Errorf("the first question is %+v", q.Question)
		}
		if n == 0 {
			if q := s.answer(messages.DecisionApprovedForSession); !q.Retry {
				t.Errorf("the second question is %+v", q.Question)
			}
		}
		if result := call.result(); string(result.Output) != "second\n" || len(sandbox.launches()) != 2*n+2 {
			t.Errorf("answered %q after %d attempts", result.Output, len(sandbox.launches()))
		}
	}
}

func TestAnApprovedRetryIsRemembered(t *testing.T) {
	s, _ := inSandbox(t, asks, noWrite)
	call := s.call(shell(stoppable))
	s.answer(messages.DecisionApprovedForSession)
	call.result()
	if result := s.exec(shell(stoppable)); string(result.Output) != "second\n" {
		t.Errorf("answered %q", result.Output)
	}
	s.decidedBy(messages.DecidedByPolicy, messages.DecidedByPerson, messages.DecidedByPolicy, messages.DecidedByCache)
}

func TestAnUnsandboxedAttemptIsNeverDenied(t *testing.T) {
	s, _ := inSandbox(t, retries, noWrite)
	result := s.exec(shell(`echo "permission denied, says $CONFINED"; exit 1`))
	if string(result.Output) != "permission denied, says \n" || result.Denial != nil || result.Status != messages.StatusExited(1) {
		t.Errorf("answered %q, %v, %v", result.Output, result.Denial, result.Status)
	}
	if end := s.theEnd(); end.Cause != messages.CauseExited || end.Denial != nil {
		t.Errorf("the end is %+v", end.EndRecord)
	}
}

func TestADenialAfterTheInitialCallIsNotRetried(t *testing.T) {
	for name, plan := range map[string]policy.Plan{"retry": retries, "ask": asks} {
		t.Run(name, func(t *testing.T) {
			s, sandbox := inSandbox(t, plan, noWrite)
			command := messages.ExecCommand{Argv: []string{"bash", "-c", "read line; exit 7"}, OpenStdin: true, Yield: new(messages.MinYield)}
			first := s.exec(command)
			if !first.Running {
				t.Fatalf("%+v", first)
			}
			awaitThat(t, "the start", func() bool { return len(probe.Of[messages.ExecStarted](s.events, nil)) > 0 })
			result := s.writeUntil(first.Process, "go\n", "its end")
			if result.Status != messages.StatusExited(7) || result.Denial == nil {
				t.Errorf("answered %v, %v", result.Status, result.Denial)
			}
			if end := s.theEnd(); end.Cause != messages.CauseSandboxDenied || len(sandbox.launches()) != 1 {
				t.Errorf("the end is %+v after %d attempts", end.EndRecord, len(sandbox.launches()))
			}
		})
	}
}

func TestASuccessInASandboxIsASuccess(t *testing.T) {
	s, sandbox := inSandbox(t, retries, nil)
	result := s.exec(shell("echo permission denied"))
	if result.Status != messages.StatusExited(0) || result.Denial != nil || len(sandbox.launches()) != 1 {
		t.Errorf("answered %v, %v", result.Status, result.Denial)
	}
	if end := s.theEnd(); end.Cause != messages.CauseExited {
		t.Errorf("the end is %+v", end.EndRecord)
	}
}

func TestEndingACommandWhileItsRetryIsAskedAbout(t *testing.T) {
	for name, end := range map[string]func(*asker, waiting){
		"terminate": func(s *asker, _ waiting) {
			if record, err := s.terminate(s.list()[0].Process); err != nil || record.Cause != messages.CauseSandboxDenied {
				s.t.Errorf("%v, %v", record, err)
			}
		},
		"cancel": func(_ *asker, call waiting) { call.cancel() },
		"close": func(s *asker, _ waiting) {
			must[protocol.Done](s.host, s.supervisor, protocol.CloseSession{By: messages.TerminatedBySessionClose})
		},
	} {
		for shape := range shapes {
			t.Run(name+" "+shape, func(t *testing.T) {
				s, sandbox := inSandbox(t, asks, noWrite)
				call := s.call(shapes[shape].command(stoppable))
				s.question()
				end(s, call)
				call.reply()
				ended := probe.Expect[messages.ExecEnded](s.events, patience, nil)
				if ended.Status != messages.StatusExited(7) || ended.Denial == nil || len(sandbox.launches()) != 1 {
					t.Errorf("the end is %+v", ended.EndRecord)
				}
				s.answeredOnce()
			})
		}
	}
}

func TestASecondAttemptIsListedAsRunning(t *testing.T) {
	s, _ := inSandbox(t, retries, noWrite)
	s.call(shell(`if [ -n "$CONFINED" ]; then exit 7; fi; echo second; exec sleep 1000`))
	probe.Expect[messages.OutputDelta](s.events, patience, nil)
	first := probe.Of[messages.ExecStarted](s.events, nil)[0]
	if one := s.list()[0]; one.State != messages.StateRunning || one.PID == 0 || one.PID == first.PID {
		t.Errorf("listed as %+v; the first attempt had the pid %d", one, first.PID)
	}
}

// Nobody who asks meanwhile learns of an exit that is not the last.
func TestNoExitIsToldWhileAnotherAttemptIsAskedAbout(t *testing.T) {
	s, _ := inSandbox(t, asks, noWrite)
	command := shell(stoppable)
	command.OpenStdin = true
	call := s.call(command)
	q := s.question()
	poll := s.call(messages.Poll{Process: q.Process, NoTimeout: true})
	s.call(messages.WriteStdin{Process: q.Process, Bytes: []byte("x"), Repeatable: true, UntilTaken: true}) // it ends the poll
	if got := poll.result(); !got.Running || got.Status != messages.StatusNone() {
		t.Errorf("polled %+v", got)
	}
	if err := s.decide(q.ID, messages.Decision{Kind: messages.DecisionApproved}); err != nil {
		t.Error(err)
	}
	call.reply()
	s.theEnd()
}

// What had no output for long enough while nothing ran is no reason; the second attempt is waited for.
func TestACallThatWaitsForQuietWaitsForAnotherAttempt(t *testing.T) {
	s, _ := inSandbox(t, asks, noWrite)
	const quiet = 200 * time.Millisecond
	command := shell(`if [ -n "$CONFINED" ]; then exit 7; fi; exec sleep 1000`)
	command.Yield, command.Until = new(2*patience), &messages.Until{Quiet: quiet}
	call := s.call(command)
	q := s.question()
	time.Sleep(2 * quiet) // were there a timer, it would be over
	if err := s.decide(q.ID, messages.Decision{Kind: messages.DecisionApproved}); err != nil {
		t.Error(err)
	}
	if result := call.result(); result.Met == nil || result.Met.Reason != messages.MetQuiet || !result.Running {
		t.Errorf("%+v, %+v", result, result.Met)
	}
	if _, err := s.call(messages.Terminate{Process: q.Process}).reply(); err != nil {
		t.Error(err)
	}
	s.theEnd()
}

func TestASecondAttemptThatCannotStart(t *testing.T) {
	s, sandbox := inSandbox(t, retries, noWrite)
	s.seam.before = func(_ context.Context, launch ptyio.Launch) error {
		if launch.Sandbox == nil {
			return errors.New("no more programs")
		}
		return nil
	}
	_, err := ask[*messages.Result](s.host, s.supervisor, shell(stoppable))
	if err == nil || !strings.Contains(err.Error(), "no more programs") {
		t.Errorf("%v", err)
	}
	ended := probe.Expect[messages.ExecEnded](s.events, patience, nil)
	if ended.Cause != messages.CauseSpawnFailed || len(sandbox.launches()) != 1 || len(probe.Of[messages.OutputClosed](s.events, nil)) != 1 {
		t.Errorf("the end is %+v", ended.EndRecord)
	}
	s.nothingLeft()
}

func TestTheTreeOfADeniedAttemptEndsBeforeTheNext(t *testing.T) {
	s, _ := inSandbox(t, retries, noWrite)
	command := shell(`if [ -n "$CONFINED" ]; then sleep 1000 & echo $! > pid; exit 7; fi; read first < pid; kill -0 "$first" 2>&1 | grep -o "No such process"`)
	command.OnLeaderExit = messages.LeaderExitKeepsTree
	result := s.exec(command)
	if string(result.Output) != "No such process\n" {
		t.Errorf("answered %q", result.Output)
	}
	if end := s.theEnd(); end.Tree.Ended != 1 {
		t.Errorf("the end is %+v", end.EndRecord)
	}
}

func TestACrashWhileARetryIsAskedAbout(t *testing.T) {
	s, _ := inSandbox(t, asks, noWrite)
	var call waiting
	pid := s.newActor(func() { call = s.call(shell(stoppable)) })
	s.question()
	s.system.Send(pid, deliberate{})
	_, err := call.reply()
	wantError(t, "a crash", err, messages.ErrRuntimeFailure)
	ended := probe.Expect[messages.ExecEnded](s.events, patience, nil)
	if ended.Cause != messages.CauseRuntimeFailure {
		t.Errorf("the end is %+v", ended.EndRecord)
	}
	s.waits(0) // nobody withdraws the question of a crashed actor: its end is noticed, a moment later
	s.nothingLeft()
}

func TestPoliciesChangeForLaterCommandsOnly(t *testing.T) {
	var mu sync.Mutex
	var seen []policy.Snapshot
	p := always()
	o := hostOptions{plan: func(r policy.Request, s policy.Snapshot) policy.Plan {
		mu.Lock()
		seen = append(seen, s)
		mu.Unlock()
		return p.plan(r, s)
	}}
	s := &asker{talk: newHost(t, o).open(nil), planner: p}
	s.listen()
	never, readOnly := messages.ApprovalPolicy{Mode: messages.ApproveNever}, messages.SandboxPolicy{Type: messages.SandboxExternal}
	first := s.call(messages.ExecCommand{Argv: []string{"true"}})
	q := s.question()
	must[protocol.Done](s.host, s.supervisor, messages.UpdateEnvironment{Approval: &never, Sandbox: &readOnly})
	s.decide(q.ID, messages.Decision{Kind: messages.DecisionApproved})
	first.result()
	mu.Lock()
	before := len(seen)
	mu.Unlock()
	second := s.call(messages.ExecCommand{Argv: []string{"true"}})
	s.answer(messages.DecisionApproved)
	second.result()
	for i, snapshot := range seen {
		if changed := snapshot.Approval == never && snapshot.Sandbox.Type == messages.SandboxExternal; changed != (i >= before) {
			t.Errorf("plan %d of %d was made from %+v", i, before, snapshot)
		}
	}
	for _, bad := range []messages.UpdateEnvironment{
		{Approval: &messages.ApprovalPolicy{Mode: "sometimes"}}, {Sandbox: &messages.SandboxPolicy{Type: "cage"}},
	} {
		_, err := ask[protocol.Done](s.host, s.supervisor, bad)
		wantError(t, "a policy that there is not", err, messages.ErrInvalidRequest)
	}
}

func TestARuleForAnotherCommandAllowsNoRetry(t *testing.T) {
	sandbox := &playful{Spawner: realSpawner(t, hostOptions{}), fact: noWrite}
	s := &asker{talk: newHost(t, hostOptions{seam: seam{Spawner: sandbox}}).open(func(c *shared.SessionConfig) {
		c.Sandbox, c.Approval = messages.SandboxPolicy{Type: messages.SandboxReadOnly}, messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}
	})}
	s.listen()
	dir := t.TempDir()
	s.call(messages.RunCommand{Argv: []string{"mkdir", dir + "/one"}})
	first := s.question()
	call := s.call(messages.RunCommand{Argv: []string{"/bin/bash", "-c", "mkdir -p " + dir + "/two && ls " + dir}})
	s.waits(2)
	if err := s.decide(first.ID, messages.Decision{Kind: messages.DecisionApprovedWithRule, Amendment: []string{"mkdir"}}); err != nil {
		t.Fatal(err)
	}
	if q := s.answer(messages.DecisionDenied); !q.Retry || !q.Unsandboxed {
		t.Errorf("asked: %+v", q.Question)
	}
	_, err := call.reply()
	wantError(t, "a retry that nobody has approved", err, messages.ErrRejected)
	s.nothingLeft()
}

// Where nobody can be asked, a command that rules cannot be applied to may run, but never without its sandbox.
func TestWithNobodyToAskADeniedCommandKeepsItsSandbox(t *testing.T) {
	sandbox := &playful{Spawner: realSpawner(t, hostOptions{}), fact: noWrite}
	p := &planner{Plan: policy.Plan{Decision: policy.Ask, Unasked: policy.Run, OnDenial: policy.AskTo}}
	h := newHost(t, hostOptions{plan: p.plan, seam: seam{Spawner: sandbox}})
	s := &asker{talk: h.open(func(c *shared.SessionConfig) { c.Sandbox = messages.SandboxPolicy{Type: messages.SandboxReadOnly} }), planner: p}
	_, err := ask[*messages.Result](s.host, s.supervisor, shell(stoppable))
	if e := wantError(t, "a retry that nobody has approved", err, messages.ErrRejected); e.Denial == nil {
		t.Errorf("it does not tell the denial: %+v", e)
	}
	if got := sandbox.launches(); !slices.Equal(got, []bool{true}) {
		t.Errorf("sandboxed: %v", got)
	}
	s.nothingLeft()
}
