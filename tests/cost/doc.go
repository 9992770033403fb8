// Package cost measures what importing execbus costs a program, compared with one that uses package os/exec. Its test
// compares the results with the README.
//
//	go test -v ./tests/cost
//
// # What you must not assume
//
// That the numbers are exact: another version of Go gives other numbers. The test accepts a tenth more or less than the README
// says. It does not judge the time of initialisers, which depends on the machine.
package cost
