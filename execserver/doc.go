// Package execserver runs processes for clients on other machines, and for clients that are not written in Go.
//
//	spawner, err := execbus.NewSpawner()
//	if err != nil {
//		return err
//	}
//	defer spawner.Close()
//	server, err := execserver.NewServer(spawner, execserver.Options{})
//	if err != nil {
//		return err
//	}
//	defer server.Close()
//	return server.ServeStream(ctx, os.Stdin, os.Stdout)
//
// "execbus serve" is that program, with flags. Package client, below this one, is a client: a runtime that runs its
// processes on a server.
//
// # The protocol
//
// Messages are JSON-RPC without the "jsonrpc" member, one in each frame of a websocket, or one in each line of a unix socket or of
// standard input and output. A client sends the request initialize, with its name, and the notification initialized. It then
// has a session, in which it starts processes under ids of its own:
//
//	process/start       argv, cwd (an absolute path or a file: URI), env, tty, pipeStdin, and more
//	process/read        output behind a number; waits for some if asked to
//	process/write       input; a repeated writeId is not written again
//	process/signal      "interrupt", or any signal by its POSIX name
//	process/terminate   ends the tree: SIGTERM, 500 ms, SIGKILL
//	process/resize      the size of the terminal
//	process/closeStdin  the end of the input
//	environment/info    shell and directory of the machine; environment/status: that the server answers
//	fs/...              files: readFile, writeFile, createDirectory, getMetadata, readDirectory, remove, copy, canonicalize,
//	                    walk, open, readBlock, close
//
// The server sends process/output, process/exited and process/closed, numbered from 1 for each process, in the order of the
// numbers. To clients without extensions it reports the exit behind all output of the leader, or 50 ms later if background children
// hold the output open. Signals of a killed leader are exit codes above 128.
//
// Requests take effect in the order in which they come. Those that may wait do so beside each other, so a long poll
// holds nothing up.
//
// # Sessions
//
// A session outlives its connection by [Options.Detached], in which its processes go on. A client resumes it by naming it in
// initialize, and reads what it missed with process/read. A session of a stream ends with the stream, and one that ends
// ends its processes. If a session's connection is still there, another cannot have it; one that does not answer a ping within
// 2 s is given up for it.
//
// # Output
//
// Of each process the newest MiB is kept, in at most 50,000 chunks of up to 64 KiB, until 30 s after it has ended and its streams have
// closed; of ended processes at most 1,024 and 64 MiB are kept for a session. A process waits for a client that reads
// slowly, and does not wait for one that is gone. A client that does not read a message for 30 s is disconnected. Extensions change
// that; a client names those that it wants in initialize:
//
//	gaps   no process waits: process/gap says what was dropped
//	flow   nothing is dropped: a process waits while its client has not acknowledged 4 MiB, also while nobody is connected
//	ends   notifications about background children, and about the end of the tree
//	raw    output as raw bytes in binary frames of a websocket, which is much cheaper than JSON
//
// # Who is let in
//
// The handler of websockets wants a token, if it is given one, and refuses web pages; a unix socket lets in the server's own
// user. A client that is let in can do what the server's user can. Plans, rules and approvals are the client's, because only the
// client has a person to ask. A sandbox that a client wants is enforced, or the start is refused; [Options.Confinement] confines all
// commands whatever clients want.
//
// # What is refused
//
// A message that is no JSON, has a name twice, more than 262,144 values or more than 128 levels, or is no message of this protocol,
// is answered with the id -1. Parameters of a wrong type are answered with an error that names the field; names are
// exact, and unknown ones are ignored, except in a sandbox and in limits. A client is disconnected for a message above
// [Options.MaxMessage], a notification that is not known, and an answer that nobody has asked for. Options bound requests, processes and
// sessions.
//
// # What you must not assume
//
// That a client hears of an end: it may be gone. Then nobody hears of it.
//
// That commands see the environment of the client, or that paths mean the same there and here.
package execserver
