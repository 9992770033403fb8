package actors

import (
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/tests/probe"
)

// makesPlan is how plans are made.
type makesPlan = func(policy.Request, policy.Snapshot) policy.Plan

// outside makes sure that no plan is made in a Receive, where it would hold up others. Nil stays nil.
func outside(t testing.TB, plan makesPlan) makesPlan {
	if plan == nil {
		return nil
	}
	return func(r policy.Request, s policy.Snapshot) policy.Plan {
		callers := make([]uintptr, 100)
		frames := goruntime.CallersFrames(callers[:goruntime.Callers(1, callers)])
		for more := true; more; {
			var frame goruntime.Frame
			if frame, more = frames.Next(); strings.HasSuffix(frame.Function, "kernel.(*mailbox).handle") {
				t.Errorf("the plan for %q is made in a Receive", r.Argv)
			}
		}
		return plan(r, s)
	}
}

// said is what the commands of questions say, in the order of the questions.
func commandsOf(questions messages.Questions) (commands []string) {
	for _, q := range questions {
		commands = append(commands, q.Argv[len(q.Argv)-1])
	}
	return commands
}

// Questions come in the order of the calls, in whatever order the plans are ready.
func TestQuestionsComeInTheOrderOfTheCalls(t *testing.T) {
	const n = 8
	ready := [n + 1]chan struct{}{}
	for i := range ready {
		ready[i] = make(chan struct{})
	}
	close(ready[n])
	p := always()
	o := hostOptions{patience: shared.Patience{Plan: time.Hour}, plan: func(r policy.Request, s policy.Snapshot) policy.Plan {
		if s.Granted == nil { // for the process
			var i int
			fmt.Sscan(r.Argv[1], &i)
			<-ready[i+1]
			defer close(ready[i])
		}
		return p.plan(r, s)
	}}
	s := &asker{talk: newHost(t, o).open(nil), planner: p}
	s.listen()
	var calls []waiting
	var want []string
	for i := range n {
		calls = append(calls, s.call(messages.ExecCommand{Argv: []string{"echo", fmt.Sprint(i)}}))
		want = append(want, fmt.Sprint(i))
	}
	s.waits(n)
	if got := commandsOf(s.questions()); !slices.Equal(got, want) {
		t.Errorf("asked about %v", got)
	}
	for i := range n {
		if q := s.answer(messages.DecisionApproved); q.Argv[1] != fmt.Sprint(i) {
			t.Errorf("question %d is about %v", i, q.Argv)
		}
	}
	for _, call := range calls {
		call.result()
	}
	s.nothingLeft()
}

func TestALatePlanLosesItsPlace(t *testing.T) {
	late := map[string]time.Duration{"late": soon.Plan + time.Millisecond, "slow": soon.Plan - time.Millisecond}
	plan := func(r policy.Request, s policy.Snapshot) policy.Plan {
		if s.Granted == nil {
			time.Sleep(late[r.Argv[2]])
		}
		return imaginedPlan(r, s)
	}
	inBubble(t, bubbleOptions{plan: plan}, func(t *testing.T, b *bubble) {
		s := &asker{talk: b.open(nil)}
		s.listen()
		for _, name := range []string{"late", "slow", "first", "second"} {
			s.call(does("prompt", "asked", name))
		}
		for _, step := range []struct {
			wait time.Duration
			want []string
		}{
			{soon.Plan - 2*time.Millisecond, nil},
			{time.Millisecond, nil},
			{time.Millisecond, []string{"slow", "first", "second"}},
			{time.Millisecond, []string{"slow", "first", "second", "late"}},
		} {
			time.Sleep(step.wait)
			synctest.Wait()
			var got []string
			for _, q := range s.questions() {
				got = append(got, q.Argv[2])
			}
			if !slices.Equal(got, step.want) {
				t.Errorf("asked about %v, want %v", got, step.want)
			}
		}
	})
}

func TestACommandThatAsksNothingHoldsUpNoQuestion(t *testing.T) {
	plan := func(r policy.Request, s policy.Snapshot) policy.Plan {
		plan := imaginedPlan(r, s)
		if r.Argv[1] == "refused" {
			plan.Decision = policy.Reject
		}
		return plan
	}
	inBubble(t, bubbleOptions{plan: plan}, func(t *testing.T, b *bubble) {
		s := &asker{talk: b.open(nil)}
		s.listen()
		s.call(does("prompt", "wait"))
		s.call(does("prompt", "refused"))
		s.call(does("prompt", "asked"))
		synctest.Wait()
		if n := len(s.questions()); n != 1 {
			t.Errorf("%d questions", n)
		}
	})
}

