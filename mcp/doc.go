// Package mcp serves the tools of execbus to clients of the Model Context Protocol, over a stream or over HTTP.
//
//	runtime, err := execbus.Start(execbus.Options{})
//	if err != nil {
//		return err
//	}
//	defer runtime.Shutdown(context.Background())
//	server, err := mcp.NewServer(runtime, mcp.Options{})
//	if err != nil {
//		return err
//	}
//	return server.ServeStream(ctx, os.Stdin, os.Stdout)
//
// "execbus mcp" is that program, with flags; package tools has the tools. All protocol versions from 2024-11-05 to 2026-07-28
// are understood.
//
// # Calls
//
// On one stream calls take effect in the order of their lines, and each is answered as soon as its answer is there. Over HTTP each
// call has a request of its own; a client that needs an order must wait for one answer before it makes the next call.
//
// A client that asks for progress gets output as it comes, at most 20 times a second; output beyond 16 KiB at a time
// is counted and left out. The answer always has all output, within its bounds.
//
// A client that cancels an exec_command ends its command, because the model does not know its id yet. Cancelling any other call
// only ends its wait.
//
// # Questions
//
// A command that must be approved is put to the person in front of the client by elicitation, one at a time, with what each
// answer would remember. Clients up to protocol version 2025-11-25 are asked while their call waits. Those of version
// 2026-07-28 get the question as the result of the call, and send the answer with the next request; the command waits for
// that, at most for [Options.QuestionPatience]. Any answer that is not a clear approval denies. If a client cannot ask, a command
// that needs an approval is rejected at once.
//
// # Resources
//
// A process that has outlived the call that started it is a resource, execbus://processes/ID: the last 64 KiB of its output,
// until the session forgets it. A subscribed client is told of changes at most five times a second, and of the end.
//
// # Endings
//
// When the input of a stream ends, or the session of a client over HTTP, the client's processes are ended. See [Options.Detach].
//
// # What is refused
//
// A line that is not a message, or that has more than [MaxMessage] bytes, is answered with an error, and the conversation goes on.
// Batches, which only protocol version 2025-03-26 has, are refused. A server has at most 64 clients; each has at most 64 open
// questions and 64 subscriptions.
//
// # What you must not assume
//
// That a client tells the truth about the person in front of it: its answer counts as the approval.
//
// That clients of the protocol without sessions are separate from each other: they share processes and approvals, and
// every holder of the token is one of them.
package mcp
