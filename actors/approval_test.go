package actors

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/execbus/execbus/actors/internal/approval"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/tests/probe"
)

func TestFiftyEqualRequestsAreOneQuestion(t *testing.T) {
	const n = 50
	s := newAsker(t, always(), hostOptions{}, nil)
	var calls []waiting
	for range n {
		calls = append(calls, s.call(shell("echo once")))
	}
	// Each is planned by its process and, when it is being merged, by the approval actor.
	awaitThat(t, "all have asked", func() bool { return s.planner.made.Load() >= 2*n })
	if waiting := s.questions(); len(waiting) != 1 {
		t.Fatalf("%d questions wait, want 1", len(waiting))
	}
	s.answer(messages.DecisionApproved)
	for _, call := range calls {
		if result := call.result(); string(result.Output) != "once\n" {
			t.Errorf("the output is %q", result.Output)
		}
	}
	if put := probe.Of[messages.ApprovalRequested](s.events, nil); len(put) != 1 {
		t.Errorf("%d questions were put, want 1", len(put))
	}
	s.nothingLeft()
}

func TestNoQuestionIsPutAboutACommandThatCannotBeEnforced(t *testing.T) {
	w := &wary{Spawner: realSpawner(t, hostOptions{}), refuse: &messages.Error{Code: messages.ErrUnsupported}}
	s := newAsker(t, always(), hostOptions{seam: seam{Spawner: w}}, func(c *shared.SessionConfig) { c.Sandbox = messages.SandboxPolicy{Type: messages.SandboxReadOnly} })
	_, err := ask[*messages.Result](s.host, s.supervisor, shell("echo never"))
	if !errors.Is(err, messages.ErrUnsupported) {
		t.Errorf("error %v", err)
	}
	if put := probe.Of[messages.ApprovalRequested](s.events, nil); len(put) > 0 {
		t.Errorf("%d questions were put", len(put))
	}
	s.nothingLeft()
}

func TestADifferenceIsAQuestionOfItsOwn(t *testing.T) {
	s := newAsker(t, always(), hostOptions{}, nil)
	one, two := s.call(shell("echo 1")), s.call(shell("echo 2"))
	s.waits(2)
	first, second := s.questions()[0], s.questions()[1]
	if put := s.question(); put.ID != first.ID {
		t.Errorf("%s was put, and %s is the first", put.ID, first.ID)
	}
	// Nothing else is put before the first is answered; but a caller that knows of the second may answer it.
	if err := s.decide(second.ID, messages.Decision{Kind: messages.DecisionDenied, Rejection: "not that one"}); err != nil {
		t.Fatal(err)
	}
	if err := s.decide(first.ID, messages.Decision{Kind: messages.DecisionApproved}); err != nil {
		t.Fatal(err)
	}
	answers := map[bool]int{}
	for _, call := range []waiting{one, two} {
		_, err := call.reply()
		if err != nil {
			if e := wantError(t, "the denied one", err, messages.ErrRejected); e.Detail != "not that one" {
				t.Errorf("it was rejected with %q", e.Detail)
			}
		}
		answers[err == nil]++
	}
	if answers[true] != 1 || answers[false] != 1 {
		t.Errorf("the answers are %v", answers)
	}
	if put := probe.Of[messages.ApprovalRequested](s.events, nil); len(put) != 1 {
		t.Errorf("%d questions were put, want 1", len(put))
	}
	s.nothingLeft()
}

func TestARuleAnswersTheQuestionsThatWait(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules", "default.rules")
	s := newAsker(t, always(), hostOptions{file: file}, nil)
	other := &asker{talk: s.host.open(nil)}
	one := s.call(shell("echo 1"))
	q := s.question()
	two, three := s.call(shell("echo 2")), s.call(messages.ExecCommand{Argv: []string{"echo", "3"}})
	s.waits(3)
	if err := s.decide(q.ID, messages.Decision{Kind: messages.DecisionApprovedWithRule}); !errors.Is(err, messages.ErrInvalidRequest) {
		t.Errorf("a rule without a prefix: %v", err)
	}
	if err := s.decide(q.ID, messages.Decision{Kind: messages.DecisionApprovedWithRule, Amendment: []string{"bash", "-c"}}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, one.result(), 0)
	wantCode(t, two.result(), 0)
	if left := s.question(); left.Argv[0] != "echo" {
		t.Errorf("asked about %q, want the one that the rule does not allow", left.Argv)
	}
	s.decide(s.questions()[0].ID, messages.Decision{Kind: messages.DecisionApproved})
	wantCode(t, three.result(), 0)
	wantCode(t, other.exec(shell("echo in another session")), 0)
	text, err := os.ReadFile(file)
	if want := `prefix_rule(pattern=["bash", "-c"], decision="allow")` + "\n"; err != nil || string(text) != want {
		t.Errorf("the file has %q, %v, want %q", text, err, want)
	}
	s.decidedBy(messages.DecidedByPerson, messages.DecidedByRule, messages.DecidedByPerson)
	other.decidedBy(messages.DecidedByRule)
	s.nothingLeft()
}

