// Package executions sees what the processes of a tree execute, before the kernel does, and lets it happen or not.
//
//	filter, err := executions.NewFilter()
//	// The child makes filter.Steps while it shares our descriptors, leaves these, and shows filter.Secret in its own execve.
//	watch := executions.Start(filter.Listener(child), executions.Wanted{Names: []string{"git"}, Judge: true}, executions.To{
//		Ask:     func(number uint64, e executions.Execution) { ... watch.Answer(number, allow) ... },
//		Settled: func(number uint64, fate executions.Fate) { ... },
//		Seen:    func(batch []executions.Execution, dropped int) { ... },
//	})
//	watch.Close() // when the tree has ended
//
// # The filter
//
// Each birth sets a filter of its own, which reports execve and execveat to a listener (SECCOMP_RET_USER_NOTIF). The caller then waits in
// the kernel. So a tree is known by its listener, which nothing in it can forge; a tree that executes thousands of programs a second fills a
// queue of its own; and no thread of ours is in such a filter. The child sets the filter while it shares our table of descriptors, so that
// the listener is in ours, and then leaves the table. A process that has been forked by us meanwhile closes its copy before anything can
// make it wait: while any process has one, executions wait for ever if we die. If none has, they fail with ENOSYS.
//
// The execution of the birth itself passes the filter, because it shows a secret of that birth in registers that the kernel does not
// use. Nobody else has it: the memory goes with the execution, and the kernel clears the registers.
//
// A process of the tree can add filters, but no listener (EBUSY). What its filters deny is not executed, and what they report or trace
// is reported to us first, or not executed either.
//
// # Reading
//
// One goroutine a tree takes executions and reads them: the path, where that leads as the caller sees it, and the first argument. That
// is enough for those that are not judged. A second later another goroutine takes over, and what could not be read counts as unread;
// with four such goroutines nothing of that tree is read any more, and no other tree notices. The kernel's id of an execution tells
// whether the process that was read is still the one that waits; the kernel looks at it again with the answer.
//
// A program that does not exist, or that lies in a directory that may not be searched, fails at once with the error that it would get, and
// is not mentioned. Shells and libraries try each directory of PATH like that.
//
// An answer can hold for the executions that are the same (AllowAlike): written in the same way, leading to the same file, with the same
// arguments. They are read as all are, and then pass without a question. An answer about one execution takes the host and three wakes; in a loop
// that was a third of what the loop itself takes.
//
// # Bounds
//
// Of a tree at most MaxJudged executions, with MaxJudgedBytes of arguments, are asked about at a time. After that nothing of the tree is
// taken from the kernel's queue, which needs no memory of ours. Reports are kept in one batch, and counted when that is full. While nothing
// waits there is no timer; otherwise each tree is looked at every 100 ms, to withdraw the questions of callers that are gone.
//
// # What it costs
//
// Measured with 1,000 programs from a shell's loop: see "executions" in tests/bench. No other call of a program is slower: the kernel
// knows of a filter that always allows a call, and does not run it.
//
// # What you must not assume
//
// That what was read is what the kernel executes: another thread, or a process that shares the memory or the directories, can change it
// in between. That binds programs that do not set out to deceive. The sandbox binds the others.
//
// That everything which runs was executed: builtins of a shell, the program after "#!", and what ld.so or an interpreter loads are not.
//
// That a waiting caller can be stopped: a signal that does not end it takes effect after the answer (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV).
//
// That no signal disturbs an execution: until it was taken from the kernel, for a moment, a signal with a handler interrupts it. It begins
// again if the handler has SA_RESTART, and otherwise fails with EINTR, as no execution does without us.
package executions
