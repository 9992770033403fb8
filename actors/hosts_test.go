package actors

import (
	"context"
	"net"
	"testing"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/hosts"
	"github.com/execbus/execbus/tests/probe"
)

// noted is a network that notes what it decides from.
type noted struct {
	shared.NetworkOptions
	updates chan hosts.Snapshot
}

func (n *noted) Update(s hosts.Snapshot)                            { n.updates <- s }
func (*noted) Serve(net.Listener)                                   {}
func (*noted) ServeNames(net.PacketConn, []net.Listener)            {}
func (*noted) Begin(_ messages.ProcessID, env, _ []string) []string { return env }
func (*noted) Blocked(messages.ProcessID) []messages.Connection     { return nil }
func (*noted) End(messages.ProcessID)                               {}
func (*noted) Close()                                               {}

// about asks about a host, and hands out the answer.
func (n *noted) about(ctx context.Context, name string) <-chan error {
	host, _ := hosts.Parse(name)
	answer := make(chan error, 1)
	go func() { answer <- n.Ask(ctx, hosts.Request{Host: host, Port: 443, Protocol: messages.HostHTTPS}) }()
	return answer
}

// The actor that asks crashes: the hosts that were approved are approved no more, and a connection that waits is refused.
func TestApprovalsOfHostsEndWithTheApprovalActor(t *testing.T) {
	n := &noted{updates: make(chan hosts.Snapshot, 100)}
	s := newAsker(t, always(), hostOptions{network: func(o shared.NetworkOptions) shared.Network { n.NetworkOptions = o; return n }}, func(c *shared.SessionConfig) {
		c.Sandbox = messages.SandboxPolicy{Type: messages.SandboxReadOnly, Network: &messages.NetworkPolicy{Default: messages.HostsAsked}}
	})
	s.planner.Plan = policy.Plan{Decision: policy.Ask, CacheKey: "host"}
	if first := <-n.updates; len(first.Grants) > 0 || first.Default != messages.HostsAsked {
		t.Errorf("%+v", first)
	}
	answer := n.about(t.Context(), "good.test")
	if err := s.decide(s.question().ID, messages.Decision{Kind: messages.DecisionApprovedForSession}); err != nil {
		t.Fatal(err)
	}
	if err := <-answer; err != nil || len(n.updates) != 1 { // the approval comes before the answer
		t.Errorf("%v, %d updates", err, len(n.updates))
	}
	if next := <-n.updates; len(next.Grants) != 1 || next.Grants[0].Host.String() != "good.test" || !next.Grants[0].Session {
		t.Errorf("%+v", next)
	}
	s.planner.Plan.CacheKey = "other"
	answer = n.about(t.Context(), "other.test")
	s.waits(1)
	s.killApproval()
	if err := <-answer; err == nil {
		t.Error("it is allowed")
	}
	if last := <-n.updates; len(last.Grants) > 0 {
		t.Errorf("%+v", last)
	}
	// A connection that hangs up withdraws its question.
	ctx, hangUp := context.WithCancel(t.Context())
	answer = n.about(ctx, "other.test")
	s.waits(1)
	hangUp()
	if err := <-answer; err == nil {
		t.Error("it is allowed")
	}
	s.nothingLeft()
}

// The question of a process that ends is over before its end is said, even if the connection holds on.
func TestTheEndOfAProcessWaitsForItsQuestionAboutAHost(t *testing.T) {
	n := &noted{updates: make(chan hosts.Snapshot, 100)}
	p := always()
	p.Plan = policy.Plan{Decision: policy.Run, FirstAttempt: policy.Unsandboxed}
	s := newAsker(t, p, hostOptions{network: func(o shared.NetworkOptions) shared.Network { n.NetworkOptions = o; return n }}, func(c *shared.SessionConfig) {
		c.Sandbox = messages.SandboxPolicy{Type: messages.SandboxReadOnly, Network: &messages.NetworkPolicy{Default: messages.HostsAsked}}
	})
	result := s.exec(messages.ExecCommand{Argv: []string{"sleep", "1000"}, Yield: new(messages.MinYield)})
	p.Plan = policy.Plan{Decision: policy.Ask, CacheKey: "host"}
	answer := make(chan error, 1)
	host, _ := hosts.Parse("good.test")
	go func() {
		answer <- n.Ask(context.Background(), hosts.Request{Process: result.Process, Host: host, Port: 443, Protocol: messages.HostHTTPS})
	}()
	if asked := s.question(); asked.Process != result.Process {
		t.Errorf("%+v", asked)
	}
	must[protocol.Done](s.host, s.supervisor, protocol.TerminateAll{})
	if err := <-answer; err == nil || err.Error() != "its process has ended" {
		t.Error(err)
	}
	probe.ExpectInOrder(s.events, patience, probe.A[messages.ApprovalResolved](nil), probe.A[messages.ExecEnded](nil))
	if resolved := probe.Of[messages.ApprovalResolved](s.events, nil); len(resolved) != 1 {
		t.Errorf("%d questions were over when the process had ended", len(resolved))
	}
}
