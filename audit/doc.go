// Package audit writes down what happens to the commands of a host, in a file that shows whether somebody has changed it.
//
//	log, err := audit.Open(audit.Options{File: "/var/log/agent/audit.jsonl"})
//	if err != nil {
//		return err
//	}
//	defer log.Close(ctx)
//	log.Append(event) // of package messages; does not block
//
//	report, err := audit.VerifyFile("/var/log/agent/audit.jsonl", nil)
//	fmt.Println(report) // complete: 812 lines of 3 runs
//
// A runtime with execbus.Options.Audit does the first half, and the program "execbus audit" the second.
//
// # What a line has
//
// A log is a text of lines in JSON, each with its number, the SHA-256 digest of the line before, and an event with its kind, session, process
// and call, as package messages encodes it:
//
//	{"n":7,"prev":"3a5c…","event":{"kind":"process_signaled","session":"…","process":1000,"at":"…","signal":"SIGINT"}}
//
// Kinds lists the events: every decision with the command, its reason and its rule; starts and attempts with what is enforced for them;
// inputs, signals, new sizes of terminals; questions, and who answered them; patches with the digests of their files, connections to hosts, executions where they are seen,
// notices, and ends. Three kinds are the log's own: audit_opened and audit_closed begin and end the time for which one host has the log,
// which is called a run, and audit_dropped stands where events are missing.
//
// A log shows who has run what, and must not be a place to learn secrets from. It has no output. Of an input it has the length, the mode, and
// a digest where the event has the bytes: that of what a terminal does not show, a password, has the length and the mode alone. Of the variables that a question shows it has the names, and of the
// difference that a patch makes a digest. It does have the arguments of commands, and secrets that are given there. The digests of
// input and differences are keyed: the key is made for each run, stays in the memory of the host and goes with it. So equal digests in one
// run mean equal bytes, and nobody who has the file, not even its user, can try which short text has a digest.
//
// # What a change looks like
//
// A line that is changed, added, removed or moved breaks the log there: Verify says at which line. That the end was cut off is seen in
// the head, the number of lines and the digest of the last one. The log keeps it in a second file, Options.File with ".head", which it
// writes after each batch of lines. A program that can change both files can write a new log that looks well. So the head goes to Options.Anchored,
// too, which a runtime publishes as messages.AuditAnchored: when a log is opened and closed, and each second in which lines were
// written. An anchor that is kept where the attacker cannot write shows that the log still begins with those lines.
//
// A log with a run that has no end is not closed: its host writes on, or was killed. Without its head a log counts as broken. The next host goes on behind the last whole line, and its first line says so. A log that does not fit its head is not continued: Open
// returns an error.
//
// # A full disk
//
// Append never waits for the disk. Lines are written as soon as the disk takes them, and synced each second. What waits is bounded. While
// nothing can be written, because the disk is full, fails, has not answered for Patience or half of the bound is in use, or because the file
// was moved away, Options.OnFull decides:
//
//   - Stop: Admit returns an error, and the host starts nothing new. What runs goes on, and what happens to it waits in memory.
//   - Drop: everything goes on.
//
// In both modes events that find no room are counted, and a line with the count stands in their place. The log tries again each second.
// If the host dies meanwhile, what was in memory is lost, and the log is not closed. Open fails in both modes if the first line cannot be written.
//
// # Bounds
//
// 65,536 events of together 16 MiB wait for the disk, and 512 KiB of lines; half of that at most when another connection or execution comes. A line has at most 256 KiB: of a larger event it has the first
// 32 KiB, the length and the digest. Verify needs that much memory whatever the log's size. A log grows without a bound: by some 2 KB for a command that is decided about, starts and ends, and 300 bytes for an input.
// To begin another one, stop the host and move both files.
//
// # What you must not assume
//
// That a line is on the disk before the command runs: it is a moment later, and it survives the death of the host, but only after
// up to a second that of the machine.
//
// That a log that verifies is all that happened: look at Report.Dropped.
//
// That digests of input can be compared between two runs.
//
// That a server of package execserver has a log: it decides nothing and runs what its clients ask for. The log belongs to the host that
// decides, which is the client's, and has what happened there, too.
//
// That two programs can write one log, or that a directory may be shared over a network: the lock is the local kernel's.
//
// That the log is safe from commands that are not confined: they can do what the host's user can.
package audit
