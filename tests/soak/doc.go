// Command soak works execbus for a long time, looks for anything that grows, and checks every answer.
//
//	go run ./tests/soak                      # ten minutes of everything at once
//	go run ./tests/soak -duration 2h -parallel 16 -plot soak.svg
//	go run ./tests/soak -commands 100000     # as many short commands, 8 at a time
//	go run ./tests/soak -seed 42 -only 'flood|cancel'
//
// It needs Linux, sh and the usual small programs (seq, cat, sleep, setsid, stty), and works as root and as an ordinary
// user. It ends with 0 if nothing drifted and no invariant was broken, 1 otherwise, 2 for wrong usage, 3 if it could not
// run, or not to its end. Ctrl-C ends it cleanly: the table so far is shown, and nothing is left behind; a second one
// ends it at once, and the warden ends what ran.
//
// # How it works
//
// Workers take one step after the other. A step is drawn from the scenarios, which are floods, background jobs,
// interactive programs, signals and so on, and runs in one of some sessions that all workers share and that come and go,
// or in one of its own. What a step chooses depends on the seed, the worker and the number of the step and on nothing
// else, so the same seed makes the same choices; how they fall together in time it does not repeat. A complaint names
// worker, step and scenario.
//
// Time is cut into rounds. In some of them the warden is killed, in some it is stopped. After each round comes a quiet
// point: everything is let end, all sessions but one are closed, and when the counts are back where they were, or have not
// come back within ten seconds, they are taken down. The first quiet point, after a warm-up in which every scenario had its
// turn, is the baseline. In between, every second, the same is sampled under load: for the plot and for the columns MIN to
// LATE.
//
// # What the numbers mean
//
// Judged, at quiet points only; one that is above the baseline there has drifted:
//
//   - descriptors: open ones of this process, the host, and "warden descriptors" those of the warden.
//   - goroutines: of the host, those of this program included, but without those that the actors keep for reuse, which are
//     at most 64; they are the same at every quiet point.
//   - zombies: dead children of the host and of the warden that nobody has reaped. None may be there. Under load there
//     are some: a leader is reaped when its tree has ended.
//   - descendants: living processes below the warden, and any elsewhere that carry this run's environment variable,
//     such as daemons that lost their parents. None may be there.
//   - ptys: terminals in use. As root outside of containers, all that the kernel counts, without those that processes hold
//     that are not ours. Otherwise only those that our processes hold, as others' cannot be told apart.
//   - heap: Go heap of the host after a collection. It may be 5 MiB above the baseline.
//
// Shown, but not judged:
//
//   - threads and "warden threads": the Go runtime keeps threads that it once needed.
//   - rss and "warden rss": resident memory, with what Go has not given back to the kernel yet.
//   - ptys of the system: /proc/sys/kernel/pty/nr, with those of everyone else.
//   - settling: how long it took at a quiet point until the counts were back, in milliseconds.
//
// MIN, MEDIAN and MAX are over the samples of every second; EARLY and LATE are the medians of the first and the last
// quarter of the run, so a slow growth shows even where it is not judged. BASELINE, WORST and LAST are of quiet points.
// Where the heap has drifted, the name of a heap profile is shown, and for the others what is there.
//
// After the shutdown of the runtime everything is counted once more: descriptors and goroutines must then be what they
// were before its start, and no process may be left.
//
// # Invariants
//
// They are checked all the time, and one that is broken is told at once, with its step:
//
//   - every accepted command has exactly one ExecEnded, and it is its last event; what was refused has none, or one that
//     says it never ran; the others of its events come at most once and in order;
//   - an exit code is one that the leader can have returned (programs here return anything but 0 unless they end as
//     meant), a signal is one that somebody sent, and there is a status unless the leader never ran or its warden was
//     killed;
//   - every failed call is answered with a *messages.Error of a code that fits what was asked;
//   - no step takes a minute;
//   - a session has no more processes than its limit and 8 guests, and no guests for long when no call waits;
//   - output is exact. Floods write numbered lines, so that each byte says where it belongs: what the answers to calls
//     kept and omitted together is what was sent, every kept byte is in its place, and the same holds for deltas and
//     gaps, for remembered output, for transcripts and for totals;
//   - no tree has survivors, no actor crashes, and nothing is logged as an error but the warden's killing.
//
// # What you must not assume
//
// That a run without complaint proves that there are no leaks: one in the warden's heap would show in its rss only, and
// one that needs more than the run's time, not at all. That the numbers under load compare between machines. That all
// random choices repeat: process ids and session ids are drawn by execbus itself.
package main
