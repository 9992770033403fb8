package actors

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/tests/probe"
)

// watched is a session with rules, in a sandbox of a machine that shows executions.
type watched struct {
	*asker
	machine *fiction
	seen    *bus.Subscription // of executions
}

func newWatched(t *testing.T, change func(*shared.SessionConfig, *fiction)) *watched {
	t.Helper()
	set, err := rules.Parse("it.rules", []byte(`
prefix_rule(["git", "push"], decision="forbidden")
prefix_rule(["make"], decision="prompt")
prefix_rule(["prompt"])`))
	if err != nil {
		t.Fatal(err)
	}
	machine := newFiction()
	machine.sees = true
	t.Cleanup(func() { close(machine.release) })
	o := hostOptions{rules: set}
	o.seam.Spawner = machine
	w := &watched{machine: machine}
	w.asker = &asker{talk: newHost(t, o).open(func(c *shared.SessionConfig) {
		c.Sandbox = messages.SandboxPolicy{Type: messages.SandboxReadOnly}
		c.Approval = messages.ApprovalPolicy{Mode: messages.ApproveOnRequest}
		if change != nil {
			change(c, machine)
		}
	})}
	w.listen()
	if w.seen, err = w.bus.Subscribe(bus.Filter{Sessions: []messages.SessionID{w.id}, Kinds: []messages.EventKind{messages.KindProgramExecuted}}, bus.SubscribeOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.seen.Close)
	return w
}

// acts starts a child that does these things.
func (w *watched) acts(words ...string) waiting {
	w.t.Helper()
	return w.call(messages.ExecCommand{Argv: append([]string{"prompt"}, words...)})
}

