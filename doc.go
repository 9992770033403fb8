// Package execbus runs programs for agent hosts.
//
//	package main
//
//	import (
//		"context"
//		"fmt"
//		"log"
//		"time"
//
//		"github.com/execbus/execbus"
//		"github.com/execbus/execbus/messages"
//	)
//
//	func main() {
//		ctx := context.Background()
//		rt, err := execbus.Start(execbus.Options{})
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer rt.Shutdown(ctx)
//		session, err := rt.OpenSession(execbus.SessionOptions{Dir: "/tmp"})
//		if err != nil {
//			log.Fatal(err)
//		}
//		result, err := session.Exec(ctx, messages.ExecCommand{Script: "sleep 2; echo done", Yield: new(time.Second)})
//		for err == nil && result.Running {
//			fmt.Println(result.Text())
//			result, err = session.Poll(ctx, messages.Poll{Process: result.Process})
//		}
//		if err != nil {
//			log.Fatal(err)
//		}
//		fmt.Println(result.Text())
//	}
//
// A [Runtime] is what a host has one of. A [Session] is one conversation of the host, with its own processes, limits and
// working directory; a runtime holds any number. A process is one command that a session started. Each is owned by an actor
// of its own, runs on a terminal or on pipes, and tells what happens to it on one bus. Requests, results, events and errors
// are the types of package messages.
//
// # Yields and polls
//
// [Session.Exec] waits until the command ends or its yield time is over, and then answers with the output so far. The
// process lives on; [Session.Poll] and [Session.Write] wait for more. Each answer has what came since the last one. Only the
// end of the process ends a wait early, not output.
//
//	Exec               250 ms to 30 s, 10 s by default
//	Write              250 ms to 30 s, 250 ms by default
//	Poll               5 s to SessionOptions.LongestPoll, 5 s by default; with NoTimeout until the end
//
// A yield is a pointer: nil means the default, and zero the least there is. All numbers that a caller may leave out are.
//
// Each call has a clock of its own, and the first to answer takes what output there is. Input ends a poll that waits. A write
// that waits for output is one step: its bytes go out, and its clock starts, when the waiting write before it has its
// answer; other input keeps its place behind it. [Session.Signal], [Session.Resize], [Session.Terminate] and [Session.Read]
// never queue. [Session.PauseYields] stops the clocks of a session while, for example, a person is asked something.
//
// [Session.Wait] waits for exits, of one process or of several, and [Session.Read] for output behind a place that the reader
// keeps. Both take nothing from anybody, and any number of callers may do so at once.
//
// [Session.Run] is for commands that are not talked to: it runs one to its end, with stdout and stderr apart, a timeout
// (10 s by default, exit code 124), and at most 1 MiB of each stream. [Session.RunStreams] gives it an input and writes all of its
// output as it comes.
//
// # Processes
//
// [Session.Start] is for hosts that hold on to what they run. It returns when the program runs, with a [Process]:
//
//	p, err := session.Start(ctx, messages.ExecCommand{Argv: []string{"sort"}, OpenStdin: true})
//	if err != nil {
//		return err
//	}
//	go func() {
//		io.Copy(p, input) // as fast as it reads
//		p.CloseStdin(ctx)
//	}()
//	for event, err := range p.Follow(ctx, 0) { // all output, from byte 0
//		...
//	}
//	status, err := p.Wait(ctx)
//
// The context bounds the start. The process is the session's and ends with it, or by [Process.Terminate]: os/exec's habit, to
// kill a command when the context of its start ends, would end what a model wants to come back to. [Session.Process] gives a
// handle on a process whose id is known. The requests that name a process, such as messages.Poll, are for callers that have ids
// from elsewhere: from a model, for example.
//
// # Who may run what
//
// Every command gets a plan before it runs: package policy says how, from SessionOptions.Approval and Sandbox, from the
// rule files in Options.Rules, and from what is known of the command. A plan says run, ask or reject. With the zero options
// only what is known to be dangerous, such as a forced rm, is asked about.
//
// A question goes to SessionOptions.Approver, and to all who watch messages.KindApprovalRequested by name and answers
// with [Session.Decide]; the first answer counts. With neither, or if the last one goes, the command is rejected at once. A
// session puts one question at a time; [Session.Questions] lists what waits. Yields and the timeout of a run do not go on
// while a question is open. A question waits for ever unless SessionOptions.ApprovalDeadline says otherwise.
//
//	approved                        it runs, this once
//	approved_for_session            and equal ones are not asked about; see Session.Grants and Session.Revoke
//	approved_execpolicy_amendment   and what begins with the same words is allowed, in every session
//	denied                          the command is rejected with a text for the model
//	abort                           the same, and the host should stop the turn: the owner's other questions are rejected, too
//
// A rejected command was never started: its call gets an error that matches messages.ErrRejected or ErrAborted. A command
// that its sandbox stops during the call that asked for it may run again without one, if the plan or a person says so; an
// answer then has the output of the last attempt, and the events and the transcript that of all. How much of a sandbox policy
// must be enforced, SessionOptions.LeastAssurance says; package sandbox tells what can be. [Session.UpdateEnvironment] changes
// the policies for later commands.
//
// # Turns
//
// A command may have an Owner: a label for a turn, a subagent, or whatever else asks for commands and may be stopped.
// [Session.EndOwner] takes its waiting calls back, withdraws its questions and ends its commands. Where a person answers a question
// with abort, the owner's other open questions are rejected, too, and its waiting calls are taken back; what runs goes on until the
// host ends it.
//
// # Ids and records
//
// A process id is a number from 1000 to 99999, unique in its session and never the kernel's pid. A call id is the caller's
// own name for the call that starts a process; events carry it, and it can be watched before the process has an id.
//
// The first poll after the end gets the rest of the output and the exit code. Later ones get an error that matches
// messages.ErrProcessEnded and holds the record of the end. A session remembers its last 64 ended processes, with at most
// 16 MiB of output, for 10 minutes: [Session.Records] lists them, [Session.Read] reads their output. Then their ids are
// unknown, and may be given again.
//
// # Limits
//
// A session has at most 64 processes. One more ends the least recently used that no call waits for and that is not among
// the 8 most recently used. Where there is none the new command is refused with messages.ErrLimitReached, which names
// the ids in the way. From 60 on, each start publishes a warning. A runtime has at most 1,024 processes and ends none for
// another: one more waits for 250 ms, in case one is just ending, and is then refused. [SessionOptions] and [Options] set
// other limits.
//
// Of the output that no answer has taken yet the first and the last 512 KiB are kept, and what was dropped is counted; of
// all output the first 512 KiB and the last 1 MiB can be read again. The text of a result is cut in the middle to 10,000
// tokens of 4 bytes each, or to as many tokens and bytes as the call says.
//
// # Events
//
// [Session.Events] opens a subscription: subscribe before Exec to miss nothing. Each process publishes, in this order,
// ToolDecision, ExecStarted, its OutputDeltas, and ExecEnded as the last; between them ExecExited when its leader has exited and
// OutputClosed when no more output can come. A command that was not allowed or could not be started has no ExecStarted, and
// one that was refused as malformed has no events. TerminalInteraction tells of each input, and TerminalResized of each new size
// of a terminal. AttemptEnded and another ToolDecision come before a second attempt.
//
// A subscriber that does not read never slows a process: it loses the oldest output and inputs and finds a Gap in
// their place. With [Watch.Lossless] it loses nothing, and the process waits for it. One that has too many other events unread
// ends with an error that says [Watch.Name]. TryNext asks for what is there and does not wait. A subscription ends with its
// session, behind what is queued; Close drops what is queued, and End lets it be read. See package bus.
//
// # Endings
//
// The leader is the program that was started; the tree is the leader with everything that it started in turn. When the
// leader exits its background children are ended, too, unless the command said messages.LeaderExitKeepsTree; the process then goes on
// until they have ended or are terminated. Ending a tree means SIGTERM, a grace of 500 ms, and SIGKILL until none is left.
// The record tells the cause, the status as the kernel reported it, how many descendants were ended, and names what could
// not be. [Session.Close] and [Runtime.Shutdown] end every process and return when that has come about. If the host dies
// without them, its commands are ended for it (see package sandbox).
//
// # The warden
//
// On Linux the commands of a runtime descend from a small process, its warden: the host's own program, executed again by [Start] under
// the name execbus-warden. That is how they are found and ended whatever they do, and whatever becomes of the host. It takes over
// before main and before most initialisers: those of packages that are ready before ours (Go goes by import path) run in it, too.
// So they run once more at each Start, and when a warden has died or the host's rights have changed. They run with the host's
// environment, as Options.WardenEnvironment says, with GOMAXPROCS=1, "/" as the directory and no input or output. If one
// panics, exits, or takes 10 s, Start fails with what it said. A host with initialisers that must not run twice, or that
// cannot be executed again, names another program in Options.Warden: "execbus warden" says where one is.
//
// With Options.StateDir a warden notes what to look for if it and the host are killed together. The next runtime with the
// same directory looks for that in the background, while it starts commands already, and ends it: Start does not wait,
// Shutdown does.
//
// # Environment
//
// Commands start from the environment of the machine on which they run as it was when the session opened: the host's, or what
// the Resolver of Options.Spawner says. A messages.EnvironmentPolicy changes it. In place of what is
// inherited every command gets TERM=dumb, NO_COLOR=1, COLORTERM=, PAGER=cat, GIT_PAGER=cat, GH_PAGER=cat, LANG=C.UTF-8,
// LC_CTYPE=C.UTF-8, LC_ALL=C.UTF-8 and EXECBUS=1, unless the policy sets them: a terminal that a person looks at wants a
// real TERM. [Session.UpdateEnvironment] changes policy and directory for later commands; a command
// can bring its own. Scripts run in a login shell unless the session or the command says no.
//
// # Errors
//
// Every error is a *messages.Error. Its sentence says what happened, to what, and what anyone can do about it, whether a
// person or a model reads it; its Hint, which is not part of the sentence, names the Go way. Its code matches one of the
// sentinels of package messages with errors.Is. An exit code that is not zero is a result, not an error, and so is a run
// that timed out or was cancelled.
//
// # Contexts
//
// A context that ends takes the call back, whatever it waits for, and nothing else: the process is not ended and no output is
// lost. The call returns its result if that was decided already, and otherwise an error that matches messages.ErrCancelled;
// its Subject is the process, so a caller that gives up on an Exec knows what it leaves behind. Run is the exception: there
// the context's end ends the command. Input that was sent is not taken back, but a write that waited for its turn sends
// nothing. A context that has ended before the call starts nothing. What ends something (Terminate, Close, Shutdown) goes on
// when its context ends.
//
// # The host's own code
//
// Requests and options are copied: their lists, maps and buffers are the caller's again when a method has returned. What
// comes back (results, events, questions) is shared by all who get it and must not be changed.
//
// A logger, instruments, an approver, a spawner and its children are called in goroutines where nothing waits for them longer
// than it has to, and their panics are caught. Records and measurements queue up to 1,024 of each kind; what does not fit is
// dropped, and so is everything behind a panic. [Runtime.Stats] counts both. Code that never returns keeps a goroutine.
//
// # Executors
//
// [Session.Executor] is a narrower door, for callers that bring their own idea of sessions: exact environments, output as it
// comes, no yields. It gives a [Process], and works the same wherever the runtime's Spawner has its processes. One that somebody waits for is in use;
// any other may be ended to make room, like every process of a session.
//
// # Guarantees
//
//   - A call that waits for output answers when the leader has exited and its output is here, or when its yield time is
//     over, whichever comes first. It does not wait for background children; the answer says how many there are and whether
//     they are being ended.
//   - A cancelled call takes nothing: what was decided before the cancellation is still the call's result. No call kills a
//     process by being cancelled, except a run to the end, where that is what cancelling means.
//   - Each process that began has exactly one end, with its cause and the status as the kernel reported it. A killed process
//     is never reported as exited with 0. The text of a result says in one line whether the process runs, how it exited,
//     or who ended it and why.
//   - Numbers that a call leaves out are nil. Zero is zero, what is above a bound is brought down to it, and what is
//     negative is refused by name.
//   - An error's sentence ends with what anyone can do about it, and names nothing that only an embedder knows.
//   - Each call has a clock of its own and answers at its yield, whatever else waits. A write that the process does not
//     take answers then, too: it says how much was taken, the rest is offered on until its patience is over, and a later
//     answer says what became of it. A write that waits for output goes out when the waiting write before it has its
//     answer; what is cancelled before its turn is never sent. ^C, ^\ and ^Z alone wait for nothing.
//   - Any number of readers read and wait for the same output, each from a place of its own, and take nothing from anybody.
//     What was dropped before a reader came to it is an error, or, if it asks for that, a number.
//   - A session has at most 64 processes by default and a runtime 1,024. At a session's limit a new command takes the place
//     of the least recently used process that nobody waits on, and that is not among the 8 most recently used. That process
//     is ended, with a grace of at most 2 s, when the command outlives the call that asked for it: up to 8 commands are
//     above the limit until then, and one that is over by then has cost nobody anything. If there is none to take the place
//     of, the command is refused with the ids that are in use.
//   - What a command leaves behind and is being ended holds back one later command of the session until it is gone, for at
//     most 1 s, so that this one does not find it alive.
//   - Ended processes are remembered: at most 64, 16 MiB and 10 minutes in a session, and 64 MiB in a runtime. Their output
//     can be read for so long.
//   - A host's own approver, spawner, logger or instruments that panic or never return fail what they were asked for, and
//     nothing else; a child of such a spawner that does not end is abandoned, once, and named.
//
// # What you may not assume
//
// That a command is confined: it runs with all rights of the host. That what was approved is all that happens: a plan looks at
// the words of a command, not at what the program does with them.
//
// That arguments are quoted, or looked into: Argv goes to the program as it is, Script to the shell as it is.
//
// That a token is what a model's tokenizer says: it is 4 bytes.
//
// That "taken" input was read: it is in the terminal or the pipe. On a terminal in line mode a line of more than 4,095
// bytes is refused.
//
// That output comes in the order in which it was written, where it came over two pipes: stdout and stderr are told apart,
// and their order is that of reading.
//
// That a lossless subscription may be left alone: nobody who waits for the end of its process, Shutdown included, is
// answered before it is read or closed.
//
// That an ended process is gone from [Session.List] when its exit is told: it stays until its tree and its output have ended.
package execbus
