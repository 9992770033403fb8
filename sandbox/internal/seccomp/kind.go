package seccomp

// Network says which sockets a command may open.
type Network int

// The states of the network.
const (
	// Off is for a command that shares the host's network and may not use it: no socket but a connected pair.
	Off Network = iota
	// Private is for a command in a network namespace of its own, where it may talk to itself.
	Private
	// On allows internet sockets.
	On
)

// Kind chooses a filter. Equal kinds have equal filters.
type Kind struct {
	Network Network
	// Unix allows unix sockets. Without it only connected stream pairs are allowed: a datagram socket can send to any name.
	Unix bool
	// Metadata refuses changes of the mode, owner, times and attributes of files, for which Landlock has no rights.
	Metadata bool
	// Truncate refuses to truncate files that are not open for writing, for which Landlock has no right before its ABI 3.
	Truncate bool
	// Shared refuses access to what other processes use, for a command that shares the host's namespaces: System V IPC, POSIX
	// message queues, and the flags of files, for which Landlock has no right.
	Shared bool
	// Secret, if it is not zero, is a password of our own children before exec. They pass it as the fifth and sixth argument of
	// prlimit64, which takes fewer, when they set the limits that mark their tree. No other process may make these calls.
	Secret [2]uint32
}
