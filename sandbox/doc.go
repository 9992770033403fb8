// Package sandbox starts children and ends their trees.
//
//	spawner, err := sandbox.New(sandbox.Options{})   // a warden on Linux, direct elsewhere
//	child, err := spawner.Spawn(ctx, ptyio.Launch{Argv: []string{"make"}, Dir: "/src", Env: env, Events: receive})
//	...
//	err = spawner.Close()                            // every tree has ended
//
// # The two spawners
//
// A warden is one small process per spawner, the host's own binary executed again, from which all children descend. It is
// the subreaper of their trees: whatever a command leaves behind comes to it, whichever way it was detached. When the host
// dies, however it dies, the warden ends everything. Forking from it costs the same whatever the size of the host.
//
// The direct spawner forks from the host: for hosts that cannot execute themselves, and for macOS. Its trees are what can
// be found by parent, session and process group, so a daemon that left its session after its parent died escapes it, and
// children outlive a host that is killed (a child on a terminal gets SIGHUP). Its reports say so: TreeReport.Airtight is
// false. New chooses it by itself, and says so by Options.Notice, where this process must not be executed again.
//
// The files that begin with host are the host's side of the warden; internal/warden is the warden's own, internal/wire what
// they say to each other, and internal/tree what the warden and the direct spawner do alike.
//
// # How a tree ends
//
// SIGTERM to every member (and, under a terminal, SIGHUP to those that ignore it), the grace, then SIGSTOP
// and walk until nothing new is found, SIGKILL, and again until none is left. When a leader exits by itself, its
// background children have 50 ms to finish before that begins, unless the launch keeps them. Every signal goes through a
// pidfd whose process was compared with the walk's.
//
// # When the warden dies
//
// Its direct children die with it, by the kernel. The host searches the system for what carries the marks of its trees
// (see the README), kills and counts it; each child reports Exited with Lost set and status none. The next spawn starts a
// new warden. Options.Lost is told.
//
// If the host dies with it, what they leave is ended by the next spawner with the same Options.StateDir.
//
// A command may stop its warden with SIGSTOP. It goes on at the next thing the host says, at the host's death, or after a
// second at most. If that is of no use five times in a row the host kills it.
//
// # What a warden inherits
//
// A warden is as this process was when it started: user, rights, namespaces, limits. So each start looks whether this process
// is still the same, and a warden that differs is replaced; it ends with its last tree.
//
// # When a file system does not answer
//
// A process is born before the kernel opens its program, and waits then where the program's file system does not answer. So
// Spawn opens the program first, in a goroutine that nobody else waits for and that a cancelled Spawn leaves alone; at most
// 256 such looks are under way at once in a host.
//
// A birth may hang all the same, because a script's interpreter does not answer or a command has stopped the newborn. It costs
// a thread until it ends, but nobody waits for it, neither other starts nor Go's garbage collector. After five seconds at most
// for each such spawn the host kills the newborn of a warden, and the spawn has failed. That of the direct spawner hangs as
// long as the file system does.
//
// # Confinement
//
// A launch is confined by its Enclosure, which Enclose makes of a policy: where paths lead is looked up there, once (see
// internal/places), and Spawn refuses if they lead elsewhere later. Can says beforehand what would be enforced and what not.
//
//	enclosure, err := spawner.Enclose(ctx, ptyio.Confinement{Policy: policy, Dir: "/src"})
//	defer enclosure.Release()
//	child, err := spawner.Spawn(ctx, ptyio.Launch{Argv: []string{"make"}, Dir: "/src", Sandbox: enclosure, ...})
//
// On Linux a confined newborn gives up all capabilities and enters a Landlock domain of its own before it executes anything.
// Its filter of system calls, and that it gets no new privileges, it has by birth from a thread that the warden keeps for this
// kind of filter. Such a thread is never in a Landlock domain: a process in the same one could reach it. The direct spawner
// keeps no threads; its newborns install the filter themselves, which makes a start half as long again.
//
// The processor must be amd64 or arm64, and Linux 5.13 or newer with Landlock; otherwise Can says what is missing. A newborn that
// the kernel does not let share our memory, as under some emulators, cannot be confined, and its start fails.
//
// # What you may not assume
//
// That an inherited file stays in non-blocking mode: what a child gets is put into blocking mode, as os/exec does.
//
// That a process which is not confined cannot escape on purpose: trees are not sandboxes. A process can change the limits that mark its
// tree; its daemons are then ended with the last running command that they may belong to, and named as survivors until then.
// One with CAP_SYS_RESOURCE can take the mark of another tree; see the README. A process of another user (sudo) may not be
// killable by the host; it is named, too.
package sandbox
