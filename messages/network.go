package messages

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// HostDecision is what a rule says about the hosts that it names.
type HostDecision string

// The decisions.
const (
	HostAllow  HostDecision = "allow"
	HostPrompt HostDecision = "prompt"
	HostForbid HostDecision = "forbidden"
)

// HostProtocol is how a command talks to a host.
type HostProtocol string

// The protocols. In a rule the zero value means HTTP and HTTPS, and for a rule that asks or forbids every protocol.
const (
	HostHTTP  HostProtocol = "http"  // requests in plain text, each of which is judged
	HostHTTPS HostProtocol = "https" // TLS, whose first message has to name the host
	HostTCP   HostProtocol = "tcp"   // any bytes, unchecked, as ssh needs
	HostUDP   HostProtocol = "udp"   // never leaves: a rule about it has no effect
)

// HostRule is a rule about hosts.
type HostRule struct {
	// Host is a name (example.com), all names below one (*.example.com), a name and all below it (**.example.com), an address, a range
	// of addresses (10.0.0.0/8), or "private": every address that is not of the public internet, but for those of machines themselves
	// and their links ("private." is a host of that name). A port may follow: example.com:8443, [2001:db8::1]:443. Without one a rule that allows means the ports 80 and
	// 443, and another rule every port. A name that leads to an address which is not public is allowed if the address is as well.
	Host     string       `json:"host"`
	Protocol HostProtocol `json:"protocol,omitempty"`
	Decision HostDecision `json:"decision"`
	// HiddenName allows TLS in which the host's name cannot be read (no server name, or an encrypted one). What is behind the
	// address then decides which host it is.
	HiddenName    bool   `json:"hidden_name,omitempty"`
	Justification string `json:"justification,omitempty"`
	// Origin says where the rule stands: file and line. Empty for the rule of a policy.
	Origin string `json:"origin,omitempty"`
}

// String is the rule as a person reads it: "allow example.com:8443 (https)".
func (r HostRule) String() string {
	text := string(r.Decision) + " " + Visible(r.Host)
	if r.Protocol != "" {
		text += " (" + string(r.Protocol) + ")"
	}
	if r.HiddenName {
		text += ", with a hidden name"
	}
	return text
}

// HostDefault is what happens to a host that no rule names.
type HostDefault string

// The defaults. The zero value means HostsDenied.
const (
	HostsDenied HostDefault = "deny"
	HostsAsked  HostDefault = "ask" // a person is asked, as the approval policy allows
)

// NetworkPolicy says which hosts a confined command may talk to.
type NetworkPolicy struct {
	Hosts   []HostRule  `json:"hosts,omitempty"`
	Default HostDefault `json:"default,omitempty"`
}

// String is one phrase: "network by host (allow example.com)".
func (p *NetworkPolicy) String() string {
	const most = 8
	var rules []string
	for _, rule := range p.Hosts[:min(len(p.Hosts), most)] {
		rules = append(rules, rule.String())
	}
	if more := len(p.Hosts) - most; more > 0 {
		rules = append(rules, fmt.Sprintf("and %d more rules", more))
	}
	if p.Default == HostsAsked {
		rules = append(rules, "ask about others")
	}
	if len(rules) == 0 {
		return "network by host"
	}
	return "network by host (" + strings.Join(rules, "; ") + ")"
}

// MaxHostRules bounds NetworkPolicy.Hosts.
const MaxHostRules = 1024

// Check returns an error for an unknown word and for too many rules. Package policy/hosts reads the hosts themselves.
func (p NetworkPolicy) Check() error {
	wrong := func(format string, args ...any) error {
		return &Error{Code: ErrInvalidRequest, Op: "configure", Subject: "network policy", Detail: fmt.Sprintf(format, args...)}
	}
	switch p.Default {
	case "", HostsDenied, HostsAsked:
	default:
		return wrong("there is no default %q; use deny or ask", string(p.Default))
	}
	if len(p.Hosts) > MaxHostRules {
		return wrong("it has %d rules; use at most %d", len(p.Hosts), MaxHostRules)
	}
	for _, rule := range p.Hosts {
		if err := rule.Check(); err != nil {
			return wrong("%s", err.Error())
		}
	}
	return nil
}

// Check returns an error for an unknown word.
func (r HostRule) Check() error {
	wrong := func(format string, args ...any) error {
		return &Error{Code: ErrInvalidRequest, Op: "host rule", Subject: Visible(r.Host), Detail: fmt.Sprintf(format, args...)}
	}
	switch r.Decision {
	case HostAllow, HostPrompt, HostForbid:
	default:
		return wrong("there is no decision %q; use allow, prompt or forbidden", string(r.Decision))
	}
	switch r.Protocol {
	case "", HostHTTP, HostHTTPS, HostTCP, HostUDP:
	default:
		return wrong("there is no protocol %q; use http, https or tcp", string(r.Protocol))
	}
	if strings.TrimSpace(r.Host) == "" {
		return wrong("it names no host; name one")
	}
	return nil
}

// Connection is the record of one connection of a command to a host, or of one request in plain HTTP: made when it has ended, or
// was refused.
type Connection struct {
	// Process showed its credential; zero if none was shown.
	Process  ProcessID      `json:"process,omitempty"`
	Host     string         `json:"host"` // canonical if it is a host; otherwise as it was written, escaped and shortened
	Port     uint16         `json:"port,omitempty"`
	Protocol HostProtocol   `json:"protocol,omitempty"`
	Address  netip.AddrPort `json:"address,omitzero"` // what was dialled
	// Upstream is the proxy that was dialled in the address's stead, without its password.
	Upstream string `json:"upstream,omitempty"`
	// Allowed says that bytes could pass.
	Allowed bool `json:"allowed"`
	// By is the rule or the grant that allowed or forbade it; empty if nothing names the host.
	By string `json:"by,omitempty"`
	// Reason says why it was refused, or why it was ended; empty if its two ends closed it.
	Reason string `json:"reason,omitempty"`
	// Suggestion is the smallest rule that would allow it, if a rule would.
	Suggestion *HostRule     `json:"suggestion,omitempty"`
	Sent       int64         `json:"sent"`     // bytes from the command
	Received   int64         `json:"received"` // bytes to the command
	Began      time.Time     `json:"began"`
	Lasted     time.Duration `json:"lastedNs"`
}

// MaxBlockedHosts bounds the list of connections that a result names as blocked.
const MaxBlockedHosts = 16

// String says of a connection that was refused why, and which rule would allow it.
func (c Connection) String() string {
	text := "network access to " + hostAccess(c.Host, c.Port, c.Protocol) + " was blocked: " + c.Reason
	if c.Suggestion != nil {
		text += "; a rule would permit it: " + c.Suggestion.String()
	}
	return text
}

// hostAccess is "example.com:443 (https)". Port and protocol may be missing.
func hostAccess(host string, port uint16, protocol HostProtocol) string {
	if port != 0 && strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port != 0 {
		host += fmt.Sprintf(":%d", port)
	}
	if protocol != "" {
		host += " (" + string(protocol) + ")"
	}
	return host
}

// NetworkConnection is published for each connection of a command to a host, when it has ended or was refused. Its process is that of the
// connection: this event can come after the process's last one.
type NetworkConnection struct {
	Origin
	Connection Connection `json:"connection"`
}

// Kind implements Event.
func (NetworkConnection) Kind() EventKind { return KindNetworkConnection }
