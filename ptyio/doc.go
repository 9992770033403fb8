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
//			case ptyio.Drained: // all output of the program has come; its status came before, with Exited
//			case ptyio.TreeEnded: // no process of it is left
//			}
//		},
//	})
//	child.Write([]byte("print(6*7)\n"), time.Now().Add(time.Second), func(taken Taken, err error) { ... })
//	child.CloseStdin(func(err error) { ... })
//
// The package knows no actor and no policy. Other packages see two interfaces, [Child] and [Spawner]. A spawner has a [Starter],
// which forks and ends trees; [Spawn] adds everything about bytes. It also has a [Resolver], which knows the machine on which the
// children run; [Local] returns the one for this machine. The package also has stores for output, which know no child
// ([OutputLog], [HeadTailBuffer] and [Splitter]), and [BuildEnvironment].
//
// # Starting
//
// A program without a slash is looked up in the PATH of the child's own environment, and a relative path is relative
// to the child's directory. Spawn returns when the program runs, or says why it does not, with messages.ErrNoSuchProgram or
// messages.ErrSpawnFailed and the cause in a sentence; then nothing is left behind. The child gets exactly the environment of its
// launch. It leads a kernel session of its own; on a terminal, that is its controlling terminal. It gets the descriptors
// 0 to 2 and those of Launch.Inherit, and no others. All of them are in blocking mode, even if Go had made them non-blocking.
//
// # Output
//
// Output comes in batches of at most [MaxBatch] bytes, each under a credit that Release gives back. A stream whose
// credits are all in use is not read; the kernel then makes the child wait. So memory is bounded, and a flood slows only the
// child that floods. A waiting reader costs a goroutine, but neither a thread nor a buffer. If the kernel refuses to let Go's poller
// watch a terminal, because it is short of memory or the user's watches are used up, the terminal's reader looks every 10 ms instead.
//
// A child floods when it writes 64 KiB within 10 ms. Its reader then gathers bytes for up to half a millisecond before it hands
// out a batch, because every batch wakes its receiver. A flooding terminal leaves Go's poller, whose thread the kernel would wake for
// every 4 KiB: a flood is then 1.3 times as fast as a loop that reads the terminal, for two thirds of the processor time. At most half as
// many floods as there are processors are read at once. So processors are idle now and then, and serve receivers that wait for a few
// bytes: beside eight floods the echo of a key takes 60 µs instead of 420. Several floods together still reach hundreds of megabytes
// a second.
//
// A spawner of the host's own, for example for another machine, makes its batches with [NewOutput], or with [NewOutputAt] if
// the other side numbers the bytes: a hole between two batches then means that bytes were lost on the way.
//
// A [Splitter] cuts output into deltas of at most 8,192 bytes, between UTF-8 characters. The beginning of a character waits for its
// end for at most 20 ms ([MaxHold]). Bytes that are not UTF-8 pass unchanged.
//
// # What is kept
//
// A process keeps one [OutputLog], and one [HeadTailBuffer] of the output that its polls have not taken yet: the first and the last
// half MiB, with an exact count of the bytes dropped between them. Both share the bytes they are given with each other and with every
// other holder. So if the owner of a delta makes one copy of exact size, the delta costs its bytes once. These bytes are never
// changed; readers get copies. Every other reader reads from an offset of its own. If the log has dropped bytes from there on,
// ReadFrom says how many. Memory counts all memory behind the bytes: n bytes never cost more than
// 3n/2 and 16 KiB in each of the two parts, however small the pieces were, and 16 bytes for each chunk of the log. A flood that nobody
// reads costs the host 2.5 MiB. Go's heap may grow to twice its live size; the host bounds that with GOGC or GOMEMLIMIT.
//
// A log begins at a [Position]. Skip tells it about output that was lost before it arrived, and PushOmitted tells the buffer.
//
// # The end
//
// The leader's exit, the end of the output and the end of the tree are separate events, because background children may
// hold the output open and may be kept:
//
//   - Exited comes when the kernel reports the exit, and Background right after it if the leader left processes behind.
//   - Drained comes when the leader's output has been delivered: at the end of the output, or else [DrainWait] (50 ms)
//     after the exit, when nothing is left to read. If another process keeps writing, it comes when more was read
//     than a dead leader can have left. The wait does not count time without credit, so a late receiver loses nothing.
//   - Closed comes when no process has the other side open any more, or when the tree has ended and DrainWait is over. A
//     terminal that the leader closes and opens again is not closed.
//   - TreeEnded comes when no process of the tree is left, or with the names of those that could not be ended.
//
// # Input
//
// Writes go out whole and in the order of the calls. Taken counts the bytes that the terminal or the pipe took, which the
// program may not have read. Bytes that are not taken by the deadline are discarded and counted, even while they wait behind a
// write with a later deadline.
//
// A terminal in line mode holds [MaxLine] bytes of a line and silently drops the rest. So a write is refused as a whole if it
// makes a line longer than that, together with the part of the line that was sent before. The terminal's mode is read before each
// write; it says which characters end lines, quote or are ignored. Several lines that the program has not read yet are no
// problem: the terminal makes the writer wait.
//
// A key that the terminal turns into a signal, written alone, acts at once. If the program has not read all of the input before it, the
// spawner raises the signal as the terminal would, without an echo of the key, and, unless NOFLSH is set, discards the input that
// waits here and in the terminal. Otherwise the key goes through the terminal. The waiting writes learn how many bytes were
// taken; it is unknown how many of those the terminal discarded.
//
// The end of input is the end of the pipe, or the terminal's end-of-file character: twice after an unfinished line,
// because the first only ends that line. A program that reads on gets later input.
//
// The callback of Write also gets the mode in which the terminal took the bytes: [Taken]. What it took while it collected a line without
// showing it is marked as a secret, which nobody may keep. The mode is read before and after each write to the terminal, and the stricter one
// counts: a line that a program takes just before it turns echo off may be marked as a secret. A line is only marked as one that was shown if
// the terminal has certainly handled it by then; behind more than 4 KiB that the program has not read, input is unknown. A pipe has no echo, so
// nothing tells a secret from other input there.
//
// # Answers
//
// Programs ask their terminal things, and some wait for the answer for ever. A terminal answers in the place of a person's if
// Launch.Unattended says that there is none: that the cursor is at the top left (ESC[6n), that it is a VT100 (device attributes), and
// that it shows white on black (OSC 10 and 11). Requests stay in the output. Answers go out in the order of the requests, at most
// [MaxAnswers] in a second. A child is [Watched]: while somebody sees the screen, the answer about the cursor is theirs, and the top left if
// they give none for five seconds. One place gives the answers, so there are never two.
//
// An answer goes only to a terminal that is not in line mode, where no program could read it: it would become the beginning of the
// next line, and a shell would run that. It waits a quarter of a second for a program that leaves line mode after it has asked, as
// read -s -d R does after printf in bash, and is dropped if another group comes to the foreground. So a file with requests in it that
// is shown at the prompt of an interactive shell is not answered, unless it was shown so quickly that the shell edits its next line
// already. Then the shell gets the answer as typed text, as in every terminal, and so does an interpreter that prints such a file itself
// and then edits a line. No answer ends a line, so nothing runs by itself; the next line may have to be written again.
//
// # What a child waits for
//
// A child is an [Inquirer]. AwaitedInput says which member of its tree waits for input, and for which kind: a line, a secret, which is a
// line that is not shown, or keys. It is read from the kernel and never from prompts, as far as the spawner's leaders are Observers: a
// member sleeps until it can read the terminal or the pipe, and there is no input that it has not read. All output that came before has been
// delivered then. Nil may also mean that our reader was looking for output at that moment: ask again. Listeners says on which TCP sockets
// members listen. An error that is messages.ErrUnsupported holds for good; after another, such as a lack of descriptors, a later look may
// succeed.
//
// # Limits
//
//   - Output: [Credits] (4) batches of MaxBatch (64 KiB) for each child; on two pipes half of them for each.
//   - Input: [MaxPendingInput] (1 MiB) bytes and [MaxPendingWrites] writes that wait; a write above that is refused as a whole
//     with messages.ErrInputFull. A line in a terminal: [MaxLine] (4,095) bytes.
//   - Start: [MaxArguments] (6 MiB) bytes of arguments and environment, [MaxInherited] (32) descriptors with numbers up to
//     [MaxInheritedFD] (255).
//   - Kept: [LogHead] (512 KiB) from the beginning, [LogTail] (1 MiB) and [LogTailChunks] (50,000) chunks from the end. A read
//     outside of that is an error that says what is kept.
//   - Descriptors: one for each terminal, or each pipe. When a terminal begins to flood it has two for a moment.
//   - Threads: at most half as many as there are processors wait for floods to fill their batches.
//
// # Executions
//
// Launch.Executions has a spawner show what the programs of a tree execute, before it happens. Executions.Judge says whether it may happen;
// it is also for what a script, a build or a shell does that was started long before. A verdict that does not depend on anything else can hold
// for all that is the same (AllowedAlike), so that a loop does not wait for the host each time. A spawner that cannot show executions starts
// the launch all the same, and says so: a host that demands it asks Spawner.Can first, and refuses a launch without Enforcement.Executions.
//
// # What you must not assume
//
// That taken bytes were read: a terminal that no process has open takes everything and keeps nothing.
//
// That a line is never cut. Characters that erase others count as if they were kept, so a line may be refused
// that would have fitted. And a program that leaves raw mode, or flushes its input, after its mode was read and before the
// write changes what the terminal holds.
//
// That the mark of input is exact. A program that turns echo off and on again within the microseconds between two looks, and takes in between a
// line that was written before it asked, is not noticed. Write a secret when the program waits for one: see AwaitedInput.
//
// That events come from one goroutine, or that those of two streams come in the order of the child's writes: Launch.Merged makes
// them one stream. Each stream's batches are in order, Exited is before Drained and TreeEnded, and no event follows once both Closed
// and TreeEnded have come.
//
// That the callback of Write runs in another goroutine: if the bytes go out at once it is called before Write
// returns.
//
// That a batch is a line, a write or a character: it ends wherever the kernel's buffer did. See Splitter.
//
// That a signal to the foreground reaches a process: a job that is just ending leaves the foreground empty for a moment,
// and the signal is then lost, as a typed Ctrl-C would be.
//
// That nobody waits for input because nobody was found: see the spawner. An event loop that watches its input in line mode, or on a pipe, may
// have stopped reading it, and is marked as a guess.
//
// That an execution which was judged is the one that happens, if a program sets out to deceive: see package sandbox.
//
// That macOS behaves like Linux at the end of a terminal's output: these statements are tested on Linux.
package ptyio
