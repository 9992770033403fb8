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
// "execbus mcp" is this program, with flags. Package tools has the tools. The server speaks all protocol versions from
// 2024-11-05 to 2026-07-28.
//
// # Calls
//
// On one stream, the session receives calls in the order of their lines, and each is answered as soon as its answer is there. Over
// HTTP each call has a request of its own. A client that needs an order must wait for one answer before it makes the next
// call.
//
// A client that asks for progress gets output as it comes, at most 20 times a second, and at most 16 KiB each time; the rest
// is counted and left out. The answer always has all output, within its bounds.
//
// If a client cancels an exec_command, its command is ended, because the model does not know the command's id yet.
// Cancelling any other call ends only its wait.
//
// # Questions
//
// If a command must be approved, the server asks the person in front of the client, by elicitation. It asks one question at
// a time, and says what each answer would remember. Clients up to protocol version 2025-11-25 are asked while their call
// waits. Those of version 2026-07-28 get the question as the result of the call, and send the answer with the next request;
// the command waits for that request, at most for [Options.QuestionPatience]. Any answer that is not a clear approval
// denies. If a client cannot ask, a command that needs an approval is rejected at once.
//
// A running command that wants to talk to a host which needs an approval waits, and the person is asked by the call that waits for that
// command: exec_command, write_stdin or wait_processes. While none does, nobody can be asked, and the connection is refused. So it is,
// where several commands run, for connections that do not show the credential of one.
//
// # Resources
//
// A process that outlives the call that started it is a resource, execbus://processes/ID, until the session forgets it. The
// resource has the last 64 KiB of its output. A subscribed client is told of changes at most five times a second, and of the
// end. execbus://processes/ID/output/OFFSET is a page of all output that is kept, of at most 64 KiB; the _meta of the result has the next one's
// URI as execbus/next, and how much is not kept before the page as execbus/missed. A result that leaves output out has a link to the first
// page, for clients of protocol version 2025-06-18 or newer.
//
// # Endings
//
// The end of a stream's input ends the processes of its client, unless [Options.Detach] is set. Over HTTP the end of a
// client's session does.
//
// # What is refused
//
// The server answers a line that is not a message, or that has more than [MaxMessage] bytes, with an error, and the
// conversation goes on. It refuses batches, which only protocol version 2025-03-26 has. A server has at most 64 clients.
// Each may have 64 open questions and 64 subscriptions.
//
// # What you must not assume
//
// That a client tells the truth about the person in front of it: its answer counts as the approval.
//
// That clients of the protocol without sessions are separate from each other: they share processes and approvals, and every
// holder of the token is one of them.
package mcp
