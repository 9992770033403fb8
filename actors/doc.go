// Package actors implements the behaviour of execbus: one actor for the runtime, one that keeps its rules, one for each
// session (the supervisor), one in each session that asks a person (approval), one for each command (the process), and
// one for each call that waits for several of them (wait). They share nothing and coordinate by messages; the requests
// and replies that a host sees are in package messages, and the private ones in protocol.go, by pair of actors.
//
// Hosts use package execbus. Nothing in this package is for them, and all of it may change at any time.
//
// # One command
//
// The supervisor gives it an id and an actor. The actor is a state machine, with each state a type in a file of its own. It
// only moves forward:
//
//	planning → awaitingApproval → starting → running → exited → closed
//
// Planning makes the plan, in a goroutine. Starting asks the supervisor for a slot
// and lets the spawner work. Running has a child, or waits for the next attempt after one that its sandbox has stopped:
// attempts are values inside of it. Exited waits for the tree, the output and the input; closed has reported
// everything, and the supervisor, which has the record, handles later messages.
//
// # Calls
//
// Every call is an entry in the supervisor's table: who asked, which process it concerns, how it is cancelled. A
// process with an open call is in use. Inside the process each call has its own clock and answers at its yield,
// independently of the others; the first to answer takes the unread output. Only a waiting write first waits for the
// waiting writes before it. A question holds the clock of the call that is asked about, and no other. A poll:
//
//	caller      supervisor          process
//	  │── Poll ───▶│ open: call 7      │
//	  │            │──── request 7 ───▶│ await: its clock runs
//	  │            │                   │ … output, an exit, or the deadline
//	  │            │◀─── answered 7 ───│ finish takes what is unread
//	  │◀───────────┼───── *Result ─────│
//	  │            │ forgets call 7    │
//
// # Output
//
// The process keeps one log, which numbers what it gets. A batch is cut into deltas, each copied once, and every sink takes
// the same copy, in the order in which the sinks were registered. The batch's credit goes back when all of them are done:
//
//	child ── Output ──▶ process: received
//	                      │ splitter: whole characters; an unfinished one waits, with its credit
//	                      ▼
//	                    feed: the log gives number and place
//	                      ├──▶ unread, the cursor that all polls and writes share
//	                      ├──▶ the streams of a run
//	                      ├──▶ bus: lossless subscribers hold the credit
//	                      └──▶ telemetry
//	                    readers that wait (ReadOutput.Wait) look at the log, each with a place of its own
//
// # Questions
//
// Only the approval actor knows the approvals for the session. So a plan is first made without them. The approval actor
// makes it again when it is consulted, and when the rules or the approvals have changed, before it puts the question. It makes one
// plan at a time, in a goroutine, and a plan for older rules or approvals once more.
//
// Questions are put in the order in which the supervisor received their calls: it holds a question back until the plans of all
// earlier calls are made. A plan that is not made 1 s after its call ([Patience]) loses its place, and so do questions about another
// attempt: they come last. Commands that need no question start as soon as their plan is made, in any order. The path of a verdict:
//
//	process          supervisor           approval           rules, runtime
//	  │── consult ──────▶│ notes who asks    │                     │
//	  │                  │──── consult ─────▶│ queue, put, merge   │
//	  │                  │                   │── amend ───────────▶│ file, then every session
//	  │                  │                   │◀───────── amended ──│
//	  │                  │◀──── verdict ─────│                     │
//	  │◀──── verdict ────│                   │                     │
//
// Verdicts pass through the supervisor so that it can answer for an actor that crashes: a crashed approval actor's
// verdicts are rejections, and the end of a process that is asked about is published after the end of its question.
//
// Rules are values. The actor that keeps them hands new ones to the runtime's actor, which sends them to every session
// before it sends the answer: a caller that has the answer finds them in force.
//
// # The end
//
//	caller        supervisor            process              child
//	  │─ Terminate ──▶│ call 9 waits here  │                   │
//	  │               │────── request ────▶│ state.terminate   │
//	  │               │                    │──── EndTree ─────▶│
//	  │               │◀───────────────────┼─ Exited ──────────│
//	  │               │                    │◀ Exited, Drained ─│ running → exited: calls are answered
//	  │               │◀─ TreeEnded ───────┼───────────────────│
//	  │               │                    │◀ Closed, TreeEnded│ exited → closed
//	  │               │◀───── ended ───────│                   │
//	  │◀─ *EndRecord ─│ slot, ExecEnded, record                │
//	  │               │────── retire ─────▶│                   │
//
// # When an actor crashes
//
// Every obligation (an end to publish, a call to answer, a child to end, a slot to give back) is a value that somebody
// holds. An actor that crashes hands over its obligations; a message that carries an obligation is a Discarder, which
// meets it if no actor can take the message. So a process has exactly one ExecEnded, as its last event, and a call
// exactly one answer. If a process's actor crashes its supervisor takes over: it answers the calls, kills the tree, and
// publishes the end with cause runtime_failure and the output that there was; other processes do not notice. An
// approval actor that crashes is replaced once, without the approvals for the session. Nothing else is restarted. If a
// supervisor crashes it answers every call it knows of, and its processes end their children and publish their ends
// themselves.
//
// # A host's own code
//
// Approvers and spawners of a host's own, with their children, are called in goroutines that nothing waits for, one
// question and one call to a child at a time, with the bounds of [Patience]. A failure affects only that one question,
// start or request. Code that does not return is not called again until it does, so that it costs one goroutine, or one
// for each start that was under way and 64 for plans. A child that does not end is abandoned, once, and then named as a
// survivor. Loggers and telemetry are wrapped before they come here: they neither block nor panic.
//
// # Rules for this code
//
// Nothing blocks in a Receive: blocking work runs in a goroutine started with Context.Go or Detach and comes back as a
// message. Timers are messages. Actor state is touched in Receive only, so there is no lock and no atomic. Package system
// hides the library that runs the actors.
//
// Files depend on each other in layers, from the actors down to their parts. The upward dependencies have one reason
// each: states know the process whose states they are, and it knows them, because advance is a call; and messages name
// the values that they carry.
//
// # Bounds
//
// A session has at most MaxProcesses slots, 8 commands above them for as long as their first calls wait, and 256 before
// them; it asks at most 256 questions at once, and remembers 1,024 approvals; records are at most 64, 16 MiB and 10
// minutes old, and 64 MiB in all sessions together. A process holds at most 1 MiB and 4,096 writes of input. A mailbox
// has no bound of its own: output is bounded by credit (four batches of 64 KiB for each command), and every other
// message comes from a caller's request.
package actors
