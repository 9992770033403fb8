// Package birth starts processes: a launch is a list of system calls, which the child makes before exec, between its birth and the
// execution of its program. syscall.SysProcAttr covers much of that, but not limits, Landlock or seccomp.
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
// The child shares its parent's memory until it executes (CLONE_VM: nothing is copied, however large the parent is), but
// the parent does not wait inside the clone, as it does with vfork. A thread in vfork keeps its place in Go's scheduler: if
// an execution hung because a file system did not answer, the next garbage collection would stop the whole process. So
//
//   - the child has a stack of its own and runs a loop in assembly, which touches neither Go's runtime nor its stacks, its
//     write barriers or its instrumentation for races and coverage;
//   - it reads and writes only one block of memory, which is pinned until the kernel says that the child is done with it
//     (CLONE_CHILD_CLEARTID: at the execution or the death, where a vfork would have ended, the kernel clears a word and wakes
//     its waiter; that needs no descriptor, which others could inherit and hold open);
//   - all signals are blocked around the clone and in the child until its last step, when they have their default actions:
//     a handler would run in the parent's memory;
//   - where the parent has thousands of descriptors, the child shares them until it needs its own (CLONE_FILES), and copies only
//     those that it keeps: with 1,000 of them a birth takes 0.65 ms instead of 1.0; see FewFiles;
//   - the child has no exit signal, and an execution sets it to SIGCHLD. So a wait for children without __WALL does not see
//     a child that never executed, and we can tell whether it did.
//
// A thread that waits for a child is in an ordinary blocking system call: it costs a thread, but no place in the scheduler. A child
// that hangs can be killed.
//
// No hook of the runtime is needed: between the blocking of the signals and their release there is nothing but the clone.
//
// # Namespaces
//
// BeginNamespaced starts a command in new namespaces. Their process 1 comes first: a copy of this process that never executes
// anything. It makes its steps in the same assembly loop, starts the command, and stays in that loop, so no Go ever runs in the
// copy. A Memory keeps the results of calls for later ones: a launch that makes mounts needs that.
//
// # Elsewhere
//
// On other systems and architectures, and where the kernel refuses such a clone (user-mode emulators do), a launch whose
// steps all have a plain form goes through syscall.ForkExec. Any other launch fails at its first step without a plain form, and a
// launch in namespaces always fails: see Refused.
package birth
