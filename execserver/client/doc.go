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
// A connection is a ptyio.Spawner: the processes of a session whose runtime has it run there, with the same calls, limits, events
// and output as those that run here. Policies, rules and approvals are decided here, from what the server tells about its machine:
// programs, shells, directories, environment. A sandbox is enforced there.
//
// [Dial] connects over a websocket or a unix socket, and [Connect] over any two streams, such as those of a server that was started
// with ssh.
//
// # When the connection breaks
//
// The processes go on. The client tries for 25 seconds to resume its session, at first at once and then less and less often. What
// it is asked for meanwhile waits. Then nothing has been lost, and nothing happens twice: the server sends again what was not
// acknowledged, a write is known by its id, and a start by that of its process. A signal, and the end-of-file character for a
// terminal, may have arrived or not when the connection broke before the answer: they fail, and are not sent again.
//
// If the session cannot be resumed, each process ends for its owner, with an error in ptyio.Exited.Lost and with a survivor in the
// report of its tree, because it may live on: until the server ends it, 30 seconds after the connection has broken. Every call that
// waits fails, and later ones do. A new connection is a new session.
//
// A connection that says nothing is tested every 15 seconds. Connecting takes at most 10 seconds, and so does the handshake.
//
// # Servers
//
// A server of execbus makes a process wait until its output was acknowledged, so nothing is lost however slow the client is. Another
// server of this protocol keeps the last MiB of output for a client that is late; what was dropped before it was read is counted as a
// gap, at one byte for each lost chunk where the server does not say more. Such a server is not trusted with what it may not know, and
// messages.ErrUnsupported refuses it: sandboxes, limits, merged output, kept background processes, signals other than SIGINT, the size
// of a terminal after the start and the end of the input. It does not say what became of a tree, and the exit code 128+n
// may stand for a signal.
//
// # Limits
//
// 1,024 requests wait for an answer, besides 1,024 that end processes. 16,384 processes run. For each process 5 MiB of output wait for
// its owner, beyond ptyio.Credits batches that it holds, and 1 MiB of input for the server. A message has at most 64 MiB.
//
// A server that breaks the protocol is left at once: no connection to it is made again, and all processes end as if the session had
// been lost.
//
// # What you must not assume
//
// That the server tells the truth. It can claim any output, exit or sandbox; a client can only make sure that it is not harmed by it.
//
// That a descriptor can be passed to a process there, or that its pid means anything here.
package client
