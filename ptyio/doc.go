// Package ptyio runs one child, on a terminal or on pipes, and moves its bytes.
//
//	spawner, err := sandbox.New(sandbox.Options{})
//	child, err := spawner.Spawn(ctx, ptyio.Launch{
//		Argv: []string{"python3", "-q"}, Dir: "/src", Env: env, TTY: true,
//		Events: func(event ptyio.Event) {
//			switch e := event.(type) {
//			case ptyio.Output:
//				os.Stdout.Write(e.Bytes)
//				e.Release()
//			case ptyio.Drained: // everything that the program wrote has come; its status came before with Exited
//			case ptyio.TreeEnded: // nothing of it is left
//			}
//		},
//	})
//	child.Write([]byte("print(6*7)\n"), time.Now().Add(time.Second), func(taken int, err error) { ... })
//	child.CloseStdin(func(err error) { ... })
//
// It knows no actor and no policy. [Child] and [Spawner] are what the rest of the house sees; a spawner brings a
// [Starter], which forks and ends trees, and gets everything about bytes from [Spawn]; and a [Resolver], which knows the
// machine on which the children run: [Local] this one, or another of the host's. Beside them are the stores for output,
// which know no child: [OutputLog], [HeadTailBuffer] and [Splitter], and [BuildEnvironment].
//
// # Starting
//
// A program without a slash is looked up in the PATH of the child's own environment, and what is relative is relative
// to its own directory. Spawn returns when the program runs, or says why it does not: messages.ErrNoSuchProgram or
// messages.ErrSpawnFailed, with the cause in a sentence. The child leads a kernel session of its own; under a
// terminal it has that for its controlling terminal. It gets the descriptors 0 to 2 and those of Launch.Inherit, and
// no other. All of them are in blocking mode, also where Go had made them non-blocking.
//
// # Output
//
// Output comes in batches of at most [MaxBatch] bytes, each under a credit that Release gives back. A stream whose
// credits are all out is not read; the kernel then makes the child wait. So memory is bounded and a flood slows the
// child that floods. A waiting reader costs a goroutine, but neither a thread nor a buffer.
//
// For a child that floods, by 64 KiB within 10 ms, the reader collects for up to half a millisecond before it hands
// out a batch, because every batch wakes its receiver; others are never made to wait. And of all flooding children of the
// process only half as many as it has processors have a batch out at a time that nobody has looked at, so that processors
// pause, and a receiver that waits for a few bytes is served then. A receiver that is done with the bytes at once, but whose
// credit others hold for longer, calls Looked before Release; without that, other floods wait for the Release, up to a
// millisecond for each batch.
//
// A spawner of the host's own, for another machine perhaps, makes its batches with [NewOutput], or with [NewOutputAt] where
// its side numbers the bytes: what lies between two batches was then lost on the way.
//
// # What is kept
//
// A process keeps one [OutputLog], and one [HeadTailBuffer] of what its polls have not taken yet. Both keep what they are
// given and share it with each other and with all that have it; so a delta, of which its owner makes one copy of exact size,
// costs its bytes once. Nobody changes it any more; readers get copies. Every other reader brings a [Cursor], which takes
// nothing from anybody; where the log has overtaken it, Next says how much it missed. Memory counts what is behind
// the bytes: n bytes never cost more than 3n/2 and 16 KiB in each of the two parts, however small the pieces were, and 4
// bytes for each chunk of the log.
//
// A log begins at a [Position], and Skip tells it, as PushOmitted tells the buffer, what was lost before it came.
//
// # The end
//
// The leader's exit, the end of the output and the end of the tree are three events, because background children may
// hold the output and may be kept:
//
//   - Exited comes when the kernel reports it, Background at once after it if the leader left processes behind.
//   - Drained comes when the leader's output has been delivered: at the end of the output, otherwise [DrainWait]
//     after the exit and with nothing left to read. Where another process keeps writing, it comes when more was read
//     than a dead leader can have left. While there is no credit this clock stands still: a late receiver loses
//     nothing.
//   - Closed comes when nobody has the other side open any more, or when the tree has ended and DrainWait is over. A
//     terminal that the leader closes and opens again is not closed.
//   - TreeEnded comes when nothing of the tree is left, or with the names of what would not go.
//
// # Input
//
// Writes go out whole and in the order of the calls. Taken counts what the terminal or the pipe took, which is not
// what the program read. What is not taken by the deadline is discarded and counted, also while it waits behind a
// write with more patience.
//
// A terminal in line mode holds [MaxLine] bytes of a line and silently drops the rest. So a write with a longer line,
// what was sent of the line before included, is refused as a whole. The terminal's mode is read before each write:
// what counts is how the program has set it up then, with its own ends of lines, quoting and ignored characters.
// Several lines that the program has not read yet are no problem: the terminal makes the writer wait.
//
// A key that the terminal turns into a signal, written alone, acts at once where the terminal would not look at it before the
// program has read: it is raised as the terminal does it, and discards, unless NOFLSH is set, what waits here and what the
// terminal holds. Elsewhere it goes through the terminal. The writes that wait are told how many bytes were taken; how many of
// those the terminal threw away nobody knows.
//
// The end of input is the end of the pipe, or the terminal's end-of-file character: twice where a line is unfinished,
// because the first only ends that line. A program that reads on gets what is written later.
//
// # Limits
//
//   - Output: [Credits] batches of MaxBatch bytes of a child; on two pipes half of them for each.
//   - Input: [MaxPendingInput] bytes and [MaxPendingWrites] writes that wait; one more is refused with
//     messages.ErrInputFull.
//   - Start: [MaxArguments] bytes of arguments and environment, [MaxInherited] descriptors up to [MaxInheritedFD].
//   - Kept: [LogHead] bytes from the beginning, [LogTail] bytes and [LogTailChunks] chunks from the end.
//   - Threads: at most four at a time rest for floods.
//   - Turns: a flooding child waits at most a millisecond for each batch; a turn comes back with Looked or Release, or at the
//     end of the stream.
//
// # Guarantees
//
//   - A spawn returns when the program runs, or with a typed error and nothing left behind.
//
//   - A child gets exactly the environment that its launch names and, from the warden, exactly the descriptors. Arguments
//     and environment together: at most 6 MiB. Descriptors: at most 32, with numbers up to 255.
//
//   - Writes go out whole and in order. At most 1 MiB waits for a child; a write over that is refused as a whole. What is
//     not taken by its deadline is discarded and counted. A line too long for a terminal in line mode (over 4,095 bytes) is
//     refused, because the kernel would silently drop its end.
//
//   - "Taken" means that the terminal or pipe has the bytes, not that the program has read them.
//
//   - A process has at most 4 buffers of 64 KiB in the host at once. When they are in use the reader stops, and the kernel
//     makes the child wait. A flood slows the process that floods. Several floods take turns, and rest between them, so that
//     a keystroke's echo beside them is not kept waiting; together they then come to hundreds of megabytes a second.
//
//   - For the next answer, 1 MiB of unread output is kept: the first and the last half. What is dropped between is counted
//     exactly. For reading again, the first 512 KiB and the last 1 MiB (at most 50,000 chunks) are kept; a read outside says
//     what there is. So a flood that nobody reads costs the host 2.5 MiB, and Go's heap may grow to twice what lives in it:
//     the host bounds that with GOGC or GOMEMLIMIT.
//
//   - Events carry at most 8,192 bytes each, cut between UTF-8 characters. The beginning of a character waits 20 ms at most
//     for its end. Bytes that are not UTF-8 pass unchanged.
//
//   - The leader's exit and the end of the output are two events. After the exit the reader waits for the end of the output
//     for at most 50 ms while it holds credit: a background child that keeps the terminal open cannot hold back the answer.
//
// # What you may not assume
//
// That taken bytes were read: once nobody has a terminal open, it takes everything and keeps nothing.
//
// That a line is never cut: characters that erase others count as if they were kept, so that a line may be refused
// that would have fitted; but a program that leaves raw mode, or flushes its input, between the look at its mode and
// the write changes what the terminal holds.
//
// That events come from one goroutine, or that those of two streams come in the order of the child's writes: Launch.Merged makes
// them one. Each stream's batches are in order, Exited is before Drained and TreeEnded, and nothing follows once Closed and
// TreeEnded have come.
//
// That the callback of Write runs in another goroutine: where the bytes go out at once it is called before Write
// returns.
//
// That a batch is a line, a write or a character: it ends wherever the kernel's buffer did. See Splitter.
//
// That a signal to the foreground finds somebody: a job that is just ending leaves the foreground empty for a moment,
// and the signal is then lost, as a typed Ctrl-C would be.
//
// That Linux and macOS behave alike at the end of a terminal's output: what is said here is tested on Linux.
package ptyio
