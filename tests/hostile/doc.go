// Package hostile runs programs that behave as badly as the kernel lets them, through the same API that a host uses, and
// checks that nothing is left of them.
//
//	go test ./tests/hostile            # a sample, below half a minute
//	go test ./tests/hostile -v         # the same, with a table of all cases and their outcomes
//	go test ./tests/hostile -soak      # every list in full, some minutes
//
// A case says what a program or a caller does and which outcome it must have: the code of an error, or cause and status of
// an end. After each case the runtime is shut down, and then nothing may be left: no process with the case's token in its
// arguments or directory, no zombie of ours or of the warden, no descriptor, no goroutine, no file in TMPDIR.
//
// # The themes
//
//	children    programs that detach, stop, flood, fork, play with their terminal, or attack the warden
//	signals     death by every signal, sent by the program itself and by the host
//	requests    commands that cannot be run, operations on missing processes, many at once
//	scarcity    too few descriptors, terminals or bytes on the disk
//	hosts       hosts that are killed at random moments
//	panics      a host's own code that panics when it is called
//
// # What you must not assume
//
// That everything runs everywhere: a case whose privilege or namespace is missing is skipped, and the table says so. That
// the limits on time are tight: the sample allows more time than the full run, for busy machines.
package hostile
