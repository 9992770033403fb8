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
//			fmt.Println(result.OutputText())
//			result, err = session.Poll(ctx, messages.Poll{Process: result.Process})
//		}
//		if err != nil {
//			log.Fatal(err)
//		}
//		fmt.Println(result.OutputText())
//	}
//
// A host has one [Runtime]. A [Session] is one conversation of the host, with its own processes, limits and working
// directory; a runtime holds any number. A process is one command that a session started. An actor of its own owns it, runs
// it on a terminal or on pipes, and publishes what happens to it on a bus. Requests, results, events and errors are the
// types of package messages.
//
// # Which call
//
//	to                                                          use
//	answer a model that polls, writes and waits by id           Session.Exec, Write, Poll
//	keep a handle: follow output, write input, wait, end        Session.Start
//	run to the end and look at the result                       Session.Run
//	the same with an io.Reader as input, io.Writers as output   Session.RunStreams
//	serve callers that bring exact environments                 Session.Executor
//
// # Yields and polls
//
// [Session.Exec] waits until the command ends or its yield time is over, and then answers with the output so far. The
// process lives on; [Session.Poll] and [Session.Write] wait for more. Each answer has the output since the last one. Output
// does not end a wait early, unless the call says so: see [messages.Until]. The exit of the leader does, even if background children live on: the answer says how many there
// are, and whether they are being ended. If the leader exits as the yield time ends, the call waits up to 1 s more for output
// that is still coming, as it may from another machine.
//
//	Exec               250 ms to 30 s, 10 s by default
//	Write              250 ms to 30 s, 250 ms by default
//	Poll               5 s to SessionOptions.LongestPoll, 5 s by default; with NoTimeout until the end
//	Wait               up to SessionOptions.LongestPoll, 5 s by default; with NoTimeout until there is a reason
//
// A call with a messages.Until also ends when the program waits for input, when it listens on a TCP port, when output
// matches a pattern, or when no more output comes. Its yield may be as long as that of a poll, and is 10 s by default,
// 5 s for a poll. Result.Met says why it has ended. SessionOptions.AnswerEarly is for callers that name no reasons:
// their calls on terminals end when a program waits for a line or a secret, for keys on a screen that is still, and
// when it has begun to listen. That a program waits for input is read from the kernel, never from prompts; where that
// cannot be known, the session gets one ExecNotice, and calls end with their yields: where a spawner, or an older
// server, cannot be asked; where the system hides a program (another user's, set-user-id, kernel.yama.ptrace_scope 2 or
// 3, hidepid); and while looks fail, which are tried again. [Session.List] says of each process what it
// waits for.
//
// Every number that a caller may leave out is a pointer: nil means the default. A yield outside of its bounds is brought to the
// nearest one; a negative number is refused by name.
//
// Each call has its own clock, and the first call to answer takes the output that there is. Input ends a poll that waits. Writes
// that wait for output run one after the other: a write sends its bytes and starts its clock when the write before it has been
// answered. Other input to the process keeps the order in which it came. ^C, ^\ and ^Z, each written alone, wait for nothing. If
// the process does not take all bytes of a write, the write still answers at its yield and says how many were taken. The session
// goes on offering the rest for WriteStdin.Patience, and a later answer says how many bytes were taken in the end.
// [Session.Signal], [Session.Resize], [Session.Terminate] and [Session.Read] never queue. [Session.PauseYields] stops the clocks of
// a session, for example while a person is asked something.
//
// [Session.Wait] waits for reasons at one process or at several: exits, or an Until for each. [Session.Read] reads output from a position that
// the reader keeps. Neither takes output from any other call, and any number of callers may use them at once.
//
// [Session.Run] is for commands that need no conversation: it runs one to its end, with stdout and stderr apart, a timeout
// (none by default, exit code 124), and at most 1 MiB of each stream. [Session.RunStreams] gives it an input and writes all of its
// output as it comes.
//
// # Processes
//
// [Session.Start] is for hosts that keep a handle on what they run. It returns a [Process] when the program runs:
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
// The context bounds only the start. The process belongs to the session: it ends with the session or by [Process.Terminate]. This
// differs from os/exec, which kills a command when the context of its start ends; a model wants to come back to its process.
// [Session.Process] gives a handle on a process whose id is known. Requests that name a process, such as messages.Poll, are for
// callers that got the id from elsewhere: from a model, for example.
//
// # The keyboard
//
// [Session.TakeKeyboard] gives the input of a process on a terminal to a person. What others write then is refused with
// messages.ErrKeyboardTaken, or waits if [SessionOptions.Keyboard] says so; ^C, the end of the input and a new size count as input. The
// person's input shows the answer's ID, takes no output and ends no polls. The last one to take a keyboard has it. It is given back by
// [Session.ReturnKeyboard], after 10 minutes without input, and when the program exits; messages.KeyboardTaken and KeyboardReturned say so.
// Signals and terminations are everybody's. Package window does this in a page.
//
// # Who may run what
//
// Every command gets a plan before it runs: run, ask or reject. Package policy makes it from SessionOptions.Approval and Sandbox,
// from the rule files in Options.Rules, and from what is known about the command. With the zero options a person is asked only
// about commands that are known to be dangerous, such as a forced rm.
//
// A question goes to SessionOptions.Approver, and to every subscriber that names messages.KindApprovalRequested and answers
// with [Session.Decide]; the first answer counts. If nobody can answer, or the last one who could has left, the command is rejected at once.
// A session puts one question at a time; [Session.Questions] lists those that are open. The clocks of yields and of a run's
// timeout stop while a question is open. A question waits forever unless SessionOptions.ApprovalDeadline is set; one about a host waits
// for 2 minutes, or for the deadline if that is longer.
//
//	approved                        the command runs, this once
//	approved_for_session            equal commands run, too, without a question; see Session.Grants and Session.Revoke
//	approved_execpolicy_amendment   commands that begin with the same words are allowed, too, in every session
//	denied                          the command is rejected with a text for the model
//	abort                           the same, and the host should stop the turn: the owner's other questions are rejected, too
//
// Questions are put one at a time, in the order in which the session received the calls. A command whose plan takes longer than 1 s,
// and one that asks about another attempt, asks after the others. Commands that need no question start side by side.
//
// A rejected command was never started: its call gets an error that matches messages.ErrRejected or ErrAborted. If the sandbox
// stops a command during the call that asked for it, the command may run again without one, where the plan or a person allows
// that. The answer then has the output of the last attempt; the events and the transcript have the output of all attempts.
// The second attempt reads the input of [Session.RunStreams] or [Process.Repeatable] again, up to 1 MiB. After other input there is no
// second attempt, and messages.Denial.NoRetry says so.
//
// Commands under a policy with messages.NetworkPolicy talk to the hosts that it and rule files allow. Where a rule or NetworkPolicy.Default
// asks, a running command waits for a connection while a person is asked about its host, in the same ways: Question.Host says which, and
// the clocks of the process stand still. Approved holds for the process until it ends, the other approvals for every process; denied refuses the
// connection, and further ones of the process to that host, port and protocol without a question; a grant for the session or a rule outweighs
// that. After 32 refusals to one process nobody is asked for it. Abort ends the process, too. [Session.Revoke] closes what it had allowed before it returns. Package network says who asks.
//
// SessionOptions.Executions says whether the rules that forbid or ask hold for every program that a confined command executes, in all its
// processes, when it does: see messages.ExecutionMode. By default they do, where there are such rules and the machine can do it. What a rule
// forbids fails with "Permission denied"; where a rule asks, the process that executes waits, and Question.Execution says who executes
// what, inside of which command. Equal executions of a process share a question. Approved lets it run once, approved for the session every
// equal one; denied is remembered for the process, and after 32 of them nobody is asked for it. What nobody
// answers in time is refused, and refused again without a question while the same pid tries it, as a search of PATH does; another pid is asked
// about. Abort ends the command. A program that the approved command names itself is not asked about again. Result.RefusedExecutions names program and rule; a refusal is no denial by the sandbox, and no
// second attempt follows. [Session.Executions] and the record count what was executed; messages.ProgramExecuted tells each. Package policy says
// which rule an execution meets, and what that does not see.
//
// SessionOptions.LeastAssurance says how much of a sandbox policy must be enforced; package sandbox says what can be.
// [Session.UpdateEnvironment] changes the policies for later commands.
//
// # Patches
//
// [Session.ApplyPatch] applies a patch, and so does Session.Exec for a command that is nothing but a call of apply_patch. Package patch has the
// language, and package policy says what is asked about. The files are read and written by a program in the session's sandbox, at its level:
// this executable, started again; on another machine it is the server's. So a patch can do what a command can, and an approval adds the
// directories of the files that were asked about. All of it is done, or nothing: if the program or the host is killed, the next patch
// or [Runtime.RecoverPatches] brings the files to one side, by a journal in Options.StateDir or in ~/.local/state/execbus.
//
// The patches of a session are applied one after the other, in the order of the calls, at most 64 of them wait, and one waits while another is
// asked about. Their programs have no slot of the session and no limits but those of package patch. A patch whose call is cancelled while it
// is written is finished. [messages.PatchApplied] or [messages.PatchFailed] is published for each call.
//
// # Owners
//
// A command may have an Owner: a label for a subagent, a model's turn, or anything else that asks for commands and may be stopped.
// [Session.EndOwner] cancels its waiting calls, withdraws its questions and ends its commands. If a person answers a question
// with abort, the owner's other open questions are rejected, too, and its waiting calls are cancelled; its running commands go
// on until the host ends them.
//
// # Ids and records
//
// A process id is a number from 1000 to 99999, unique in its session and never the kernel's pid. A call id is the caller's
// own name for the call that starts a process; events carry it, and a subscriber can watch it before the process has an id.
//
// The first poll after the end gets the rest of the output and the exit code. Later ones get an error that matches
// messages.ErrProcessEnded and holds the record of the end. A session remembers its last 64 ended processes, with at most
// 16 MiB of output (64 MiB in a runtime), for 10 minutes: [Session.Records] lists them, and [Session.Read] reads their output.
// After that an id is unknown and may be given to another process.
//
// # All output
//
// A process's log keeps the first 512 KiB of its output and the last MiB. With [Options].Spool the rest goes to a file, within a quota, and
// Read finds all of it as long as the process is remembered: by offset, by chunk, by line and by pattern ([messages.Grep]), while the process runs
// and after its end. Beyond the quota the middle is not kept, and each answer says exactly what is. A result that leaves output out says where it
// can be read. Without a Spool the same reads work with what the log has. A process that prints little costs no file.
//
// A file has no name, so that no command finds it, and it is gone when the host is, even if that is killed. Writing takes part in the flow of
// output: a slow disk slows the process that floods, and no other. A full disk, or a write that takes more than 2 seconds, ends the file of
// that process: an ExecNotice says so, once, and what was written can still be read. Files have output and nothing else: what is typed into a
// terminal that does not show it is in none.
//
// # Views
//
// The text of a result can be made for its reader: [SessionOptions].View, or the View of a call. With messages.ViewText it has no escape
// sequences, and a progress bar is its last state; while a program has the alternate screen of its terminal on, it is that screen. With
// messages.ViewScreen it always is. Result.Shown has it beside the bytes, and [messages.ReadOutput].View does the same for a page. A view is made
// when the answer is there, in the goroutine of the caller, from the output of the answer and, for terminals, from what is kept before it: the first
// 512 KiB and the last MiB. The screen has the size that the terminal has then. A view that would take more than a second or be more than four
// times as large as the output, which no program makes by accident, is not made: the answer is raw. Package view says what a view shows.
//
// # Limits
//
// A session has at most 64 processes. At that limit a new command takes the place of the least recently used process that no
// call waits for and that is not among the 8 most recently used. That process is ended, with a grace of at most 2 s, once the
// command has outlived the call that asked for it; until then up to 8 commands are above the limit, and a command that ends
// earlier costs no other process its place. If there is no such process, the new command waits up to 2 s for the place of one
// that is ending anyway, or is refused with messages.ErrLimitReached, which names the ids in use. A call that is answered before
// its command has started says in Result.Waiting what the command waits for; the start may still be refused. From 60 processes
// on, each start publishes a warning. A runtime has at most 1,024 processes and ends none for another: a further command waits
// for 250 ms, in case a process is just ending, and is then refused.
// [SessionOptions] and [Options] set other limits.
//
// A command that starts while the background children of an ended one are still being ended waits for their end, for at most 1 s. Only
// one command of the session waits.
//
// Of the output that no answer has taken yet the first and the last 512 KiB are kept, and dropped bytes are counted; of
// all output the first 512 KiB and the last 1 MiB can be read again. A reader that comes too late gets an error or, with SkipLost,
// the number of bytes it missed. The text of a result is cut in the middle to 10,000 tokens of 4 bytes each, or to as many tokens
// and bytes as the call says.
//
// # Events
//
// [Session.Events] opens a subscription: subscribe before Exec to miss nothing. Each process publishes, in this order,
// ToolDecision, ExecStarted, its OutputDeltas, and ExecEnded as the last; between them ExecExited when its leader has exited and
// OutputClosed when no more output can come. A command that was not allowed or could not be started has no ExecStarted, and
// one that was refused as malformed has no events. TerminalInteraction reports input when it was taken, with
// its length and, where that may be kept, its bytes: never what a terminal does not show, see messages.TerminalInteraction. TerminalResized
// reports each new size of a terminal, and ProcessSignaled each signal that was sent. AttemptEnded and another ToolDecision come before a second attempt.
//
// A subscriber that does not read never slows a process: it loses the oldest output and inputs and finds a Gap in
// their place. With [Watch.Lossless] it loses nothing, and the process waits for it. A subscription with too many other unread
// events ends with an error that names it; see [Watch.Name]. TryNext returns an event that is already there and does not wait. A
// subscription ends with its session, after the queued events; Close drops those, and End lets them be read. See package bus.
//
// # The audit log
//
// With [Options].Audit a runtime records decisions, starts, inputs by their length and digest, signals, questions and answers, patches, connections
// and ends in a file. Each line has the digest of the line before, and "execbus audit verify" says whether any was changed, removed or cut
// off. Package audit says what a line has. Confined commands cannot change the file where they are isolated, or where it is outside
// of what they can write; they can read it. While the file cannot be written, [AuditOptions].OnFull decides: with audit.Stop calls that would
// begin a command, a run or a patch are refused with an error that matches messages.ErrAuditFailed, and with audit.Drop events are dropped
// and counted. A slow disk holds up no process. AuditAnchored events, of no session, have the number of lines and the last digest: keep them
// elsewhere, and nobody can write the log anew. Shutdown closes the log; an error says that its end is missing.
//
// # Endings
//
// The leader is the program that was started; the tree is the leader with everything that it started in turn. When the
// leader exits its background children are ended, too, unless the command said messages.LeaderExitKeepsTree; the process then goes on
// until they have ended or are terminated. Ending a tree means SIGTERM, a grace of 500 ms, and SIGKILL until none is left.
// Each process that began has exactly one end. Its record has the cause, the status as the kernel reported it (a killed process
// is never reported as exited with 0), the number of descendants that were ended, and the names of those that could not be.
// [Session.Close] and [Runtime.Shutdown] end every process and return when all have ended. If the host dies before that, its
// commands are ended for it (see package sandbox).
//
// # The warden
//
// On Linux the commands of a runtime descend from a small process, its warden: the host's own program, executed again by [Start] under
// the name execbus-warden. The warden finds and ends them whatever they do, and whatever becomes of the host. It takes over
// before main and before most initialisers. Only those of packages that are initialised before execbus (Go orders them by import
// path) run in it, too: once more at each Start, and again when a warden has died or the host's rights have changed. They run with
// the host's environment as Options.WardenEnvironment changes it, GOMAXPROCS=2, "/" as the directory, and no input or output. If one
// panics, exits, or takes 10 s, Start fails with its message. A host with initialisers that must not run twice, or that
// cannot be executed again, names another program in Options.Warden; "execbus warden" prints the path of one. With a warden the host
// may ignore SIGCHLD and wait for any child. Without one, which package sandbox explains, it must do neither, or exit statuses get
// lost: [Process.Wait] then returns an error.
//
// With Options.StateDir a warden records what to look for if it and the host are killed together. The next runtime with the
// same directory looks for those processes in the background and ends them, while it already starts commands. Start does not wait
// for that; Shutdown does.
//
// # Environment
//
// Commands start from the environment of the machine on which they run, as it was when the session opened: the host's, or the one
// that the Resolver of Options.Spawner returns. A messages.EnvironmentPolicy changes it. In place of inherited values
// every command gets TERM=dumb, NO_COLOR=1, COLORTERM=, PAGER=cat, GIT_PAGER=cat, GH_PAGER=cat, LANG=C.UTF-8,
// LC_CTYPE=C.UTF-8, LC_ALL=C.UTF-8 and EXECBUS=1, unless the policy sets them: a terminal that a person looks at wants a
// real TERM. [Session.UpdateEnvironment] changes policy and directory for later commands; a command
// can bring its own. Scripts run in a login shell only if the command asks for one; the tools for models do, unless the session forbids it.
//
// # Errors
//
// Every error is a *messages.Error. Its sentence says what happened, to what, and what a person or a model can do about it; its
// Hint, which is not part of the sentence, is for the embedder and names Go identifiers. errors.Is matches its code with the
// sentinels of package messages. An exit code other than zero is a result, not an error, and so is a run
// that timed out or was cancelled.
//
// # Contexts
//
// When its context ends, a call is cancelled, whatever it waits for. Nothing else changes: the process lives on and no output is
// lost. The call returns its result if that was already decided, and otherwise an error that matches messages.ErrCancelled.
// The Subject of the error is the process, so the caller of a cancelled Exec knows what still runs. Run is the exception: the end
// of its context ends the command. Input that was sent stays sent, but a write that still waited for another sends
// nothing. A call whose context has already ended starts nothing. Terminate, Close and Shutdown go on when their context ends.
//
// # The host's own code
//
// Requests and options are copied: their lists, maps and buffers are the caller's again when a method has returned. Results,
// events and questions are shared by all who receive them and must not be changed.
//
// The host's logger, instruments, approver, spawner and children are called in goroutines of their own. Waits for them are bounded,
// and their panics are caught: code that panics or never returns fails the call it was asked for, and nothing else. Logger and
// instruments have a queue of 1,024 calls each; calls that do not fit are dropped, and after a panic all are. [Runtime.Stats] counts
// the dropped calls. Code that never returns keeps a goroutine. If a child of the host's own spawner does not end, it is abandoned,
// and the record names it as a survivor.
//
// # Executors
//
// [Session.Executor] is a narrower interface, for callers with their own notion of sessions: exact environments, output as it
// comes, no yields. It gives a [Process], and works the same wherever the runtime's Spawner runs its processes. A process that a
// caller waits for is in use; any other may be ended to make room, like every process of a session.
//
// # What you must not assume
//
// That a command is confined: unless SessionOptions.Sandbox has a policy, it runs with all rights of the host.
//
// That a command does no more than was approved: a plan looks at the words of a command, not at what the program does with them.
//
// That rules about executions hold for a program that sets out to deceive: it can change its arguments after they were judged, and execute a
// copy under another name.
//
// That arguments are quoted or expanded: Argv goes to the program as it is, Script to the shell as it is.
//
// That a token is what a model's tokenizer says: it is 4 bytes.
//
// That the program has read input that is reported as taken: the terminal or the pipe may still hold it. On a terminal in line mode
// a line of more than 4,095 bytes is refused.
//
// That output from two pipes comes in the order in which it was written: stdout and stderr are separate, and come in the order
// in which they were read.
//
// That a lossless subscription may be left unread: calls that wait for the end of its process, Shutdown included, are
// answered only when the subscription is read or closed.
//
// That an ended process is gone from [Session.List] when its exit is published: it stays until its tree and its output have ended.
package execbus
