package actors

import (
	"context"
	"errors"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/probe"
)

func TestWithNobodyToAskACommandIsRejectedAtOnce(t *testing.T) {
	p := always()
	s := &asker{talk: newHost(t, hostOptions{plan: p.plan}).open(nil), planner: p} // its probe gets all events, and does not count
	_, err := ask[*messages.Result](s.host, s.supervisor, shell("echo never"))
	e := wantError(t, "nobody", err, messages.ErrRejected)
	if !strings.Contains(e.Hint, "SessionOptions.Approver") || strings.Contains(e.Error(), "SessionOptions") {
		t.Error(e)
	}
	s.decidedBy(messages.DecidedByAbsence)
	s.neverStarted()
	s.nothingLeft()
}

func TestAQuestionIsRejectedWhenTheLastListenerLeaves(t *testing.T) {
	s := newAsker(t, always(), hostOptions{}, nil)
	one, two := s.call(shell("echo 1")), s.call(shell("echo 2"))
	s.waits(2)
	s.ears.Close()
	for _, call := range []waiting{one, two} {
		_, err := call.reply()
		wantError(t, "nobody any more", err, messages.ErrRejected)
	}
	s.nothingLeft()
}

func TestAQuestionHasADeadline(t *testing.T) {
	for kind, want := range map[messages.DecisionKind]error{
		"": messages.ErrRejected, messages.DecisionDenied: messages.ErrRejected, messages.DecisionAborted: messages.ErrAborted, messages.DecisionApproved: nil,
	} {
		s := newAsker(t, always(), hostOptions{}, func(c *shared.SessionConfig) { c.ApprovalDeadline, c.OnDeadline = 30*time.Millisecond, kind })
		_, err := s.call(shell("echo 1")).reply()
		if want == nil && err != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("on deadline %q: %v", kind, err)
		}
		q := s.question()
		if q.Deadline.Sub(q.Since) < 20*time.Millisecond || q.OnDeadline == "" {
			t.Errorf("the question says %v, %q", q.Deadline, q.OnDeadline)
		}
		resolved := probe.Expect[messages.ApprovalResolved](s.events, patience, nil)
		if resolved.Source != messages.DecidedByDeadline || resolved.Decision != q.OnDeadline || kind == "" && resolved.Decision != messages.DecisionTimedOut {
			t.Errorf("resolved: %+v", resolved)
		}
		wantError(t, "too late", s.decide(q.ID, messages.Decision{Kind: messages.DecisionApproved}), messages.ErrAlreadyResolved)
		s.nothingLeft()
	}
}

// approvers are those that give no answer.
var speechless = map[string]shared.Approver{
	"an error": func(context.Context, messages.Question) (messages.Decision, error) {
		return messages.Decision{}, errors.New("no idea")
	},
	"a panic":   func(context.Context, messages.Question) (messages.Decision, error) { panic("no idea") },
	"no answer": func(context.Context, messages.Question) (messages.Decision, error) { return messages.Decision{}, nil },
	"no end": func(context.Context, messages.Question) (messages.Decision, error) {
		goruntime.Goexit()
		panic("unreachable")
	},
	"no amendment": func(context.Context, messages.Question) (messages.Decision, error) {
		return messages.Decision{Kind: messages.DecisionApprovedWithRule}, nil
	},
}

func TestAnApproverThatDoesNotAnswer(t *testing.T) {
	for name, approver := range speechless {
		t.Run(name, func(t *testing.T) {
			p := always()
			s := &asker{talk: newHost(t, hostOptions{plan: p.plan}).open(func(c *shared.SessionConfig) { c.Approver = approver }), planner: p}
			_, err := s.call(shell("echo 1")).reply()
			if e := wantError(t, "no answer", err, messages.ErrRejected); !strings.Contains(e.Detail, "did not answer") {
				t.Errorf("rejected with %v", e)
			}
			s.listen() // then somebody else can
			call := s.call(shell("echo 1"))
			s.question()
			s.answer(messages.DecisionApproved)
			wantCode(t, call.result(), 0)
			s.nothingLeft()
		})
	}
}

