package patch

import "io/fs"

// FileKind is what stands at a path, when all symbolic links have been followed.
type FileKind string

// The kinds of files.
const (
	Absent    FileKind = "absent" // nothing; also behind a dangling link
	Regular   FileKind = "regular"
	Directory FileKind = "directory"
	Other     FileKind = "other" // a device, a FIFO, a socket
)

// Bounds of files. Beyond them a patch is refused.
const (
	MaxFile      = 64 << 20  // bytes of a file, before or after
	MaxFileLines = 1 << 22   // of a file that is updated
	MaxTotal     = 256 << 20 // bytes of all files that are read, and of all that the operations write
)

// ID is what makes a file the same file under all its names.
type ID struct{ Device, Inode uint64 }

// File is what was found at one of the Paths.
type File struct {
	Path string // as it was asked for
	// Place is where the name stands: Path with the links among its directories followed. Leads is the file behind it, with all links
	// followed, or where it would be created. The two differ only if the name is a link itself, whose text is Link.
	Place, Leads, Link string
	Kind               FileKind
	ID                 ID          // of what is at Leads; zero if it is absent
	Mode               fs.FileMode // permission bits of what is at Leads
	Data               []byte      // of a regular file, at most MaxFile bytes
	// Blocked is what stands on the way where Path needs a directory, with all links followed: a file, or a link to nothing. With it the file is
	// absent.
	Blocked string
	// Problem says why the rest could not be found out, in words for the one who sent the patch: "permission denied", "it has more than
	// 64 MiB". An operation that needs the file fails with it.
	Problem string
}

// Content is a file, or a symbolic link, before or after the patch.
type Content struct {
	Data []byte
	Mode fs.FileMode
	// Created says of what a file becomes that the patch made it: its mode is what the umask leaves of 0666. Without it Mode holds exactly.
	Created bool
	Link    string // not empty: before the patch there was a symbolic link with this text, and Data is empty
	ID      ID     // before the patch; of a link it is zero
}

// Change is what becomes of one file. There is one for each file, however many operations and names of the patch led to it.
type Change struct {
	Path  string   // where it stands: no link is followed from here
	Named string   // the absolute path by which the patch named it first
	Old   *Content // nil: there was nothing
	New   *Content // nil: it is removed
	From  string   // where it was moved from: no link is followed from here either
	// Overwrites says that an Add or a Move put another file in the place of one that the patch did not delete.
	Overwrites     bool
	Added, Removed int // lines
}
