// Package wait is the actor of one call that waits for the exits of several processes.
//
//	started ── AwaitExit for each process, as any caller asks ──▶ its session
//	   │  Exit, until one or all have come; or an error; or the time of the call is over; or CancelCall
//	   ▼
//	answered ── CancelWait for those that are still open, Answered, and the answer to the caller ──▶ stopped
//
// It answers once. A process that it waits for is in use, because a call concerns it.
package wait
