// Package execbus runs programs for agent hosts.
//
//	rt, err := execbus.Start(execbus.Options{})
//	session, err := rt.OpenSession(execbus.SessionOptions{Dir: "/src"})
//	events, err := session.Events(execbus.Watch{Calls: []messages.CallID{"c1"}})
//	result, err := session.Exec(ctx, messages.ExecCommand{Call: "c1", Argv: []string{"make", "test"}})
//	for event, err := range events.All(ctx) { ... }
//	err = rt.Shutdown(ctx)
//
// A Runtime is what a host has one of. A Session is one conversation of the host, with its own supervisor, limits and
// working directory. A session runs commands: each is owned by an actor of its own, on a terminal or on pipes, and all
// of them tell what happens to them on one bus.
//
// All methods are safe for concurrent use and take a context: a cancelled call never kills a process.
package execbus
