// Command soak runs execbus under load for a long time, looks for anything that grows, and checks every answer.
//
//	go run ./tests/soak                      # ten minutes of everything at once
//	go run ./tests/soak -duration 2h -parallel 16
//	go run ./tests/soak -seed 42 -only 'flood|watch'
//	go run ./tests/soak -only short          # very many small commands
//
// It needs Linux, sh and the usual small programs (seq, cat, sleep, setsid, stty), and works as root and as an ordinary
// user. It exits with 0 if nothing drifted and no invariant was broken, 1 otherwise, 2 for wrong usage or if a step hangs, 3 if
// it could not run, or not to its end. Ctrl-C ends it cleanly: it shows the table so far, and leaves nothing behind. A second
// Ctrl-C ends it at once, and the warden ends what ran.
//
// # How it works
//
// Workers take one step after the other. A step is drawn from the scenarios: floods, background jobs, interactive programs,
// signals and so on. It runs in one of the sessions that all workers share and that come and go, or in a session of its own.
// The choices of a step depend only on the seed, the worker and the number of the step, so the same seed makes the same
// choices. Their order in time is not repeated. A complaint names worker, step and scenario.
//
// Time is cut into rounds. In some of them the warden is killed, in some it is stopped. After each round comes a quiet
// point: all processes are ended, and all sessions but one are closed. The counts are written down when they are back at
// their old values, or after ten seconds. The first quiet point, after a warm-up in which every scenario had its turn, is
// the baseline.
//
// # What the numbers mean
//
// Some numbers are judged, at quiet points only. One that is above the baseline there has drifted:
//
//   - descriptors: the open ones of this process, the host, and as "warden descriptors" those of the warden, but without
//     the lists of children: each of its threads that starts commands keeps its own open. A terminal that leaks is one of them.
//   - goroutines: of the host, including those of this program.
//   - zombies: dead children of the host and of the warden that were not reaped. There must be none.
//   - descendants: living processes below the warden, and processes elsewhere that carry this run's environment variable,
//     such as daemons that lost their parents. There must be none.
//   - heap: the Go heap of the host after a collection. It may be 5 MiB above the baseline.
//
// Others are only shown: threads (the Go runtime keeps those that it once needed), and resident memory (which includes what
// Go has not given back to the kernel yet).
//
// EARLY and LATE are the medians of the first and the last quarter of the quiet points, so slow growth shows even in numbers
// that are not judged. If a number has drifted, what was counted is shown, and the name of a heap profile.
//
// After the shutdown of the runtime everything is counted once more, and must be as it was before its start.
//
// # Invariants
//
// They are checked all the time. A broken one is reported at once, with its step:
//
//   - every accepted command has exactly one ExecEnded, which is its last event; a refused command has none, or one that
//     says it never ran; its other events come at most once and in order;
//   - a start is refused after the answer to its call only if that answer said that the start waits, or was an error;
//   - an exit code is one that the leader can have returned (programs here return 0 only if they end as meant), a signal is
//     one that somebody sent, and there is a status unless the leader never ran or its warden was killed;
//   - the answer to every failed call is a *messages.Error with a code that fits the call;
//   - no step takes a minute; after two it hangs, and this program panics and shows all goroutines;
//   - a session has at most 8 processes above its limit, and only briefly if no call waits;
//   - output is exact. Floods write numbered lines, so that each byte says where it belongs. The bytes that the answers to
//     calls kept and omitted are together those that were sent, and every kept byte is in its place. The same holds for
//     deltas and gaps, for remembered output, for transcripts and for totals;
//   - no tree has survivors, no actor crashes, and no error is logged except the killing of the warden.
//
// # What you must not assume
//
// That a run without complaint proves that there are no leaks: a leak in the warden's heap would show only in its rss, and
// one that needs more time than the run not at all. That the numbers under load compare between machines. That all random
// choices repeat: execbus itself draws process ids and session ids.
package main
