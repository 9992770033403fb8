// Package spool keeps all output of processes in files, within quotas, and finds lines in it.
//
//	store, err := spool.New(spool.Options{Dir: "/home/me/.local/state/execbus/output"})
//	file := store.New()                                    // of one process; nothing is on the disk yet
//	err = file.Write(chunks, lines)                        // blocks as long as the disk does
//	found, err := file.Read(ctx, messages.ReadOutput{Grep: &messages.Grep{Pattern: "FAIL", Before: 3}}, memory)
//	file.Close()
//
// A process's log keeps the beginning and the end of the output in memory. A File takes the chunks that the log may drop, in their order and
// with their numbers: an offset, or a chunk's number, means the same in both. [File.Read] joins the two. It answers by offset, by chunk, by
// line and by pattern.
//
// # What is kept
//
// A file grows up to Options.PerProcess. From then on the first half keeps what it has, and what comes goes round in the second half: the
// newest output takes the place of the oldest there. So exactly the middle is missing, to the byte, the file never takes more room than it may,
// and nothing is asked of the file system that some cannot do, such as giving back a range of a file. [File.Ranges] says what is kept.
// Behind the bytes is a mark of 8 bytes for each chunk, which has a sixteenth of the room. Where chunks are shorter than 120 bytes on
// average, the marks may be what bounds the file; then the bytes without marks are not kept.
//
// All files together take at most Options.Total. A file that finds no more room goes round in what it has. Files of processes that have
// ended give way first, the oldest of them.
//
// A Write that fails may have overwritten a part of what it was to overwrite, and all of that counts as gone. What is overwritten while it
// is read is not answered.
//
// # Who can see it
//
// A file has no name (O_TMPFILE; elsewhere it loses its name at once), so nobody who looks into the directory finds it, a command in a
// sandbox included, and it is gone when this process is, whatever ends it. The directory belongs to the user alone. What a process that was
// killed between making a file and removing its name has left is removed by the next [New]. It is one descriptor for each process that
// has written, at most [MaxFiles].
//
// # Searching
//
// A search reads 256 KiB at a time. It looks for a text of at least 3 bytes that each match must contain, if the pattern has one: more than
// 1 GB/s on a server CPU. Lines that have it, or all lines, pass through an automaton that is made of the pattern as it goes, at 300 MB/s or
// more, whatever the pattern is and however short the lines are; package regexp would take them one by one, at 8 MB/s where they are short. Only
// lines that the automaton lets through are compared with the pattern itself. The automaton takes at most 2 MiB for each search; a pattern of more
// than 10,000 instructions has none, and one whose automaton would grow with the output loses it: then each line is compared.
// The answer is bounded by messages.MaxRead and messages.MaxGrepMatches, and its time by messages.MaxGrepTime; Next says where another
// search continues. Lines are counted from the first byte of the process. Where the middle is missing they are counted back from the end.
//
// # What you must not assume
//
//   - That a file is on the disk when Write returns: it may be in the kernel's memory, and is never synced. It need not outlive anything.
//   - That Write returns: a disk may hang. A caller waits with a bound, and goes on without the file.
//   - That Close gives back the room at once: another goroutine does.
//   - That Total bounds what several Stores in one directory take: each has its own.
//   - That a file system which cannot leave holes in a file is a good place: the marks begin behind room for all bytes.
package spool
