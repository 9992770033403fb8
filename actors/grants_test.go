package actors

import (
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
)

func TestAnApprovalForTheSessionIsNotAskedForAgain(t *testing.T) {
	s := newAsker(t, always(), hostOptions{}, nil)
	call := s.call(shell("echo 1"))
	s.answer(messages.DecisionApprovedForSession)
	call.result()
	wantCode(t, s.exec(shell("echo 1")), 0)
	granted := s.grants()
	if len(granted) != 1 || !strings.Contains(granted[0].Display, "echo 1") || granted[0].Dir != s.dir || granted[0].Remembers == "" {
		t.Fatalf("the grants are %+v", granted)
	}
	must[protocol.Done](s.host, s.supervisor, messages.RevokeGrant{Grant: granted[0].ID})
	_, err := ask[protocol.Done](s.host, s.supervisor, messages.RevokeGrant{Grant: granted[0].ID})
	wantError(t, "revoke again", err, messages.ErrUnknownGrant)
	call = s.call(shell("echo 1"))
	s.answer(messages.DecisionApproved)
	call.result()
	s.decidedBy(messages.DecidedByPerson, messages.DecidedByCache, messages.DecidedByPerson)
	s.nothingLeft()
}

func TestAGrantExpires(t *testing.T) {
	s := newAsker(t, always(), hostOptions{}, nil)
	call := s.call(shell("echo 1"))
	if err := s.decide(s.question().ID, messages.Decision{Kind: messages.DecisionApprovedForSession, Expires: 20 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	call.result()
	awaitThat(t, "the grant has expired", func() bool { return len(s.grants()) == 0 })
	call = s.call(shell("echo 1"))
	s.answer(messages.DecisionDenied)
	_, err := call.reply()
	wantError(t, "after the grant", err, messages.ErrRejected)
}

func TestAGrantAnswersTheQuestionsThatWait(t *testing.T) {
	s := newAsker(t, always(), hostOptions{}, nil)
	one := s.call(shell("echo 1"))
	q := s.question()
	untrusted := messages.ApprovalPolicy{Mode: messages.ApproveUntrusted} // so that the two are not merged
	must[protocol.Done](s.host, s.supervisor, messages.UpdateEnvironment{Approval: &untrusted})
	two := s.call(shell("echo 1"))
	s.waits(2)
	if err := s.decide(q.ID, messages.Decision{Kind: messages.DecisionApprovedForSession}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, one.result(), 0)
	wantCode(t, two.result(), 0)
	s.decidedBy(messages.DecidedByPerson, messages.DecidedByCache)
	s.nothingLeft()
}
