// Package writer reads and writes the files of a patch, all or nothing, by a program that can be confined as any command is.
//
//	launch, err := writer.Launch()                       // this program, executed again; a spawner starts it in a sandbox
//	journal, err := writer.OpenJournal(dir)
//	recovered, err := journal.Recover(ctx, begin)        // what a process that was killed has left
//	conversation := writer.New(program)                  // its input and output
//	looked, err := conversation.Read(parsed.Paths(dir))
//	plan, err := parsed.Plan(dir, looked.Files)
//	results, err := conversation.Write(ctx, writer.Job{Plan: plan, Looked: looked, Journal: journal, Policy: policy})
//
// The program does everything that touches files of a patch, so symbolic links, races, protected names and denied paths get what any
// command gets. See internal/child for how it does that. Another program may write than the one that has read: what was seen goes along.
//
// # What holds
//
//   - All or nothing: everything is checked before the first file changes; if one change fails, those before it are undone, and the
//     results say so file by file.
//   - A file that has changed since it was read, or whose directory is another one, fails the patch. Device, inode, mode, size,
//     time of change and every byte are compared. On an overlay, as the root of a container is one, the first writing may give a file of a
//     lower layer another inode; there the rest has to do.
//   - A file is replaced in one step; mode, owner, group and extended attributes are kept. It is written in place if it has several
//     names, was reached through a link, lies in a sticky directory or one where nothing can be made, if something is mounted there,
//     if owner or attributes cannot be kept, or if the file system cannot exchange names. New content is on the disk before it is put in place.
//   - What a process that was killed has left is settled by Recover: everything as it was, or as it should be. Files that
//     somebody else has changed since are left alone and named.
//
// # The journal
//
// It is a directory that only its user can use, with one file for each patch that is being written: policy, old and new contents, and
// which files they are. Recover gives the policy to its caller, who starts the program under it. A file in the journal that is damaged,
// that somebody else owns or that others can read is named, and nothing is done with it. A command that could write there could make
// Recover write files; so none must, and the sandbox protects the usual directory, internal/own.Patches, as it does settings.
//
// A lock on the directory lets one process write at a time. Processes with different journals are not held up: a file that both change
// fails one of the patches.
//
// # Bounds
//
// Those of package patch for files; 4,095 bytes for a path; 8,192 changes; 192 MiB for a message; 1 GiB for a file of the journal, and 1,024 of them.
//
// # What you must not assume
//
//   - That a killed process leaves nothing before Recover was called: temporary files begin with ".execbus-patch-", and a file that is
//     written in place may be half old and half new.
//   - That empty directories which did not exist before a patch, and which somebody else has made since, survive its undoing.
//   - That times of files are restored when they are undone in place.
package writer
