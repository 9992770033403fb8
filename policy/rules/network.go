package rules

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// NetworkProtocol is the protocol that a network rule is about.
type NetworkProtocol string

// The protocols.
const (
	HTTP      NetworkProtocol = "http"
	HTTPS     NetworkProtocol = "https"
	Socks5TCP NetworkProtocol = "socks5_tcp"
	Socks5UDP NetworkProtocol = "socks5_udp"
)

// networkProtocols are the words for them in rule files.
var networkProtocols = map[string]NetworkProtocol{
	"http": HTTP, "https": HTTPS, "https_connect": HTTPS, "http-connect": HTTPS, "socks5_tcp": Socks5TCP, "socks5_udp": Socks5UDP,
}

// NetworkRule is a rule about a host. Rules are checked and kept; nothing enforces them yet.
type NetworkRule struct {
	Host          string // lower case, without port, brackets and trailing dot
	Protocol      NetworkProtocol
	Decision      Decision
	Justification string
	Place         string // file and line
}

// Network are the network rules, in the order of their files.
func (r *Set) Network() []NetworkRule {
	if r == nil {
		return nil
	}
	return slices.Clone(r.network)
}

// NetworkHosts are the hosts that are allowed and those that are denied, for any protocol. A later rule for a host
// replaces an earlier one; a prompt rule does neither.
func (r *Set) NetworkHosts() (allowed, denied []string) {
	for _, rule := range r.Network() {
		if rule.Decision == Prompt {
			continue
		}
		other := func(host string) bool { return host == rule.Host }
		allowed, denied = slices.DeleteFunc(allowed, other), slices.DeleteFunc(denied, other)
		if rule.Decision == Allow {
			allowed = append(allowed, rule.Host)
		} else {
			denied = append(denied, rule.Host)
		}
	}
	return allowed, denied
}

// parseHost is the single spelling of a host: "[::1]:443" is "::1", and "Example.COM.:80" is "example.com".
func parseHost(text string) (string, error) {
	host := strings.ToLower(strings.TrimSpace(text))
	if strings.ContainsAny(host, "/*?@\\ \t\r\n") {
		return "", fmt.Errorf("invalid rule: host %q: a name or an address, without scheme, path, wildcard or white space", text)
	}
	if strings.HasPrefix(host, "[") || strings.Count(host, ":") == 1 {
		name, port, found := host, "", false
		if strings.HasSuffix(host, "]") {
			name = strings.Trim(host, "[]")
		} else if n, p, err := net.SplitHostPort(host); err == nil {
			name, port, found = n, p, true
		}
		if _, err := strconv.ParseUint(port, 10, 16); found && err != nil || strings.ContainsAny(name, "[]") {
			return "", fmt.Errorf("invalid rule: host %q: what follows the colon is not a port", text)
		}
		host = name
	}
	host = strings.TrimSuffix(host, ".")
	if host == "" || strings.ContainsAny(host, "[]") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
		return "", fmt.Errorf("invalid rule: host %q: a name or an address", text)
	}
	return host, nil
}
