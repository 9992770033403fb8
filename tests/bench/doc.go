// Command bench compares execbus with the bare way of doing the same thing, in one run, and judges the ratio.
//
//	go run ./tests/bench                     # everything; some minutes
//	go run ./tests/bench -quick              # a first impression
//	go run ./tests/bench -run 'spawn|echo' -pairs 15
//	go run ./tests/bench -list
//
// It ends with 0 if every limit was kept, 1 if one was missed, 2 for wrong usage, 3 if something could not be measured.
//
// # How it measures
//
// A case has two ways, bare and ours, and they take turns, which are short: a pair holds one sample of each way, a sample is
// the median of many turns, and a pair gives one ratio. Judged is the median of the pairs' ratios. So load that comes and
// goes hits both sides, and so does the scheduler's choice of cores, which makes some cases several times as fast or slow.
// The columns "bare" and "ours" are medians of the samples and need not divide to the ratio; "spread" is the lowest and the
// highest ratio of a pair. Values without a bare side are judged as they are. Rows whose limit is "-" are for information.
//
// # What the numbers mean
//
// spawn-pty-*: /bin/true on a PTY. Bare is creack/pty: pty.Start, Read until the end, Close, Wait. Ours is from the call of
// Spawn to the last of Exited, Drained and Closed. So both end when the status is known and the output is complete. Ours
// then still sees to it that nothing of the tree is left; the wait for TreeEnded lies between the turns and is the row
// "tree", which starts at Spawn, too.
//
// spawn-pipes-*: the same on pipes. Bare is os/exec with a buffer each for stdout and stderr, Run to its end.
//
// heap-*: spawn-pty in two processes of their own that hold 50 MiB ("bare") and 2 GiB ("ours") of touched memory in their
// heaps, with the garbage collector off. The ratio says what a big host pays.
//
// echo: 17 bytes to a cat on a PTY in raw mode without echo, and back; a turn is 50 round trips. Bare is a blocking Write and
// a blocking Read in one goroutine. Ours is Child.Write to the Output event that completes the 17 bytes, on a child of the
// warden. echo-session is the same through Session.Write, without waiting, and a lossless subscription.
//
// flood: a program writes a pattern to a PTY in raw mode as fast as it is read; each byte is compared. First 512 MiB go
// through one PTY, untimed; a turn is then 64 MiB through a PTY of its own. Bare is a loop of blocking Reads of 64 KiB. Ours
// is a child of the warden whose batches are released as soon as they are compared. "cpu" is the user and system time of
// this process for each GiB. flood-runtime is a Session without a subscriber.
//
// shells: 1,000 interactive shells on PTYs that have printed their prompts, through the whole runtime, in a process of its
// own; up to 100 were started at once. "rss" is what the resident memory of the host (all mappings, by the kernel's exact
// count) has grown by for each shell, after warming up with shells that were ended; "threads" counts those of host and
// warden. There are no pairs: a run is made for every third pair asked for.
//
// # What you may not assume
//
// That absolute times compare between machines, or that one miss on a busy machine is a regression: look at the spread and
// run the case again.
package main
