package session

import (
	"context"
	"errors"
	"slices"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/hosts"
)

// hostTable is what a session knows of the hosts that its commands talk to.
type hostTable struct {
	network  shared.Network          // made for the first policy that names hosts
	policy   *messages.NetworkPolicy // nil: nothing is allowed
	snapshot hosts.Snapshot          // what the network decides from
}

// connect gives settings the session's network, if their policy names hosts, and the network what it decides from. Commands that run keep
// the network, whatever policy they began under: the newest rules hold for them, too.
func (v *supervisor) connect(s *shared.Settings) error {
	s.Network = nil
	h, named := &v.hosts, s.Sandbox.Network
	if h.network != nil && named == nil && s.Sandbox.Confined() && !s.Sandbox.NetworkAccess {
		h.policy = nil
		h.update()
	}
	if named == nil || v.NewNetwork == nil {
		return nil
	}
	rules, err := hosts.NewRules(named.Hosts, s.Rules.Network())
	if err != nil {
		return err
	}
	if h.network == nil {
		h.network = v.NewNetwork(shared.NetworkOptions{Session: v.SessionID, Ask: askAboutHost(v.ctx.System(), v.ctx.Self()), AskTimeout: v.config.ApprovalDeadline})
	}
	h.policy, h.snapshot.Rules, h.snapshot.Default = named, rules, named.Default
	h.update()
	s.Network, s.ByName = h.network, h.snapshot.Ports()
	return nil
}

// granted takes the hosts that are approved.
func (v *supervisor) granted(m protocol.HostGrants) {
	if v.hosts.snapshot.Grants = m.All; v.hosts.network != nil {
		v.hosts.update()
	}
}

// update tells the network what it decides from: nothing is allowed if the policy names no hosts any more.
func (h *hostTable) update() {
	if h.policy == nil {
		h.network.Update(hosts.Snapshot{})
		return
	}
	h.network.Update(h.snapshot)
}

// forgetHosts ends the connections of a process that has ended, and forgets the hosts that were approved for it.
func (v *supervisor) forgetHosts(id messages.ProcessID) {
	if v.hosts.network == nil {
		return
	}
	v.hosts.network.End(id)
	gone := []messages.ProcessID{id}
	if len(v.entries) == 0 {
		gone = append(gone, 0) // connections that belong to no process
	}
	for _, id := range gone {
		if v.approval.actor != nil && slices.ContainsFunc(v.hosts.snapshot.Grants, func(g hosts.Grant) bool { return !g.Session && g.Process == id }) {
			v.ctx.Send(v.approval.actor, protocol.ForgetProcess{Process: id})
		}
	}
}

// closeNetwork ends all connections.
func (v *supervisor) closeNetwork() {
	if v.hosts.network != nil {
		v.hosts.network.Close()
	}
	v.hosts = hostTable{}
}

// askAboutHost is the function by which the network asks.
func askAboutHost(sys *system.System, session *system.PID) func(context.Context, hosts.Request) error {
	return func(ctx context.Context, r hosts.Request) error {
		about := &policy.Host{Request: r}
		v, err := protocol.Inquire(ctx, func(m any) { sys.Send(session, m) }, r.Process, policy.Request{Argv: about.Argv(), Host: about})
		if err == nil && v.Refusal != nil {
			err = errors.New(v.Refusal.Detail)
		}
		return err
	}
}
