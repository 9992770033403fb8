// Package warden is the small process that a runtime's children descend from. It is the host's own binary, executed again
// under the name Name: this package's init takes over before main, so an embedding program has nothing to call and cannot
// forget it.
//
// The takeover needs two things at once: the name in argv[0], and a sealed memfd with our greeting on descriptor 3. A
// program that merely happens to be called that way stops with an explanation instead of running its main as a warden.
//
// The warden gets GOMAXPROCS=1 for an environment and "/" as its directory; nothing of a command ever becomes its own. It
// is the subreaper of all trees, forks all leaders from its main thread (so that they die with it), and reads requests
// from the host on descriptor 4. That socket is also its lifeline: at end-of-file the host is gone, and it ends everything.
//
// This package imports as little as it can: whatever it imports is initialised before it in every warden.
package warden

// Name is argv[0] of a warden.
const Name = "execbus-warden"

// Greeting is the content of the sealed memfd.
const Greeting = "execbus warden 1\n"
