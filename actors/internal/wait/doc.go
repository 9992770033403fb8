// Package wait is the actor of one call that waits for reasons at several processes.
//
//	started ── the session lets it observe every process that its items concern, later ones, too
//	   │  Observed, from each process: at once, and when something is met; or an error; or its time is over; or CancelCall
//	   ▼
//	answered ── Answered to the session, which ends what is observed, and the answer to the caller ──▶ stopped
//
// It answers once, and not before every process that was there at its beginning has said what is met already: so the answer has all of it.
// It takes no output. A process that it observes is in use, because a call of the session concerns it.
package wait
