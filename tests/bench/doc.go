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
// highest ratio of a pair. Values without a bare side are judged as they are, by the median of as many samples as there would
// be pairs; where they are times, other programs on the machine are measured with us, and a miss counts only where there
// are none. Rows whose limit is "-" are for information.
//
// A pair that takes more than three minutes hangs, and its case is not measured. A signal (SIGINT, SIGTERM, SIGHUP) ends the run
// within ten seconds; the table then has what was measured.
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
// exec-result: /bin/true on pipes. Bare is that of spawn-pipes-*, with the environment that a command of the session finds.
// Ours is a call of Session.Exec, to its Result; the row "ended" is to the event exec_ended, which is waited for between the
// turns. exec-64 is 64 of each way at once, in goroutines, to the last of them: as many as a session may have by default.
// Every pair has a new session, and after each turn its list of processes must be empty, so that the next one finds all
// slots free.
//
// exec-beside: exec-result in a runtime where so many interactive shells live in another session ("ours"), in turn with a runtime
// that has none ("bare"). With -quick it is a tenth of them.
//
// exec-watched: exec-result with so many subscribers of everything, each with a goroutine that reads ("ours"), in turn with a
// runtime that has one ("bare").
//
// first: Start, OpenSession and the first Exec, which starts the warden, in a fresh process for each sample; three for each pair.
//
// rest: the resident memory, a second later, of a process that has run 2,000 commands one after the other through a Session,
// and of its warden; and of a process of the same code that has done it with os/exec, for information. A run is made for every
// third pair asked for.
//
// mcp-exec: the script "true" in a shell that is no login shell. Bare is Session.Exec in this process; ours is the tool
// exec_command of "execbus mcp", which is built for it, on its standard input and output. Judged is how much more it
// takes at the median.
//
// ask: a call of Session.Read for the last byte of a cat that waits. It goes to the supervisor, from there to the process,
// and the answer comes straight back. Judged is the median.
//
// plan: policy.MakePlan for a script of 200 bytes with 500 rules, under the approval policy untrusted: a plain one of several
// commands, one that cannot be taken apart, and one with a suggested rule, which is tried out.
//
// publish: Bus.PublishOutput of 100 bytes to subscribers that want it, divided by their number, with nothing else of the
// runtime. After 32 events everyone reads them, untimed. So nobody waits in Next, and nothing is dropped.
//
// delivery: 20 processes print the time every 10 ms on pipes, and 1,000 subscribers in a goroutine each read the output of
// all of them: two million deliveries a second, if nothing is late. Measured is from the time in the event, which is taken
// right before it is published, to the return of Subscription.Next. Every event that was published in the stretch of time
// counts, however late it came, and what a gap says was lost counts as if it had come with the gap. "from the print on"
// begins at the printed time, for 40 of the subscribers. "a second" is how many deliveries there were: fewer than could be, where
// lines that were printed before the runtime came to read them share an event. In delivery-one everyone follows one of the
// processes, which is one twentieth of the deliveries.
//
// echo: 17 bytes to a cat on a PTY in raw mode without echo, and back; a turn is 50 round trips. Bare is a blocking Write and
// a blocking Read in one goroutine. Ours is Child.Write to the Output event that completes the 17 bytes, on a child of the
// warden. echo-session is the same through Session.Write, without waiting, and a lossless subscription.
//
// echo-loaded: the same as echo beside 8 times yes, which flood their pipes and are read by a Session to which nobody
// subscribes; a turn is 50 round trips of each way, so both have the same load. The echoes are no part of that runtime: bare
// is as above, ours is a child of a warden of its own. echo-loaded-session has the echo of echo-session, in a runtime of its
// own. "floods" is how much flows.
//
// echo-loaded-apart: each way beside floods that it reads itself, a second at a time: bare in loops of blocking Reads of
// 64 KiB, a goroutine each. It is for information, because the ways do not have the same load: yes writes as fast as it is
// read. Bare loops keep both cores busy without a pause, and a core that never sleeps answers a blocking Read faster than an
// idle one does; the runtime lets floods rest, which leaves most of the machine to others.
//
// flood: a program writes a pattern to a PTY in raw mode as fast as it is read; each byte is compared. First 512 MiB go
// through one PTY, untimed; a turn is then 64 MiB through a PTY of its own. Bare is a loop of blocking Reads of 64 KiB. Ours
// is a child of the warden whose batches are released as soon as they are compared. "cpu" is the user and system time of
// this process for each GiB. flood-runtime is a Session without a subscriber.
//
// memory-floods: 100 times yes floods pipes for 20 s, through a Session in a process of its own, without a subscriber and with
// one that reads an event every 10 ms. "rss grown" is from the resident memory of the host before the floods to the most that
// was seen in them, every 100 ms. The runtime keeps 2.5 MiB of each process's output, 1 MiB that nobody has polled and the log,
// so 250 MiB in all; and Go lets a heap grow to twice what lives before it collects it, unless the host sets GOGC or GOMEMLIMIT.
// Judged are the rest, and what lives beyond what is kept: the heap that is in use after a collection while the floods go on.
// It shows a leak. With a subscriber every event is a copy, of which its ring keeps some. A run is made for every third pair
// asked for.
//
// shells: 1,000 interactive shells on PTYs that have printed their prompts, through the whole runtime, in a process of its
// own; up to 100 were started at once. "rss" is what the resident memory of the host (all mappings, by the kernel's exact
// count) has grown by for each shell, after warming up with shells that were ended. Judged are the threads of the host, which
// is somebody else's program; those of the warden, a process of ours, stand beside them for information, as does its resident
// memory. There are no pairs: a run is made for every third pair asked for. "end of all" is a call of Session.Close, with the grace that commands have by default.
//
// # What you must not assume
//
// That absolute times compare between machines, or that one miss on a busy machine is a regression: look at the spread and
// run the case again.
package main
