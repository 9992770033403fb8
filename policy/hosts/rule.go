package hosts

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/execbus/execbus/messages"
)

// Rules are the rules about hosts that hold together, whose hosts have been read. They are never changed. A nil *Rules has none.
type Rules struct{ all []*rule }

// rule is a rule whose host has been read.
type rule struct {
	messages.HostRule
	pattern
}

// NewRules reads rules. They come from policies and from rule files; which comes first makes no difference.
func NewRules(lists ...[]messages.HostRule) (*Rules, error) {
	rules := &Rules{}
	for _, list := range lists {
		for _, r := range list {
			read, err := parseRule(r)
			if err != nil {
				return nil, &messages.Error{Code: messages.ErrInvalidRequest, Op: "host rule", Subject: messages.Visible(r.Host), Detail: err.Error()}
			}
			rules.all = append(rules.all, read)
		}
	}
	return rules, nil
}

// Check returns an error, without the host's name, if a rule cannot be read.
func Check(r messages.HostRule) error {
	_, err := parseRule(r)
	return err
}

func parseRule(r messages.HostRule) (*rule, error) {
	if err := r.Check(); err != nil {
		return nil, errors.New(err.(*messages.Error).Detail)
	}
	p, err := parsePattern(r.Host)
	switch {
	case err != nil:
		return nil, err
	case r.Protocol == messages.HostTCP && r.Decision != messages.HostForbid && p.port == 0:
		return nil, errors.New("what goes over plain TCP is not checked; name the port, as in example.com:22")
	}
	return &rule{r, p}, nil
}

// Ports are those on which a snapshot lets programs connect to hosts by name, or asks about it.
func (s Snapshot) Ports() (ports []int) {
	if s.Default == messages.HostsAsked {
		ports = []int{80, 443}
	}
	if s.Rules != nil {
		for _, r := range s.Rules.all {
			switch {
			case r.Decision == messages.HostForbid || r.name == "" || r.name == "localhost":
			case r.port != 0:
				ports = append(ports, int(r.port))
			default:
				ports = append(ports, 80, 443)
			}
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// pattern is the host of a rule. It is about names or about addresses; localhost is about both.
type pattern struct {
	name    string // a canonical name; empty for addresses
	suffix  string // of the names below it; empty if those are not meant
	itself  bool   // the name itself
	ranges  []netip.Prefix
	private bool // all addresses of the class Private
	port    uint16
}

// privateWord is the host of rules about all private addresses. A rule about a host of that name has a dot at its end.
const privateWord = "private"

func parsePattern(text string) (p pattern, err error) {
	host := strings.TrimSpace(text)
	// A colon after the last bracket, or the only colon, is before a port.
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 && (strings.Count(host, ":") == 1 || strings.LastIndexByte(host, ']') == colon-1 && colon > 0) {
		if p.port, err = parsePort(host[colon+1:]); err != nil {
			return p, err
		}
		host = host[:colon]
	}
	if host == privateWord {
		p.private = true
		return p, nil
	}
	if address, bits, isRange := strings.Cut(host, "/"); isRange {
		return p, p.addRange(strings.TrimSuffix(strings.TrimPrefix(address, "["), "]") + "/" + strings.TrimSuffix(bits, "]"))
	}
	below := false
	p.itself = true
	if name, all := strings.CutPrefix(host, "**."); all {
		host, below = name, true
	} else if name, all := strings.CutPrefix(host, "*."); all {
		host, below, p.itself = name, true, false
	}
	h, err := Parse(host)
	if err != nil {
		return p, err
	}
	if p.name = h.name; below {
		p.suffix = "." + h.name
	}
	if address, is := h.Address(); is {
		if below {
			return p, errors.New("no names are below an address; leave the asterisk out, or write a range, as 10.0.0.0/8")
		}
		p.ranges = []netip.Prefix{netip.PrefixFrom(address, address.BitLen())}
	}
	if p.name == "localhost" {
		p.ranges = prefixes("127.0.0.1/32", "::1/128")
	}
	return p, nil
}

func (p *pattern) addRange(text string) error {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() {
		return errors.New("it is no range of addresses; write one as 10.0.0.0/8 or fd00::/8")
	}
	if prefix != prefix.Masked() {
		return fmt.Errorf("the range has bits beyond its length; write %s", prefix.Masked())
	}
	p.ranges = []netip.Prefix{prefix}
	return nil
}

// names reports whether a host is one that the pattern names.
func (p *pattern) names(h Host) bool {
	if address, is := h.Address(); is {
		return p.contains(address)
	}
	return p.name != "" && (p.itself && h.name == p.name || p.suffix != "" && strings.HasSuffix(h.name, p.suffix))
}

// contains reports whether an address is one that the pattern names.
func (p *pattern) contains(address netip.Addr) bool {
	return p.private && ClassOf(address) == Private ||
		slices.ContainsFunc(p.ranges, func(r netip.Prefix) bool { return r.Contains(address) })
}

// opens reports whether a rule that allows the pattern lets a host lead to an address of a class. An address of this machine must be
// written out, and those of links and of a cloud's metadata stay closed.
func (p *pattern) opens(address netip.Addr, class Class) bool {
	switch class {
	case Public:
		return true
	case Private:
		return p.contains(address)
	case Loopback:
		return p.contains(address) && len(p.ranges) > 0 && p.ranges[0].IsSingleIP()
	default:
		return false
	}
}

// about reports whether the rule is about a port and a protocol.
func (r *rule) about(port uint16, protocol messages.HostProtocol) bool {
	switch {
	case r.port != 0 && r.port != port:
		return false
	case r.Decision != messages.HostAllow:
		return r.Protocol == "" || r.Protocol == protocol
	case r.port == 0 && port != 80 && port != 443:
		return false
	case r.Protocol == "":
		return protocol != messages.HostTCP
	default:
		return r.Protocol == protocol
	}
}

// by is how records name the rule.
func (r *rule) by() string {
	text := r.String()
	if r.Origin != "" {
		text += " in " + r.Origin
	}
	return text
}

// Smallest is the rule that allows one connection and as little else as can be.
func Smallest(host Host, port uint16, protocol messages.HostProtocol) messages.HostRule {
	if host.name == privateWord {
		host.name += "."
	}
	return messages.HostRule{Host: host.Authority(port), Protocol: protocol, Decision: messages.HostAllow}
}
