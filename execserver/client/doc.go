// Package client runs commands on the machine of an exec-server.
//
//	remote, err := client.Dial(ctx, "ws://build.example:7070", client.Options{Token: token})
//	if err != nil {
//		return err
//	}
//	runtime, err := execbus.Start(execbus.Options{Spawner: remote})
//	if err != nil {
//		return err
//	}
//	defer runtime.Shutdown(ctx) // ends the commands and the connection
//	session, err := runtime.OpenSession(execbus.SessionOptions{Dir: "/src"}) // there
//	result, err := session.Exec(ctx, messages.ExecCommand{Script: "make"})
//
// A connection is a ptyio.Spawner. A runtime that has it runs its processes on the server, with the same calls, limits, events and
// output as local processes. The client decides on policies, rules and approvals. For that the server reports the programs, shells,
// directories and environment of its machine. The server enforces the sandbox.
//
// [Dial] connects over a websocket or a unix socket, and [Connect] over any two streams, such as those of a server that was started
// with ssh.
//
// # When the connection breaks
//
// The processes go on. The client tries for 25 seconds to resume its session, at first at once and then less and less often. Calls
// wait meanwhile. After the session is resumed, nothing is lost and nothing happens twice. The server sends the events again that
// were not acknowledged. It recognises a repeated write by its id, and a repeated start by the id of its process. A signal, or an
// end-of-file character for a terminal, is not sent again: if the connection breaks before the answer, the call fails, and the signal
// or the character may or may not have arrived.
//
// A start that is cancelled ends when the server has said that nothing of it runs, or counts as a process that is being ended.
//
// If the session cannot be resumed, each process ends for its owner, with an error in ptyio.Exited.Lost and a survivor in the report
// of its tree. The process may live on until the server ends it, 30 seconds after the connection has broken. All waiting and later
// calls fail. A new connection is a new session.
//
// The client tests a silent connection every 15 seconds. Connecting takes at most 10 seconds, and so does the handshake.
//
// # Servers
//
// A server of execbus makes a process wait until its output was acknowledged, so no output is lost, however slow the client is.
// Another server of this protocol keeps the last MiB of output for a slow client. Output that it drops counts as a gap, with one
// byte for each lost chunk. Such a server may not know sandboxes, limits, merged output, kept background processes, signals other
// than SIGINT, the size of a terminal after the start, and the end of the input. Calls that need one of these fail with
// messages.ErrUnsupported. Such a server does not report the end of a tree, and its exit code 128+n may stand for a signal.
//
// What a process waits for is asked of the server, which looks when it is asked; an answer counts only if the client has all output that came
// before. A server that cannot be asked is an error, messages.ErrUnsupported, and calls end as if nobody ever waited. One that does not
// answer within 3 s may be asked again. While somebody sees the screen of a process, what it asks about its cursor waits up to 5 s for their
// answer at the server; one that cannot wait says that it is at the top left.
//
// # Limits
//
// 1,024 requests wait for an answer, besides 1,024 that end processes. 16,384 processes run. For each process 5 MiB of output wait for
// its owner, beyond ptyio.Credits batches that it holds, and 1 MiB of input for the server. A message has at most 64 MiB.
//
// If a server breaks the protocol, the client closes the connection at once and makes no other. All processes end as if the session
// had been lost.
//
// # What you must not assume
//
// The server may lie. It can claim any output, exit or sandbox; the client only makes sure that a lie does not harm the client.
//
// A descriptor cannot be passed to a process on the server, and the pid of such a process means nothing on the client's machine.
package client
