package rules

import (
	"slices"
	"strings"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/hosts"
)

// networkProtocols are the words for protocols in rule files. Those of other programs are understood, too.
var networkProtocols = map[string]messages.HostProtocol{
	"any": "", "http": messages.HostHTTP, "https": messages.HostHTTPS, "https_connect": messages.HostHTTPS, "http-connect": messages.HostHTTPS,
	"tcp": messages.HostTCP, "socks5_tcp": messages.HostTCP, "socks5_udp": messages.HostUDP,
}

// networkDecisions are the words for decisions.
var networkDecisions = map[string]messages.HostDecision{
	"allow": messages.HostAllow, "prompt": messages.HostPrompt, "forbidden": messages.HostForbid, "deny": messages.HostForbid,
}

// Network are the network rules, in the order of their files.
func (r *Set) Network() []messages.HostRule {
	if r == nil {
		return nil
	}
	return slices.Clone(r.network)
}

// WithHost returns a set of these rules and one more, about hosts.
func (r *Set) WithHost(rule messages.HostRule) (*Set, error) {
	if err := CheckHost(rule); err != nil {
		return nil, err
	}
	if r == nil {
		r = &Set{}
	}
	return &Set{byFirst: r.byFirst, executables: r.executables, network: append(slices.Clip(r.network), rule)}, nil
}

// CheckHost reports why a rule about hosts cannot be one of a rule file.
func CheckHost(rule messages.HostRule) error {
	wrong := func(detail string) error {
		return &messages.Error{Code: messages.ErrInvalidRequest, Op: "amend", Subject: "rules", Detail: detail}
	}
	if err := hosts.Check(rule); err != nil {
		return wrong(err.Error())
	}
	if rule.Host != strings.TrimSpace(rule.Host) || !plainText(rule.Host) || !plainText(rule.Justification) || rule.Justification != "" && strings.TrimSpace(rule.Justification) == "" {
		return wrong("the host or the justification has blanks around it, or is not UTF-8 text, which a rule file cannot contain; leave that out")
	}
	return nil
}
