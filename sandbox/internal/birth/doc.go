// Package birth starts processes: a launch is a list of system calls, which the newborn makes between its birth and the
// execution of its program. syscall.SysProcAttr says much of that, but neither limits nor Landlock nor seccomp.
//
//	pid, pidfd, err := birth.Start(slices.Concat(
//		[]birth.Step{birth.Setsid()},
//		birth.Files([]int{0, 1, 2}),
//		[]birth.Step{birth.Execve("/bin/true", []string{"true"}, env)}))
//
// The steps are made in the order of the list, and a step that fails names itself in an Error. Signals need no step: every
// program starts with none blocked and none ignored.
//
// # How it is done on Linux
//
// The newborn shares the memory of its parent until it executes (CLONE_VM: nothing is copied, whatever the size of the
// parent), but its parent does not wait inside of the clone, as it does with vfork. A thread in vfork keeps its place in
// Go's scheduler: while an execution hangs, because a file system does not answer, the next garbage collection would stop
// the whole process. So
//
//   - the newborn has a stack of its own and runs a loop in assembly, which touches neither Go's runtime nor its stacks, its
//     write barriers or its instrumentation for races and coverage;
//   - all that it reads and writes lies in one block of memory, which is pinned until the kernel says that the newborn is done
//     with it (CLONE_CHILD_CLEARTID: the kernel clears a word and wakes who waits for it where a vfork would have ended, at the
//     execution or the death; no descriptor is needed for it, which others could inherit and hold open);
//   - all signals are blocked around the clone and in the newborn until its last step, when they have their default actions:
//     a handler would run in the parent's memory;
//   - the newborn has no exit signal, which an execution changes to SIGCHLD. So who waits for children without __WALL does
//     not see one that never executed, and we see whether one did.
//
// A thread that waits for a newborn is in an ordinary blocking system call: it costs a thread, but no place in the scheduler. A newborn
// that hangs can be killed.
//
// No hook of the runtime is needed: between the blocking of the signals and their release there is nothing but the clone.
//
// # Families
//
// BeginFamily starts a command that is not alone: a process 1 of new namespaces comes before it, which is a copy of this one and
// never executes anything. It makes its steps by the same loop in assembly, bears the command, and goes on in that loop, so no Go
// ever runs in the copy. Results of calls can be kept in a Memory and passed to later ones: a launch that makes mounts needs that.
//
// # Elsewhere
//
// On other systems and architectures, and where the kernel refuses such a clone (user-mode emulators do), a launch whose
// steps all have a plain form goes through syscall.ForkExec. Any other is made by a second execution where ExecuteAgain has
// allowed it, and fails at its first step without a plain form elsewhere. A family fails.
//
// # The second execution
//
// syscall.ForkExec executes this program again, under the name Again. This package's init takes over, before main and nearly all
// other packages: it imports next to nothing. It takes the list of steps from a sealed memfd, laid out as for the clone, makes
// them one by one on the main thread, and so executes the newborn's program. The step that it is making, and its errno, stand in
// memory that it shares with its parent; a pipe tells of the execution or the death. Nothing of the command is in the arguments,
// the environment or the directory of that process.
//
// Descriptors that a step uses keep their numbers, and are close-on-exec again before the first step. Of the others it gets only
// those that any execution would get. What the thread that begins it has, such as a Nursery's filter, it inherits.
//
// An executable that gives rights (set-uid, file capabilities) takes no such list from anybody. It costs as much as it takes this program
// to start: some milliseconds.
package birth
