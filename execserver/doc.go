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
//	process/read        output after a number; can wait for it
//	process/write       input; a repeated writeId is not written again. With untilTaken, runs says in which mode the terminal took it
//	process/signal      "interrupt", or any signal by its POSIX name
//	process/terminate   ends the tree: SIGTERM, 500 ms, SIGKILL
//	process/resize      the size of the terminal
//	process/closeStdin  the end of the input
//	environment/info    shell and directory of the machine
//	environment/status  whether the server answers
//	fs/...              files: readFile, writeFile, createDirectory, getMetadata, readDirectory, remove, copy, canonicalize,
//	                    walk, open, readBlock, close
//
// The server sends process/output, process/exited and process/closed, numbered from 1 for each process, in the order of the
// numbers. To clients without extensions it reports the exit after all output of the leader, or 50 ms after the exit if background
// children hold the output open. If a signal has killed the leader, the exit code is 128 plus the signal.
//
// What concerns one process takes effect in the order in which it comes on a connection: input, signals, sizes and the end of the input
// wait for the start before them, so a client need not. process/terminate does not wait: it cancels the start. Operations on files take
// effect in their order if they are on the same path or the same handle, or change a directory and something in it. Other requests
// that wait do so concurrently: a long poll, or a file system that does not answer, holds nothing else up.
//
// # Sessions
//
// A session outlives its connection by [Options.Detached], and its processes go on meanwhile. A client resumes a session by naming
// it in initialize, and reads the output that it missed with process/read. A session of a stream ends with the stream. The end of a
// session ends its processes. A session has one connection at a time. If another connection asks for the session, the server pings
// the present one. If that does not answer within 2 s, the server drops it; otherwise the new connection is refused.
//
// # Output
//
// The server keeps the newest MiB of each process's output, in at most 50,000 chunks of up to 64 KiB, until 30 s after the process has
// ended and its streams have closed. For each session it keeps at most 1,024 ended processes and 64 MiB of their output. A process
// waits for a client that reads slowly, and does not wait for one that is gone. A client that does not read a message or
// does not answer a ping for 30 s is disconnected. Extensions change this. A client names the extensions that it wants in initialize:
//
//	flow   nothing is dropped: a process waits while 4 MiB are unacknowledged, even if no client is connected, and an ended
//	       process is kept until its last event is acknowledged
//	ends   notifications about background children, and about the end of the tree
//	raw    output as raw bytes in binary frames of a websocket, which is much cheaper than JSON
//	patches  the server starts a program of its own that reads and writes the files of patches, in the sandbox that the start names
//	looks  process/awaitedInput says which program of a process waits for input, for which kind, and after which event; process/listeners
//	       says on which TCP ports its programs listen. A look is made when it is asked for
//	cursor process/watchTerminal says that somebody sees the screen of a process, and process/placeCursor where its cursor was when the
//	       program asked (ESC[6n)
//
// What programs ask a terminal is answered by the server if the start says unattended, which only clients of this project do: the position of
// the cursor is the top left, or, while somebody sees the screen, at the client or here, what they say. Other clients see the
// requests in the output and answer them as input.
//
// With [Options.Spool] the server also keeps all output of a process in a file, within quotas and as long as the newest: package
// spool says what is missing beyond them, and who can see the files. A process with little output has no file. process/read then goes
// back to the first byte: with maxBytes in pages of at most a MiB, and nextSeq says where the next one begins; without it at once, if
// no more than 8 MiB were missed, and otherwise with the newest output, as on a server without files. What is not kept is missing in
// the numbers of the chunks. A process waits for its own disk, and no other one does. If a write fails or takes more than 2 s, the file
// of that process gets nothing more, and the Logger is told. Processes of clients with the extension flow have no files here: such a
// client gets all output, and a runtime keeps it where its own Options.Spool say.
//
// # Access
//
// The websocket handler requires a token if it was given one, and refuses requests from web pages. Clients that do not show the token
// lock nobody out of a [Listener]: when there are too many connections, one of theirs is closed. A unix socket admits only the
// server's own user. An admitted client can do everything that the server's user can. Plans, rules and approvals are the client's
// task, because only the client has a person to ask.
//
// If a client asks for a sandbox, the server enforces it or refuses the start. A sandbox has permissions of the type managed, with
// entries for files, or disabled, or external. The server can enforce these entries exactly, and refuses others by name: the special
// path root is read; project_roots, slash_tmp, tmpdir and other directories are written; names at the top of written directories are
// only read; paths are denied. Like every sandbox it also protects .git, .agents and .codex there, and a protected name is protected
// in each written directory. A start without a sandbox gets full access: the protocol has no other way to say that the client's user
// has chosen full access, or has approved a command that must not be confined.
//
// With [Options.Confinement] the server confines these commands itself. It then enforces a client's sandbox only if that certainly
// allows no more than its own: if it is the same, or read-only without sockets and further permissions. Others are refused, because
// confined commands can replace directories by links, so roots cannot be compared by their paths.
//
// # People on the server's machine
//
// [Server.Sessions] are the sessions for people who look after the machine: "execbus serve --window" shows them. They see commands, states and
// output, which they can search, can send signals and can end processes; clients are told of these ends as of others. What has been written to
// a file is read from there; of a client with the extension flow they see the newest 4 MiB. They have no part in the flow of output, and
// do not get the ids of sessions, with which a client could be replaced. A process whose start has failed is not seen.
//
// # Errors
//
// The server answers with the id -1 if a message is not JSON, has a name twice, has more than 262,144 values or more than 128 levels,
// or is not a message of this protocol. If a parameter has the wrong type, the error names the field. Names are case-sensitive.
// Unknown names are ignored, except in permissions and in limits. A client is disconnected for a message above [Options.MaxMessage],
// an unknown notification, or an answer to a question that the server has not asked. Options bound requests, processes and sessions.
//
// # What you must not assume
//
// That output which was kept is still there: that of ended processes gives way to others, and a client learns it by the numbers.
//
// A client does not always learn that a process has ended: it may be gone, and then no other client is told.
//
// Commands do not see the environment of the client, and a path can mean another file on the server than on the client.
package execserver
