package actors

import (
	"testing"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/tests/probe"
)

func TestTheQuestionOfACancelledCommandIsWithdrawn(t *testing.T) {
	s := newAsker(t, always(), hostOptions{}, nil)
	for name, take := range map[string]func(waiting){
		"cancel":        func(call waiting) { call.cancel() },
		"terminate":     func(waiting) { s.terminate(s.list()[0].Process) },
		"terminate all": func(waiting) { must[protocol.Done](s.host, s.supervisor, protocol.TerminateAll{}) },
	} {
		for _, command := range []any{shell("echo 1"), quick("echo 1"), messages.RunCommand{Argv: []string{"echo", "1"}}} {
			call := s.call(command)
			q := s.question()
			if listed := s.list(); len(listed) != 1 || listed[0].State != messages.StateAwaitingApproval {
				t.Errorf("listed as %+v", listed)
			}
			take(call)
			reply, err := call.reply()
			if result, run := reply.(*messages.RunResult); err == nil && !(run && result.Cancelled) {
				t.Errorf("%s: answered with %v", name, reply)
			}
			if resolved := probe.Expect[messages.ApprovalResolved](s.events, patience, nil); resolved.Decision != "" || resolved.Question != q.ID {
				t.Errorf("%s: %+v", name, resolved)
			}
			wantError(t, "too late", s.decide(q.ID, messages.Decision{Kind: messages.DecisionApproved}), messages.ErrAlreadyResolved)
		}
	}
	s.neverStarted()
	s.nothingLeft()
}

func TestOneOfSeveralAskersMayGo(t *testing.T) {
	s := newAsker(t, always(), hostOptions{}, nil)
	one, two := s.call(shell("echo 1")), s.call(shell("echo 1"))
	awaitThat(t, "both have asked", func() bool { return s.planner.made.Load() >= 4 })
	one.cancel()
	_, err := one.reply()
	wantError(t, "the one that goes", err, messages.ErrCancelled)
	s.answer(messages.DecisionApproved)
	wantCode(t, two.result(), 0)
	s.nothingLeft()
}

func TestAnAskerThatCrashesLeavesNoQuestion(t *testing.T) {
	s := newAsker(t, always(), hostOptions{}, nil)
	var call waiting
	pid := s.newActor(func() { call = s.call(shell("echo 1")) })
	s.question()
	s.system.Send(pid, protocol.Slot{})                 // ignored: it has not asked for one
	s.system.Send(pid, protocol.ChildEvent{Event: nil}) // ignored
	s.system.Send(pid, deliberate{})
	_, err := call.reply()
	wantError(t, "a crash", err, messages.ErrRuntimeFailure)
	s.nothingLeft()
}

func TestClosingEndsTheOpenQuestions(t *testing.T) {
	s := newAsker(t, always(), hostOptions{}, nil)
	one, two := s.call(shell("echo 1")), s.call(shell("echo 2"))
	s.waits(2)
	must[protocol.Done](s.host, s.supervisor, protocol.CloseSession{By: messages.TerminatedBySessionClose})
	for _, call := range []waiting{one, two} {
		if _, err := call.reply(); err == nil {
			t.Error("a command ran")
		}
	}
	s.answeredOnce()
	s.neverStarted()
}

func TestACallCancelledDuringThePlanIsNotAskedAbout(t *testing.T) {
	planning, goOn := make(chan struct{}), make(chan struct{})
	s := &asker{talk: newHost(t, hostOptions{plan: func(policy.Request, policy.Snapshot) policy.Plan {
		planning <- struct{}{}
		<-goOn
		return policy.Plan{Decision: policy.Ask}
	}}).open(nil)}
	s.listen()
	for _, command := range []any{shell("echo 1"), quick("echo 1")} {
		call := s.call(command)
		<-planning
		call.cancel()
		s.list() // the supervisor has passed it on
		goOn <- struct{}{}
		_, err := call.reply()
		wantError(t, "cancelled", err, messages.ErrCancelled)
		if end := probe.Expect[messages.ExecEnded](s.events, patience, nil); end.Cause != messages.CauseAborted {
			t.Errorf("ended as %+v", end.EndRecord)
		}
	}
	s.neverStarted()
	s.nothingLeft()
	if put := probe.Of[messages.ApprovalRequested](s.events, nil); len(put) != 0 {
		t.Errorf("%d questions were put", len(put))
	}
}
