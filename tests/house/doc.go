// Package house holds the tests about the repository itself: which room may import which, that every package has a doc,
// which modules we depend on, and that the README is true.
//
// The rules are tables at the top of each file. A check is a function from a file system to complaints. It runs on the
// repository and, in a second test, on a small wrong sample that it must complain about.
//
// Most checks only read files. Those that need the go tool and our modules are skipped if these are missing, or fail if
// EXECBUS_NEED_GO is set, as .ci/run does.
package house
