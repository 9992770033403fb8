// Package awaiting runs real programs and compares what they wait for with what execbus says about them.
//
//	go test ./tests/awaiting        # some seconds
//	go test ./tests/awaiting -v     # with the programs that this machine does not have
//
// The table has shells, interpreters, password prompts, pagers, editors, menus, multiplexers and builds. A case is a dialogue: what is typed, the
// text that must have been shown, and what the program waits for then. All the time the program must not be said to wait for a line or a
// secret before it does, unless that is marked as a guess.
//
// # What you must not assume
//
// That every case runs everywhere: one whose program is missing is skipped, and says so. That keys are never awaited too early:
// line editors read keys several times before they show their prompt.
package awaiting
