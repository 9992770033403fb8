// Package procs answers what trees ask about processes: who lives, whose child it is, in which group and session, what it does with
// SIGTERM, whether it has executed anything. It signals exactly the process that was asked about, by a pidfd where the kernel gives
// one, and still does when this process has no descriptors left.
package procs
