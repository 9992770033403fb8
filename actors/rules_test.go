package actors

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
)

func TestWithoutTheKeeperOfTheRulesACommandRunsOnce(t *testing.T) {
	s := newAsker(t, always(), hostOptions{file: filepath.Join(t.TempDir(), "default.rules")}, nil)
	awaitThat(t, "the rules have a keeper", func() bool { return len(s.host.actors("/rules$")) == 1 })
	for _, pid := range s.host.actors("/rules$") {
		s.system.Send(pid, deliberate{})
	}
	if warned := s.approvesWithRule(2); len(warned) != 2 || !strings.Contains(warned[1].Text, "could not be remembered") {
		t.Errorf("the warnings are %v", warned)
	}
}

// A session that is opened later, and one that was open, have a rule as soon as the answer that made it was acted on.
func TestARuleHoldsInSessionsOpenedLater(t *testing.T) {
	s := newAsker(t, always(), hostOptions{}, nil) // no file: it lasts as long as the runtime
	early := s.host.open(nil)
	call := s.call(shell("echo 1"))
	if err := s.decide(s.question().ID, messages.Decision{Kind: messages.DecisionApprovedWithRule, Amendment: []string{"bash", "-c"}}); err != nil {
		t.Fatal(err)
	}
	call.result()
	wantCode(t, early.exec(shell("echo 2")), 0)
	wantCode(t, s.host.open(nil).exec(shell("echo 3")), 0)
	s.nothingLeft()
}