func TestAnApproverAnswers(t *testing.T) {
	seen := make(chan messages.Question, 1)
	p := always()
	s := &asker{planner: p, talk: newHost(t, hostOptions{plan: p.plan}).open(func(c *shared.SessionConfig) {
		c.Approver = func(_ context.Context, q messages.Question) (messages.Decision, error) {
			seen <- q
			return messages.Decision{Kind: messages.DecisionApproved}, nil
		}
	})}
	command := shell("echo 1")
	command.Justification, command.SandboxPermissions = "I want it", messages.PermissionsRequireEscalated
	command.Environment = &messages.EnvironmentPolicy{Set: map[string]string{"B": "2", "A": "1"}}
	wantCode(t, s.exec(command), 0)
	q := <-seen
	if !slices.Equal(q.Argv, command.Argv) || q.Dir != s.dir || q.Reason != "because" || !slices.Equal(q.Environment, []string{"A=1", "B=2"}) {
		t.Errorf("the question is %+v", q)
	}
	s.nothingLeft()
}

func TestAnApproversContextEndsWithTheQuestion(t *testing.T) {
	for name, end := range map[string]func(s *asker, call waiting, q messages.Question){
		"answered": func(s *asker, _ waiting, q messages.Question) {
			s.decide(q.ID, messages.Decision{Kind: messages.DecisionApproved})
		},
		"cancelled":  func(_ *asker, call waiting, _ messages.Question) { call.cancel() },
		"terminated": func(s *asker, _ waiting, _ messages.Question) { s.terminate(s.list()[0].Process) },
		"closed": func(s *asker, _ waiting, _ messages.Question) {
			must[protocol.Done](s.host, s.supervisor, protocol.CloseSession{By: messages.TerminatedBySessionClose})
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked, left := make(chan messages.Question, 1), make(chan struct{})
			p := always()
			s := &asker{planner: p, talk: newHost(t, hostOptions{plan: p.plan}).open(func(c *shared.SessionConfig) {
				c.Approver = func(ctx context.Context, q messages.Question) (messages.Decision, error) {
					asked <- q
					<-ctx.Done()
					close(left)
					return messages.Decision{Kind: messages.DecisionApproved}, nil
				}
			})}
			call := s.call(shell("echo 1"))
			end(s, call, <-asked)
			<-left
			_, err := call.reply()
			if (err == nil) != (name == "answered") {
				t.Errorf("%v", err)
			}
			s.answeredOnce()
		})
	}
}

func TestAListenerToOneCallIsAskedAboutThatCall(t *testing.T) {
	p := always()
	s := &asker{talk: newHost(t, hostOptions{plan: p.plan}).open(nil), planner: p}
	listen := func(call messages.CallID) *bus.Subscription {
		ears, err := s.bus.Subscribe(bus.Filter{Calls: []messages.CallID{call}, Kinds: []messages.EventKind{messages.KindApprovalRequested}},
			bus.SubscribeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(ears.Close)
		return ears
	}
	one, two := listen("one"), listen("two")
	command := shell("echo 1")
	command.Call = "one"
	first := s.call(command)
	s.question()
	command.Call = "two"
	second := s.call(command)
	awaitThat(t, "both have asked", func() bool { return s.planner.made.Load() >= 4 })
	first.cancel()
	first.reply()
	one.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for event, err := range two.All(ctx) {
		if asked, ok := event.(messages.ApprovalRequested); ok {
			s.decide(asked.ID, messages.Decision{Kind: messages.DecisionApproved})
			break
		} else if err != nil {
			t.Fatal("the listener to the second call is not asked")
		}
	}
	wantCode(t, second.result(), 0)
	s.nothingLeft()
}
