// Package actors implements the behaviour of execbus with actors, which share nothing and coordinate by messages. Only package
// execbus imports it: hosts use that, and everything here may change at any time.
//
//	runtime (here)          sessions, the cap over all of them, rules handed out
//	├── rulebook            the loaded rules and their amendments
//	└── session             one for each session: the table of processes and calls, slots, records, take-over of a crashed process
//	    ├── approval        questions to a person, one at a time; grants
//	    ├── process         one for each command: states, attempts, the clocks of calls, input
//	    ├── patching        one for each call that applies a patch
//	    └── wait            one for each call over several processes
//
// Each is a package below internal that knows the others only by the messages in package protocol. Package output is what a process
// has said, package shared what every actor is given, and package system the hold on the library that runs the actors. Which of them
// may import which is in tests/house.
//
// # One command
//
//	caller      runtime     session                    process               spawner, child
//	  │── ExecCommand ────────▶│ id, call, entry          │
//	  │            │           │───────── Begin ─────────▶│ planning: the plan, in a goroutine
//	  │            │           │◀──────── Consult ────────│ only if somebody has to be asked
//	  │            │           │───────── Verdict ───────▶│
//	  │            │           │◀──────── WantSlot ───────│ starting
//	  │            │◀─TakeSlot─│                          │
//	  │            │─SlotTaken▶│───────── Slot ──────────▶│── Spawn ─────────────▶│
//	  │            │           │◀─────────────────────────┼◀─ Spawned ────────────│ running
//	  │            │           │                          │◀─ Output … Exited ────│ exited
//	  │◀─ *Result ─┼───────────┼──────────────────────────│ at an exit, or the yield
//	  │            │           │◀─────────────────────────┼◀─ TreeEnded, Closed ──│
//	  │            │◀─Counted ─│◀──────── Ended ──────────│ closed
//	  │            │           │ slot, ExecEnded, record  │
//	  │            │           │───────── Retire ────────▶│
//
// Every call is an entry in the session's table: who asked, which process it concerns, how it is cancelled. A process with an open
// call is in use. The process tells the session that a call is answered before it answers.
//
// # Questions
//
// Only the approval actor knows the approvals for the session. So a plan is first made without them, and made again when the
// approval actor is consulted, and when the rules or the approvals have changed. Questions are put in the order in which the session
// received their calls: it holds a question back until the plans of all earlier calls are made. A plan that is not made 1 s after its
// call is not waited for, and questions about another attempt come last. Commands that need no question start as soon as their plan
// is made, in any order. Verdicts pass through the session so that it can answer for an actor that crashes.
//
// Rules are values. The rulebook hands new ones to the runtime's actor, which sends them to every session before it sends the
// answer: a caller that has the answer finds them in force.
//
// # One patch
//
// ApplyPatch ──▶ a session ──▶ an actor of package patching for the call, which begins when the patches before it are over. It asks by Consult,
// as a process does, and the Verdict comes to it. What it does with files is the business of Dependencies.Patches.
//
// # When an actor crashes
//
// Every obligation (an end to publish, a call to answer, a child to end, a slot to give back) is a value that somebody holds. An actor
// that crashes hands over its obligations; a message that carries one is a Discarder, which meets it if no actor can take the message.
// So a process has exactly one ExecEnded, as its last event, and a call exactly one answer. If a process's actor crashes its session
// takes over: it answers the calls, kills the tree, and publishes the end with cause runtime_failure and the output that there was. An
// approval actor that crashes is replaced once, without the approvals for the session. Nothing else is restarted. If a session's actor
// crashes it answers every call it knows of, and its processes end their children and publish their ends themselves.
//
// # A host's own code
//
// Approvers and spawners of a host's own, with their children, are called in goroutines that nothing waits for, one question and one
// call to a child at a time, with bounds. A failure affects only that one question, start or request. Code that does not return is not
// called again until it does, so that it costs one goroutine, or one for each start that was under way and 64 for plans. A child that
// does not end is abandoned, once, and then named as a survivor.
//
// # Rules for this code
//
// Nothing blocks in a Receive: blocking work runs in a goroutine started with Context.Go or Detach and comes back as a message. Timers
// are messages. Actor state is touched in Receive only, so there is no lock and no atomic. One switch names every message that an actor
// gets; its default refuses, and fails the tests.
//
// # Bounds
//
// A session has at most MaxProcesses slots, 8 commands above them for as long as their first calls wait, and 256 before them; it asks at
// most 256 questions at once, and remembers 1,024 approvals; records are at most 64, 16 MiB and 10 minutes old, and 64 MiB in all
// sessions together. A process holds at most 1 MiB and 4,096 writes of input. A mailbox has no bound of its own: output is bounded by
// credit (four batches of 64 KiB for each command), and every other message comes from a caller's request.
package actors