// executions are the events so far, as text.
func (w *watched) executions(n int) (all []string) {
	w.t.Helper()
	for range n {
		event, err := w.seen.Next(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		e := event.(messages.ProgramExecuted)
		all = append(all, strings.TrimSpace(fmt.Sprint(e.Argv, " ", map[bool]string{true: "refused"}[e.Refused], " ", e.Source)))
	}
	if more, is, _ := w.seen.TryNext(); is {
		w.t.Errorf("there is another event: %+v", more)
	}
	return all
}

func TestARuleHoldsForWhatIsExecuted(t *testing.T) {
	w := newWatched(t, nil)
	result := w.acts("run:git status", "run:git status", "run:git push", "run:git push", "run:true").result()
	wantCode(t, result, 126)
	if len(result.RefusedExecutions) != 1 || result.Denial != nil {
		t.Fatalf("%+v", result)
	}
	refused := result.RefusedExecutions[0]
	if text := refused.String(); text != "the execution of /usr/bin/git push was refused: a rule of the policy forbids commands that begin with `git push`" ||
		refused.Rule != "forbidden git push (it.rules:2)" {
		t.Errorf("%s, %+v", text, refused)
	}
	if got := w.executions(5); !slices.Equal(got, []string{"[git status]", "[git status]", "[git push] refused rule", "[git push] refused rule", "[true]"}) {
		t.Errorf("%q", got)
	}
	if n := w.machine.judged.Load(); n != 3 { // what met no rule is not judged again
		t.Errorf("%d were judged", n)
	}
	end := w.ended(result.Process)
	if e := end.Executions; e == nil || e.Mode != messages.ExecutionsEnforce || e.Total != 5 || e.Refused != 2 || len(e.Refusals) != 1 ||
		!slices.Equal(e.Programs, []messages.ExecutedProgram{{Program: "/usr/bin/git", Count: 4, Refused: 2}, {Program: "/usr/bin/true", Count: 1}}) {
		t.Errorf("%+v", e)
	}
	if listed := must[*messages.Executions](w.host, w.supervisor, protocol.ListExecutions{Process: result.Process}); listed.Total != 5 {
		t.Errorf("%+v", listed)
	}
	if end.Cause != messages.CauseExited || end.Denial != nil {
		t.Errorf("%+v", end.EndRecord)
	}
}

// A refusal by a rule is no denial by the sandbox, though the shell says "Permission denied": where a denial would be asked about, it is not.
func TestARefusalByARuleIsNoDenial(t *testing.T) {
	for _, c := range []struct {
		words   []string
		another bool
	}{{[]string{"run:true", "say:1", "exit:1"}, false}, {[]string{"run:git push"}, false}, {[]string{"run:git push", "denied"}, true}, {[]string{"denied"}, true}} {
		w := newWatched(t, func(config *shared.SessionConfig, _ *fiction) {
			config.Approval = messages.ApprovalPolicy{Mode: messages.ApproveOnFailure}
		})
		call := w.acts(c.words...)
		if c.another { // the spawner knows that the sandbox stopped it
			q := w.question()
			if !q.Retry || !q.Unseen || !strings.Contains(q.Text(), "executions are not seen") {
				t.Errorf("%v: %+v", c.words, q.Question)
			}
			if err := w.decide(q.ID, messages.Decision{Kind: messages.DecisionDenied}); err != nil {
				t.Error(err)
			}
			continue
		}
		if result := call.result(); result.Denial != nil {
			t.Errorf("%v: %+v", c.words, result.Denial)
		}
		if asked := probe.Of[messages.ApprovalRequested](w.events, nil); len(asked) > 0 {
			t.Errorf("%v: %+v", c.words, asked)
		}
	}
}

func TestAnExecutionIsAskedAbout(t *testing.T) {
	w := newWatched(t, nil)
	call := w.acts("run:make all", "run:make all", "run:make other")
	q := w.question()
	x := q.Execution
	if x == nil || x.Process != q.Process || x.Command != "prompt 'run:make all' 'run:make all' 'run:make other'" || x.PID != 7 || x.Rule != "prompt make (it.rules:3)" || q.Unsandboxed {
		t.Fatalf("%+v", q.Question)
	}
	for _, want := range []string{"Let a running command execute this program?\n\n/usr/bin/make all\n", "Command: prompt 'run:make all'", "Executed by: pid 7, a child of pid 1", "Reason: it requires approval by policy"} {
		if !strings.Contains(q.Text(), want) {
			t.Errorf("no %q in:\n%s", want, q.Text())
		}
	}
	if err := w.decide(q.ID, messages.Decision{Kind: messages.DecisionApprovedWithRule, Amendment: []string{"make"}}); err == nil || !strings.Contains(err.Error(), "cannot outweigh") {
		t.Error(err)
	}
	if err := w.decide(q.ID, messages.Decision{Kind: messages.DecisionApproved}); err != nil { // this once
		t.Fatal(err)
	}
	w.answer(messages.DecisionApprovedForSession)
	if err := w.decide(w.question().ID, messages.Decision{Kind: messages.DecisionDenied, Rejection: "not now"}); err != nil {
		t.Fatal(err)
	}
	result := call.result()
	if wantCode(t, result, 126); len(result.RefusedExecutions) != 1 || result.RefusedExecutions[0].Reason != "not now" {
		t.Errorf("%+v", result.RefusedExecutions)
	}
	wantCode(t, w.acts("run:make all").result(), 0) // remembered
	got := w.executions(4)
	if !slices.Equal(got, []string{"[make all]  user", "[make all]  user", "[make other] refused user", "[make all]  cache"}) {
		t.Errorf("%q", got)
	}
	if grants := w.grants(); len(grants) != 1 || grants[0].Display != "/usr/bin/make all" {
		t.Errorf("%+v", grants)
	}
	w.nothingLeft()
}

// What a person refuses to a process is refused to it again without a question, and after many refusals there are no more questions.
func TestARefusedExecutionIsNotAskedAboutAgain(t *testing.T) {
	w := newWatched(t, nil)
	var words []string
	for i := range 34 {
		words = append(words, fmt.Sprintf("run:make %d", i), fmt.Sprintf("run:make %d", i))
	}
	call := w.acts(words...)
	for range 32 {
		w.answer(messages.DecisionDenied)
	}
	result := call.result()
	if n := len(result.RefusedExecutions); n != messages.MaxRefusedExecutions {
		t.Errorf("%d refusals are named", n)
	}
	all := w.executions(68)
	if all[67] != "[make 33] refused policy" || all[1] != "[make 0] refused policy" {
		t.Errorf("%q", all)
	}
	// Another process is asked about again.
	call = w.acts("run:make 1")
	w.answer(messages.DecisionApproved)
	wantCode(t, call.result(), 0)
}

// The words of the command itself are not asked about twice. The process is one that a person has approved.
func TestTheApprovedCommandIsNotAskedAboutAgain(t *testing.T) {
	w := newWatched(t, nil)
	call := w.call(messages.ExecCommand{Script: "make all; make other", Shell: "sh"})
	if q := w.answer(messages.DecisionApproved); q.Execution != nil {
		t.Errorf("%+v", q.Question)
	}
	q := w.answer(messages.DecisionApproved) // it executes something else as well
	if q.Execution == nil || q.Display != "/usr/bin/make third" {
		t.Errorf("%+v", q.Question)
	}
	wantCode(t, call.result(), 0)
	if got := w.executions(3); !slices.Equal(got, []string{"[make all]  rule", "[make other]  rule", "[make third]  user"}) {
		t.Errorf("%q", got)
	}
}

// While a person is asked, the clocks of the process stand still, and the record says how long.
func TestClocksStandStillWhileAnExecutionIsAskedAbout(t *testing.T) {
	w := newWatched(t, nil)
	call := w.call(messages.ExecCommand{Argv: []string{"prompt", "run:make all", "wait"}, Yield: new(messages.MinYield)})
	q := w.question()
	poll := w.call(messages.Poll{Process: q.Process, Yield: new(messages.MinPoll)})
	if poll.answered(messages.MinPoll + time.Second/4) {
		t.Error("a poll was answered while a person was asked")
	}
	if err := w.decide(q.ID, messages.Decision{Kind: messages.DecisionApproved}); err != nil {
		t.Fatal(err)
	}
	if result := call.result(); !result.Running {
		t.Errorf("%+v", result)
	}
	end, err := w.terminate(q.Process)
	if err != nil || end.Waited < messages.MinPoll {
		t.Errorf("%+v, %v", end, err)
	}
}

// Nobody is there to ask, or the process is ended meanwhile: the execution is refused, and its question is over before the end.
func TestExecutionsThatNobodyIsAskedAbout(t *testing.T) {
	w := newWatched(t, nil)
	w.ears.Close()
	result := w.acts("run:make all").result()
	if len(result.RefusedExecutions) != 1 || result.RefusedExecutions[0].Source != messages.DecidedByAbsence {
		t.Errorf("%+v", result)
	}
	w.listen()
	w.call(messages.ExecCommand{Argv: []string{"prompt", "run:make all"}})
	q := w.question()
	end, err := w.terminate(q.Process)
	if err != nil || end.By != messages.TerminatedByUser {
		t.Errorf("%+v, %v", end, err)
	}
	probe.Expect(w.events, patience, func(e messages.ApprovalResolved) bool {
		return e.Question == q.ID && e.Execution == "/usr/bin/make all"
	})
	probe.Expect(w.events, patience, func(e messages.ExecEnded) bool { return e.Process == q.Process })
	if left := w.questions(); len(left) > 0 {
		t.Errorf("%+v", left)
	}
	// An answer that aborts ends the command.
	call := w.acts("run:make all", "wait")
	w.answer(messages.DecisionAborted)
	_, _ = call.reply()
	probe.Expect(w.events, patience, func(e messages.ExecEnded) bool { return e.Cause == messages.CauseTerminated && e.Process != q.Process })
	w.nothingLeft()
}

// Equal executions of one process that wait share a question. Those of another have one of their own.
func TestEqualExecutionsShareAQuestion(t *testing.T) {
	w := newWatched(t, nil)
	calls := []waiting{w.acts("run:make all & make all & make all"), w.acts("run:make all")}
	awaitThat(t, "all wait for an answer", func() bool { return w.machine.held.Load() == 4 })
	w.waits(2)
	first := w.answer(messages.DecisionApproved)
	second := w.answer(messages.DecisionApproved)
	if first.Process == second.Process {
		t.Error("one process was asked about twice")
	}
	for _, call := range calls {
		wantCode(t, call.result(), 0)
	}
	if got := w.executions(4); !slices.Equal(got, []string{"[make all]  user", "[make all]  user", "[make all]  user", "[make all]  user"}) {
		t.Errorf("%q", got)
	}
}

// What a session sees of executions: by its mode, its rules, its sandbox, and what the machine can show.
func TestTheModesOfExecutions(t *testing.T) {
	confined, free := messages.SandboxReadOnly, messages.SandboxDangerFullAccess
	for _, c := range []struct {
		mode    messages.ExecutionMode
		sandbox messages.SandboxType
		sees    bool
		want    messages.ExecutionMode
		refused string
	}{
		{"", confined, true, messages.ExecutionsEnforce, ""},
		{"", confined, false, messages.ExecutionsOff, ""},
		{"", free, true, messages.ExecutionsOff, ""},
		{messages.ExecutionsOff, confined, true, messages.ExecutionsOff, ""},
		{messages.ExecutionsReport, confined, true, messages.ExecutionsReport, ""},
		{messages.ExecutionsReport, free, true, messages.ExecutionsReport, ""},
		{messages.ExecutionsEnforce, free, true, messages.ExecutionsEnforce, ""},
		{messages.ExecutionsReport, confined, false, "", `the session demands "report" for the programs that commands execute, and they cannot be seen here: it is dark`},
		{messages.ExecutionsEnforce, free, false, "", "it is dark"},
	} {
		w := newWatched(t, func(config *shared.SessionConfig, machine *fiction) {
			config.Executions, config.Sandbox.Type, machine.sees = c.mode, c.sandbox, c.sees
		})
		if c.refused != "" {
			_, err := ask[*messages.Result](w.host, w.supervisor, messages.ExecCommand{Argv: []string{"prompt"}})
			if failed := wantError(t, "demanded", err, messages.ErrUnsupported); !strings.Contains(failed.Detail, c.refused) {
				t.Error(failed)
			}
			continue
		}
		result := w.acts("run:git push", "run:true").result()
		end := w.ended(result.Process)
		got := messages.ExecutionsOff
		if end.Executions != nil {
			got = end.Executions.Mode
		}
		if got != c.want || (len(result.RefusedExecutions) > 0) != (c.want == messages.ExecutionsEnforce) {
			t.Errorf("%+v: %+v, %+v", c, end.Executions, result.RefusedExecutions)
		}
		if c.want == messages.ExecutionsReport {
			event, err := w.seen.Next(t.Context())
			if e, is := event.(messages.ProgramExecuted); err != nil || !is || e.Rule != "forbidden git push (it.rules:2)" || e.Refused {
				t.Errorf("%+v, %v", event, err)
			}
		}
	}
}

// What nobody answers is refused to the caller that goes on to the next directory of PATH, and asked about when another process tries it.
func TestWhatNobodyAnswersIsNotAskedOfTheSameCallerAgain(t *testing.T) {
	w := newWatched(t, func(c *shared.SessionConfig, _ *fiction) { c.ApprovalDeadline = time.Millisecond })
	result := w.acts("run:make all", "run:make all", "run:make other", "as:8", "run:make all", "run:make all").result()
	all := w.executions(5)
	if want := []string{"[make all] refused deadline", "[make all] refused policy", "[make other] refused deadline", "[make all] refused deadline",
		"[make all] refused policy"}; !slices.Equal(all, want) {
		t.Errorf("%q", all)
	}
	for _, refused := range result.RefusedExecutions {
		if refused.Reason != "nobody answered the question before its deadline" {
			t.Errorf("%+v", refused)
		}
	}
	w.nothingLeft()
}

// What was allowed and did not happen, because the answer came too late, was refused.
func TestAnAnswerThatComesTooLateRefuses(t *testing.T) {
	for _, words := range []string{"run:git status", "run:make all"} { // by no rule, and by a person
		w := newWatched(t, func(_ *shared.SessionConfig, machine *fiction) { machine.tardy.Store(true) })
		call := w.acts(words)
		if words == "run:make all" {
			w.answer(messages.DecisionApproved)
		}
		result := call.result()
		wantCode(t, result, 126)
		if all := result.RefusedExecutions; len(all) != 1 || all[0].Reason != ptyio.ErrJudgedLate.Error() || all[0].Decision != "" {
			t.Errorf("%+v", all)
		}
		if got := w.executions(1); !strings.HasSuffix(got[0], "refused absence") {
			t.Errorf("%q", got)
		}
	}
}

// A spawner that reports faster than the process listens is not waited for: what is lost is counted.
func TestExecutionsAreCountedWhereTheyCannotBeKept(t *testing.T) {
	w := newWatched(t, nil)
	result := w.acts("flood:100000").result()
	if e := w.ended(result.Process).Executions; e == nil || e.Total != 100000 || e.Programs[0].Count+e.Unreported != 100000 {
		t.Errorf("%+v", e)
	}
}
