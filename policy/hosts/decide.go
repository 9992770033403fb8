package hosts

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/execbus/execbus/messages"
)

// Request is one connection that a command wants, or one request in plain HTTP.
type Request struct {
	Host Host
	Port uint16
	// Protocol is zero for a tunnel of which nobody has said what it will carry. The verdict says what it may.
	Protocol messages.HostProtocol
	// Process is the process that asks; zero if it did not say.
	Process messages.ProcessID
	// Addresses are what a name leads to, if that is known: a name is judged once before it is looked up, because looking it up tells
	// others about it, and once with its addresses, all of which must be allowed.
	Addresses []netip.Addr
	// Own are the addresses of this machine, which are loopback whatever they look like.
	Own []netip.Addr
}

// Grant is a connection that a person has approved.
type Grant struct {
	ID       messages.GrantID
	Host     Host
	Port     uint16
	Protocol messages.HostProtocol
	// Session makes the grant hold for every process. Otherwise it holds for one that shows the credential of Process; zero means
	// for those that show none.
	Session bool
	Process messages.ProcessID
}

// Snapshot is what a decision is made from. It is never changed.
type Snapshot struct {
	Rules   *Rules
	Default messages.HostDefault
	Grants  []Grant
}

// Action is what happens to a request.
type Action string

// The actions.
const (
	Allow Action = "allow"
	Ask   Action = "ask"
	Deny  Action = "deny"
)

// Reason is why a request is denied, in one word that programs know.
type Reason string

// The reasons.
const (
	Denied          Reason = "denied"            // a rule forbids it
	NotAllowed      Reason = "not_allowed"       // nothing allows it
	NotAllowedLocal Reason = "not_allowed_local" // it leads to an address that is not public
)

// Verdict is a decision.
type Verdict struct {
	Action Action
	// Protocol is what the connection may carry: that of the request, or HostHTTPS or HostTCP for a tunnel.
	Protocol messages.HostProtocol
	// HiddenName says that TLS may hide the name of the host.
	HiddenName bool
	Reason     Reason // with Deny
	By         string // the rule or the grant that decided; empty if there was none
	Text       string // why it is denied or asked about
	// Suggestion is the smallest rule that would allow it; nil if none would.
	Suggestion *messages.HostRule
}

// Decide judges a request. The strictest rule that names the host decides: one that forbids before one that asks before one that
// allows. In full: what a rule forbids is denied; then addresses that are not public, but for those that a rule allows; then
// comes what rules allow, what persons have approved, what a rule or the default asks about; and the rest is denied.
func (s Snapshot) Decide(r Request) Verdict {
	if r.Protocol == "" {
		r.Protocol = s.carried(r)
	}
	v := Verdict{Protocol: r.Protocol}
	smallest := Smallest(r.Host, r.Port, r.Protocol)
	if forbids, found := s.find(r, messages.HostForbid); found {
		return v.deny(Denied, forbids.by(), nil, "a rule forbids "+r.Host.Authority(r.Port)+because(forbids.Justification))
	}
	if address, class := s.closed(r); class != Public {
		var suggestion *messages.HostRule
		switch {
		case class == Private, class == Loopback && address.IsValid():
			suggestion = new(Smallest(Host{address: address}, r.Port, r.Protocol))
		case class == Loopback:
			suggestion = &smallest
		}
		return v.deny(NotAllowedLocal, "", suggestion, leads(r.Host, address, class))
	}
	asks, asked := s.find(r, messages.HostPrompt)
	if allows, found := s.find(r, messages.HostAllow); found && !asked {
		v.Action, v.By, v.HiddenName = Allow, allows.by(), s.hidden(r)
		return v
	}
	for _, g := range s.Grants {
		if g.covers(r) {
			v.Action, v.By, v.HiddenName = Allow, "approval "+string(g.ID), s.hidden(r)
			return v
		}
	}
	switch {
	case asked:
		v.Action, v.By, v.Text = Ask, asks.by(), "a rule asks about it"+because(asks.Justification)
		return v
	case s.Default == messages.HostsAsked:
		v.Action, v.Text = Ask, "no rule names it"
		v.Suggestion = &smallest
		return v
	}
	return v.deny(NotAllowed, "", &smallest, "no rule allows "+r.Host.Authority(r.Port))
}

func (v Verdict) deny(reason Reason, by string, suggestion *messages.HostRule, text string) Verdict {
	v.Action, v.Reason, v.By, v.Suggestion, v.Text = Deny, reason, by, suggestion, text
	return v
}

