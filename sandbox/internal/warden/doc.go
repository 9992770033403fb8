// Package warden is the small process that a runtime's children descend from. It is the host's own binary, executed again
// under the name Name: this package's init takes over before main, so an embedding program has nothing to call and cannot
// forget it.
//
// The takeover needs two things at once: the name in argv[0], and a sealed memfd with our greeting on descriptor 3. A
// program that merely happens to be called that way stops with an explanation instead of running its main as a warden.
//
// The warden gets the host's environment, with GOMAXPROCS=1, and "/" as its directory; nothing of a command ever becomes its
// own. It is the subreaper of all trees, bears all leaders on its main thread (so that they die with it), and reads requests
// from the host on descriptor 4. That socket is also its lifeline: at end-of-file the host is gone, and it ends everything.
// Descriptor 5 is a pidfd of the host, which says the same, and also where a forked copy of the host holds the socket.
//
// # The rule about imports
//
// This package, and what it imports, imports as little as it can: nothing but wire, tree and birth of ours, package unix, and what
// these need of the standard library; never net, fmt, encoding/json or crypto. Go initialises packages in the order of their
// paths as soon as all that they import is ready. So whatever this package imports is initialised before it in every warden,
// with every package of the host that is ready earlier: each must get along with that, and most must not be ready.
//
// # What you must not assume
//
// That nothing of the host runs in a warden: the initialisers of such packages do.
package warden

// Name is argv[0] of a warden.
const Name = "execbus-warden"

// Greeting is the content of the sealed memfd.
const Greeting = "execbus warden 1\n"
