// Package actors is how execbus behaves: one actor for the runtime, one that keeps its rules, one for each session (the
// supervisor), one in each session that asks a person (approval), and one for each command (the process). They share nothing and coordinate by messages; the requests and replies that a host sees are in
// package messages.
//
//	system := kernel.NewSystem(logger, kernel.Options{})
//	runtime, err := actors.StartRuntime(system, surroundings)
//	supervisor, err := kernel.Ask[*kernel.PID](ctx, system, runtime, actors.OpenSession{Config: config})
//	result, err := kernel.Ask[*messages.Result](ctx, system, supervisor, messages.ExecCommand{Argv: []string{"make"}})
//
// # One command
//
// The supervisor gives it an id and an actor and passes the message on with its sender. The actor makes a plan (in a
// goroutine where it looks at the file system). If somebody has to be asked it consults the approval actor, which answers
// with a verdict. Then it asks the supervisor for a slot, and lets the spawner start the child (in a
// goroutine). Output arrives as messages under credit, goes into the unread buffer and the log, and onto the bus. Calls
// that wait for output queue inside the actor; only the first one's clock runs. The end is told to the supervisor, which
// publishes it, keeps the record and lets the actor go.
//
// # Questions
//
// The approval actor alone knows what was approved for the session, so a plan is made without that at first, and again by
// the approval actor when it is consulted, and whenever something was decided. It queues questions, puts the first, and
// merges equal ones. It watches who asks, so nobody has to tell it that a process has crashed. It tells the supervisor when
// questions are open, which then holds the deadlines of calls.
//
// Rules are values. The one that keeps them hands new ones to the runtime's actor, which sends them to every session before
// the answer goes on its way: whoever has seen the answer finds them in force.
//
// # Second attempts
//
// The exit of a sandboxed leader is held back until its output is here. If the sandbox has stopped it, and the call that
// asked for the command still waits, the plan may say to try again without one, at once or after a question. The actor then
// goes back to starting, when everything of the first attempt has ended. The slot stays.
//
// # Rules of the house
//
// Nothing blocks in a Receive: blocking work runs in a goroutine started with Context.Go and comes back as a message.
// Timers are messages. Actor state is touched in Receive only, so there is no lock and no atomic. The library that runs
// the actors is used through package kernel only; its rough edges are listed and tested there.
//
// # When an actor crashes
//
// The supervisor learns of every child from the child itself. If a process's actor panics, the supervisor answers the
// calls that waited in it, kills the tree, and publishes the end with cause runtime_failure; other processes do not
// notice. If the approval actor panics, what waits for an answer is rejected, and another one asks from then on, without
// what was granted; after a second crash nobody does. Nothing else is restarted.
//
// If a supervisor panics it answers every call it knows of, and its processes end their children and publish their ends. A
// process that is asked about leaves its end to the approval actor, so that it is the last event. Last words carry what they
// owe, so that they are met also where their receiver has crashed.
//
// # Bounds
//
// A session has at most MaxProcesses slots and 256 commands before them, asks at most 256 questions at once, and remembers
// 1,024 approvals; records are at most 64, 16 MiB and 10 minutes old. A mailbox has no bound of its own: output is bounded
// by credit (four batches of 64 KiB for each command), and every other message is one of a caller's.
package actors
