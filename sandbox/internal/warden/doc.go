// Package warden is the small process from which a runtime's children descend. It is the host's own binary, executed again
// under the name Name. This package's init takes over before main, so an embedding program has nothing to call.
//
// The takeover needs both the name in argv[0] and, on descriptor 3, a socket that our parent has made and into which it has written our
// greeting. A program that merely happens to have that name stops with an explanation.
//
// The warden gets the host's environment, with GOMAXPROCS=2, and "/" as its directory. It never takes an argument, a variable or a
// directory from a command. It is the subreaper of all trees, and starts all leaders on threads that do not end before them, so that
// they die with it. One of these threads at a time reads the requests of the host, on descriptor 3, and sees leaders exit. It waits
// for both with an epoll of its own: with Go's poller, another thread would wait and then wake this one. End-of-file on the socket
// means that the host is gone, and the warden ends everything. Descriptor 4 is a pidfd of the host. It reports the host's death even
// if a forked copy of the host holds the socket open.
//
// Where the executions of a tree are to be seen, its birth leaves a listener in this process and nowhere else; see internal/executions. What
// is asked about goes to the host, and the answer comes back among the requests.
//
// A warden to which nothing has happened for a quarter of a second gives back the memory of its program's files and of Go's heap, if
// that is much, and ends threads that have no leaders left. What it needs of the files again comes back from the page cache.
//
// # The rule about imports
//
// This package and its imports import as little as they can: never net, fmt, path/filepath, encoding/json or crypto. Go initialises
// packages in the order of their paths, each as soon as all its imports are ready. So in every warden this package's imports are
// initialised before it, and so is every package of the host that is ready earlier. Such packages must tolerate this. Each further
// import can delay this package, and then more packages of the host run in the warden.
//
// # What you must not assume
//
// Do not assume that none of the host's code runs in a warden: the initialisers of such packages do.
package warden

// Name is argv[0] of a warden.
const Name = "execbus-warden"

// Greeting is what the host writes first.
const Greeting = "execbus warden 1\n"
