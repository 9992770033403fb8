// Package isolate determines what an isolated command sees: a root in which it can write only the paths of its plan; devices,
// shared memory and processes of its own; and its own network or the host's.
//
//	launch := isolate.Namespaced(isolate.Launch{Plan: plan, Files: files, Report: pipe, ...})
//	first, err := birth.BeginNamespaced(launch)
//
// # The order of mounts
//
// The new mount namespace begins as a copy of ours. Writable paths are cloned from it first, with their present attributes.
// Then the whole copy becomes read-only at once, without devices and set-user-id files, and private: later mounts outside do not
// appear inside. The paths of the plan follow, the less specific first: writable clones, read-only clones of protected paths
// inside them, and covers on paths that must not be read or created. Every path is checked as it is mounted: it must be the one
// that the plan found, by device and inode, and no symbolic link may lead to it.
//
// Nobody inside can undo a mount: that needs rights in the user namespace to which the mounts belong, and the command has none.
//
// # What is covered
//
// /dev holds null, zero, full, random, urandom, tty, the command's terminal as console, its own pts and shm. /proc is that of the
// pid namespace, read-only and without processes that the command may not trace, such as process 1; kernel files in it are
// covered. If unix sockets are allowed, well-known sockets of agents, daemons and displays are covered unless the plan lists them.
//
// The directories around a protected path, up to the writable one, are mounts of their own, so that nobody can move them away
// together with the path. A rename from one into another fails with EXDEV, as between two disks.
//
// # What you must not assume
//
// That unix sockets without a well-known name are covered. That /proc is new: where parts of the host's /proc are masked, as in
// many containers, the kernel refuses another, and the host's stays, read-only.
package isolate