func because(justification string) string {
	if justification == "" {
		return ""
	}
	return ": " + messages.Visible(justification)
}

func leads(host Host, address netip.Addr, class Class) string {
	switch literal, is := host.Address(); {
	case is && literal == address:
		return fmt.Sprintf("%s is a %s address", host, class)
	case !address.IsValid():
		return fmt.Sprintf("%s is this machine", host)
	}
	return fmt.Sprintf("%s leads to %s, a %s address", host, address, class)
}

// find finds a rule about the host, or, to forbid, about an address of it.
func (s Snapshot) find(r Request, decision messages.HostDecision) (*rule, bool) {
	if s.Rules == nil {
		return nil, false
	}
	i := slices.IndexFunc(s.Rules.all, func(candidate *rule) bool {
		return candidate.Decision == decision && candidate.about(r.Port, r.Protocol) && (candidate.names(r.Host) ||
			decision == messages.HostForbid && slices.ContainsFunc(r.Addresses, func(a netip.Addr) bool { return candidate.contains(a) }))
	})
	if i < 0 {
		return nil, false
	}
	return s.Rules.all[i], true
}

// closed finds an address of the host that is not public and that no rule opens. The address is invalid if a name alone says it.
func (s Snapshot) closed(r Request) (netip.Addr, Class) {
	addresses := r.Addresses
	if literal, is := r.Host.Address(); is {
		addresses = append([]netip.Addr{literal}, addresses...)
	} else if _, named := s.find(r, messages.HostAllow); r.Host.local() && !named {
		return netip.Addr{}, Loopback
	}
	for _, address := range addresses {
		class := ClassOf(address)
		if slices.Contains(r.Own, address.Unmap()) {
			class = Loopback
		}
		if class != Public && !s.opened(r, address.Unmap(), class) {
			return address, class
		}
	}
	return netip.Addr{}, Public
}

func (s Snapshot) opened(r Request, address netip.Addr, class Class) bool {
	return s.Rules != nil && slices.ContainsFunc(s.Rules.all, func(candidate *rule) bool {
		return candidate.Decision == messages.HostAllow && candidate.about(r.Port, r.Protocol) && candidate.opens(address, class)
	})
}

// hidden reports whether a rule that allows the host lets TLS hide its name.
func (s Snapshot) hidden(r Request) bool {
	return s.Rules != nil && slices.ContainsFunc(s.Rules.all, func(candidate *rule) bool {
		return candidate.HiddenName && candidate.Decision == messages.HostAllow && candidate.about(r.Port, r.Protocol) && candidate.names(r.Host)
	})
}

func (g Grant) covers(r Request) bool {
	return g.Host == r.Host && g.Port == r.Port && g.Protocol == r.Protocol && (g.Session || g.Process == r.Process)
}

// plainPorts are ports on which nobody speaks TLS first: most wait for the server's greeting. A person is asked about them as what
// they are.
var plainPorts = []uint16{21, 22, 23, 25, 110, 143, 389, 587, 3306, 5432, 6379, 9418}

// carried says what a tunnel may carry: plain TCP if a rule or a grant says so, or if nobody says anything and the port is known for
// it; else TLS.
func (s Snapshot) carried(r Request) messages.HostProtocol {
	mentioned := func(protocol messages.HostProtocol) bool {
		r.Protocol = protocol
		if slices.ContainsFunc(s.Grants, func(g Grant) bool { return g.covers(r) }) {
			return true
		}
		return s.Rules != nil && slices.ContainsFunc(s.Rules.all, func(candidate *rule) bool {
			return candidate.Decision != messages.HostForbid && candidate.Protocol == protocol && candidate.about(r.Port, protocol) && candidate.names(r.Host)
		})
	}
	if mentioned(messages.HostTCP) || slices.Contains(plainPorts, r.Port) && !mentioned(messages.HostHTTPS) {
		return messages.HostTCP
	}
	return messages.HostHTTPS
}

// OpensLoopback reports whether a rule lets commands reach this machine itself, so that the loopback addresses are not only theirs.
func (r *Rules) OpensLoopback() bool {
	return r != nil && slices.ContainsFunc(r.all, func(candidate *rule) bool {
		return candidate.Decision == messages.HostAllow && slices.ContainsFunc(candidate.ranges, func(p netip.Prefix) bool {
			return p.IsSingleIP() && ClassOf(p.Addr()) == Loopback
		})
	})
}
