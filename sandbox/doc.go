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
// An isolated command is not the warden's child. The warden forks without executing anything; that copy becomes process 1 of new
// namespaces, makes the mounts, bears the command, gives its memory back, and reaps. It runs no Go: see internal/birth. Nobody
// leaves its namespace, so killing it ends the tree, and the report is airtight. The network namespace belongs to the plan and is
// shared; see internal/isolate. The direct spawner isolates nothing, and Options.WithoutNamespaces has no spawner do it.
//
// The processor must be amd64 or arm64, and Linux 5.13 or newer with Landlock; otherwise Can says what is missing. A newborn that
// the kernel does not let share our memory, as under some emulators, cannot be confined, and its start fails.
//
// # Limits
//
// A tree that reaches one of its limits is ended, and its leader's exit names the limit. Output and wall time are counted here.
// Processes (threads count as well), memory and CPU time are a control group's: one of version 2 where a group is delegated that
// hands its controllers down, else those of version 1 below which this process may make some. Where there is none, memory and
// CPU time are limits of each process, which is reported as missing, and a launch with a limit for processes is refused. The
// number of open files is each process's, and ends nothing: the process is refused a further one.
//
// A limit of a control group is looked at every 20 ms. Groups that a dead host has left are removed by the next one, before it
// makes its first.
// # The end of a tree, in full
//
// A *tree* is the leader, the process that was started, with all its descendants.
//
//   - Ending means SIGTERM to every member (on a terminal also SIGHUP to those that ignore it), a grace of
//     500 ms by default, then stop, search and SIGKILL until none is left. What does not die within 3 s is named in the
//     report as a survivor, with the reason. When the leader exits by itself its background children get 50 ms to finish
//     before this begins, unless the command asked to keep them.
//   - The leader is reaped last, so its pid, group and session cannot pass to a stranger. Every other signal goes through a
//     pidfd whose process was compared with the one that was found. No signal hits a process outside of the tree.
//   - On Linux a small process, the *warden*, is the parent of all commands: the host's own binary, executed again. It is a
//     subreaper, so whatever loses its parent in a tree comes to the warden, also after setsid and a double fork.
//
// To which tree does such an orphan belong, when many run? It has lost parent, group and session, and its environment may
// be empty. What a process does not shed by forking or executing is its resource limits. So the warden gives every tree a
// *mark*: two huge hard limits of its own, which all descendants inherit. RLIMIT_RTTIME falls from tree to tree, and
// RLIMIT_LOCKS rises. Neither limits anything in practice: Linux has ignored the second since 2.4, and the first counts
// processor time under a real-time scheduler without a blocking call, and is six days at least. You can see them in
// /proc/PID/limits as "Max realtime timeout" and "Max file locks", and in ulimit -a as -R and -x. Their bounds:
//
//   - A process can lower the two, its own and those of other processes of its user, but not raise them. So it can never
//     take the mark of another tree. When it has changed its own, the two numbers still say between which two trees its tree
//     is. An orphan like that is counted to a tree only if no other of these is running. Otherwise each of them, as it ends,
//     names it as a survivor and does not claim to be airtight; it is ended with the last of them.
//   - A process with CAP_SYS_RESOURCE, so any of root's by default, can take any mark, and is found out only if it is older
//     than that tree. There "airtight" says that nothing was left by programs that do not set out to deceive: no others set
//     both limits to another tree's values. Such a process can also kill the warden.
//   - If the host itself already runs under one of these limits, set by an administrator, trees get no marks and reports
//     claim less. A warden inside the tree of another warden has room for 8,189 trees; one inside of that has no marks.
//   - A process of another user (sudo) may be out of reach for the host's signals. It is named as a survivor.
//
// These are trees, not sandboxes: nothing here stops a program that wants to escape.
//
// # What a confined command can do
//
// A session without a sandbox policy is not confined. With one, each command gets the strongest level that the machine
// gives, the session says the least that it accepts (SessionOptions.LeastAssurance), and what is enforced and what is
// missing is in ExecStarted, AttemptEnded and the records. A command that would get less is refused, with what is
// missing, why, and what would accept it. On Linux, confined means:
//
//   - Files are written below the writable roots only: the session's directory, those of the policy, /tmp and the host's
//     TMPDIR. Where they lead is looked up when the policy is set, and a start fails if they lead elsewhere by then.
//     Neither a command's directory nor its variables matter.
//   - All files can be read, but of the devices only null, zero, full, tty, random, urandom and the command's
//     own terminal. It cannot make new pseudo-terminals.
//   - Without the network: no sockets but connected pairs, and EXECBUS_SANDBOX_NETWORK_DISABLED=1. With it: internet
//     sockets. Unix sockets need version 9 of Landlock in either case; then those below the roots and those that the
//     policy lists are within reach.
//   - No capabilities, no new privileges, no signals to other processes (version 6 of Landlock), and none of the system
//     calls that are doors past all this.
//
// Isolated is all that, and a view of the machine of its own (Linux 5.12 and user namespaces):
//
//   - A file system of which only the writable roots can be written, without devices and set-user-id files. Protected names
//     in them are read-only. One that does not exist is a socket that nobody listens on, also outside, which is removed when its
//     policy is given up and no command needs it any more. What must not be read is covered.
//   - A /dev, with pseudo-terminals, and a /dev/shm of its own, and a /proc that shows its own processes and is read-only.
//   - Without the network: one that the commands under one policy share, so that a server which one has started answers to the
//     next, and nothing else. Unix sockets only if the policy lists some; those of Docker, containerd, D-Bus, displays and of
//     the agents of SSH and GnuPG are covered then unless they are listed.
//   - A rename out of a directory that holds a protected name below the top of a root fails with EXDEV.
//
// What confined cannot do: protect .git, .agents, .codex and nested repositories inside of a writable root, or
// deny reads, for which a session has to accept it by name; hide other processes; and, below the writable roots of
// workspace-write or not, keep the mode, owner, times and attributes of the user's own files.
//
// # When something dies, in full
//
//	the host, in whatever way  the warden sees it end, gives all trees 500 ms after SIGTERM, and kills them
//	the warden                 the kernel kills the leaders; the host kills what has their marks; see below
//	both at once               the kernel kills the leaders, but not setuid programs; the next runtime may end the rest; see below
//	an actor                   its command's tree is killed and its end is published as a runtime failure; the others go on
//
// When the warden dies alone, the host searches all of /proc for the marks of its trees, kills and counts what has
// them, and reports each command as ended without a status. What had changed both limits is not found. The next command
// starts a new warden.
//
// When both are killed together, as an OOM killer may do with a whole unit, nobody is left to search. With
// Options.StateDir the runtime notes in a file what to look for; the next runtime of the same user with the same
// directory finds the file of a dead host, and ends what has its marks. It does so only under an exclusive lock on the
// file, which a host holds while it lives, and only if boot, pid namespace, pid and start time say that the host is
// dead. What had changed both limits is not found. Without the option nobody does this.
//
// A command can stop the warden (SIGSTOP), but not for long. The kernel continues it for whatever comes from the host, the
// host's death included, and while commands run the host continues it every second. A warden that was found stopped five
// times in a row does not get to work; it is killed, and then all is as above. If the host dies within those five seconds,
// and the command goes on stopping the warden, that one never acts; it and its trees live until the next runtime ends
// them.
//
// A program on a file system that does not answer keeps only its own command waiting, which can be terminated. It may
// stop answering between that and the kernel's execution of the program, or a script's interpreter may: that, too, keeps
// nothing else waiting, and the start fails when the host has killed what cannot be executed, after five seconds for each
// such start. If the host dies during such a hang, what hangs is killed with the rest; what the kernel does not get killed
// is named. Ten seconds after the host's death the kernel ends the warden, and with it the leaders, whatever it does.
//
// What the host says waits in a queue: at most 8 MiB of starts with 256 descriptors, behind which further starts wait,
// and are refused when nothing has moved for 10 s; and 8,192 signals, of which equal ones are one. The end of a tree
// always has room.
//
// Commands are as the host is when they start. Users, groups, capabilities, no_new_privs, seccomp filters, root
// directory and namespaces of its main thread are compared at each start, and umask, limits, niceness, affinity, cgroup
// and OOM score once a second, or at Runtime.Refresh. If something differs a new warden is started; the old one ends
// with its last tree. A thread that differs from the main thread counts for nothing, but the warden is forked from any
// of them.
//
// The warden is this program, executed again, so packages that are initialised before it are initialised in it, too. It
// imports next to nothing, so that these are few, and gets the host's environment (Options.WardenEnvironment) for
// them. One that does not come to its greeting within 10 s is an error that says what it wrote. Options.Warden can
// name another executable.
//
// The direct spawner is for hosts that cannot execute themselves, and for macOS. It claims less: a daemon that left its
// session escapes it, and children outlive a host that is killed. Its reports are never airtight. It is chosen, with an
// ExecNotice, where this code is a library inside of another program, where the dynamic loader was told to start the
// host, and where the executable gives rights (set-uid, file capabilities) that the host may have dropped.
//
// Reports claim less, too, where /proc hides processes of other users, and where seccomp denies pidfds. Where /proc is
// that of another pid namespace nothing is started.
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
