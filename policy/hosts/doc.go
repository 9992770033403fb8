// Package hosts decides whether a command may talk to a host.
//
//	rules, err := hosts.NewRules([]messages.HostRule{{Host: "**.example.com", Decision: messages.HostAllow}}, files.Network())
//	snapshot := hosts.Snapshot{Rules: rules, Default: messages.HostsAsked}
//	host, port, err := hosts.ParseAuthority("api.example.com:443")
//	switch v := snapshot.Decide(hosts.Request{Host: host, Port: port, Protocol: messages.HostHTTPS}); v.Action {
//	case hosts.Allow: // look the name up, and decide again with its addresses
//	case hosts.Ask: // put a question, with v.Text and v.Suggestion
//	case hosts.Deny: // tell the program v.Text
//	}
//
// A decision is a pure function of one request and a snapshot of rules and grants. It can be made again at any time: for a name
// before and after it is looked up, and for a connection whenever rules or grants change.
//
// # Hosts
//
// A host has one spelling, see [Parse]. Names are compared in ASCII, so that a name in another script is never taken for one that
// looks alike. What some resolver would read as an address in an odd form (2130706433, 0x7f.1, 0177.0.0.1, 127.1) is no host.
//
// # What decides
//
// In this order: a rule that forbids the host, or an address that it leads to; the class of its addresses; rules that ask, rules that
// allow, approvals; the default. Rules that ask are stricter than rules that allow, as for commands. The order of the rules makes no
// difference.
//
// An address that is not of the public internet is closed, whatever name leads to it, and nobody is asked about it:
//
//	private       a rule that allows must name the address, a range with it, or the word "private"; "private." is a host of that name
//	loopback      this machine, under every address it has: a rule that allows must name this one address, or localhost
//	link-local, metadata, multicast, unspecified: always closed
//
// A name that leads to several addresses is allowed if all of them are.
//
// # Protocols
//
// A tunnel (CONNECT, SOCKS) carries TLS that names the host, unless a rule says tcp, or a person approves tcp on a port where
// programs do not begin with TLS, such as that of ssh. A proxy looks at the first bytes to enforce this.
//
// # Bounds
//
// A policy has at most [messages.MaxHostRules] rules, and a rule file as many as its own bound allows. A decision looks at each of them: 1,000
// rules take a tenth of a millisecond.
//
// # What you must not assume
//
// That a host which is allowed does not pass bytes on to another. Servers that share an address and a certificate may serve any of
// their names behind the one that TLS shows.
//
// That a name means what it meant. Look it up once, decide with the addresses, and connect to one of these.
package hosts
