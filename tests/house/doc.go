// Package house holds the tests about the repository itself: which room may import which, that every package explains
// itself, what we depend on, and that the README says what is true.
//
// The rules are tables at the top of each file. A check is a function from a file system to complaints, so that it runs
// on the repository and, in a second test, on a small wrong sample that it must complain about.
//
// Most checks only read files. Those that need the go tool and our modules skip themselves where there are none, and
// fail instead if EXECBUS_NEED_GO is set, as .ci/run does.
package house
