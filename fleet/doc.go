// Package fleet has sessions on many machines. NATS, with JetStream, carries and remembers; each machine executes.
//
//	// On each machine:
//	nc, err := fleet.Connect("nats://build.example:4222")
//	...
//	err = fleet.Serve(ctx, nc, runtime, fleet.Node{ID: "build-1", Labels: map[string]string{"arch": "arm64"}})
//
//	// Anywhere:
//	session, err := fleet.Open(ctx, nc, fleet.Placement{Labels: map[string]string{"arch": "arm64"}})
//	if err != nil {
//		return err // it names each node, and why that does not take it
//	}
//	defer session.Close(ctx)
//	process, err := session.Start(ctx, messages.ExecCommand{Script: "make test"})
//	...
//	for event, err := range fleet.Follow(ctx, nc, session.ID(), process, 0) {
//		...
//	}
//
// Somebody calls Setup once for each account. A [Session] has Start and the methods of execbus.SessionCalls, as *execbus.Session has; what
// makes no sense across machines is not among them. The program execbus-fleet does all of this on the command line; package embedded is a
// server for one machine. Use none of it where one machine is enough: a call costs a round trip more, and a NATS server has to be kept.
//
// # Where a session is
//
// A session is on one node and stays there until it ends. Open takes the nodes that have the labels, can enforce the sandbox level, which
// is what their runtimes have found out, and have a free slot and the memory; of two random ones it asks the less loaded. It reads the nodes
// again when a heartbeat may have come since, and when none fits; one that has changed meanwhile refuses. The node writes
// into the books that it has the session, with a compare-and-set, and has it only if that succeeds. So no two nodes have it. Each node that
// is asked, and each loss, begins a new epoch of the session; what an older epoch does has no effect. If no node has room, Open waits for
// Placement.Wait, and Look says who waits for what.
//
// Drain lets the sessions of a node end and gives it no others. The sandbox, the limits and the warden are those of the node:
// Node.Sandbox and Node.Limits hold whatever a client asks for, and no answer to a question lifts them: if Node.Sandbox confines, there are
// no questions.
//
// # Calls
//
// Each call has a key, which WithKey sets. A node does the call of a key once and keeps the answer for 10 minutes, up to 16 MiB for a
// session; a client whose request or answer was lost sends the request again and gets that answer, and so does another program after a
// crash. If the answer is no longer kept, the error says so, and the call is not done again. Calls that only read are done each time. One
// client's calls take effect in the order in which they were made. A context that ends cancels the call on the node. If the node says
// nothing of it in time, the error matches messages.ErrUnreachable: the call may have been done.
//
// A session takes at most 1,024 calls at once and 65,536 in 10 minutes. A request must fit into a message of the server, 1 MiB by default;
// answers come in several.
//
// # Output and events
//
// The node's log, or its spool, is the truth. The server keeps output for 10 minutes as a cache: of a process the newest 256 messages of at
// most 256 KiB, of all sessions together Settings.CacheBytes. Output after a pause is sent at once; what comes within the next 2 ms is sent
// together. Follow reads from any offset: from the server, else from the node, and what neither has is a messages.Gap with its range. A reader
// that keeps up is sent output as it comes and asks for nothing; 64 messages may wait for a slow one, which then asks the server again. A process never waits for the server: the node has 4 MiB of output in memory for each
// session that is not sent, and drops the oldest, which is then read from its log.
//
// A log has the first 512 KiB of an output and the last MiB. With execbus.Options.Spool, which execbus-fleet sets, the rest is in a file, within
// quotas. Without one there may be a gap even for a reader that follows from the beginning, if a command prints faster than the server takes.
//
// Events are stored in their order, and none is lost while the server keeps them: for Settings.Retention. Events gives a session's whole
// history, also to a reader that comes late. The first event of a process is stored at once; others wait up to 5 ms, so that those of a short
// command need one request. An answer that names a process is sent when the process's first event is stored. So every
// process that a caller knows has one end.
//
// # Questions
//
// Questions gives the open questions of all sessions to every console, so that none waits for a console that has gone. Any may answer, with
// Session.Decide; the first answer counts, and later ones get messages.ErrAlreadyResolved. Deadlines are those of the session.
//
// # When something fails
//
// A node sends heartbeats, five in a lease of 5 s. Without them its sessions are unreachable: calls wait, and nothing has ended. When the
// link is back everything goes on, with all events and all output that the node has. The same holds while the server is restarted.
//
// After Node.LostAfter, 60 s by default, another node gives the sessions up, or a person does, with GiveUp: each process gets an end with
// messages.CauseNodeLost, and calls get messages.ErrNodeLost. The rest of its output is a gap without a known end. Its processes may live as
// long as the link is cut. When the node is back it finds that its epoch is over: it ends them and stores nothing, because the server takes an
// event only behind the last one that the node knows. If the program on a node is killed, its warden ends the processes; when the program
// is started again it gives up the sessions that it had.
//
// # Who may
//
// A tenant is an account of NATS: it sees neither the names nor the loads of another. Inside of an account permissions tell nodes from
// clients; tenants.conf is a sample that a test uses as it is. A client that may open sessions in an account runs commands on its nodes as their
// user, and may call every session of the account.
//
// # What you must not assume
//
// That a session moves: a node that is lost takes its sessions with it.
//
// That a program which is connected notices that a fleet was removed and set up anew: a connection looks up once what Setup has made.
//
// That a fleet of one node notices its loss: there is nobody to give it up. It does so itself when it is started again; GiveUp does it before.
//
// That a node learns at once that a session of it was given up: it finds out when it stores the session's next event, with the first heartbeat
// after a lease that ran out, or when it reads the books, which it does every ten sixths of Node.LostAfter, 100 s by default, and up to
// ten times Node.LostAfter in a fleet of over 120 nodes. Until then the session's processes run. Nobody gives up a node that sends heartbeats again, so that the lease has to come back in that very moment.
//
// That the books can be tidied by clocks that differ: keep those of all members within a few seconds of each other.
//
// That output which was sent while the node's lease held cannot be stored later: a network may deliver it after the node was given up.
//
// That stored events survive a crash of the server's machine: the server writes them to the file system and lets that decide when they are
// on the disk, unless its sync_interval says otherwise or Settings.Replicas keeps copies. A crash of its program loses none.
//
// That Follow and Events slow anything: a slow reader reads later.
//
// That inputs, connections, executions and transcripts are among the events. They are not stored: inputs may be secrets.
package fleet
