// Package host is the host's side of a start: it turns the start of a launch into a leader, either by a warden or by forking itself.
//
//	starter := host.NewWardens(host.Options{})                 // or host.NewDirect()
//	enclosure, err := starter.Enclose(plan, files, level, nil) // once for a policy: opens what its commands can use
//	child, err := ptyio.Spawn(ctx, launch, host.Within{Enclosure: enclosure, Enforced: enforced, By: starter})
//	...
//	starter.Forget(enclosure)                                  // no start uses it
//	err = starter.Close()                                      // every tree has ended
//
// Package ptyio calls Start with the program and the child's descriptors. From then on a start asks nobody above: what is enforced was
// decided before. By a warden it goes like this:
//
//	Wardens.Start    compares this process with its warden, which is replaced if rights or limits differ
//	process.start    makes a control group for limits, tells the warden of a new plan, makes a rule set for a terminal
//	wire.Outbox      carries the request; package warden is the other side
//	process.serve    reads the replies: started or failed, exited, ended
//
// Between start and end it also passes executions on to those who judge them, each in a goroutine; the warden bounds their number.
//
// A warden that dies is buried: what has the marks of its trees is killed, and each leader's end is reported. While a warden has leaders,
// it is looked at once a second: one that a command has stopped is continued, and one that is stopped again and again is killed. A warden
// that does not read for ten seconds counts as dead.
//
// The host's locks guard tables for moments. They are not messages, because a start needs an answer at once.
package host
