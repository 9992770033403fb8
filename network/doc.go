// Package network is a proxy through which confined commands talk to the hosts that they may talk to, and to no other.
//
//	proxy := network.New(network.Options{
//		Snapshot: hosts.Snapshot{Rules: rules, Default: messages.HostsAsked},
//		Ask:      func(ctx context.Context, q network.Question) error { … }, // nil: approved, and Update has been called
//		Record:   func(c messages.Connection) { … },
//		Upstream: http.ProxyFromEnvironment,
//	})
//	go proxy.Serve(listener) // a listener on 127.0.0.1 inside the commands' network namespace
//	variables := network.Environment{Address: address, User: proxy.Credential(1234)}.Variables(os.Environ())
//	go proxy.ServeNames(packets, listeners) // for programs that ignore the variables: a resolver, and ports of hosts
//	proxy.Update(snapshot) // rules or approvals have changed: what is no longer allowed is closed
//	proxy.Close()
//
// The wall is not here: it is the network namespace, which has no other way out. The runtime starts one for each session whose policy lets commands
// talk to some hosts.
//
// # What it serves
//
// One port takes requests in plain HTTP/1, CONNECT, and SOCKS5 with the command CONNECT, without or with a credential. Package
// policy/hosts decides. A name is judged, asked about if need be, looked up once, and judged with its addresses; then one of these
// addresses is dialled, and made sure of again between the socket's birth and its connect. All this happens before the program is
// told that a tunnel is open.
//
//   - Plain HTTP: each request of a connection is judged by itself and gets a connection of its own. The host in its target is the
//     Host header that gets out, whatever the program's own says. What is meant for a proxy is removed, and so is Upgrade: websockets
//     go through tunnels.
//   - A tunnel for TLS: the first message is read and compared before a byte of it gets out. The server's name must be that of the
//     tunnel. No name, where the tunnel is for a name, and an encrypted one (ECH) need a rule with a hidden name. A program that is
//     refused gets a TLS alert (access denied).
//   - A tunnel for plain TCP: only to ports that a rule or an approval names for tcp. It relays at once, because in some protocols
//     the server speaks first.
//
// A refusal is a 403 with X-Proxy-Error, in JSON for plain HTTP, and says which rule would permit it; for SOCKS it is code 2. A host
// that is allowed and cannot be reached is a 502.
//
// # Programs that know no proxy
//
// [Proxy.ServeNames] answers queries of the DNS. A name that may be connected to on one of its ports, or that a person would be asked
// about, gets an address of 198.18.0.0/15, which are on no network; every other name does not exist, and a record says why. A query goes
// no further: a name is looked up when it is connected to. The network of the commands leads connections to these addresses to the listeners,
// and the address says which host is meant. All that follows is the same as for a request to the proxy: the decision, the question, the
// lookup, the dialled address, and the name in TLS. A request in plain HTTP must name that host. A program that is refused gets a TLS
// alert, a 403, or the end of the connection.
//
// # Who asks
//
// [Proxy.Credential] goes into the proxy variables of a command, see [Environment]. Commands behind one proxy can read each other's
// variables, so a credential says who asks and opens nothing: what a person approves for one process, all that show its credential get, and no
// other host. [Proxy.Blocked] has what a process was not allowed, and [Proxy.End] ends
// what it has left open. A connection without one belongs to process 0, and one with a wrong one
// is refused. Some programs show none: a JVM does not, and what it was denied is told by the record alone.
//
// Upstream proxies are asked for the host by its name, after its addresses were looked up and allowed here; they look it up again.
//
// # Bounds
//
// There are at most [DefaultMaxConnections] connections, and more are closed; 16 questions, behind which others are denied; 64 KiB of
// header; 4,096 names with an address, of which the one that was asked about least recently loses it; 256 lookups. Another 64 connections
// are told that there are too many. A program has 10 s for a header, a SOCKS request, or the first message of TLS; a resolver has 10 s, an address 10 s, an
// answer [DefaultAskTimeout]. An idle tunnel holds two goroutines and two sockets, and neither a buffer nor a pipe. It may be idle for
// ever while both sides are open, and for 5 minutes when one has closed, in which the other neither sends nor takes anything. Through
// an upstream proxy that speaks TLS it holds a buffer. [Proxy.Update] closes what is no longer allowed before it returns.
//
// # What you must not assume
//
// That a host which is allowed is where the bytes end. What is inside of TLS nobody sees: a server that also serves other names
// under one certificate, or that is a proxy itself, passes on what it likes.
//
// That every attempt has a record. Requests that cannot be read name no host; they get a 400.
//
// That an address of 198.18.0.0/15 stays that of its host: look the name up for each connection. Nor that a program which connects by
// name is known: its connections belong to process 0.
//
// That a program which closes its own direction of a connection in the midst of a plain request gets an answer: that is hanging up.
package network
