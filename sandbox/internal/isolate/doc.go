// Package isolate says what a command sees that is isolated: a root of which nothing can be written but the places of its plan,
// devices, shared memory and processes of its own, and a network of its own or none.
//
//	family := isolate.Family(isolate.Launch{Plan: plan, Files: files, Report: pipe, ...})
//	first, err := birth.BeginFamily(family)
//
// # The order of mounts
//
// The new mount namespace begins as a copy of ours. What can be written is cloned from it first, with the rights it has. Then all
// of it becomes read-only at once, without devices and set-user-id files, and private: what is mounted outside later does not
// appear inside. The places of the plan follow, the less specific first: writable clones, read-only clones of what is protected
// in them, and covers on what must not be read or come to exist. Every place is looked at where it is mounted: it must be what
// the plan has found, by device and inode, and no symbolic link leads to it.
//
// Nobody inside can undo a mount: that needs rights in the user namespace to which the mounts belong, and the command has none.
//
// # What is covered
//
// /dev holds null, zero, full, random, urandom, tty, the command's terminal as console, its own pts and shm. /proc is that of the
// pid namespace, read-only and without what the command may not trace, which is process 1; files of the kernel in it are covered.
// Where unix sockets are allowed, those of agents, daemons and displays that are known by name are covered, unless the plan lists
// them.
//
// The directories around a protected place, up to the writable one, are mounts of their own, so that they cannot be moved away with
// it. A rename from one into another fails with EXDEV, as between two disks.
//
// # What you must not assume
//
// That a unix socket that nobody knows by name is covered. That /proc is new: where parts of the host's are masked, as in many
// containers, the kernel refuses another, and the host's stays, read-only.
package isolate
