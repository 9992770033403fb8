// Package sandbox starts children and ends their trees.
//
//	spawner, err := sandbox.New(sandbox.Options{})   // a warden on Linux, direct elsewhere
//	child, err := spawner.Spawn(ctx, ptyio.Launch{Argv: []string{"make"}, Dir: "/src", Env: env, Events: receive})
//	...
//	err = spawner.Close()                            // every tree has ended
//
// A tree is the leader, the process that was started, with all its descendants.
//
// # The two spawners
//
// A warden is one small process per spawner, the host's own binary executed again, from which all children descend. It is
// the subreaper of their trees: a process that loses its parent comes to the warden, even after setsid and a double fork.
// When the host dies, however it dies, the warden ends everything. Forking from it costs the same whatever the size of the
// host.
//
// The warden is this program, so packages that are initialised before it are initialised in it, too. It imports next to
// nothing, so that these are few, and gets the host's environment (Options.WardenEnvironment) for them. If it does not send
// its greeting within 10 s, the start fails with an error that has what it wrote. Options.Warden can name another
// executable.
//
// The direct spawner forks from the host. It is for hosts that cannot execute themselves, and for macOS. It finds the
// members of a tree by parent, session and process group. So a daemon that left its session after its parent died escapes
// it, and children outlive a host that is killed (a child on a terminal gets SIGHUP). TreeReport.Airtight is always false.
// New chooses it by itself, and says so by Options.Notice, where this code is a library inside of another program, where
// the dynamic loader was told to start the host, and where the executable gives rights (set-uid, file capabilities) that
// the host may have dropped.
//
// With a warden the host may ignore SIGCHLD, and may wait for any child: the commands are the warden's children. With the direct
// spawner they are the host's. If that host ignores SIGCHLD, or waits for children that it did not start, the kernel's report of an
// exit can be lost. The command is then reported as ended without a status, and its tree is ended all the same.
//
// This package is the door: options, what is enforced for a policy, and where its paths lead. internal/host starts the leaders, by a
// warden or by forking from the host. internal/warden is the warden's own side, internal/wire is the protocol between the two, and
// internal/tree is the part that the warden and the direct spawner share.
//
// # How a tree ends
//
// Every member gets SIGTERM (on a terminal, those that ignore it also get SIGHUP) and a grace of 500 ms by default. Then
// members are stopped with SIGSTOP until a search finds no new one, and killed with SIGKILL; this is repeated until none is
// left. A process that does not die within 3 s, or on a busy machine 30 s, is named in the report as a survivor, with the reason.
// When a leader exits by itself, its background children have 50 ms to finish before all this begins, unless the launch keeps them.
//
// SIGTERM goes to whole groups, which is one step for the kernel: a child that is being forked is asked with its parent. In groups other
// than the leader's that needs Linux 6.9 and the group's first process; elsewhere members are asked one by one, and those that were
// missed a moment later. What a member forks after it was asked is left alone if a member has a handler for SIGTERM, so that the
// work of a trap is done.
//
// The leader is reaped last, so its pid, group and session cannot pass to a stranger. Every other signal goes through a
// pidfd, of a process that was compared with the one that was found or of its group. So no signal hits a process outside of the tree.
// Reports claim less where /proc hides processes of other users, and where seccomp denies pidfds. Where /proc is that of another pid
// namespace nothing is started.
//
// # What a tree waits for
//
// The host looks itself at the members of a tree, as far as it may trace them: an ancestor of the same user may, also under
// kernel.yama.ptrace_scope 1, and also where a sandbox has namespaces of its own. It reads in which system call each thread sleeps. Others,
// such as sudo for an ordinary user's host, are guessed from their state. With the direct spawner daemons of a tree are not looked
// at. See ptyio.Inquirer, and internal/inspect for what is not found.
//
// # The tree of an orphan
//
// An orphan has lost parent, group and session, and its environment may be empty, but its resource limits survive forks and
// executions. So the warden gives every tree a mark: two huge hard limits of its own, which all descendants inherit.
// RLIMIT_RTTIME falls from tree to tree, and RLIMIT_LOCKS rises. Neither limits anything in practice: Linux has ignored the
// second since 2.4, and the first counts processor time under a real-time scheduler without a blocking call, and is at
// least six days. They are "Max realtime timeout" and "Max file locks" in /proc/PID/limits, and -R and -x in ulimit -a. A
// confined command cannot change them. For commands without a sandbox, marks have these bounds:
//
//   - A process can lower the two, its own and those of other processes of its user, but not raise them. So it can never
//     take the mark of another tree. After a change, the two numbers still say between which two trees its tree is. Such an
//     orphan is ended with a tree only if no other of these is running. Otherwise each of these trees names it as a
//     survivor when it ends, and does not claim to be airtight; the orphan is ended with the last of them.
//   - A process with CAP_SYS_RESOURCE, which any process of root has by default, can take any mark, and is found out only
//     if it is older than that tree. Here "airtight" means that nothing was left by programs that do not set out to
//     deceive: no others set both limits to another tree's values. Such a process can also kill the warden.
//   - If the host itself already runs under one of these limits, set by an administrator, trees get no marks and reports
//     claim less. A warden inside the tree of another warden has room for 8,189 trees; one inside of that has no marks.
//   - A process of another user (sudo) may be out of reach for the host's signals. It is named as a survivor.
//
// # What a command inherits from the host
//
// A command starts with the state that the host has at that time. Users, groups, capabilities, no_new_privs, seccomp
// filters, root directory and namespaces of the host's main thread are compared at each start; umask, limits, niceness,
// affinity, cgroup and OOM score are compared once a second, or at Runtime.Refresh. If something differs a new warden is
// started, and the old one ends with its last tree. A thread that differs from the main thread is not noticed, although the
// warden may be forked from it.
//
// # When a file system does not answer
//
// A process is born before the kernel opens its program, and waits then where the program's file system does not answer. So
// Spawn opens the program first, in a goroutine that nobody else waits for and that a cancelled Spawn leaves alone; a host
// has at most 256 of these at once. It needs none where the kernel can open the program without waiting: on a local file
// system, and with all of the path in the kernel's cache.
//
// A birth may hang all the same, because the file system stopped answering a moment later, because a script's interpreter
// does not answer, or because a command has stopped the child. Neither other starts nor Go's garbage collector wait for
// such a birth. The warden kills a child that has not executed its program within four seconds and has not run in the last two of
// them, and the start fails; two seconds later it fails even if the child has not died of that. Where a kernel refuses our clone
// (see below) such a start holds up those behind it. With the direct spawner the birth hangs for as long as the file system does,
// and costs a thread.
//
// An isolated start first looks at the protected names. It fails after 10 s if their file system does not answer, and so do
// those behind it under the same policy.
//
// Requests to a warden wait in a queue. It holds at most 8 MiB of starts with 256 descriptors; further starts wait for
// room. A warden that reads nothing for 10 s counts as dead. The queue also holds 8,192 signals, equal ones counted once. There is
// always room for the end of a tree.
//
// # When something dies
//
//	the host, in any way       the warden gives all trees 500 ms after SIGTERM, and then kills them
//	the warden                 the kernel kills the leaders; the host kills the processes that have their marks
//	both at once               the kernel kills the leaders, but not setuid programs; the next spawner may end the rest
//
// When the warden dies alone, the host searches all of /proc for the marks of its trees, kills the processes that have
// them, and counts them. Each child reports Exited with Lost set and status none, and Options.Lost is called. A process
// that has changed both limits is not found. The next spawn starts a new warden.
//
// When both are killed together, as an OOM killer may do with a whole unit, nobody is left to search. With Options.StateDir
// the spawner notes in a file which marks to look for. The next spawner of the same user with the same directory finds the
// file of a dead host, and ends the processes that have these marks. It does so only under an exclusive lock on the file,
// which a host holds while it lives, and only if boot, pid namespace, pid and start time say that the host is dead. A
// process that has changed both limits is not found. Without the option nobody does this.
//
// A command that may send signals to its warden can stop it with SIGSTOP, but not for long. The kernel continues the warden
// for everything that comes from the host, the host's death included, and while commands run the host continues it every
// second. A warden that was found stopped five times in a row is killed. If the host dies within those five seconds, and
// the command goes on stopping the warden, the warden and its trees live until the next spawner with the same StateDir ends
// them.
//
// If the host dies while a birth hangs, the child is killed with the rest. Ten seconds after the host's death the kernel
// kills the warden, and with it the leaders, whatever it is doing.
//
// # Confinement
//
// A launch is confined by its Enclosure, which Enclose makes of a policy: it looks up once where paths lead (see
// internal/paths), and Spawn refuses if they lead elsewhere later. Can says beforehand how much would be enforced.
//
//	enclosure, err := spawner.Enclose(ctx, ptyio.Confinement{Policy: policy, Dir: "/src"})
//	defer enclosure.Release()
//	child, err := spawner.Spawn(ctx, ptyio.Launch{Argv: []string{"make"}, Dir: "/src", Sandbox: enclosure, ...})
//
// A launch without an enclosure is not confined. With one, it gets the strongest level that the machine gives.
// Confinement.Least is the least that is accepted: a launch that would get less is refused, with what is missing, why, and
// which level would accept it. The level, its mechanisms and its gaps are in ExecStarted, AttemptEnded and the records. The
// rest of this section is about Linux on amd64 or arm64; Can says what is missing on a machine.
//
// Confined needs Linux 5.13 or newer with Landlock. It means:
//
//   - Files are written below the writable roots only: under workspace-write the session's directory, those of the policy,
//     /tmp and the host's TMPDIR. A command's own directory and variables make no difference.
//   - All files can be read, but of the devices only null, zero, full, tty, random, urandom and the command's own terminal.
//     It cannot make new pseudo-terminals. Where the root of the file system is a writable root, the entries at its top are,
//     and nothing in /dev; no entry can be added.
//   - Without the network: no sockets but connected pairs, and EXECBUS_SANDBOX_NETWORK_DISABLED=1. With it: internet
//     sockets. Unix sockets need version 9 of Landlock in either case; then those below the roots and those that the policy
//     lists are within reach.
//   - No System V IPC and no POSIX message queues, which belong to all processes of the user, and no change of the flags of
//     files. PostgreSQL and fakeroot need System V IPC; they run at isolated.
//   - No capabilities, no new privileges, no set-user-id and set-group-id bits on files, no signals to other processes (version 6 of
//     Landlock), and none of the system calls that lead around all this. Only a host with CAP_SETPCAP can also empty the bounding
//     set; without new privileges that makes no difference.
//
// Confined does not protect .git, .agents, .codex and nested repositories inside of a writable root, and does not deny
// reads; a session whose policy needs these has to accept confined by name. It does not hide other processes. Under
// workspace-write it does not keep the command from changing the mode, times and extended attributes of the user's own files
// anywhere.
//
// Isolated needs Linux 5.12 or newer and user namespaces; where Landlock is missing, the mounts alone restrict files. It
// means all that confined means, and a view of the machine of its own:
//
//   - A file system of which only the writable roots can be written, without devices and set-user-id files. Protected names
//     in them are read-only, also those that do not exist (see below), unless the policy names them as roots. So are the symbolic
//     links and files through which they lead to a repository, that repository, the settings of execbus in ~/.config/execbus,
//     its state in ~/.local/state/execbus, the file that EXECBUS_CONFIG names, and what Confinement.Protected lists; a missing
//     directory of the first two is made where a root would contain it. Paths that must not be read are covered. Commands are refused if a file that must not be read did not exist when the policy was
//     set and exists now where no command can write; set the policy again.
//   - A /dev, with pseudo-terminals, and a /dev/shm of its own, and a read-only /proc that shows only its own processes.
//     Where parts of the host's /proc are masked, as in many containers, the kernel refuses a new one, and the host's
//     stays, read-only.
//   - Without the network: a network that the commands under one policy share, so that one command can reach a server that
//     another has started, and nothing else. The host keeps one socket there, by which it asks the kernel who listens, until the policy
//     and its commands are gone. Unix sockets only if the policy lists some; then those of Docker, containerd,
//     D-Bus, displays and of the agents of SSH and GnuPG are covered unless they are listed.
//   - With Confinement.Proxy: that same network, with a listener on ptyio.ProxyAddress that the owner of Proxy serves from outside. The
//     process that makes the network binds it, before any command lives there, and the socket goes to the host; no process relays, and there
//     is no other way out. With Confinement.ByName there are a resolver on port 53 and listeners on those ports, too: the addresses of
//     198.18.0.0/15 lead there, and /etc/resolv.conf names the resolver. Commands cannot listen on those ports. Only isolated commands can have this; where nothing can be isolated, and by the direct spawner, they are refused.
//   - A rename out of a directory that holds a protected name below the top of a root fails with EXDEV.
//
// # Protected names that do not exist
//
// While an isolated command runs, something stands for each protected name that is missing at the top of a root, because a mount
// needs something to cover. Nothing stands in /tmp and TMPDIR, which others use, too, unless one is the session's directory or in the
// policy. It can be seen outside, too: at .git it is a symbolic link that leads nowhere and says why it is there, elsewhere a socket
// that nobody listens on. It goes when the last command has ended, before that end is reported. If all processes died before that,
// the next command there removes it.
//
// So git init works between commands, and the next command finds the new repository protected. While a command runs, git init
// fails, in the sandbox and outside, and shows the text of the link. In the sandbox that is a denial, whose grant names .git. A
// command with that grant starts if no other isolated command runs there, and is refused otherwise, because the others could
// write what it makes. A person who removes the link and makes a repository lets the commands that run then write to it.
//
// # How a start goes
//
// Each of these asks only those below it, and is not asked again:
//
//	this package     says what is enforced of the policy, which was computed with it, and of the limits; else refuses the launch
//	ptyio            checks the launch, finds the program, and makes the pipes or the terminal
//	internal/paths   looks whether the paths of the policy still lead where they did
//	internal/host    has a warden that equals this process; makes a control group, and a Landlock rule set for a terminal
//	internal/wire    carries the request
//	internal/warden  finds the plan that it was told of before, and a thread with its filter
//	internal/birth   clones, restricts the child, and executes the program
//
// # How commands are confined
//
// A confined child gives up all capabilities and enters a Landlock domain of its own before it executes anything. It
// inherits its filter of system calls, and no_new_privs, from the thread that starts it; the warden keeps threads for each
// kind of filter. Such a thread is never in a Landlock domain, because a process in the same one could reach it. The
// direct spawner keeps no threads; its children install the filter themselves, which makes a start half as long again.
//
// Some kernels do not let a child share our memory before it executes, as under user-mode emulators. There nothing is isolated or
// confined, and such a start is refused. Commands run there only with no sandbox (danger-full-access), and with no limits but those on
// output and wall time.
//
// An isolated command is not the warden's child. The warden forks without executing anything. That copy becomes process 1
// of new namespaces, makes the mounts, bears the command, gives its memory back, and reaps. It runs no Go: see
// internal/birth. No process can leave its pid namespace, so killing process 1 ends the tree, and the report is airtight.
// The network namespace belongs to the policy and is shared; see internal/isolate. The direct spawner isolates nothing, and
// Options.WithoutNamespaces keeps a warden from doing it.
//
// # Executions
//
// Launch.Executions has each execve and execveat of a tree seen before it happens. It takes a warden and Linux 5.19; Can says whether they are
// seen (Enforcement.Executions), or among Missing why not. Each birth sets a filter that reports them to a listener in the warden, which
// no other process has: when the warden dies, executions that wait fail with ENOSYS, as later ones do, and the tree ends as
// described above. The warden reads who executes what, lets most pass by itself, and asks the host about those that are named. See
// internal/executions, and ptyio.Executions for the bounds. Without a sandbox this happens only if Executions.Unconfined says so, because it
// takes no_new_privs, with which sudo and other set-uid programs get no rights. A program in the tree that wants such a listener itself, as
// another execbus or a container runtime does, gets EBUSY. A program that executes another while signals come, for which it has handlers
// without SA_RESTART, can get EINTR.
//
// # Limits
//
// A tree that reaches one of its limits is ended, and its leader's exit names the limit. Output and wall time are counted
// here. Processes (threads count as well), memory and CPU time are limits of a control group: one of version 2 where a
// group is delegated that hands its controllers down, or else groups of version 1 below those of this process, where it may
// make some. Without a control group, memory and CPU time become limits of each process, which Enforcement.Missing says. The
// limit for processes then needs isolation and Linux 6.14: numbers in the command's pid namespace are bounded, so that the
// kernel refuses more than the limit and at most 300 beyond it, and the tree is ended when it is seen above its limit.
// Elsewhere a launch with that limit is refused. The number of open files is always a limit of each process and ends
// nothing: the process is refused a further file.
//
// A control group or a namespace is asked every 20 ms whether it has reached a limit. Groups that a dead host has left are removed by the
// next one, before it makes its first.
//
// # macOS
//
// There is only the direct spawner, and a tree is its leader's process group. Commands are confined by the system's own
// sandbox (see internal/seatbelt). The profile has not been tried on macOS, so Can claims no more than confined, and
// reports the missing proof. Of the limits, only output and wall time can be enforced; a launch with any other is refused.
//
// # What you must not assume
//
// That an inherited file stays in non-blocking mode. A file that a child gets is put into blocking mode, as os/exec does.
//
// That a judged execution is what the kernel executes, if a program sets out to deceive: other threads can change what was read. Nor that what
// is no execution is judged: builtins of shells, the interpreter in a script's first line, a program as an argument of ld.so, and copies
// under other names. The sandbox holds for all of them.
//
// That a process which is not confined cannot escape on purpose. Trees are not sandboxes; the bounds of marks above say how
// a process can hide its tree.
package sandbox