// Nobody has to be there for a command that an approval answers, also where its plan takes a while.
func TestAnApprovalAnswersThoughNobodyListens(t *testing.T) {
	plan := func(r policy.Request, s policy.Snapshot) policy.Plan {
		if s.Granted != nil {
			time.Sleep(time.Second / 2)
		}
		return imaginedPlan(r, s)
	}
	inBubble(t, bubbleOptions{plan: plan}, func(t *testing.T, b *bubble) {
		s := &asker{talk: b.open(nil)}
		s.listen()
		for i := range 2 {
			call := s.call(does("prompt", "asked"))
			time.Sleep(time.Second)
			synctest.Wait()
			if i == 0 {
				s.decide(s.questions()[0].ID, messages.Decision{Kind: messages.DecisionApprovedForSession})
				s.ears.Close()
				synctest.Wait()
			}
			if _, err := answerIs(t, call); err != nil {
				t.Errorf("command %d: %v", i, err)
			}
		}
	})
}

// A question that waits for the plans of others can be withdrawn, and those behind it go on.
func TestAQuestionThatWaitsItsTurnIsWithdrawn(t *testing.T) {
	for name, end := range map[string]func(s *asker, b *bubble, actor *system.PID, call waiting){
		"cancel":    func(_ *asker, _ *bubble, _ *system.PID, call waiting) { call.cancel() },
		"terminate": func(s *asker, _ *bubble, _ *system.PID, _ waiting) { s.terminate(s.list()[1].Process) },
		"crash":     func(_ *asker, b *bubble, actor *system.PID, _ waiting) { b.system.Send(actor, deliberate{}) },
		"approval crash": func(_ *asker, b *bubble, _ *system.PID, _ waiting) {
			b.system.Send(b.only("/approval$"), deliberate{})
		},
		"session crash": func(s *asker, b *bubble, _ *system.PID, _ waiting) { b.system.Send(s.supervisor, deliberate{}) },
		"close": func(s *asker, b *bubble, _ *system.PID, _ waiting) {
			must[protocol.Done](b.host, s.supervisor, protocol.CloseSession{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var gate chan struct{} // of the bubble
			plan := func(r policy.Request, s policy.Snapshot) policy.Plan {
				if s.Granted == nil && r.Argv[2] == "late" {
					<-gate
				}
				return imaginedPlan(r, s)
			}
			inBubble(t, bubbleOptions{plan: plan}, func(t *testing.T, b *bubble) {
				gate = make(chan struct{})
				s := &asker{talk: b.open(nil)}
				s.listen()
				s.call(does("prompt", "asked", "late"))
				synctest.Wait()
				var one waiting
				actor := b.newActor(func() { one = s.call(does("prompt", "asked", "one")) })
				synctest.Wait()
				two := s.call(does("prompt", "asked", "two"))
				synctest.Wait()
				end(s, b, actor, one)
				synctest.Wait()
				close(gate)
				synctest.Wait()
				if name != "close" && name != "session crash" {
					for _, q := range s.questions() {
						s.decide(q.ID, messages.Decision{Kind: messages.DecisionApproved})
						synctest.Wait()
					}
				}
				if _, err := answerIs(t, two); (err != nil) != (name == "close" || name == "session crash") {
					t.Errorf("the other: %v", err)
				}
				if _, err := answerIs(t, one); (err != nil) == (name == "approval crash") {
					t.Errorf("the one that ends: %v", err)
				}
				synctest.Wait()
				ended := map[messages.ProcessID]int{}
				for _, e := range probe.Of[messages.ExecEnded](s.events, nil) {
					ended[e.Process]++
				}
				if len(ended) != 3 {
					t.Errorf("%d of 3 have ended", len(ended))
				}
				for id, n := range ended {
					if n != 1 {
						t.Errorf("%d ends of %d", n, id)
					}
				}
			})
		})
	}
}

// What an answer changes is looked at for each question that waits, once, and nothing is held up meanwhile.
func TestPlansAreMadeAgainOneAtATimeAndOnlyAfterAChange(t *testing.T) {
	const n = 100
	var blocked, busy, most atomic.Int64
	entered, gate := make(chan struct{}, n), make(chan struct{})
	p := always()
	o := hostOptions{plan: func(r policy.Request, s policy.Snapshot) policy.Plan {
		plan := p.plan(r, s)
		if s.Granted != nil && blocked.Load() > 0 {
			most.Store(max(most.Load(), busy.Add(1)))
			entered <- struct{}{}
			<-gate
			busy.Add(-1)
		}
		return plan
	}}
	s := &asker{talk: newHost(t, o).open(func(c *shared.SessionConfig) { c.MaxProcesses = 2 * n }), planner: p}
	s.listen()
	for i := range n {
		s.call(messages.ExecCommand{Argv: []string{"echo", fmt.Sprint(i)}})
	}
	s.waits(n)
	before := p.made.Load()
	s.answer(messages.DecisionDenied)
	s.question()
	if made := p.made.Load() - before; made != 0 {
		t.Errorf("%d plans were made after a denial, which changes none", made)
	}
	blocked.Store(1)
	if err := s.decide(s.questions()[0].ID, messages.Decision{Kind: messages.DecisionApprovedForSession}); err != nil {
		t.Fatal(err)
	}
	<-entered
	if left := s.list(); len(left) < n-2 || len(s.questions()) != n-2 { // both actors answer
		t.Errorf("%d processes, %d questions", len(left), len(s.questions()))
	}
	if put := probe.Of[messages.ApprovalRequested](s.events, nil); len(put) != 2 {
		t.Errorf("%d questions were put before it is known whether they are answered", len(put))
	}
	close(gate)
	s.question()
	awaitThat(t, "all plans are made again", func() bool { return p.made.Load()-before == n-2 })
	if most.Load() != 1 {
		t.Errorf("%d plans were made at a time", most.Load())
	}
	must[protocol.Done](s.host, s.supervisor, protocol.TerminateAll{})
	s.nothingLeft()
}

// secondWaits is a session in which the second plan that the approval actor makes is not ready before the gate is open.
func secondWaits(t *testing.T) (s *asker, entered, gate chan struct{}) {
	t.Helper()
	var plans atomic.Int64
	entered, gate = make(chan struct{}, 1), make(chan struct{})
	p := always()
	o := hostOptions{plan: func(r policy.Request, s policy.Snapshot) policy.Plan {
		plan := p.plan(r, s)
		if s.Granted != nil && plans.Add(1) == 2 {
			entered <- struct{}{}
			<-gate
		}
		return plan
	}}
	s = &asker{talk: newHost(t, o).open(nil), planner: p}
	s.listen()
	return s, entered, gate
}

var same = messages.ExecCommand{Argv: []string{"echo", "same"}}

// A plan that was being made when an approval was given is made again: nobody is asked twice.
func TestAPlanForOlderGrantsIsMadeAgain(t *testing.T) {
	s, entered, gate := secondWaits(t)
	first := s.call(same)
	q := s.question()
	second := s.call(same)
	<-entered
	if err := s.decide(q.ID, messages.Decision{Kind: messages.DecisionApprovedForSession}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, first.result(), 0)
	close(gate)
	wantCode(t, second.result(), 0)
	if put := probe.Of[messages.ApprovalRequested](s.events, nil); len(put) != 1 {
		t.Errorf("%d questions were put", len(put))
	}
	s.decidedBy(messages.DecidedByPerson, messages.DecidedByCache)
	s.nothingLeft()
}

// A plan that was being made when an approval was revoked is made again: its command asks.
func TestAPlanForARevokedGrantIsMadeAgain(t *testing.T) {
	s, entered, gate := secondWaits(t)
	first := s.call(same)
	if err := s.decide(s.question().ID, messages.Decision{Kind: messages.DecisionApprovedForSession}); err != nil {
		t.Fatal(err)
	}
	first.result()
	second := s.call(same)
	<-entered
	must[protocol.Done](s.host, s.supervisor, messages.RevokeGrant{Grant: s.grants()[0].ID})
	close(gate)
	s.answer(messages.DecisionDenied)
	_, err := second.reply()
	wantError(t, "a command whose grant was revoked", err, messages.ErrRejected)
	s.nothingLeft()
}

// A question that is withdrawn while its plan is being made leaves no asker behind.
func TestAQuestionIsWithdrawnWhileItsPlanIsMade(t *testing.T) {
	s, entered, gate := secondWaits(t)
	first := s.call(same)
	s.question()
	second := s.call(same)
	<-entered
	if n := len(s.questions()); n != 1 {
		t.Errorf("%d questions before it is known whether there is another", n)
	}
	for _, call := range []waiting{second, first} {
		call.cancel()
		_, err := call.reply()
		wantError(t, "a cancelled call", err, messages.ErrCancelled)
		if call == second {
			close(gate)
			third := s.call(messages.ExecCommand{Argv: []string{"echo", "other"}}) // whose plan comes after that
			s.waits(2)
			third.cancel()
			third.reply()
		}
	}
	s.nothingLeft()
}
