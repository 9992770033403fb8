// Package awaiting runs real programs and compares what they wait for with what execbus says about them.
//
//	go test ./tests/awaiting        # some seconds
//	go test ./tests/awaiting -v     # with the programs that this machine does not have
//	AWAITING_BUILDS=1h go test -run LiveBuilds -timeout 2h -v ./tests/awaiting
//
// The table has shells, interpreters, password prompts, pagers, editors, menus, multiplexers and builds. A case is a dialogue: what is typed, the
// text that must have been shown, and what the program waits for then. All the time the program must not be said to wait for a line or a
// secret before it does, unless that is marked as a guess.
//
// Live builds are builds, test runs and installations on terminals, by calls that end early by default and by calls that wait for input.
// A call that is answered before its command has ended is a failure, and shows who was said to read. Suites that listen for a while and print
// nothing are run only with calls that wait for input: by default, that a program listens is a reason to answer.
//
// What an event loop such as that of node waits for in line mode is only a guess, and ends no call by default: libuv tells the kernel that it
// does not want a file any more only when there is something to read in it, so the kernel says the same of one that has stopped reading.
// Questions by node's readline are in raw mode unless it is told that there is no terminal, so they are certain.
//
// # What you must not assume
//
// That every case runs everywhere: one whose program is missing is skipped, and says so. That keys are never awaited too early:
// line editors read keys several times before they show their prompt.
package awaiting
