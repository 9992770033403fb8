// Package child is the process that reads and writes the files of a patch. It is the host's own program, executed again under the name
// Name with what a launch of package writer gives it. This package's init takes over before main, so an embedding program has nothing to
// call.
//
// The takeover needs the name in argv[0] and, on descriptor 3, a sealed memory file with our greeting. A program that merely happens to
// have that name stops with an explanation. Everything else comes over standard input, as messages of this package, and answers go to
// standard output. No argument, variable or directory of a command reaches the process; end-of-file ends it.
//
// # What it does
//
// A file is looked at before it is opened: only what is known to be a regular file, on a file system that stores files, is read. For a
// change, the directory is opened name by name and no link is followed. Its identity, and that of the file, must be as they were
// read, and so must be size, time of change and content.
//
// All changes are checked, then all new contents are written beside their places, and then file after file is put in place. An
// exchange of two names is one step for the kernel: the new file comes to its place, and the old one to the temporary name, where it is
// looked at once more before anything is removed. So a file that changes between the last look and the exchange gets back its place.
// What cannot be exchanged is written in place. If something fails, or if a process that was killed has left work, Settle looks at what
// stands there and brings all of it to one side: everything as it was, or everything as it should be.
//
// # The rule about imports
//
// As in a warden, what is initialised before this package is initialised in each such process. So this package imports little.
//
// # What you must not assume
//
// That a writer to a file that the patch replaces is noticed: a process that holds the old file open writes to the old file.
package child

// TempPrefix begins the names of temporary files.
const TempPrefix = ".execbus-patch-"

// Name is argv[0] of the process.
const Name = "execbus-patch"

// Greeting is what the sealed file on descriptor GreetingFD contains.
const (
	Greeting   = "execbus patch 1\n"
	GreetingFD = 3
	// ProgramFD is the program that is executed.
	ProgramFD = 4
)
