// Package hosts builds programs that use execbus, in the ways in which programs are built, runs them in the ways in
// which programs are run, and looks at what they say of their commands and at what is left of them.
//
//	go test ./tests/hosts
//
// The program is in testdata/host: a module of its own, whose path comes before ours, so that its package early is initialised
// before the warden takes over.
//
// # What you must not assume
//
// That everything runs everywhere: what needs the go tool, a C compiler, python or a privilege is skipped without it.
package hosts
