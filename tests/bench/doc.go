// Command bench compares execbus with the bare way of doing the same thing, in one run, and judges the ratio.
//
//	go run ./tests/bench                     # everything; some minutes
//	go run ./tests/bench -quick              # a first impression
//	go run ./tests/bench -run 'spawn|echo' -pairs 15
//	go run ./tests/bench -list
//
// It exits with 0 if every limit was kept, 1 if one was missed, 2 for wrong usage, 3 if something could not be measured.
//
// # How it measures
//
// A case has two ways, bare and ours, which take short turns. A sample of a way is the median of many turns. A pair is one
// sample of each way, and gives one ratio. The median of the pairs' ratios is compared with the limit. So load that comes
// and goes affects both sides, and so does the scheduler's choice of cores, which makes some cases several times as fast or
// slow. The columns "bare" and "ours" are medians of the samples, so dividing them need not give the ratio; "spread" is the
// lowest and the highest ratio of a pair. Some values have no bare side. Of them the median of as many samples as there
// would be pairs is compared with the limit. Other programs on the machine disturb such values if they are times, so a miss
// counts only on an idle machine. Rows whose limit is "-" are for information.
//
// If a pair takes more than three minutes, the command assumes that it hangs, and the case is not measured. A signal
// (SIGINT, SIGTERM, SIGHUP) ends the run within ten seconds; the table then has the cases that were measured.
//
// # What the numbers mean
//
// spawn-pty-*: /bin/true on a PTY. Bare is creack/pty: pty.Start, Read until the end, Close, Wait. Ours is from the call of
// Spawn to the last of Exited, Drained and Closed. So both end when the status is known and the output is complete. Ours
// then still makes sure that nothing of the tree is left. The wait for TreeEnded lies between the turns; the row "tree" has
// the time from Spawn to it. The row "p99" compares the slowest hundredth of each way. A warden costs two context switches and
// a look at the host's rights, some 80 µs in all. So the limit of spawn-pty-warden is met only where a bare spawn takes more than
// half a millisecond; where it takes a quarter, the ratio is about 1.3.
//
// spawn-64-*: 64 of these at once, in goroutines, to the last of them.
//
// spawn-pipes-*: the same on pipes. Bare is os/exec with a buffer each for stdout and stderr, Run to its end.
//
// spawn-*-confined and spawn-isolated*: spawn-pipes or spawn-pty in a sandbox ("ours"), in turn with the same without one ("bare"),
// through the same warden. spawn-bubblewrap* are there where bwrap is installed: through the same warden it isolates about as
// much, without Landlock, filters of system calls and protected names.
//
// heap-*: spawn-pty in two processes of their own that hold 50 MiB ("bare") and 2 GiB ("ours") of touched memory in their
// heaps, with the garbage collector off. The ratio says what a big host pays.
//
// idle-isolated: ten isolated commands sleep while 1,000 more are started one after the other. Then the kernel says how much
// memory each of them has for itself, and how much process 1 of its namespaces has, which is ours. It needs root.
//
// exec-result: /bin/true on pipes. Bare is that of spawn-pipes-*, with the environment that a command of the session gets.
// Ours is a call of Session.Exec, to its Result. The row "ended" is the time to the event exec_ended, for which the program
// waits between the turns. exec-64 runs 64 of each way at once, in goroutines, to the last of them: as many as a session may
// have by default. Every pair has a new session, and after each turn its list of processes must be empty, so that the next
// turn finds all slots free.
//
// exec-beside: exec-result in a runtime in which another session has so many interactive shells ("ours"), in turn with a
// runtime that has none ("bare"). With -quick it is a tenth of them.
// exec-beside-direct is exec-result where the host forks, beside as many shells of the same runtime ("ours"), in turn with os/exec
// ("bare").
//
// exec-watched: exec-result with so many subscribers of everything, each with a goroutine that reads ("ours"), in turn with
// a runtime that has one ("bare").
//
// first: Start, OpenSession and the first Exec, which starts the warden, in a fresh process for each sample. Each pair has
// three samples.
//
// rest: the resident memory of three small programs, which are built for the purpose, a second after they have run 2,000 commands
// one after the other: through a Session, with os/exec in a program that has a system of actors, and with os/exec in one that
// imports nothing else ("bare Go"). The warden is that of the first. Half of the first's memory are pages of its executable, which
// it shares with its warden: Go's runtime and the initialisers of all packages touch nearly every stretch of 64 KiB, and the kernel
// maps no less. The library of the actors brings 5 MiB of them, and so the limit is for what execbus adds to that. One run is made
// for every third pair asked for.
//
// mcp-exec: the script "true" in a shell that is not a login shell. Bare is Session.Exec in this process; ours is the tool
// exec_command of "execbus mcp", which is built for the purpose, on its standard input and output. The limit is for the
// difference of the medians.
//
// mcp-rest: the same server, a second after it has run one command, and a second after it has started 60 processes that wait
// on terminals. Its warden is not counted. One run is made for every third pair asked for.
//
// remote-*: "execbus serve", which is built for the purpose, with a client of package execserver/client in this process.
// remote-exec-* is a call of Session.Exec for /bin/true in a runtime that runs its commands there, in turn with a runtime that
// runs them here ("bare"). remote-echo-* and remote-flood are the rows echo and flood for a child there, in turn with a child
// of a warden here ("bare"); "cpu" is that of this process only. The limits of the first two are for the difference of the
// medians. remote-rest is the server's own memory, as in mcp-rest.
//
// ask: a call of Session.Read for the last byte of a cat that waits. It goes to the supervisor and from there to the
// process, and the answer comes straight back. The limit is for the median.
//
// plan: policy.MakePlan for a script of 200 bytes with 500 rules, under the approval policy untrusted: a plain script of
// several commands, one that cannot be taken apart, and one with a suggested rule, which is tried out.
//
// publish: Bus.PublishOutput of 100 bytes to subscribers that want it, divided by their number, without the rest of the
// runtime. After 32 events all subscribers read them, untimed. So nobody waits in Next, and nothing is dropped.
//
// delivery: 20 processes print the time every 10 ms on pipes, and 1,000 subscribers in a goroutine each read the output of
// all of them: two million deliveries a second, if nothing is late. The measured time begins with the time in the event,
// which is taken right before it is published, and ends when Subscription.Next returns. Every event that was published in
// the stretch of time counts, however late it came. Events that a gap reports as lost count as if they had come with the
// gap. The row "from the print on" begins at the printed time, for 40 of the subscribers. "a second" is the number of
// deliveries. It is lower than it could be if several lines share an event because they were printed before the runtime read
// them. In delivery-one every subscriber follows one of the processes, which gives one twentieth of the deliveries.
//
// echo: 17 bytes to a cat on a PTY in raw mode without echo, and back; a turn is 50 round trips. Bare is a blocking Write
// and a blocking Read in one goroutine. Ours is Child.Write to the Output event that completes the 17 bytes, on a child of
// the warden. echo-session is the same through Session.Write, without waiting, and a lossless subscription.
//
// echo-loaded: the same as echo beside 8 times yes. They flood their pipes and are read by a Session to which nobody
// subscribes. A turn is 50 round trips of each way, so both have the same load. The echoes do not use the runtime of the
// floods: bare is as above, ours is a child of a warden of its own. echo-loaded-session has the echo of echo-session, in a
// runtime of its own. The row "floods" is how much flows.
//
// echo-loaded-apart: each way beside floods that it reads itself, a second at a time: bare in loops of blocking Reads of 64
// KiB, a goroutine each. It is for information, because the ways do not have the same load: yes writes as fast as it is
// read. Bare loops keep both cores busy without a pause, and a core that never sleeps answers a blocking Read faster than an
// idle one does; the runtime lets floods rest, which leaves most of the machine to others.
//
// flood: a program writes a pattern to a PTY in raw mode as fast as it is read; each byte is compared. First 512 MiB go
// through one PTY, untimed; a turn is then 64 MiB through a PTY of its own. Bare is a loop of blocking Reads of 64 KiB. Ours
// is a child of the warden whose batches are released as soon as they are compared. "cpu" is the user and system time of
// this process for each GiB. flood-runtime is a Session without a subscriber.
//
// memory-floods: 100 times yes floods pipes for 20 s, through a Session in a process of its own, without a subscriber and
// with one that reads an event every 10 ms. "rss grown" is the highest resident memory of the host during the floods, looked
// at every 100 ms, less that before the floods. The runtime keeps 2.5 MiB of each process's output: 1 MiB that nobody has
// polled, and the log. That makes 250 MiB in all. Go lets a heap grow to twice its live size before it collects it, unless
// the host sets GOGC or GOMEMLIMIT. The limits are for the growth beyond that, and for the live heap beyond the 250 MiB: the
// heap that is in use after a collection while the floods go on, which shows a leak. With a subscriber every event is a
// copy, of which its ring keeps some. One run is made for every third pair asked for.
//
// shells: 1,000 interactive shells on PTYs that have printed their prompts, through the whole runtime, in a process of its
// own; up to 100 were started at once. "rss" is the growth of the host's resident memory for each shell (all mappings, by
// the kernel's exact count), after warming up with shells that were ended. The limit is for the threads of the host, which
// is the embedder's program. The threads and the resident memory of the warden, a process of ours, are for information.
// There are no pairs: one run is made for every third pair asked for. "end of all" is a call of Session.Close, with the
// grace that commands have by default.
//
// # What you must not assume
//
// That absolute times compare between machines, or that one miss on a busy machine is a regression: look at the spread and
// run the case again.
package main