func TestARuleThatCannotBeWrittenAllowsThisOnce(t *testing.T) {
	occupied := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(occupied, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newAsker(t, always(), hostOptions{file: filepath.Join(occupied, "default.rules")}, nil)
	if warned := s.approvesWithRule(2); len(warned) != 2 || !strings.Contains(warned[0].Text, "could not be remembered") {
		t.Errorf("the warnings are %v", warned)
	}
}

func TestAnswersThatDoNotApprove(t *testing.T) {
	for _, c := range []struct {
		decision messages.Decision
		code     error
		text     string
		cause    messages.Cause
	}{
		{messages.Decision{Kind: messages.DecisionDenied}, messages.ErrRejected, "rejected by user", messages.CauseRejected},
		{messages.Decision{Kind: messages.DecisionDenied, Rejection: "use make"}, messages.ErrRejected, "use make", messages.CauseRejected},
		{messages.Decision{Kind: messages.DecisionDenied, Rejection: strings.Repeat("long ", 10_000)}, messages.ErrRejected, "tokens truncated", messages.CauseRejected},
		{messages.Decision{Kind: messages.DecisionAborted}, messages.ErrAborted, "approval request aborted", messages.CauseAborted},
	} {
		s := newAsker(t, always(), hostOptions{}, nil)
		exec, run := s.call(shell("echo never")), s.call(messages.RunCommand{Argv: []string{"echo", "never"}})
		quick := s.call(quick("echo not at once either"))
		for range 3 {
			if err := s.decide(s.question().ID, c.decision); err != nil {
				t.Fatal(err)
			}
		}
		for _, call := range []waiting{exec, run} {
			_, err := call.reply()
			if e := wantError(t, "a refused command", err, c.code); !strings.Contains(e.Error(), c.text) || len(e.Error()) > 5000 {
				t.Errorf("%v, want %q", e, c.text)
			}
		}
		_, err := quick.reply()
		wantError(t, "a refused command that is not waited for", err, c.code)
		for _, end := range probe.Of[messages.ExecEnded](s.events, nil) {
			if end.Cause != c.cause || end.Status != messages.StatusNone() {
				t.Errorf("the end is %+v", end.EndRecord)
			}
		}
		s.neverStarted()
		s.nothingLeft()
	}
}

func TestAQuestionHasOneAnswer(t *testing.T) {
	s := newAsker(t, always(), hostOptions{}, nil)
	call := s.call(shell("echo 1"))
	q := s.question()
	if err := s.decide(q.ID, messages.Decision{Kind: "perhaps"}); !errors.Is(err, messages.ErrInvalidRequest) {
		t.Errorf("an answer that is none: %v", err)
	}
	if err := s.decide(q.ID, messages.Decision{Kind: messages.DecisionTimedOut}); !errors.Is(err, messages.ErrInvalidRequest) {
		t.Errorf("an answer that nobody may give: %v", err)
	}
	const n = 20
	errs := make(chan error, n)
	for range n {
		go func() { errs <- s.decide(q.ID, messages.Decision{Kind: messages.DecisionApproved}) }()
	}
	taken := 0
	for range n {
		if err := <-errs; err == nil {
			taken++
		} else {
			wantError(t, "a later answer", err, messages.ErrAlreadyResolved)
		}
	}
	if taken != 1 {
		t.Errorf("%d answers were taken", taken)
	}
	call.result()
	for _, id := range []messages.QuestionID{"", "q0", "q2", "q-1", "q01", "nonsense"} {
		wantError(t, "an unknown question", s.decide(id, messages.Decision{Kind: messages.DecisionApproved}), messages.ErrUnknownQuestion)
	}
	s.nothingLeft()
}

func TestTheApprovalActorCrashes(t *testing.T) {
	s := newAsker(t, always(), hostOptions{}, nil)
	one, two := s.call(shell("echo 1")), s.call(shell("echo 2"))
	s.waits(2)
	s.killApproval()
	for _, call := range []waiting{one, two} {
		_, err := call.reply()
		wantError(t, "the actor that asks is gone", err, messages.ErrRejected)
	}
	probe.Expect[messages.ExecNotice](s.events, patience, nil)
	again := s.call(shell("echo 3")) // another one asks
	s.waits(1)
	s.killApproval()
	_, err := again.reply()
	wantError(t, "the other one is gone, too", err, messages.ErrRejected)
	probe.Expect[messages.ExecNotice](s.events, patience, nil)
	if notices := probe.Of[messages.ExecNotice](s.events, nil); len(notices) != 2 || notices[0].Text == notices[1].Text {
		t.Errorf("%+v", notices)
	}
	_, err = ask[*messages.Result](s.host, s.supervisor, shell("echo 3"))
	wantError(t, "later", err, messages.ErrRejected)
	_, err = ask[messages.Questions](s.host, s.supervisor, protocol.ListQuestions{})
	wantError(t, "list", err, messages.ErrRuntimeFailure)
	s.answeredOnce()
	s.neverStarted()
}

func TestYieldsGoOnWhenTheApprovalActorIsKilled(t *testing.T) {
	p := always()
	s := newAsker(t, p, hostOptions{plan: nil}, nil)
	asked := s.call(shell("echo 1"))
	s.question()
	for _, pid := range s.actors("/approval$") {
		s.system.Send(pid, deliberate{}) // it can do nothing about it itself
	}
	_, err := asked.reply()
	wantError(t, "nobody to ask", err, messages.ErrRejected)
	p.Decision = policy.Run
	if result := s.exec(messages.ExecCommand{Argv: []string{"sleep", "1000"}, Yield: new(messages.MinYield)}); !result.Running {
		t.Errorf("%+v", result)
	}
	must[protocol.Done](s.host, s.supervisor, protocol.TerminateAll{})
}

func TestTooManyQuestions(t *testing.T) {
	s := newAsker(t, always(), hostOptions{}, nil)
	var calls []waiting
	for n := range approval.MaxQuestions + 1 {
		calls = append(calls, s.call(messages.ExecCommand{Argv: []string{"echo", fmt.Sprint(n)}}))
	}
	s.waits(approval.MaxQuestions)
	over := 0
	awaitThat(t, "one is refused", func() bool {
		over = 0
		for _, call := range calls {
			if call.answered(0) {
				over++
			}
		}
		return over > 0
	})
	if over != 1 {
		t.Errorf("%d were refused", over)
	}
	must[protocol.Done](s.host, s.supervisor, protocol.TerminateAll{})
	limited := 0
	for _, call := range calls {
		if _, err := call.reply(); errors.Is(err, messages.ErrLimitReached) {
			limited++
		}
	}
	if limited != 1 {
		t.Errorf("%d were told that there are too many", limited)
	}
	s.nothingLeft()
}

// TestClosedSessionsHoldNoMemory: actors that outlive them, such as the keeper of the rules, must not keep references
// to them.
func TestClosedSessionsHoldNoMemory(t *testing.T) {
	h := newHost(t, hostOptions{})
	some := func(count int) int64 {
		for i := range count { // the name of one that is closed is free a moment later
			s := must[*system.PID](h, h.runtime, OpenSession{Config: shared.SessionConfig{Session: messages.SessionID(fmt.Sprintf("s%d", i)), Dir: "/", MaxProcesses: 1}})
			must[protocol.Done](h, s, protocol.CloseSession{})
		}
		awaitThat(t, "all sessions have ended", func() bool { return len(h.actors("/session$")) == 0 })
		var memory goruntime.MemStats
		goruntime.GC()
		goruntime.GC()
		goruntime.ReadMemStats(&memory)
		return int64(memory.HeapAlloc)
	}
	const count, most = 500, 2 << 10
	before := some(count)
	if grown := some(count) - before; grown > count*most {
		t.Errorf("%d closed sessions hold %d KiB", count, grown>>10)
	}
}

func TestAQuestionShowsTheNameThatAProgramIsTold(t *testing.T) {
	s := newAsker(t, always(), hostOptions{}, nil)
	for argv0, want := range map[string]string{
		"":         "/bin/busybox -f x",
		"rm\u202e": `exec -a $'rm\u202e' /bin/busybox -f x`,
		"rm":       "exec -a rm /bin/busybox -f x",
	} {
		call := s.call(messages.ExecCommand{Argv: []string{"/bin/busybox", "-f", "x"}, Argv0: argv0})
		if q := s.answer(messages.DecisionDenied); q.Display != want {
			t.Errorf("%q is shown as %q", argv0, q.Display)
		}
		_, err := call.reply()
		wantError(t, "denied", err, messages.ErrRejected)
	}
}
