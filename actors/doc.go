// Package actors is how execbus behaves: one actor for the runtime, one for each session (the supervisor), one for each
// command (the process). They share nothing and coordinate by messages; the requests and replies that a host sees are in
// package messages.
//
//	system := actors.NewSystem(logger)
//	runtime, err := system.StartRuntime(surroundings)
//	supervisor, err := actors.Ask[*actors.PID](ctx, system, runtime, actors.OpenSession{Config: config})
//	result, err := actors.Ask[*messages.Result](ctx, system, supervisor, messages.ExecCommand{Argv: []string{"make"}})
//
// # One command
//
// The supervisor gives it an id and an actor and passes the message on with its sender. The actor makes a plan (in a
// goroutine: it looks at the file system), asks the supervisor for a slot, and lets the spawner start the child (in a
// goroutine). Output arrives as messages under credit, goes into the unread buffer and the log, and onto the bus. Calls
// that wait for output queue inside the actor; only the first one's clock runs. The end is told to the supervisor, which
// publishes it, keeps the record and lets the actor go.
//
// # Rules of the house
//
// Nothing blocks in a Receive: blocking work runs in a goroutine started with Context.Go and comes back as a message.
// Timers are messages. Actor state is touched in Receive only, so there is no lock and no atomic. The library that runs
// the actors is used through the adapter only; its rough edges are listed and tested there.
//
// # When an actor crashes
//
// The supervisor learns of every child from the child itself. If a process's actor panics, the supervisor answers the
// calls that waited in it, kills the tree, and publishes the end with cause runtime_failure; other processes do not
// notice. Nothing is restarted.
//
// # Bounds
//
// A session has at most MaxProcesses slots and 256 commands before them; records are at most 64, 16 MiB and 10 minutes
// old. A mailbox has no bound of its own: output is bounded by credit (four batches of 64 KiB for each command), and every
// other message is one of a caller's.
package actors
