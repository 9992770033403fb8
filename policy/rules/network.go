package rules

import (
	"slices"

	"github.com/execbus/execbus/messages"
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
