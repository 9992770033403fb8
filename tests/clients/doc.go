// Package clients runs programs that talk to hosts, as people use them, in a sandbox whose policy names hosts: curl, wget, git, npm, pip,
// go, a JVM, and programs that ignore proxy variables. Each tries three hosts: one is allowed, a person is asked about the next and says
// yes, and the last is denied.
//
//	go test -v ./tests/clients
//
// The hosts are servers of the test in a network namespace of its own, with addresses of the internet, names and certificates. The
// test binary executes itself again to be in it. The rest is what a host has: a runtime, its proxy, its resolver, its sandbox.
//
// # What you must not assume
//
// That everything runs everywhere: a client that is not installed is skipped, and so is everything where no namespace can be made or
// commands cannot be isolated. The tests print what they skip.
package clients
