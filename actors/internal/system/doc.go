// Package system runs actors: functions that handle one message at a time, own their state, and know each other by PID
// only. It wraps protoactor-go, which nothing else in the repository imports.
//
//	sys := system.NewSystem(logger, system.Options{})
//	greeter, err := sys.Spawn("greeter", func(ctx *system.Context) {
//		switch m := ctx.Message().(type) {
//		case system.Started: // the first message
//		case string:
//			ctx.Respond("hello " + m)
//		case system.Stopping: // the last one: answer callers that still wait
//		}
//	})
//	reply, err := system.Ask[string](ctx, sys, greeter, "world")
//	err = sys.Shutdown(ctx)
//
// # Inside of an actor
//
// Everything is done through the Context, and nothing blocks. Blocking code is work: Go runs it in another goroutine, and
// Later does so after a while; its result is delivered as a message. Code of a host, which may panic or never return, goes through
// Detach. Timers deliver messages, too (After). A goroutine takes Self and System from the Context beforehand, and only sends.
//
// # Outside of actors
//
// A System sends, and asks: Ask waits for one reply; a Call can also be waited for again after its context has ended, and
// names itself in further messages, such as one that withdraws the request.
//
// # When an actor ends
//
// It stops (Context.Stop, System.Shutdown), or it crashes: a panic in Receive, or in work started with Go, ends this
// one actor and nothing else. Either way its children end before it, its timers are cancelled, and the context of its
// work ends. An actor that crashes gets Crashing as its last message, to hand over its obligations; one that stops gets
// Stopping. Its parent gets Crashed, if it crashed, and then Terminated; its watchers get Terminated. Nothing is
// restarted.
//
// No request is lost: a caller whose request the actor did not answer before its end gets an error that matches
// messages.ErrClosed, or Unanswered if it is an actor itself. The caller at whose message the actor crashed gets
// messages.ErrRuntimeFailure. A message that owns something is a Discarder, and is told that it will not be delivered.
//
// # What it works around
//
// The library's futures wake one waiter only, its shutdown stops no actor, a stop drops queued messages, a panic while
// stopping revives the actor or never lets it end, a failure suspends or restarts, and undelivered messages are logged with
// their content. The files protoactor_test.go and protoactor_life_test.go show each of these with the bare library, so
// that an upgrade which changes one is noticed.
//
// # Goroutines
//
// An idle actor has no goroutine. The library's dispatcher starts one for an actor that gets a message, and it ends when the
// actor has no more. Work started with Go or Detach has a goroutine of its own.
//
// # Bounds
//
// A mailbox has none: its senders must be bounded in another way. It keeps the room for the most messages that it has held, at
// 16 bytes each, as long as its actor lives.
//
// # What you must not assume
//
//   - That a message at which an actor crashes is discarded: the actor may have taken what it owns. Crashing carries the message.
//   - That Terminated always comes after the end: a watcher of an actor that is still stopping its children gets it at once.
//   - That runtime.Goexit in a Receive is a crash: the actor hangs, and so does Shutdown.
//   - That the order of messages from different senders means anything. From one sender to one actor they arrive in order.
//   - That Shutdown waits for detached work: its goroutine, if it never returns, is lost, and a late result is discarded.
//   - That every reply to a Call is taken or discarded: a second one is dropped, and so is one that nobody waits for.
//   - That the logger may block or panic: it is called by actors and by senders.
package system
