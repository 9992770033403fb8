// Package inspect looks at the living members of a tree, from outside: which of them sleeps until it can read a terminal or a pipe, and which
// of them listens on TCP.
//
//	readers := inspect.Readers{Tree: inspect.Tree{Leader: pid}}
//	reader, err := readers.Look(file)
//	if reader != nil && reader.Still() { ... } // it has slept in the same call since
//
// The kernel says in which call a thread sleeps, and with which arguments (/proc/PID/task/TID/syscall). A member reads a file if that
// call is a read of it, or a poll, select or epoll_wait with the file among what it waits to read. Files are compared by device and inode,
// never by path: commands may have terminals of the same name in a file system of their own. Nothing of a member is stopped or changed.
//
// This needs the right to trace the members, as an ancestor of the same user has it, also under kernel.yama.ptrace_scope 1. A member that
// cannot be looked at is a guess if it sleeps in the foreground of the terminal, and on a pipe the reason for an error if nobody else was
// found: it is another user's or set-user-id, or kernel.yama.ptrace_scope is 2 or 3, or a filter refuses process_vm_readv, which older
// containers do. Of a member that hidepid hides only its existence is known. A member that waits with epoll is a guess on pipes, and the caller has to take it for one on a terminal in line mode: event loops such as
// libuv's leave a file among what they wait for long after they have stopped reading it.
//
// A reader with one thread, whose call names no other file and no time, can do nothing else (ptyio.Reader.Only).
//
// Listening sockets come from sock_diag, one look for all trees in a network namespace, at most 15 ms old. Whose a socket is, is looked up
// when it is new: its number is compared with the descriptors of the members. Another namespace is asked by a netlink socket that was made in
// it. Where there is none, /proc/PID/net/tcp is read, which takes milliseconds.
//
// A look that finds no certain reader remembers for how long each member had run, by the clock of its processor time. The next one reads only
// these clocks, and looks again if a member has run since.
//
// A look ends at the first certain reader, and looks at no more than 1,024 processes, 256 threads of each, and 1,024
// descriptors of each call. It is given up after a second: a member may have memory that waits for another program. Until that look
// returns, others of the same tree fail.
//
// # What you must not assume
//
// That nobody reads because nobody was found: a program may read by io_uring, through an epoll descriptor in another one, or with the
// system calls of another architecture (a 32-bit program); a call that was interrupted by a stop may go on under another number; and where
// orphans go to init, a daemon of the tree is not looked at.
//
// That a reader still reads when the look has returned: see Still.
package inspect
