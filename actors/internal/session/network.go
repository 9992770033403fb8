package session

import (
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/policy/hosts"
)

// connect gives settings the session's network, if their policy names hosts, and the network what it decides from. Commands that run keep
// the network, whatever policy they began under: the newest rules hold for them, too.
func (v *supervisor) connect(s *shared.Settings) error {
	s.Network = nil
	policy := s.Sandbox.Network
	if v.network != nil && policy == nil && s.Sandbox.Confined() && !s.Sandbox.NetworkAccess {
		v.network.Update(hosts.Snapshot{})
	}
	if policy == nil || v.NewNetwork == nil {
		return nil
	}
	rules, err := hosts.NewRules(policy.Hosts, s.Rules.Network())
	if err != nil {
		return err
	}
	if v.network == nil {
		v.network = v.NewNetwork(v.SessionID)
	}
	v.network.Update(hosts.Snapshot{Rules: rules, Default: policy.Default})
	s.Network = v.network
	return nil
}
