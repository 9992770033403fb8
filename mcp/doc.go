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
// On one stream calls take effect in the order of their lines, and each is answered when it has its answer. Over HTTP each call
// has a request of its own, and only a client that waits for an answer knows what came first.
//
// A client that asks for progress gets output as it comes, at most 20 times a second; what is more than 16 KiB at a time
// is counted and left out. The answer has all output in any case, within its bounds.
//
// A client that cancels an exec_command ends its command, of which the model has not heard. To cancel any other call ends its waiting
// and nothing else.
//
// # Questions
//
// A command that must be approved is put to the person in front of the client by elicitation, one at a time, with what each
// answer would remember. Clients up to protocol version 2025-11-25 are asked while their call waits. Those of version
// 2026-07-28 get the question as the result of the call, and bring the answer with the next request; the command waits for
// that, at most for [Options.QuestionPatience]. Whatever is not a clear approval denies. A client that cannot ask gets the answer of the
// policies at once: such a command is rejected.
//
// # Resources
//
// A process that has outlived the call which started it is a resource, execbus://processes/ID: the last 64 KiB of its output,
// until it is forgotten. A client that subscribes to one hears of changes at most five times a second, and of its end.
//
// # Endings
//
// When the input of a stream ends, or the session of a client over HTTP, the client's processes are ended. See [Options.Detach].
//
// # What is refused
//
// A line that is no message is answered with an error, and the next line counts; so is one of more than [MaxMessage] bytes. Batches,
// which only protocol version 2025-03-26 has, are refused. A server has at most 64 clients; each has at most 64 questions that wait and
// 64 subscriptions.
//
// # What you must not assume
//
// That a client tells the truth about the person in front of it: what approves is the client's answer.
//
// That clients of the protocol without sessions are apart from each other: they share processes and approvals, and
// everybody who has the token is one of them.
package mcp
