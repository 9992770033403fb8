// Command bench compares execbus with the bare way of doing the same thing, in one run, and judges the ratio.
//
//	go run ./tests/bench                     # what a user feels; five to six minutes
//	go run ./tests/bench -quick              # a first impression
//	go run ./tests/bench -run 'exec|echo' -time 20s
//	go run ./tests/bench -layers             # the layers alone, too
//	go run ./tests/bench -list
//
// It exits with 0 if every limit was kept, 1 if one was missed, 2 for wrong usage, 3 if something could not be measured.
//
// # How it measures
//
// A row has two loops, bare and ours, which take short turns in an order that changes. A sample is a few turns of each, and
// gives one ratio of their medians; samples are taken for as long as -time says, and at least three of them. The median of the
// ratios is compared with the limit. So load that comes and goes affects both sides, and so does the scheduler's choice of
// cores, which makes some rows several times as fast or slow. The columns "bare" and "ours" are medians of all samples, so
// dividing them need not give the ratio; "spread" is the lowest and the highest ratio of a sample. A limit with "more" is for
// the difference of the two columns. Some rows have no bare side: the median of their samples is compared with the limit.
// Other programs on the machine disturb such rows if they are times, so a miss counts only on an idle machine. Rows whose limit
// is "-" are for information.
//
// Each row has a process of its own, and some have one for each sample. One that takes four minutes more than its time is assumed
// to hang, and is not measured. A signal (SIGINT, SIGTERM, SIGHUP) ends the run within ten seconds; the table then has the rows
// that were measured. A second one ends it at once.
//
// Rows of a layer alone and long ones are marked in the list. They run if -run names them, the first also with -layers. The bus, filters and forks have
// benchmarks in their packages.
//
// # What a user feels
//
// exec-*: /bin/true through Session.Exec, to its Result, in turn with os/exec and a buffer for each stream, or with creack/pty
// and a read until the end. "ended" is the time to the event exec_ended, for which the program waits between the turns. exec-64
// runs 64 of each way at once, in goroutines, to the last of them. exec-audited has an audit log, in turn with a runtime without one. exec-isolated* and exec-confined have commands in a sandbox in turn
// with commands without one ("bare"), exec-beside a runtime with so many idle shells in turn with one that has none (with -quick a tenth of
// them), exec-watched a runtime with so many subscribers in turn with one that has one.
//
// tools-exec and mcp-exec: a script in a shell that is not a login shell, through the tool of a model, in this process and in
// that of "execbus mcp", in turn with Session.Exec.
//
// patch-3: a patch that changes three small files by Session.ApplyPatch, confined, in turn with os.WriteFile for each of them. The program
// that reads and writes is started for each patch, and the contents are on the disk before they are in place.
//
// executed-*: a confined command of a session in which rules hold for what it executes, in turn with one in which they do not ("bare"), by
// Session.Exec: 1,000 times /bin/true in the loop of a shell, where a rule names it, which it does not meet, and where none does; the same with a new argument each
// time, so that the host judges each; and "go build" of a package from scratch. executed-build-all builds all packages of this repository, which takes
// minutes: go run ./tests/bench -run executed-build-all -time 20m. executed-beside is the loop that no rule names, beside a tree that executes
// as fast as it can: in turn one whose executions are seen, and one whose are not.
//
// window-key: a key by the websocket of a page of package window, to the message with the picture in which the terminal has echoed it, in turn
// with gotty, if that is installed, to the message with the echo; keys come 50 ms apart. window-flood: what a second of the
// output of yes, at a pace of 32 MiB a second, costs this process with a page open, and with its own reader of the page, less the mean of the
// seconds before and after, without one ("without"); the median of many. window-idle: this process with a page of a shell at its prompt, for 10 s.
//
// ask: a call of Session.Read for the last byte of a cat that waits.
//
// hold-ups: how long a call waits for what other actors do: round trips of echo-session, and calls like those of ask, on one
// process of a session that also has 256 questions which nobody answers, 1,000 shells, and a niced flood.
//
// delivery: 20 processes print every 10 ms, and 1,000 subscribers in a goroutine each read the output of all of them: two million
// deliveries a second, if nothing is late. The time begins right before an event is published, and ends when Subscription.Next
// returns. Events that a gap reports as lost count as if they had come with the gap. In delivery-one every subscriber
// follows one of the processes.
//
// echo-session: 17 bytes to a cat on a PTY in raw mode without echo, and back; a turn is 50 round trips. Bare is a blocking Write
// and a blocking Read in one goroutine; ours is Session.Write, without waiting, and a lossless subscription.
//
// flood-session: 64 MiB through a PTY in raw mode, as fast as they are read: by blocking Reads of 64 KiB, and by a Session without a
// subscriber. "cpu" is the user and system time of this process for each GiB.
//
// flood-spool: that Session with its output in files, in turn with one without ("bare"). How the scheduler places the
// programs of a flood makes it several times as fast or slow, so a sample has three turns, and a ratio above 1 is no gain: what a file costs
// is in "cpu", which was 1.4 to 1.5 times as much when it was measured.
//
// remote-*: "execbus serve", with a client of package execserver/client in this process. remote-exec-* runs /bin/true there, in
// turn with a runtime that runs it here ("bare"). remote-echo-* and remote-flood are the rows echo and flood for a child there,
// in turn with a child of a warden here ("bare").
//
// exec-isolated-hosts: isolated commands with the rules of some hosts, which they do not use, in turn with those without a network ("bare").
//
// proxy-*: a proxy of package network in this process, in turn with a relay in Go that copies both ways and does nothing else ("bare").
// proxy-relay sends 1 GiB through a tunnel for plain TCP, proxy-first waits for the first byte of a server that greets, and
// proxy-connections does that 16 times at once. proxy-idle has two proxies with 5,000 tunnels each, in processes of their own: what a
// socket costs the kernel is not in it.
//
// until-*: programs that answer a line, by calls of a session that end when the program waits for input, and by calls that do not say what they
// wait for ("by default": the screen of a program that waits for more than its terminal, such as node, has to be still for 150 ms), in turn
// with a loop over creack/pty that knows the last bytes of each answer. "start" is the start of the program until its prompt; the loop then
// waits until the kernel says that the program sleeps in a call that waits for its terminal, because node works on for up to ten
// milliseconds after it has shown its prompt. "start, beside its prompt alone" leaves that out. Where python3 is the script of a version
// manager, the interpreter behind it is measured. "too early" counts answers that came before all was shown. until-mcp is the same through
// "execbus mcp".
//
// waits: 1,000 calls that wait for the input of as many silent commands; "first" and "after" are the processor time of this process in
// the first ten seconds and in the next five, of one core.
//
// wake: from the moment at which a program is about to read its terminal to the answer of a call that waits for that. The distance between
// looks is a tenth of the time without output.
//
// pattern: a flood that a call compares with a pattern which takes long and is never found, in turn with one without.
//
// ports: from the return of listen in a server, as it says itself, to the answer of a call that waits for any port, the latest of a sample.
// Run it as root and as an ordinary user.
//
// day: a fixed list of 30 steps of an agent, through "execbus mcp" with what its tools do by default; only where a watcher has
// come to its end the call says what it waits for. The oracle does the same with creack/pty, in turn for each step, and knows its end. A line
// is the step of a kind that ended latest behind the oracle. Servers may be later: that one listens is a reason only when nothing was
// printed for 300 ms. BENCH_STEPS=1 lists all steps.
//
// rest: a small program, a second after it has run 2,000 commands one after the other. Half of its memory are pages of its
// executable, which it shares with its warden; the library of the actors brings 5 MiB of them. mcp-rest and remote-rest are the
// servers after a command, without their wardens.
//
// memory-floods: 100 times yes floods pipes, through a Session. The runtime keeps 2.5 MiB of each process's output: 1 MiB that nobody
// has polled, and the log. Go lets a heap grow to twice its live size before it collects it, unless the host sets GOGC or
// GOMEMLIMIT. The limits are for the growth beyond that, and for what is in use after a collection beyond the 250 MiB, which shows
// a leak.
//
// shells: 1,000 interactive shells that have printed their prompts. "rss" is the growth of the host's resident memory for each, after
// a warm-up. "end of all" is a call of Session.Close, with the grace that commands have. shells-kept: what is in use after a collection,
// without and with what keeps output and events. A recording has a goroutine and a descriptor for each process.
//
// # Layers
//
// spawn-*: /bin/true as a child of a spawner, from the call of Spawn to the last of Exited, Drained and Closed. A warden costs two
// context switches and a look at the host's rights, some 80 µs in all. echo and flood: a child of the warden, without the rest of
// the runtime.
//
// # What you must not assume
//
// That absolute times compare between machines, or that one miss on a busy machine is a regression: look at the spread and
// run the row again.
package main
