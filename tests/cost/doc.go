// Package cost measures what it costs a program to import execbus, beside one that uses package os/exec, and holds the README to it.
//
//	go test -v ./tests/cost
//
// # What you must not assume
//
// That the numbers are exact: another version of Go makes other ones. The README's may be off by a tenth, and those of
// initialisers, which a machine runs as fast as it can, may be too high.
package cost
