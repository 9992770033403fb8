// Package hosts builds programs that use execbus, in every usual way, and runs them in every usual way. It checks their
// reports on their commands, and that nothing of them is left.
//
//	go test ./tests/hosts
//
// The program is in testdata/host. It is a module of its own whose path sorts before ours, so its package early is
// initialised before the warden takes over.
//
// # What you must not assume
//
// That everything runs everywhere: a case is skipped if the go tool, a C compiler, python or a privilege that it needs is
// missing.
package hosts
